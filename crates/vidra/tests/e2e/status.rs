//! The status never says more than what is so.

use std::time::Duration;

use k8s_openapi::{api::core::v1::ConfigMap, api::events::v1::Event};
use kube::{
    Client,
    api::{Api, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use vidra_api::{State, VidraResource};
use vidra_lab::controlplane::unique;

use crate::support::*;

async fn raw(client: &Client, name: &str) -> Value {
    serde_json::to_value(resources(client).get(name).await.unwrap()).unwrap()
}

/// Type, status and generation of every condition.
fn conditions(resource: &VidraResource) -> Vec<(String, String, Option<i64>)> {
    let status = resource.status.as_ref().unwrap();
    let conditions = status.conditions.iter();
    conditions
        .map(|it| (it.type_.clone(), it.status.clone(), it.observed_generation))
        .collect()
}

/// The Events about a resource: reason and how often.
async fn events(client: &Client, name: &str) -> Vec<(String, i32)> {
    let api: Api<Event> = Api::all(client.clone());
    let found = api.list(&ListParams::default()).await.unwrap();
    let about = found.items.into_iter().filter(|event| {
        let regarding = event.regarding.as_ref();
        regarding.and_then(|it| it.name.as_deref()) == Some(name)
    });
    let mut told: Vec<(String, i32)> = about
        .map(|event| {
            let count = event.series.map_or(1, |series| series.count);
            (event.reason.unwrap_or_default(), count)
        })
        .collect();
    told.sort();
    told
}

#[tokio::test]
async fn the_status_tells_the_whole_story_of_a_resource() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("status").await.unwrap();
    let name = unique("story");
    let one = config_map(&namespace, "one", "1");
    let two = config_map(&namespace, "two", "2");
    create(client, &name, &(one.clone() + &two), json!({})).await;
    let first = ready(client, &name).await;
    assert_eq!(
        conditions(&first),
        [("Ready".to_owned(), "True".to_owned(), Some(1))]
    );
    assert_eq!(said(&first, "Ready").0, "Succeeded");
    let json = raw(client, &name).await;
    assert_eq!(json["status"]["DeployState"], "Succeeded");
    assert_eq!(json["status"]["observedGeneration"], 1);
    assert_eq!(
        json["status"]["managedResources"][0],
        json!({"kind": "ConfigMap", "apiVersion": "v1", "name": "one", "namespace": namespace})
    );
    assert_eq!(json["status"]["lastTrigger"], json!(["Event"]));
    assert!(json["status"]["lastSyncTime"].is_string());
    assert!(json["status"].get("lastError").is_none());

    change(
        client,
        &name,
        json!({"manifest": one.clone() + &two.replace("\ndata", "\ndatta")}),
    )
    .await;
    let broken = condition(client, &name, "Ready", "False").await;
    let expected = |kind: &str, status: &str| (kind.to_owned(), status.to_owned(), Some(2));
    assert_eq!(
        conditions(&broken),
        [expected("Ready", "False"), expected("Stalled", "True")]
    );
    let status = broken.status.unwrap();
    assert_eq!(status.deploy_state, Some(State::Failed));
    assert!(status.last_error.unwrap().contains("datta"));
    assert_eq!(
        status.managed_resources.len(),
        2,
        "what failed is still ours"
    );

    change(client, &name, json!({"manifest": one})).await;
    let mended = ready(client, &name).await;
    assert_eq!(
        conditions(&mended),
        [("Ready".to_owned(), "True".to_owned(), Some(3))]
    );
    let status = mended.status.unwrap();
    assert_eq!(status.deploy_state, Some(State::Succeeded));
    assert_eq!((status.last_error, status.failures), (None, vec![]));
    let counts = status.counts.unwrap();
    assert_eq!(
        (counts.desired, counts.applied, counts.failed, counts.pruned),
        (1, 1, 0, 1)
    );
    assert_eq!(status.managed_resources.len(), 1);
    delete(client, &name).await;
}

#[tokio::test]
async fn a_reconcile_that_changes_nothing_moves_no_time_and_tells_no_event() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("status").await.unwrap();
    let name = unique("still");
    create(
        client,
        &name,
        &config_map(&namespace, "one", "1"),
        json!({}),
    )
    .await;
    let first = ready(client, &name).await.status.unwrap();
    // Events are told after the status is written.
    let told = eventually("the apply is told", || async {
        Some(events(client, &name).await).filter(|told| !told.is_empty())
    })
    .await;
    assert_eq!(told, [("Applied".to_owned(), 1)]);
    // Times are in full seconds.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let second = request(client, &name).await.status.unwrap();
    assert_eq!(second.last_sync_time, first.last_sync_time);
    assert_eq!(second.conditions, first.conditions);
    assert_eq!(second.last_trigger, ["Request"]);
    // Handled is written at the end; an Event would be told right after it.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(events(client, &name).await, told);

    change(
        client,
        &name,
        json!({"manifest": config_map(&namespace, "one", "new")}),
    )
    .await;
    let third = ready(client, &name).await.status.unwrap();
    assert!(third.last_sync_time > first.last_sync_time);
    delete(client, &name).await;
}

