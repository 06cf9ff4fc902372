//! Apply, heal, update, prune, delete: the daily life of one resource.

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use vidra_lab::controlplane::unique;

use crate::support::*;

#[tokio::test]
async fn a_manifest_becomes_objects_and_the_resource_ready() {
    let world = world().await;
    let namespace = world.plane.namespace("basics").await.unwrap();
    let name = unique("apply");
    let manifest = config_map(&namespace, "one", "1") + &config_map(&namespace, "two", "2");
    create(&world.client, &name, &manifest, json!({})).await;
    let resource = ready(&world.client, &name).await;
    let status = resource.status.unwrap();
    assert_eq!(status.managed_resources.len(), 2, "{}", show(&status));
    assert_eq!(status.counts.unwrap().applied, 2);
    assert_eq!(names(&world.client, &namespace).await, ["one", "two"]);
}

#[tokio::test]
async fn an_edited_and_a_deleted_object_come_back_without_a_timer() {
    let world = world().await;
    let namespace = world.plane.namespace("basics").await.unwrap();
    let name = unique("heal");
    create(
        &world.client,
        &name,
        &config_map(&namespace, "one", "good"),
        json!({}),
    )
    .await;
    ready(&world.client, &name).await;
    let api = config_maps(&world.client, &namespace);
    let edit = json!({"data": {"key": "bad"}});
    api.patch("one", &PatchParams::default(), &Patch::Merge(&edit))
        .await
        .unwrap();
    value_is(&world.client, &namespace, "one", "good").await;
    api.delete("one", &DeleteParams::default()).await.unwrap();
    value_is(&world.client, &namespace, "one", "good").await;
    let unlabel = json!({"metadata": {"labels": null}, "data": {"key": "worse"}});
    api.patch("one", &PatchParams::default(), &Patch::Merge(&unlabel))
        .await
        .unwrap();
    value_is(&world.client, &namespace, "one", "good").await;
}

#[tokio::test]
async fn an_update_changes_what_changed_and_prunes_what_left() {
    let world = world().await;
    let namespace = world.plane.namespace("basics").await.unwrap();
    let name = unique("update");
    let manifest = config_map(&namespace, "one", "1") + &config_map(&namespace, "two", "2");
    create(&world.client, &name, &manifest, json!({})).await;
    ready(&world.client, &name).await;
    let manifest = config_map(&namespace, "one", "changed");
    change(&world.client, &name, json!({"manifest": manifest})).await;
    value_is(&world.client, &namespace, "one", "changed").await;
    is_gone(&world.client, &namespace, "two").await;
    let status = ready(&world.client, &name).await.status.unwrap();
    assert_eq!(status.managed_resources.len(), 1, "{}", show(&status));
}

#[tokio::test]
async fn deleting_the_resource_deletes_its_objects() {
    let world = world().await;
    let namespace = world.plane.namespace("basics").await.unwrap();
    let name = unique("delete");
    create(
        &world.client,
        &name,
        &config_map(&namespace, "one", "1"),
        json!({}),
    )
    .await;
    ready(&world.client, &name).await;
    delete(&world.client, &name).await;
    is_gone(&world.client, &namespace, "one").await;
}

#[tokio::test]
async fn deleting_with_orphan_policy_keeps_the_objects_without_our_marks() {
    let world = world().await;
    let namespace = world.plane.namespace("basics").await.unwrap();
    let name = unique("orphan");
    let spec = json!({"deletionPolicy": "Orphan"});
    create(
        &world.client,
        &name,
        &config_map(&namespace, "one", "1"),
        spec,
    )
    .await;
    ready(&world.client, &name).await;
    delete(&world.client, &name).await;
    let left = config_maps(&world.client, &namespace)
        .get("one")
        .await
        .unwrap();
    assert_eq!(left.data.unwrap()["key"], "1");
    assert!(left.metadata.labels.unwrap_or_default().is_empty());
    let managers = left.metadata.managed_fields.unwrap_or_default();
    assert!(
        managers
            .iter()
            .all(|it| !it.manager.as_deref().unwrap_or("").starts_with("vidra/"))
    );
}

#[tokio::test]
async fn a_bad_manifest_changes_nothing_and_says_why() {
    let world = world().await;
    let namespace = world.plane.namespace("basics").await.unwrap();
    let name = unique("bad");
    create(
        &world.client,
        &name,
        &config_map(&namespace, "one", "1"),
        json!({}),
    )
    .await;
    ready(&world.client, &name).await;
    let broken = config_map(&namespace, "other", "1") + "---\nkind: ConfigMap\n";
    change(&world.client, &name, json!({"manifest": broken})).await;
    let resource = condition(&world.client, &name, "Ready", "False").await;
    let (reason, message) = said(&resource, "Ready");
    assert_eq!(reason, "ManifestInvalid", "{message}");
    assert_eq!(names(&world.client, &namespace).await, ["one"]);
}
