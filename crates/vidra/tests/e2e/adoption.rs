//! Objects that exist already: who may take them, and what becomes of them afterwards.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Client,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};
use vidra_lab::controlplane::unique;

use crate::support::*;

/// Makes a ConfigMap as somebody else would.
async fn make(
    client: &Client,
    namespace: &str,
    name: &str,
    manager: &str,
    metadata: Value,
) -> ConfigMap {
    let mut object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
        "data": {"key": "theirs", "other": "theirs"},
    });
    object["metadata"]["name"] = json!(name);
    let params = PostParams {
        field_manager: Some(manager.to_owned()),
        ..PostParams::default()
    };
    let object = serde_json::from_value(object).unwrap();
    config_maps(client, namespace)
        .create(&params, &object)
        .await
        .unwrap()
}

async fn live(client: &Client, namespace: &str, name: &str) -> ConfigMap {
    config_maps(client, namespace).get(name).await.unwrap()
}

fn bears_our_marks(object: &ConfigMap) -> bool {
    let annotations = object.metadata.annotations.iter().flatten();
    let labels = object.metadata.labels.iter().flatten();
    let managers = object.metadata.managed_fields.iter().flatten();
    annotations
        .chain(labels)
        .any(|(key, _)| key.contains("vidra") || key == "managed-by")
        || managers
            .into_iter()
            .any(|it| it.manager.as_deref().unwrap_or("").starts_with("vidra/"))
}

fn claims() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        (
            "flux",
            json!({"labels": {"kustomize.toolkit.fluxcd.io/name": "apps"}}),
            "Flux",
        ),
        (
            "argo",
            json!({"annotations": {"argocd.argoproj.io/tracking-id": "a:/ConfigMap:n/argo"}}),
            "Argo CD",
        ),
        (
            "helm",
            json!({"annotations": {"meta.helm.sh/release-name": "shop"}}),
            "Helm",
        ),
        (
            "owned",
            json!({"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet",
            "name": "web", "uid": "00000000-0000-0000-0000-000000000002", "controller": true}]}),
            "ReplicaSet web",
        ),
    ]
}

#[tokio::test]
async fn claimed_objects_stay_byte_identical_however_often_we_try_and_the_claimant_is_named() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("claimed").await.unwrap();
    let mut before = Vec::new();
    let mut manifest = config_map(&namespace, "free", "ours");
    for (name, metadata, _) in claims() {
        before.push(make(client, &namespace, name, "kubectl-create", metadata).await);
        manifest += &config_map(&namespace, name, "ours");
    }
    let name = unique("claimed");
    create(client, &name, &manifest, json!({})).await;
    condition(client, &name, "Ready", "False").await;
    for _ in 0..10 {
        request(client, &name).await;
    }
    let resource = resources(client).get(&name).await.unwrap();
    let (_, message) = said(&resource, "OwnershipConflict");
    for ((object, _, claimant), before) in claims().into_iter().zip(before) {
        assert_eq!(live(client, &namespace, object).await, before, "{object}");
        assert!(
            message.contains(claimant),
            "{claimant} is not in {message:?}"
        );
    }
    assert_eq!(said(&resource, "Ready").0, "ClaimedByOther");
    value_is(client, &namespace, "free", "ours").await;
    delete(client, &name).await;
    is_gone(client, &namespace, "free").await;
    for (object, _, _) in claims() {
        live(client, &namespace, object).await;
    }
}

#[tokio::test]
async fn adoption_never_leaves_an_unclaimed_object_alone() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("never").await.unwrap();
    let before = make(client, &namespace, "one", "kubectl-create", json!({})).await;
    let name = unique("never");
    let manifest = config_map(&namespace, "one", "ours");
    create(client, &name, &manifest, json!({"adoption": "Never"})).await;
    let resource = condition(client, &name, "Ready", "False").await;
    assert!(
        said(&resource, "Ready").1.contains("adoption is Never"),
        "{}",
        show(&resource.status)
    );
    request(client, &name).await;
    assert_eq!(live(client, &namespace, "one").await, before);
    delete(client, &name).await;
    assert_eq!(live(client, &namespace, "one").await, before);
}

