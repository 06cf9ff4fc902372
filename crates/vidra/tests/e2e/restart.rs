//! What happened while nobody looked is found at the start.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use vidra_lab::controlplane::{Entry, Server};

use crate::support::*;

/// What is done to an object behind the operator's back.
const MISCHIEF: [&str; 7] = [
    "edited",
    "deleted",
    "unlabelled",
    "unlabelled-and-edited",
    "recreated",
    "unmarked",
    "stripped",
];

async fn merge_into(client: &Client, namespace: &str, name: &str, patch: Value) {
    config_maps(client, namespace)
        .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
}

/// The annotations of an object that mark its owners.
async fn owner_marks(client: &Client, namespace: &str, name: &str) -> Vec<String> {
    let live = config_maps(client, namespace).get(name).await.unwrap();
    let keys = live.metadata.annotations.unwrap_or_default().into_keys();
    keys.filter(|key| key.contains("/owner-")).collect()
}

async fn do_mischief(client: &Client, namespace: &str) {
    let api = config_maps(client, namespace);
    let edit = json!({"data": {"key": "bad"}});
    let unlabel = json!({"metadata": {"labels": null}});
    merge_into(client, namespace, "edited", edit.clone()).await;
    api.delete("deleted", &DeleteParams::default())
        .await
        .unwrap();
    merge_into(client, namespace, "unlabelled", unlabel.clone()).await;
    merge_into(client, namespace, "unlabelled-and-edited", unlabel).await;
    merge_into(client, namespace, "unlabelled-and-edited", edit).await;
    api.delete("recreated", &DeleteParams::default())
        .await
        .unwrap();
    let other: ConfigMap = serde_json::from_value(
        json!({"metadata": {"name": "recreated"}, "data": {"key": "other", "more": "kept"}}),
    )
    .unwrap();
    api.create(&PostParams::default(), &other).await.unwrap();
    for key in owner_marks(client, namespace, "unmarked").await {
        let patch = json!({"metadata": {"annotations": {key: null}}});
        merge_into(client, namespace, "unmarked", patch).await;
    }
    let reset = json!({"metadata": {"managedFields": [{}]}, "data": {"key": "worse"}});
    merge_into(client, namespace, "stripped", reset).await;
}

#[tokio::test]
async fn everything_that_was_done_while_the_operator_was_down_is_put_right_at_the_start() {
    let (plane, client) = own_plane().await;
    let namespace = plane.namespace("restart").await.unwrap();
    let operator = Operator::start(plane.config(), quick_settings());
    let manifest: String = MISCHIEF
        .iter()
        .chain(&["untouched"])
        .map(|name| config_map(&namespace, name, "good"))
        .collect();
    create(&client, "restart", &manifest, json!({})).await;
    ready(&client, "restart").await;
    operator.stop();
    do_mischief(&client, &namespace).await;
    let api = config_maps(&client, &namespace);
    // It wears our label, but nothing of ours made it.
    let foreign: ConfigMap = serde_json::from_value(json!({
        "metadata": {"name": "foreign", "labels": {"managed-by": "vidra"},
            "annotations": {"managed-by": "vidra"}},
        "data": {"key": "theirs"},
    }))
    .unwrap();
    let foreign = api.create(&PostParams::default(), &foreign).await.unwrap();

    let mark = plane.audit().mark().unwrap();
    let operator = Operator::start(plane.config(), quick_settings());
    for name in MISCHIEF {
        value_is(&client, &namespace, name, "good").await;
        eventually(&format!("{name} has our marks again"), || async {
            let live = api.get(name).await.unwrap();
            let labels = live.metadata.labels.unwrap_or_default();
            let is_marked = !owner_marks(&client, &namespace, name).await.is_empty();
            (is_marked && labels.get("managed-by").is_some_and(|it| it == "vidra")).then_some(())
        })
        .await;
    }
    ready(&client, "restart").await;
    let writes = writes_in(&plane, mark, &namespace).await;
    let touches = |name: &str| writes.iter().any(|entry: &Entry| entry.name == name);
    assert!(
        !touches("foreign") && !touches("untouched"),
        "{}",
        show(&writes)
    );
    let after = api.get("foreign").await.unwrap();
    assert_eq!(after.metadata, foreign.metadata);
    let recreated = api.get("recreated").await.unwrap();
    assert_eq!(recreated.data.unwrap()["more"], "kept");

    delete(&client, "restart").await;
    eventually("all but what others made is gone", || async {
        (names(&client, &namespace).await == ["foreign", "recreated"]).then_some(())
    })
    .await;
    operator.stop();
}