#[tokio::test]
async fn a_heal_moves_the_time_and_is_told() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("status").await.unwrap();
    let name = unique("healed");
    create(
        client,
        &name,
        &config_map(&namespace, "one", "good"),
        json!({}),
    )
    .await;
    let first = ready(client, &name).await.status.unwrap();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let edit = json!({"data": {"key": "bad"}});
    config_maps(client, &namespace)
        .patch("one", &PatchParams::default(), &Patch::Merge(&edit))
        .await
        .unwrap();
    value_is(client, &namespace, "one", "good").await;
    eventually("the time of the heal is in the status", || async {
        let status = resources(client).get(&name).await.unwrap().status.unwrap();
        (status.last_sync_time > first.last_sync_time).then_some(())
    })
    .await;
    eventually("the heal is told", || async {
        let told = events(client, &name).await;
        told.iter()
            .any(|(reason, _)| reason == "Healed")
            .then_some(())
    })
    .await;
    delete(client, &name).await;
}

#[tokio::test]
async fn at_most_twenty_failures_are_listed_and_all_are_counted() {
    let world = world().await;
    let namespace = world.plane.namespace("status").await.unwrap();
    let name = unique("failures");
    let manifest: String = (0..30)
        .map(|number| {
            config_map(&namespace, &format!("bad-{number}"), "x").replace("\ndata", "\ndatta")
        })
        .collect();
    create(&world.client, &name, &manifest, json!({})).await;
    let status = condition(&world.client, &name, "Ready", "False")
        .await
        .status
        .unwrap();
    assert_eq!(status.failures.len(), 20);
    assert_eq!(status.counts.unwrap().failed, 30);
    assert!(status.last_error.unwrap().contains("29 more"));
    delete(&world.client, &name).await;
}

#[tokio::test]
async fn of_1200_objects_a_thousand_are_shown_and_all_are_in_the_inventory() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("status").await.unwrap();
    let name = unique("many");
    let manifest: String = (0..1_200)
        .map(|number| config_map(&namespace, &format!("c{number}"), "1"))
        .collect();
    create(client, &name, &manifest, json!({})).await;
    let status = ready(client, &name).await.status.unwrap();
    assert_eq!(status.managed_resources.len(), 1_000);
    assert_eq!(status.inventory.unwrap().entries.len(), 1_200);
    assert_eq!(status.counts.unwrap().applied, 1_200);
    // What is not shown is kept as well as the rest.
    let edit = json!({"data": {"key": "bad"}});
    for object in ["c0", "c999"] {
        config_maps(client, &namespace)
            .patch(object, &PatchParams::default(), &Patch::Merge(&edit))
            .await
            .unwrap();
        value_is(client, &namespace, object, "1").await;
    }
    delete(client, &name).await;
    assert_eq!(names(client, &namespace).await, Vec::<String>::new());
}

/// Whether every object has the value that the manifest of a resource gives it.
fn is_as_desired(resource: &VidraResource, live: &[ConfigMap], expected: usize) -> bool {
    let manifest = resource.spec.manifest.as_deref().unwrap();
    let value = |it: &ConfigMap| it.data.as_ref().and_then(|data| data.get("key").cloned());
    let good = |it: &&ConfigMap| {
        let wanted = value(it).map(|value| format!("key: \"{value}\""));
        wanted.is_some_and(|wanted| manifest.contains(&wanted))
    };
    live.iter().filter(good).count() == expected
}

#[tokio::test]
async fn ready_for_a_generation_is_never_said_before_its_objects_are_as_desired() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("status").await.unwrap();
    let name = unique("sampled");
    let manifest = |value: &str| -> String {
        (0..40)
            .map(|number| config_map(&namespace, &format!("c{number}"), value))
            .collect()
    };
    create(client, &name, &manifest("v0"), json!({})).await;
    ready(client, &name).await;
    let mut claims = 0;
    for round in 1..=8 {
        change(
            client,
            &name,
            json!({"manifest": manifest(&format!("v{round}"))}),
        )
        .await;
        let mut is_claimed = false;
        for _ in 0..1_200 {
            let resource = resources(client).get(&name).await.unwrap();
            let status = resource.status.as_ref().unwrap();
            let is_current = status.observed_generation == resource.metadata.generation;
            let is_ready = said(&resource, "Ready").0 == "Succeeded";
            if is_current && is_ready {
                let live = config_maps(client, &namespace)
                    .list(&ListParams::default())
                    .await
                    .unwrap();
                assert!(is_as_desired(&resource, &live.items, 40), "round {round}");
                is_claimed = true;
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        claims += i32::from(is_claimed);
    }
    assert_eq!(claims, 8, "every round was ready in the end");
    delete(client, &name).await;
}
