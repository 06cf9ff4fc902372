//! What a watch tells while nothing is wrong.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use vidra_core::identity::ObjectKey;
use vidra_lab::controlplane::{shared, unique};

use crate::support::{Maps, Scene, brisk, set, watched};

#[tokio::test]
async fn what_was_there_before_is_seen_and_then_listed() {
    let plane = shared().await;
    let maps = Maps::new(
        plane.client().unwrap(),
        &plane.namespace("before").await.unwrap(),
    );
    let key = maps.create("early").await;

    let mut scene = Scene::new(plane.client().unwrap(), brisk());
    scene.hub.need("one", set(&[&watched::<ConfigMap>()]));
    let object = scene.seen(&key).await;
    assert!(
        !object.managed_fields.is_empty(),
        "drift is judged by who owns which field"
    );
    assert!(scene.listed(&key.group_kind()).await.contains(&key));
}

#[tokio::test]
async fn changes_and_deletions_are_told_with_the_same_uid() {
    let plane = shared().await;
    let maps = Maps::new(
        plane.client().unwrap(),
        &plane.namespace("changes").await.unwrap(),
    );
    let mut scene = Scene::new(plane.client().unwrap(), brisk());
    scene.hub.need("one", set(&[&watched::<ConfigMap>()]));
    scene.watching(&maps.key("any").group_kind()).await;

    let key = maps.create("settings").await;
    let created = scene.seen(&key).await;
    let written = maps.write("settings", "2").await.metadata;
    let modified = scene.seen(&key).await;
    assert_eq!(
        Some(&modified.resource_version),
        written.resource_version.as_ref()
    );
    assert_eq!(modified.uid, created.uid);
    maps.delete("settings").await;
    assert_eq!(scene.gone(&key).await, created.uid);
}

#[tokio::test]
async fn an_object_that_loses_our_label_is_gone_and_one_that_gets_it_is_seen() {
    let plane = shared().await;
    let maps = Maps::new(
        plane.client().unwrap(),
        &plane.namespace("labels").await.unwrap(),
    );
    let mut scene = Scene::new(plane.client().unwrap(), brisk());
    scene.hub.need("one", set(&[&watched::<ConfigMap>()]));
    scene.watching(&maps.key("any").group_kind()).await;

    let key = maps.create("settings").await;
    let uid = scene.seen(&key).await.uid;
    maps.label("settings", None).await;
    assert_eq!(scene.gone(&key).await, uid);
    maps.label("settings", Some("vidra")).await;
    assert_eq!(scene.seen(&key).await.uid, uid);
    maps.label("settings", Some("somebody-else")).await;
    assert_eq!(scene.gone(&key).await, uid);
}

#[tokio::test]
async fn a_written_status_is_told_like_any_other_change() {
    let plane = shared().await;
    let namespace = plane.namespace("status").await.unwrap();
    let api: Api<Deployment> = Api::namespaced(plane.client().unwrap(), &namespace);
    let deployment = serde_json::from_value(json!({
        "metadata": {"name": "web", "labels": {"managed-by": "vidra"}},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    }));
    api.create(&PostParams::default(), &deployment.unwrap())
        .await
        .unwrap();
    let key = ObjectKey::new("apps", "Deployment", Some(&namespace), "web");
    let mut scene = Scene::new(plane.client().unwrap(), brisk());
    scene.hub.need("one", set(&[&watched::<Deployment>()]));
    let before = scene.seen(&key).await;

    let status = Patch::Merge(json!({"status": {"replicas": 1, "observedGeneration": 1}}));
    api.patch_status("web", &PatchParams::default(), &status)
        .await
        .unwrap();
    let after = scene.seen(&key).await;
    assert_ne!(after.resource_version, before.resource_version);
    assert!(
        after
            .managed_fields
            .iter()
            .any(|entry| entry.subresource.is_some())
    );
}

#[tokio::test]
async fn a_list_in_many_pages_is_complete() {
    let plane = shared().await;
    let user = unique("pager");
    let maps = Maps::new(
        plane.client().unwrap(),
        &plane.namespace("pages").await.unwrap(),
    );
    let mut keys = Vec::new();
    for number in 0..5 {
        keys.push(maps.create(&format!("settings-{number}")).await);
    }
    let mut timing = brisk();
    timing.page = 2;
    let mark = plane.audit().mark().unwrap();
    let client = plane.client_as(&user, &["system:masters"]).unwrap();
    let mut scene = Scene::new(client, timing);
    scene.hub.need("one", set(&[&watched::<ConfigMap>()]));
    let listed = scene.listed(&keys[0].group_kind()).await;
    assert!(
        keys.iter().all(|key| listed.contains(key)),
        "all of them: {listed:?}"
    );

    plane.audit_fence().await.unwrap();
    let entries = plane.audit().since(mark).unwrap();
    let pages = entries
        .iter()
        .filter(|entry| entry.user == user && entry.verb == "list")
        .count();
    assert!(
        pages >= 3,
        "five objects in pages of two were read in {pages} pages"
    );
}