#[tokio::test]
async fn a_manifest_that_changed_while_the_operator_was_down_is_applied_and_pruned() {
    let (plane, client) = own_plane().await;
    let namespace = plane.namespace("restart").await.unwrap();
    let operator = Operator::start(plane.config(), quick_settings());
    let one_two = config_map(&namespace, "one", "1") + &config_map(&namespace, "two", "2");
    create(&client, "changed", &one_two, json!({})).await;
    create(
        &client,
        "ended",
        &config_map(&namespace, "three", "3"),
        json!({}),
    )
    .await;
    ready(&client, "changed").await;
    ready(&client, "ended").await;
    operator.stop();
    let one_four = config_map(&namespace, "one", "new") + &config_map(&namespace, "four", "4");
    change(&client, "changed", json!({"manifest": one_four})).await;
    resources(&client)
        .delete("ended", &DeleteParams::default())
        .await
        .unwrap();
    let operator = Operator::start(plane.config(), quick_settings());
    ready(&client, "changed").await;
    is_gone(&client, &namespace, "three").await;
    value_is(&client, &namespace, "one", "new").await;
    assert_eq!(names(&client, &namespace).await, ["four", "one"]);
    operator.stop();
}

#[tokio::test]
async fn a_restart_over_intact_objects_writes_nothing_and_still_heals() {
    let (plane, client) = own_plane().await;
    let namespace = plane.namespace("restart").await.unwrap();
    let operator = Operator::start(plane.config(), quick_settings());
    create(
        &client,
        "intact",
        &config_map(&namespace, "one", "good"),
        json!({}),
    )
    .await;
    let before = ready(&client, "intact").await;
    operator.stop();
    let mark = plane.audit().mark().unwrap();
    let operator = Operator::start(plane.config(), quick_settings());
    let is_listing = |entry: &Entry| {
        let is_ours = entry.user_agent.starts_with("vidra/") && entry.is_complete();
        is_ours && entry.verb == "list" && entry.resource == "configmaps"
    };
    plane.audit().wait_for(mark, is_listing).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    plane.audit_fence().await.unwrap();
    let mut entries = plane.audit().since(mark).unwrap();
    entries.retain(|entry| entry.user_agent.starts_with("vidra/") && entry.is_complete());
    let is_work = |entry: &&Entry| {
        entry.is_mutation() || (entry.verb == "get" && entry.resource == "configmaps")
    };
    let work: Vec<&Entry> = entries.iter().filter(is_work).collect();
    assert!(work.is_empty(), "{}", show(&work));
    let after = resources(&client).get("intact").await.unwrap();
    assert_eq!(
        after.metadata.resource_version,
        before.metadata.resource_version
    );

    merge_into(&client, &namespace, "one", json!({"data": {"key": "bad"}})).await;
    value_is(&client, &namespace, "one", "good").await;
    operator.stop();
}

/// An API server that has lost its storage cannot give a consistent answer. An operator that starts
/// on it must wait, not act on what it happens to have.
#[tokio::test]
async fn a_start_on_an_api_server_that_lost_its_storage_changes_nothing() {
    let (plane, client) = own_plane().await;
    let namespace = plane.namespace("frozen").await.unwrap();
    let operator = Operator::start(plane.config(), quick_settings());
    let manifest = config_map(&namespace, "one", "1") + &config_map(&namespace, "two", "2");
    create(&client, "frozen", &manifest, json!({})).await;
    ready(&client, "frozen").await;
    operator.stop();

    let uids = || async {
        let api = config_maps(&client, &namespace);
        let one = api.get("one").await.unwrap().metadata;
        let two = api.get("two").await.unwrap().metadata;
        [one.uid, one.resource_version, two.uid, two.resource_version]
    };
    let before = uids().await;
    let mark = plane.audit().mark().unwrap();
    plane.pause(Server::Etcd).unwrap();
    let settings = vidra_operator::settings::Settings {
        call_timeout: Duration::from_secs(1),
        ..quick_settings()
    };
    let operator = Operator::start(plane.config(), settings);
    tokio::time::sleep(Duration::from_secs(4)).await;
    plane.resume(Server::Etcd).unwrap();

    let api = config_maps(&client, &namespace);
    let edit = json!({"data": {"key": "bad"}});
    eventually("somebody can edit again", || async {
        let edited = api
            .patch("two", &PatchParams::default(), &Patch::Merge(&edit))
            .await;
        edited.ok()
    })
    .await;
    value_is(&client, &namespace, "two", "2").await;
    plane.audit_fence().await.unwrap();
    let deletes = plane.audit().mutations(mark, "vidra/").unwrap();
    assert!(deletes.iter().all(|it| it.verb != "delete"), "{deletes:#?}");
    let after = uids().await;
    assert_eq!(
        after[..3],
        before[..3],
        "nothing was made anew, and one was not touched"
    );
    operator.stop();
}
