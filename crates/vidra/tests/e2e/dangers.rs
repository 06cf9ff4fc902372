//! Inputs that must never be read as "delete everything" or "apply it here".

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use vidra_lab::controlplane::{Entry, unique};
use vidra_operator::settings::Settings;

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

/// Manifest and status share the room of one object: what of the status has to give way is stored
/// elsewhere.
#[tokio::test]
async fn a_manifest_that_leaves_little_room_for_its_status_is_ready_all_the_same() {
    // Its own control plane: so many objects would be in the way of the other tests.
    let (plane, client) = own_plane().await;
    let home = plane.namespace("home").await.unwrap();
    let settings = Settings {
        namespace: home,
        ..quick_settings()
    };
    let operator = Operator::start(plane.config(), settings);
    let namespace = plane.namespace("dangers").await.unwrap();
    let name = unique("large");
    let objects = (0..2_500).map(|number| config_map(&namespace, &format!("c{number}"), "1"));
    let manifest = objects.collect::<String>() + &format!("# {}\n", "x".repeat(120)).repeat(8_500);
    create(&client, &name, &manifest, json!({})).await;
    let status = ready(&client, &name).await.status.unwrap();
    assert_eq!(status.counts.unwrap().applied, 2_500);
    let inventory = status.inventory.unwrap();
    assert!(inventory.stored_in.is_some() && inventory.entries.is_empty());
    let shown = status.managed_resources.len();
    assert!((1..2_500).contains(&shown), "{shown}");
    operator.stop();
}

/// The largest manifest of one object that the API server still takes, give or take a bit.
async fn largest_manifest(client: &kube::Client, object: &str) -> String {
    let manifest = |size: usize| format!("{object}# {}\n", "x".repeat(size));
    let (mut fits, mut too_large) = (1_200_000, 1_600_000);
    while too_large - fits > 256 {
        let size = usize::midpoint(fits, too_large);
        let name = unique("probe");
        let probe = json!({"apiVersion": "infrahub.operators.com/v1alpha1", "kind": "VidraResource",
            "metadata": {"name": name}, "spec": {"manifest": manifest(size)}});
        let probe = serde_json::from_value(probe).unwrap();
        let api = resources(client);
        match api.create(&PostParams::default(), &probe).await {
            Ok(_) => {
                fits = size;
                api.delete(&name, &DeleteParams::default()).await.unwrap();
            }
            Err(_) => too_large = size,
        }
    }
    manifest(fits - 512)
}

#[tokio::test]
async fn a_manifest_that_leaves_no_room_for_its_status_is_never_ready_and_not_hammered() {
    let (plane, client) = own_plane().await;
    let home = plane.namespace("home").await.unwrap();
    let namespace = plane.namespace("dangers").await.unwrap();
    let name = unique("full");
    let manifest = largest_manifest(&client, &config_map(&namespace, "one", "1")).await;
    create(&client, &name, &manifest, json!({})).await;
    let mark = plane.audit().mark().unwrap();
    let settings = Settings {
        namespace: home,
        ..quick_settings()
    };
    let operator = Operator::start(plane.config(), settings);
    let tries = || async {
        plane.audit_fence().await.unwrap();
        let entries = plane.audit().since(mark).unwrap();
        let refused = |it: &&Entry| it.name == name && it.subresource == "status" && it.code == 500;
        entries.iter().filter(refused).count()
    };
    eventually("the API server refuses the status", || async {
        (tries().await > 0).then_some(())
    })
    .await;
    // Long enough for a hot loop to show itself.
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let tries = tries().await;
    assert!(tries <= 6, "{tries} tries to write a status");
    let resource = resources(&client).get(&name).await.unwrap();
    let status = resource.status.unwrap_or_default();
    let is_ready = |it: &Condition| it.type_ == "Ready";
    assert!(!status.conditions.iter().any(is_ready), "{status:#?}");
    // What was applied was written down before.
    let is_applied = !names(&client, &namespace).await.is_empty();
    assert!(!is_applied || status.inventory.is_some());
    operator.stop();
}
