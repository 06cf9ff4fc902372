//! Timers beside events: what each resource asks for, and what a pass costs.

use std::time::{Duration, Instant};

use kube::{Client, api::Patch};
use serde_json::json;
use tokio::sync::OnceCell;
use vidra_lab::controlplane::{ControlPlane, Entry, Mark, unique};
use vidra_operator::settings::Settings;

use crate::{
    drift::{heal_events, manager},
    support::*,
};

/// The pass of the operator of this module.
const PASS: Duration = Duration::from_secs(2);

/// A control plane whose operator has a short timer.
async fn timed() -> (&'static ControlPlane, Client) {
    static PLANE: OnceCell<&'static ControlPlane> = OnceCell::const_new();
    let plane = PLANE
        .get_or_init(|| async {
            let (plane, _) = own_plane().await;
            let plane: &'static ControlPlane = Box::leak(Box::new(plane));
            let settings = Settings {
                requeue_resources_after: PASS,
                ..Settings::default()
            };
            std::mem::forget(Operator::start(plane.config(), settings));
            plane
        })
        .await;
    (plane, plane.client().unwrap())
}

/// A resource with one ConfigMap `one` in a namespace of its own.
async fn keeper(
    plane: &ControlPlane,
    client: &Client,
    spec: serde_json::Value,
) -> (String, String) {
    let namespace = plane.namespace("timers").await.unwrap();
    let name = unique("timers");
    create(client, &name, &config_map(&namespace, "one", "good"), spec).await;
    ready(client, &name).await;
    (namespace, name)
}

async fn drift(client: &Client, namespace: &str) {
    let patch = json!({"data": {"key": "bad"}});
    config_maps(client, namespace)
        .patch("one", &manager("drifter"), &Patch::Merge(&patch))
        .await
        .unwrap();
}

async fn value(client: &Client, namespace: &str) -> String {
    let live = config_maps(client, namespace).get("one").await.unwrap();
    live.data.unwrap()["key"].clone()
}

/// What the operator asked the API server for, completely answered.
async fn asked(plane: &ControlPlane, mark: Mark) -> Vec<Entry> {
    plane.audit_fence().await.unwrap();
    let mut found = plane.audit().since(mark).unwrap();
    found.retain(|entry| entry.user_agent.starts_with("vidra/") && entry.is_complete());
    found
}

#[tokio::test]
async fn a_resource_without_events_is_healed_by_its_timer_and_others_at_once() {
    let (plane, client) = timed().await;
    let quiet = json!({"destination": {"reconcileOnEvents": false}});
    let (by_timer, timer_name) = keeper(plane, &client, quiet).await;
    let quieter = json!({"destination": {"reconcileOnEvents": false}, "interval": "0"});
    let (by_nothing, nothing_name) = keeper(plane, &client, quieter).await;
    let (by_event, event_name) = keeper(plane, &client, json!({"interval": "0"})).await;
    let mark = plane.audit().mark().unwrap();
    for namespace in [&by_timer, &by_nothing, &by_event] {
        drift(&client, namespace).await;
    }
    value_is(&client, &by_event, "one", "good").await;
    value_is(&client, &by_timer, "one", "good").await;
    let triggered = eventually("the pass is in the status", || async {
        let status = resources(&client).get(&timer_name).await.unwrap().status?;
        let is_pass = status.last_trigger.iter().any(|it| it == "Timer");
        is_pass.then_some(status.last_trigger)
    })
    .await;
    assert_eq!(triggered, ["Timer"]);
    assert!(heal_events(&client, &timer_name).await.is_empty());
    assert_eq!(heal_events(&client, &event_name).await.len(), 1);
    // Two more passes of the others, and still nobody has looked at this one.
    tokio::time::sleep(PASS * 2).await;
    assert_eq!(value(&client, &by_nothing).await, "bad");
    let mut requests = asked(plane, mark).await;
    requests.retain(|it| it.namespace == by_nothing || it.name == nothing_name);
    assert!(requests.is_empty(), "{}", show(&requests));
    request(&client, &nothing_name).await;
    value_is(&client, &by_nothing, "one", "good").await;
}

#[tokio::test]
async fn an_interval_of_its_own_goes_before_the_one_for_all() {
    let (plane, client) = timed().await;
    let spec =
        |interval: &str| json!({"destination": {"reconcileOnEvents": false}, "interval": interval});
    let (slow, slow_name) = keeper(plane, &client, spec("1h")).await;
    let (fast, _) = keeper(plane, &client, spec("1s")).await;
    drift(&client, &slow).await;
    drift(&client, &fast).await;
    value_is(&client, &fast, "one", "good").await;
    tokio::time::sleep(PASS * 2).await;
    assert_eq!(value(&client, &slow).await, "bad");
    change(&client, &slow_name, json!({"interval": "1s"})).await;
    value_is(&client, &slow, "one", "good").await;
}

