//! Somebody acts between our last look at an object and our DELETE of it.

use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use vidra_lab::{
    controlplane::unique,
    proxy::{Effect, Fault, Gate, Rule, Seen, Strikes},
};

use crate::{
    crashes::delete,
    rig::{Rig, until},
    scenario::prepare,
    support::{change, config_map, config_maps, create, quick_settings, ready},
};

/// Holds the DELETE of ConfigMap `one` until the gate opens.
fn hold_delete(rig: &Rig, tag: &str) -> (Gate, Strikes) {
    let gate = Gate::closed();
    let path = format!("/namespaces/{tag}/configmaps/one");
    let is_it = move |seen: &Seen| seen.method == "DELETE" && seen.path.contains(&path);
    let hold = Fault::Request(Effect::Hold(gate.clone()));
    let strikes = rig.proxy.add(Rule::every(is_it, hold));
    (gate, strikes)
}

/// A resource with two ConfigMaps, of which `one` is about to be deleted and its DELETE held.
async fn shrink_and_hold(rig: &Rig, tag: &str) -> Gate {
    let both = config_map(tag, "one", "1") + &config_map(tag, "two", "2");
    create(&rig.client, tag, &both, json!({})).await;
    ready(&rig.client, tag).await;
    let (gate, strikes) = hold_delete(rig, tag);
    change(
        &rig.client,
        tag,
        json!({"manifest": config_map(tag, "two", "2")}),
    )
    .await;
    until(|| "the DELETE".to_owned(), || strikes.struck() > 0).await;
    gate
}

#[tokio::test]
async fn an_object_made_anew_between_look_and_delete_survives() {
    let rig = Rig::take().await;
    let _operator = rig.start_within(quick_settings());
    let tag = unique("race-recreated");
    prepare(&rig.client, &tag).await;
    let gate = shrink_and_hold(&rig, &tag).await;
    let api = config_maps(&rig.client, &tag);
    api.delete("one", &DeleteParams::default()).await.unwrap();
    let theirs =
        serde_json::from_value(json!({"metadata": {"name": "one"}, "data": {"a": "theirs"}}));
    let made = api
        .create(&PostParams::default(), &theirs.unwrap())
        .await
        .unwrap();
    gate.open();
    ready(&rig.client, &tag).await;
    let found = api.get("one").await.unwrap();
    assert_eq!(found.metadata.uid, made.metadata.uid);
    assert_eq!(
        found.metadata.resource_version,
        made.metadata.resource_version
    );
    delete(&rig, &tag).await;
    assert!(api.get_opt("one").await.unwrap().is_some());
}

#[tokio::test]
async fn an_object_that_another_owner_joins_between_look_and_delete_survives() {
    let rig = Rig::take().await;
    let _operator = rig.start_within(quick_settings());
    let tag = unique("race-joined");
    let other = format!("{tag}-other");
    prepare(&rig.client, &tag).await;
    let gate = shrink_and_hold(&rig, &tag).await;
    let api = config_maps(&rig.client, &tag);
    let uid = api.get("one").await.unwrap().metadata.uid;
    create(
        &rig.client,
        &other,
        &config_map(&tag, "one", "1"),
        json!({}),
    )
    .await;
    ready(&rig.client, &other).await;
    gate.open();
    ready(&rig.client, &tag).await;
    assert_eq!(api.get("one").await.unwrap().metadata.uid, uid);
    delete(&rig, &other).await;
    assert!(
        api.get_opt("one").await.unwrap().is_none(),
        "the last owner deletes it"
    );
    delete(&rig, &tag).await;
}

#[tokio::test]
async fn an_object_that_gets_a_controller_between_look_and_delete_survives() {
    let rig = Rig::take().await;
    let _operator = rig.start_within(quick_settings());
    let tag = unique("race-controlled");
    prepare(&rig.client, &tag).await;
    let gate = shrink_and_hold(&rig, &tag).await;
    let api = config_maps(&rig.client, &tag);
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "u-1", "controller": true});
    let taken = json!({"metadata": {"ownerReferences": [owner]}});
    api.patch("one", &PatchParams::default(), &Patch::Merge(&taken))
        .await
        .unwrap();
    gate.open();
    ready(&rig.client, &tag).await;
    assert!(api.get_opt("one").await.unwrap().is_some());
    delete(&rig, &tag).await;
}