#[tokio::test]
async fn an_adopted_object_that_leaves_the_manifest_is_released_with_its_values() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("adopt").await.unwrap();
    let before = make(client, &namespace, "one", "someone", json!({})).await;
    let name = unique("adopt");
    let rest = config_map(&namespace, "two", "2");
    create(
        client,
        &name,
        &(config_map(&namespace, "one", "ours") + &rest),
        json!({}),
    )
    .await;
    let resource = ready(client, &name).await;
    assert_eq!(resource.status.unwrap().counts.unwrap().adopted, 1);
    value_is(client, &namespace, "one", "ours").await;
    change(client, &name, json!({"manifest": rest})).await;
    ready(client, &name).await;
    let left = live(client, &namespace, "one").await;
    assert_eq!(left.metadata.uid, before.metadata.uid);
    assert_eq!(left.data.as_ref().unwrap()["key"], "ours");
    assert_eq!(left.data.as_ref().unwrap()["other"], "theirs");
    assert!(!bears_our_marks(&left), "{}", show(&left));
}

#[tokio::test]
async fn an_adopted_object_outlives_all_owners_also_those_that_joined_later() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("adopt").await.unwrap();
    let before = make(client, &namespace, "one", "someone", json!({})).await;
    let owners = [unique("first"), unique("second")];
    for owner in &owners {
        create(
            client,
            owner,
            &config_map(&namespace, "one", "ours"),
            json!({}),
        )
        .await;
        ready(client, owner).await;
    }
    for owner in &owners {
        delete(client, owner).await;
    }
    let left = live(client, &namespace, "one").await;
    assert_eq!(left.metadata.uid, before.metadata.uid);
    assert_eq!(left.data.as_ref().unwrap()["key"], "ours");
    assert!(!bears_our_marks(&left), "{}", show(&left));
}

#[tokio::test]
async fn adoption_always_takes_a_claimed_object_but_never_deletes_it() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("always").await.unwrap();
    let metadata = json!({"annotations": {"meta.helm.sh/release-name": "shop"}});
    let before = make(client, &namespace, "one", "helm", metadata).await;
    let name = unique("always");
    let spec = json!({"adoption": "Always"});
    create(client, &name, &config_map(&namespace, "one", "ours"), spec).await;
    ready(client, &name).await;
    value_is(client, &namespace, "one", "ours").await;
    delete(client, &name).await;
    let left = live(client, &namespace, "one").await;
    assert_eq!(left.metadata.uid, before.metadata.uid);
    assert!(!bears_our_marks(&left), "{}", show(&left));
}

#[tokio::test]
async fn an_object_that_a_tool_made_before_our_retry_is_not_ours() {
    let world = world().await;
    let client = &world.client;
    let name = unique("announced");
    let namespace = unique("later");
    create(
        client,
        &name,
        &config_map(&namespace, "one", "ours"),
        json!({"suspend": false}),
    )
    .await;
    condition(client, &name, "Ready", "False").await;
    // What we announced and could not make is made by somebody else meanwhile.
    change(client, &name, json!({"suspend": true})).await;
    condition(client, &name, "Ready", "Unknown").await;
    let made = json!({"metadata": {"name": namespace}});
    let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> =
        kube::Api::all(client.clone());
    let made = serde_json::from_value(made).unwrap();
    namespaces
        .create(&PostParams::default(), &made)
        .await
        .unwrap();
    let metadata = json!({"labels": {"kustomize.toolkit.fluxcd.io/name": "apps"}});
    let before = make(client, &namespace, "one", "flux", metadata).await;
    change(client, &name, json!({"suspend": false})).await;
    let resource = condition(client, &name, "Ready", "False").await;
    assert_eq!(said(&resource, "Ready").0, "ClaimedByOther");
    request(client, &name).await;
    assert_eq!(live(client, &namespace, "one").await, before);
    delete(client, &name).await;
    assert_eq!(live(client, &namespace, "one").await, before);
}

/// Makes a resource with two objects, pauses it, and deletes object `one` behind its back.
async fn paused_without_one(client: &Client, namespace: &str) -> (String, ConfigMap) {
    let name = unique("paused");
    let manifest = config_map(namespace, "one", "ours") + &config_map(namespace, "two", "ours");
    create(client, &name, &manifest, json!({})).await;
    ready(client, &name).await;
    change(client, &name, json!({"suspend": true})).await;
    condition(client, &name, "Ready", "Unknown").await;
    let old = live(client, namespace, "one").await;
    let api = config_maps(client, namespace);
    api.delete("one", &DeleteParams::default()).await.unwrap();
    (name, old)
}