#[tokio::test]
async fn a_suspended_resource_is_not_healed_and_a_resumed_one_is() {
    let world = world().await;
    for is_on_events in [true, false] {
        let spec = json!({"destination": {"reconcileOnEvents": is_on_events}});
        let (namespace, name) = keeper(world.plane, &world.client, spec).await;
        // Another owner of the kind, so that its watch goes on meanwhile.
        let (other, _) = keeper(world.plane, &world.client, json!({})).await;
        change(&world.client, &name, json!({"suspend": true})).await;
        let resource = condition(&world.client, &name, "Ready", "Unknown").await;
        assert_eq!(said(&resource, "Ready").0, "Suspended");
        let mark = world.plane.audit().mark().unwrap();
        drift(&world.client, &namespace).await;
        drift(&world.client, &other).await;
        value_is(&world.client, &other, "one", "good").await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(value(&world.client, &namespace).await, "bad");
        let writes = writes_in(world.plane, mark, &namespace).await;
        assert!(writes.is_empty(), "{}", show(&writes));
        change(&world.client, &name, json!({"suspend": false})).await;
        value_is(&world.client, &namespace, "one", "good").await;
        ready(&world.client, &name).await;
    }
}

#[tokio::test]
async fn switching_events_on_heals_what_was_changed_before() {
    let world = world().await;
    let quiet = json!({"destination": {"reconcileOnEvents": false}});
    let (namespace, name) = keeper(world.plane, &world.client, quiet).await;
    // A list of the kind that is younger than the apply and older than the drift.
    let (_, other) = keeper(world.plane, &world.client, json!({})).await;
    request(&world.client, &other).await;
    drift(&world.client, &namespace).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(value(&world.client, &namespace).await, "bad");
    let loud = json!({"destination": {"reconcileOnEvents": true}});
    change(&world.client, &name, loud).await;
    value_is(&world.client, &namespace, "one", "good").await;
}

#[tokio::test]
async fn a_request_applies_everything_again_and_says_that_it_was_handled() {
    let world = world().await;
    let namespace = world.plane.namespace("timers").await.unwrap();
    let name = unique("request");
    let manifest = config_map(&namespace, "one", "1") + &config_map(&namespace, "two", "2");
    create(&world.client, &name, &manifest, json!({})).await;
    ready(&world.client, &name).await;
    let api = config_maps(&world.client, &namespace);
    let versions = || async {
        let live = api.list(&kube::api::ListParams::default()).await.unwrap();
        let versions = live
            .items
            .into_iter()
            .map(|it| it.metadata.resource_version);
        versions.collect::<Vec<_>>()
    };
    let before = versions().await;
    let mark = world.plane.audit().mark().unwrap();
    let resource = request(&world.client, &name).await;
    let status = resource.status.unwrap();
    assert_eq!(status.last_trigger, ["Request"]);
    let writes = writes_in(world.plane, mark, &namespace).await;
    let mut applied: Vec<&str> = writes.iter().map(|entry| entry.name.as_str()).collect();
    applied.sort_unstable();
    assert_eq!(applied, ["one", "two"]);
    assert_eq!(
        versions().await,
        before,
        "a deep pass over intact objects changes nothing"
    );
}

#[tokio::test]
async fn passes_over_intact_objects_write_nothing_and_cost_one_list_per_kind() {
    let (plane, client) = own_plane().await;
    let settings = Settings {
        requeue_resources_after: PASS,
        ..Settings::default()
    };
    let operator = Operator::start(plane.config(), settings);
    let namespace = plane.namespace("passes").await.unwrap();
    for index in 0..5 {
        let name = unique("passes");
        let secret = format!(
            "---\napiVersion: v1\nkind: Secret\nmetadata: {{name: s{index}, namespace: {namespace}}}\n"
        );
        let manifest = config_map(&namespace, &format!("c{index}"), "good") + &secret;
        create(&client, &name, &manifest, json!({})).await;
        ready(&client, &name).await;
    }
    tokio::time::sleep(PASS).await;
    plane.audit_fence().await.unwrap();
    let mark = plane.audit().mark().unwrap();
    let start = Instant::now();
    tokio::time::sleep(PASS * 4).await;
    let requests = asked(&plane, mark).await;
    let rounds = start.elapsed().as_secs().div_ceil(PASS.as_secs()) + 1;
    for kind in ["configmaps", "secrets"] {
        let lists = requests
            .iter()
            .filter(|it| it.resource == kind && it.verb == "list")
            .count() as u64;
        assert!(
            (1..=rounds).contains(&lists),
            "{lists} lists in {rounds} rounds"
        );
    }
    let others: Vec<&Entry> = requests
        .iter()
        .filter(|it| it.verb != "list" && it.verb != "watch")
        .collect();
    assert!(others.is_empty(), "{}", show(&others));
    operator.stop();
}
