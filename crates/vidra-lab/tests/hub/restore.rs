//! A cluster that was set back to an earlier state behind our back.

use std::{fs, path::Path, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::ListParams};
use vidra_cluster::hub::Timing;
use vidra_core::identity::GroupKind;
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

/// A cluster that was set back while a watch was ahead, and that watch, open again.
struct Restored {
    plane: ControlPlane,
    maps: Maps,
    scene: Scene,
    kind: GroupKind,
}

impl Restored {
    async fn new(idle: Duration) -> Self {
        let plane = ControlPlane::start().await.unwrap();
        let namespace = plane.namespace("restore").await.unwrap();
        let backup = plane.directory().join(unique("backup"));
        Maps::new(plane.client().unwrap(), &namespace)
            .create("old")
            .await;
        stopped(&plane, |data| copy(data, &backup)).await;

        let maps = Maps::new(plane.client().unwrap(), &namespace);
        // Pauses that no test waits for: the hub must not find out by failing often enough.
        let pause = (Duration::from_hours(1), Duration::from_hours(1));
        let timing = Timing {
            pause,
            idle,
            ..brisk()
        };
        let mut scene = Scene::new(plane.client().unwrap(), timing);
        let kind = watched::<ConfigMap>();
        scene.hub.need("one", set(&[&kind]));
        scene.seen(&maps.key("old")).await;
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
        scene.hub.rearm(&kind.kind);
        scene.watching(&kind.kind).await;
        Self {
            plane,
            maps,
            scene,
            kind: kind.kind,
        }
    }

    /// The resource version of a consistent list.
    async fn present_version(&self) -> String {
        let maps: Api<ConfigMap> = Api::all(self.plane.client().unwrap());
        let list = maps.list_metadata(&ListParams::default()).await.unwrap();
        list.metadata.resource_version.unwrap()
    }

    async fn sees_the_present(&mut self) {
        self.scene.gone(&self.maps.key("new-199")).await;
        let listed = self.scene.listed(&self.kind).await;
        assert!(listed.contains(&self.maps.key("old")));
    }
}

#[tokio::test]
async fn a_watch_that_is_ahead_of_a_restored_cluster_starts_anew_when_a_list_shows_it() {
    let mut restored = Restored::new(Duration::from_hours(1)).await;
    let position = restored.scene.hub.position(&restored.kind).unwrap();
    let present = restored.present_version().await;
    assert!(restored.scene.hub.restart_if_ahead(&position, &present));
    restored.sees_the_present().await;

    restored.scene.watching(&restored.kind).await;
    let position = restored.scene.hub.position(&restored.kind).unwrap();
    let present = restored.present_version().await;
    assert!(
        !restored.scene.hub.restart_if_ahead(&position, &present),
        "once is enough"
    );
}

#[tokio::test]
async fn a_watch_that_is_ahead_of_a_restored_cluster_notices_its_own_silence() {
    Restored::new(Duration::from_secs(5))
        .await
        .sees_the_present()
        .await;
}
