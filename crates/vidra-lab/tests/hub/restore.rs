//! A cluster that was set back to an earlier state behind our back.

use std::{fs, path::Path, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::ListParams};
use vidra_cluster::hub::Timing;
use vidra_lab::controlplane::{ControlPlane, Server, unique};

use crate::support::{Maps, Scene, brisk, set, watched};

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

async fn stopped(plane: &ControlPlane, act: impl FnOnce(&Path)) {
    plane.kill(Server::Apiserver).unwrap();
    plane.kill(Server::Etcd).unwrap();
    act(&plane.directory().join("etcd"));
    plane.restart(Server::Etcd).await.unwrap();
    plane.restart(Server::Apiserver).await.unwrap();
}

#[tokio::test]
async fn a_watch_that_is_ahead_of_a_restored_cluster_starts_anew_when_a_list_shows_it() {
    let plane = ControlPlane::start().await.unwrap();
    let namespace = plane.namespace("restore").await.unwrap();
    let backup = plane.directory().join(unique("backup"));
    Maps::new(plane.client().unwrap(), &namespace)
        .create("old")
        .await;
    stopped(&plane, |data| copy(data, &backup)).await;

    let client = plane.client().unwrap();
    let maps = Maps::new(client.clone(), &namespace);
    // Pauses that no test waits for: the hub must not find out by failing often enough.
    let pause = (Duration::from_hours(1), Duration::from_hours(1));
    let mut scene = Scene::new(client, Timing { pause, ..brisk() });
    let kind = watched::<ConfigMap>();
    scene.hub.need("one", set(&[&kind]));
    scene.seen(&maps.key("old")).await;
    scene.watching(&kind.kind).await;
    // Far enough ahead that an API server's own first writes do not catch up.
    for number in 0..200 {
        let key = maps.create(&format!("new-{number}")).await;
        scene.seen(&key).await;
    }
    stopped(&plane, |data| {
        fs::remove_dir_all(data).unwrap();
        copy(&backup, data);
    })
    .await;

    let position = scene
        .hub
        .position(&kind.kind)
        .expect("a watch that does not know yet");
    let maps_now: Api<ConfigMap> = Api::all(plane.client().unwrap());
    let list = maps_now
        .list_metadata(&ListParams::default())
        .await
        .unwrap();
    let listed_version = list.metadata.resource_version.unwrap();
    assert!(scene.hub.restart_if_ahead(&position, &listed_version));
    scene.gone(&maps.key("new-199")).await;
    assert!(scene.listed(&kind.kind).await.contains(&maps.key("old")));
    scene.watching(&kind.kind).await;
    let position = scene.hub.position(&kind.kind).unwrap();
    let list = maps_now
        .list_metadata(&ListParams::default())
        .await
        .unwrap();
    let listed_version = list.metadata.resource_version.unwrap();
    assert!(
        !scene.hub.restart_if_ahead(&position, &listed_version),
        "once is enough"
    );
}
