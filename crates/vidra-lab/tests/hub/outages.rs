//! What gets lost on the way, and does not stay lost.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use vidra_cluster::hub::{BlindCause, Timing};
use vidra_lab::controlplane::{ControlPlane, shared};

use crate::{
    proxy::Proxy,
    support::{Maps, Scene, brisk, set, watched},
};

#[tokio::test]
async fn a_stream_that_died_in_silence_is_replaced_and_what_happened_meanwhile_is_told() {
    let plane = shared().await;
    let proxy = Proxy::to(plane.port()).await;
    let maps = Maps::new(
        plane.client().unwrap(),
        &plane.namespace("silence").await.unwrap(),
    );
    let timing = Timing {
        idle: Duration::from_secs(2),
        call: Duration::from_secs(2),
        ..brisk()
    };
    let mut scene = Scene::new(proxy.client(plane.config()), timing);
    let kind = watched::<ConfigMap>();
    scene.hub.need("one", set(&[&kind]));
    scene.watching(&kind.kind).await;
    let first = maps.create("first").await;
    let uid = scene.seen(&first).await.uid;

    proxy.forget_connections();
    maps.delete("first").await;
    let second = maps.create("second").await;
    assert_eq!(scene.gone(&first).await, uid);
    scene.seen(&second).await;
}

#[tokio::test]
async fn a_delete_that_no_event_tells_any_longer_is_found_by_the_list_after_an_outage() {
    let plane = ControlPlane::start().await.unwrap();
    let proxy = Proxy::to(plane.port()).await;
    let maps = Maps::new(
        plane.client().unwrap(),
        &plane.namespace("outage").await.unwrap(),
    );
    let (kept, lost) = (maps.create("kept").await, maps.create("lost").await);
    let mut scene = Scene::new(proxy.client(plane.config()), brisk());
    let kind = watched::<ConfigMap>();
    scene.hub.need("one", set(&[&kind]));
    let uid = scene.seen(&lost).await.uid;
    scene.watching(&kind.kind).await;

    proxy.cut();
    let cause = scene.blind(&kind.kind).await;
    assert!(matches!(cause, BlindCause::Failing { .. }), "{cause:?}");
    maps.delete("lost").await;
    // A new API server has no history of what happened before it began.
    plane.restart_apiserver().await.unwrap();
    proxy.mend();

    assert_eq!(scene.gone(&lost).await, uid);
    let listed = scene.listed(&kind.kind).await;
    assert!(
        listed.contains(&kept) && !listed.contains(&lost),
        "{listed:?}"
    );
    scene.sighted(&kind.kind).await;
    let maps = Maps::new(plane.client().unwrap(), kept.namespace.as_deref().unwrap());
    let later = maps.create("later").await;
    scene.seen(&later).await;
}

#[tokio::test]
async fn a_forced_list_finds_nothing_gone_while_nothing_is() {
    let plane = shared().await;
    let maps = Maps::new(
        plane.client().unwrap(),
        &plane.namespace("forced").await.unwrap(),
    );
    let key = maps.create("settings").await;
    let mut scene = Scene::new(plane.client().unwrap(), brisk());
    let kind = watched::<ConfigMap>();
    scene.hub.need("one", set(&[&kind]));
    scene.listed(&kind.kind).await;
    scene.watching(&kind.kind).await;
    scene.hub.relist(&kind.kind);
    scene.seen(&key).await;
    assert!(scene.listed(&kind.kind).await.contains(&key));
    assert_eq!(scene.state(&kind.kind).unwrap().lists, 2);
}