#[tokio::test]
async fn an_object_of_ours_that_a_tool_has_made_anew_is_the_tools() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("anew").await.unwrap();
    let (name, _) = paused_without_one(client, &namespace).await;
    let metadata = json!({"annotations": {"meta.helm.sh/release-name": "shop"}});
    let before = make(client, &namespace, "one", "helm", metadata).await;
    change(client, &name, json!({"suspend": false})).await;
    let resource = condition(client, &name, "Ready", "False").await;
    assert!(
        said(&resource, "OwnershipConflict").1.contains("Helm"),
        "{}",
        show(&resource.status)
    );
    assert_eq!(live(client, &namespace, "one").await, before);
    delete(client, &name).await;
    assert_eq!(live(client, &namespace, "one").await, before);
}

#[tokio::test]
async fn an_object_made_anew_with_copies_of_our_marks_is_not_deleted() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("anew").await.unwrap();
    let (name, old) = paused_without_one(client, &namespace).await;
    let metadata = json!({"labels": old.metadata.labels, "annotations": old.metadata.annotations});
    let anew = make(client, &namespace, "one", "kubectl-create", metadata).await;
    let manifest = config_map(&namespace, "two", "ours");
    change(
        client,
        &name,
        json!({"suspend": false, "manifest": manifest}),
    )
    .await;
    ready(client, &name).await;
    let left = live(client, &namespace, "one").await;
    assert_eq!(left.metadata.uid, anew.metadata.uid);
    assert_eq!(left.data, anew.data);
    assert!(!bears_our_marks(&left), "{}", show(&left));
}

#[tokio::test]
async fn a_copy_of_a_managed_object_under_another_name_is_never_taken_for_ours() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("copy").await.unwrap();
    let name = unique("copy");
    create(
        client,
        &name,
        &config_map(&namespace, "one", "ours"),
        json!({}),
    )
    .await;
    ready(client, &name).await;
    let one = live(client, &namespace, "one").await;
    let metadata = json!({"labels": one.metadata.labels, "annotations": one.metadata.annotations});
    let copy = make(client, &namespace, "copy", "kubectl-create", metadata).await;
    request(client, &name).await;
    delete(client, &name).await;
    is_gone(client, &namespace, "one").await;
    assert_eq!(live(client, &namespace, "copy").await, copy);
}

#[tokio::test]
async fn an_object_that_got_a_controller_is_released_not_deleted() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("controlled").await.unwrap();
    let name = unique("controlled");
    create(
        client,
        &name,
        &config_map(&namespace, "one", "ours"),
        json!({}),
    )
    .await;
    ready(client, &name).await;
    let reference = json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "name": "web", "uid": "00000000-0000-0000-0000-000000000002", "controller": true}]}});
    config_maps(client, &namespace)
        .patch(
            "one",
            &kube::api::PatchParams::default(),
            &kube::api::Patch::Merge(&reference),
        )
        .await
        .unwrap();
    delete(client, &name).await;
    let left = live(client, &namespace, "one").await;
    assert_eq!(left.data.as_ref().unwrap()["key"], "ours");
    assert!(!bears_our_marks(&left), "{}", show(&left));
}

#[tokio::test]
async fn fields_of_an_object_once_applied_with_kubectl_go_when_they_leave_the_manifest() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("kubectl").await.unwrap();
    make(
        client,
        &namespace,
        "one",
        "kubectl-client-side-apply",
        json!({}),
    )
    .await;
    let name = unique("kubectl");
    let both = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: one, namespace: {namespace}}}\ndata: {{key: ours, other: theirs}}\n"
    );
    create(client, &name, &both, json!({})).await;
    ready(client, &name).await;
    change(
        client,
        &name,
        json!({"manifest": config_map(&namespace, "one", "ours")}),
    )
    .await;
    ready(client, &name).await;
    let data = live(client, &namespace, "one").await.data.unwrap();
    assert_eq!(data.into_keys().collect::<Vec<_>>(), ["key"]);
}
