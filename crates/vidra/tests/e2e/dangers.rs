//! Inputs that must never be read as "delete everything" or "apply it here".

use serde_json::json;
use vidra_lab::controlplane::unique;

use crate::support::*;

#[tokio::test]
async fn an_empty_manifest_deletes_nothing() {
    let world = world().await;
    let namespace = world.plane.namespace("dangers").await.unwrap();
    let name = unique("empty");
    create(
        &world.client,
        &name,
        &config_map(&namespace, "one", "1"),
        json!({}),
    )
    .await;
    ready(&world.client, &name).await;
    for empty in [
        "",
        "---\n",
        "# nothing\n---\n# here\n",
        "apiVersion: v1\nkind: List\nitems: []\n",
    ] {
        change(&world.client, &name, json!({"manifest": empty})).await;
        let resource = condition(&world.client, &name, "Ready", "False").await;
        assert_eq!(said(&resource, "Ready").0, "EmptyManifest", "{empty:?}");
        assert_eq!(names(&world.client, &namespace).await, ["one"]);
    }
}

#[tokio::test]
async fn a_manifest_for_another_cluster_is_never_applied_to_this_one() {
    let world = world().await;
    let namespace = world.plane.namespace("dangers").await.unwrap();
    let name = unique("remote");
    let spec = json!({"destination": {"server": "https://elsewhere.example:6443"}});
    create(
        &world.client,
        &name,
        &config_map(&namespace, "one", "1"),
        spec,
    )
    .await;
    let resource = condition(&world.client, &name, "Ready", "False").await;
    let (reason, message) = said(&resource, "Ready");
    assert_eq!(reason, "RemoteCluster", "{message}");
    assert!(message.contains("elsewhere.example"), "{message}");
    assert!(names(&world.client, &namespace).await.is_empty());
    delete(&world.client, &name).await;
}

#[tokio::test]
async fn moving_a_resource_to_another_cluster_touches_nothing_here() {
    let world = world().await;
    let namespace = world.plane.namespace("dangers").await.unwrap();
    let name = unique("moved");
    create(
        &world.client,
        &name,
        &config_map(&namespace, "one", "1"),
        json!({}),
    )
    .await;
    ready(&world.client, &name).await;
    change(
        &world.client,
        &name,
        json!({"destination": {"server": "https://elsewhere.example"}}),
    )
    .await;
    let resource = condition(&world.client, &name, "Ready", "False").await;
    assert_eq!(said(&resource, "Ready").0, "RemoteCluster");
    assert_eq!(names(&world.client, &namespace).await, ["one"]);
    change(
        &world.client,
        &name,
        json!({"destination": {"server": null}}),
    )
    .await;
    ready(&world.client, &name).await;
    delete(&world.client, &name).await;
    is_gone(&world.client, &namespace, "one").await;
}
