//! Inputs that must never be read as "delete everything" or "apply it here".

use serde_json::json;
use vidra_lab::controlplane::{Entry, unique};

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

/// Manifest and status share the room of one object. What was written ahead fits here, what the
/// applies returned does not: nothing is forgotten, but the resource cannot say that it is ready.
#[tokio::test]
async fn a_status_without_room_beside_its_manifest_is_never_ready_and_not_hammered() {
    // Its own control plane: so many objects would be in the way of the other tests.
    let (plane, client) = own_plane().await;
    let operator = Operator::start(plane.config(), quick_settings());
    let namespace = plane.namespace("dangers").await.unwrap();
    let name = unique("large");
    let objects = (0..2_500).map(|number| config_map(&namespace, &format!("c{number}"), "1"));
    let manifest = objects.collect::<String>() + &format!("# {}\n", "x".repeat(120)).repeat(8_000);
    let mark = plane.audit().mark().unwrap();
    create(&client, &name, &manifest, json!({})).await;
    let tries = || async {
        plane.audit_fence().await.unwrap();
        let entries = plane.audit().since(mark).unwrap();
        let refused = |it: &&Entry| it.name == name && it.subresource == "status" && it.code == 500;
        entries.iter().filter(refused).count()
    };
    eventually("the API server refuses the inventory", || async {
        (tries().await > 0).then_some(())
    })
    .await;
    // Long enough for a hot loop to show itself.
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert!(
        tries().await <= 6,
        "{} tries to write a status",
        tries().await
    );
    let resource = resources(&client).get(&name).await.unwrap();
    let entries = resource.status.clone().unwrap().inventory.unwrap().entries;
    assert_eq!(entries.len(), 2_500);
    assert_eq!(said(&resource, "Ready"), (String::new(), String::new()));
    operator.stop();
}
