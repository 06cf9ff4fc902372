//! Fields that others hold, and fields that cannot change.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Event},
};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use vidra_lab::controlplane::unique;

use crate::support::*;

/// A ConfigMap with annotations of ours, as a manifest document.
fn annotated(namespace: &str, name: &str, annotation: (&str, &str), data: &Value) -> String {
    let key = format!("vidra.infrahub.operators.com/{}", annotation.0);
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "annotations": {key: annotation.1}},
        "data": data,
    });
    format!("---\n{object}\n")
}

/// Applies data under another manager's name.
async fn apply_as(
    client: &Client,
    manager: &str,
    namespace: &str,
    name: &str,
    data: &Value,
) -> ConfigMap {
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
    let params = PatchParams::apply(manager).force();
    config_maps(client, namespace)
        .patch(name, &params, &Patch::Apply(&object))
        .await
        .unwrap()
}

async fn value(client: &Client, namespace: &str, name: &str, key: &str) -> Option<String> {
    let found = config_maps(client, namespace).get(name).await.unwrap();
    found.data.unwrap_or_default().get(key).cloned()
}

/// Waits for an Event about a resource.
async fn event(client: &Client, name: &str, reason: &str) -> String {
    let api: Api<Event> = Api::all(client.clone());
    let about = ListParams::default().fields(&format!("involvedObject.name={name}"));
    eventually(&format!("an Event {reason} about {name}"), || async {
        let events = api.list(&about).await.unwrap();
        let found = events
            .items
            .into_iter()
            .find(|it| it.reason.as_deref() == Some(reason));
        found.and_then(|it| it.message)
    })
    .await
}

#[tokio::test]
async fn report_leaves_the_object_and_names_the_manager_and_force_takes_the_field() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("conflict").await.unwrap();
    let before = apply_as(
        client,
        "platform-team",
        &namespace,
        "one",
        &json!({"key": "theirs"}),
    )
    .await;
    let name = unique("report");
    let manifest = config_map(&namespace, "one", "ours");
    create(
        client,
        &name,
        &manifest,
        json!({"fieldConflicts": "Report"}),
    )
    .await;
    let resource = condition(client, &name, "Ready", "False").await;
    let (reason, message) = said(&resource, "Ready");
    assert_eq!(reason, "FieldConflict");
    assert!(
        message.contains("platform-team") && message.contains("data.key"),
        "{message}"
    );
    request(client, &name).await;
    assert_eq!(
        config_maps(client, &namespace).get("one").await.unwrap(),
        before
    );

    change(client, &name, json!({"fieldConflicts": "Force"})).await;
    ready(client, &name).await;
    assert_eq!(
        value(client, &namespace, "one", "key").await.as_deref(),
        Some("ours")
    );
    let told = event(client, &name, "FieldsTaken").await;
    assert!(
        told.contains("platform-team") && told.contains("data.key"),
        "{told}"
    );
}

#[tokio::test]
async fn report_does_not_take_over_what_kubectl_applied() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("conflict").await.unwrap();
    let theirs = json!({"metadata": {"name": "one"}, "data": {"key": "theirs"}});
    let params = kube::api::PostParams {
        field_manager: Some("kubectl-client-side-apply".to_owned()),
        ..kube::api::PostParams::default()
    };
    let theirs = serde_json::from_value(theirs).unwrap();
    let before = config_maps(client, &namespace)
        .create(&params, &theirs)
        .await
        .unwrap();
    let name = unique("report");
    let manifest = config_map(&namespace, "one", "ours");
    create(
        client,
        &name,
        &manifest,
        json!({"fieldConflicts": "Report"}),
    )
    .await;
    let resource = condition(client, &name, "Ready", "False").await;
    assert!(
        said(&resource, "Ready")
            .1
            .contains("kubectl-client-side-apply"),
        "{}",
        show(&resource.status)
    );
    assert_eq!(
        config_maps(client, &namespace).get("one").await.unwrap(),
        before
    );
}

#[tokio::test]
async fn report_does_not_put_back_what_somebody_edits_but_says_who() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("conflict").await.unwrap();
    let name = unique("report");
    let manifest = config_map(&namespace, "one", "ours");
    create(
        client,
        &name,
        &manifest,
        json!({"fieldConflicts": "Report"}),
    )
    .await;
    ready(client, &name).await;
    apply_as(
        client,
        "platform-team",
        &namespace,
        "one",
        &json!({"key": "theirs"}),
    )
    .await;
    let resource = condition(client, &name, "Ready", "False").await;
    assert!(
        said(&resource, "Ready").1.contains("platform-team"),
        "{}",
        show(&resource.status)
    );
    assert_eq!(
        value(client, &namespace, "one", "key").await.as_deref(),
        Some("theirs")
    );
}

#[tokio::test]
async fn merge_leaves_conflicting_fields_to_their_holders_and_applies_the_rest() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("merge").await.unwrap();
    apply_as(
        client,
        "platform-team",
        &namespace,
        "one",
        &json!({"app.conf": "theirs"}),
    )
    .await;
    let name = unique("merge");
    let data = json!({"app.conf": "ours", "rest": "ours"});
    let manifest = annotated(&namespace, "one", ("ssa", "Merge"), &data);
    create(client, &name, &manifest, json!({})).await;
    ready(client, &name).await;
    assert_eq!(
        value(client, &namespace, "one", "app.conf")
            .await
            .as_deref(),
        Some("theirs")
    );
    assert_eq!(
        value(client, &namespace, "one", "rest").await.as_deref(),
        Some("ours")
    );
    let mark = world.plane.audit().mark().unwrap();
    apply_as(
        client,
        "platform-team",
        &namespace,
        "one",
        &json!({"app.conf": "newer"}),
    )
    .await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let writes = writes_in(world.plane, mark, &namespace).await;
    assert!(writes.is_empty(), "{}", show(&writes));
}

#[tokio::test]
async fn if_not_present_makes_the_object_and_never_changes_it() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("present").await.unwrap();
    let labels = json!({"metadata": {"name": "there", "labels": {"kustomize.toolkit.fluxcd.io/name": "apps"}},
        "data": {"key": "theirs"}});
    let there = serde_json::from_value(labels).unwrap();
    let there = config_maps(client, &namespace)
        .create(&kube::api::PostParams::default(), &there)
        .await
        .unwrap();
    let name = unique("present");
    let mode = ("ssa", "IfNotPresent");
    let manifest = annotated(&namespace, "absent", mode, &json!({"key": "ours"}))
        + &annotated(&namespace, "there", mode, &json!({"key": "ours"}));
    create(client, &name, &manifest, json!({})).await;
    ready(client, &name).await;
    assert_eq!(
        value(client, &namespace, "absent", "key").await.as_deref(),
        Some("ours")
    );
    apply_as(
        client,
        "platform-team",
        &namespace,
        "absent",
        &json!({"key": "edited"}),
    )
    .await;
    request(client, &name).await;
    assert_eq!(
        value(client, &namespace, "absent", "key").await.as_deref(),
        Some("edited")
    );
    assert_eq!(
        config_maps(client, &namespace).get("there").await.unwrap(),
        there
    );
    delete(client, &name).await;
    assert_eq!(
        config_maps(client, &namespace).get("there").await.unwrap(),
        there
    );
    is_gone(client, &namespace, "absent").await;
}

#[tokio::test]
async fn ignored_objects_are_neither_made_nor_changed() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("ignore").await.unwrap();
    let name = unique("ignore");
    let manifest = annotated(
        &namespace,
        "one",
        ("ssa", "Ignore"),
        &json!({"key": "ours"}),
    ) + &config_map(&namespace, "two", "2");
    create(client, &name, &manifest, json!({})).await;
    ready(client, &name).await;
    assert_eq!(names(client, &namespace).await, ["two"]);
    let theirs = apply_as(
        client,
        "platform-team",
        &namespace,
        "one",
        &json!({"key": "theirs"}),
    )
    .await;
    request(client, &name).await;
    delete(client, &name).await;
    assert_eq!(
        config_maps(client, &namespace).get("one").await.unwrap(),
        theirs
    );
}

#[tokio::test]
async fn ignored_fields_are_left_to_whoever_sets_them() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("ignore").await.unwrap();
    let name = unique("fields");
    let data = json!({"free": "ours", "key": "ours"});
    let manifest = annotated(&namespace, "one", ("ignore", "/data/free"), &data);
    create(client, &name, &manifest, json!({})).await;
    ready(client, &name).await;
    assert_eq!(value(client, &namespace, "one", "free").await, None);
    let edit = json!({"data": {"free": "theirs", "key": "theirs"}});
    config_maps(client, &namespace)
        .patch("one", &PatchParams::default(), &Patch::Merge(&edit))
        .await
        .unwrap();
    value_is(client, &namespace, "one", "ours").await;
    request(client, &name).await;
    assert_eq!(
        value(client, &namespace, "one", "free").await.as_deref(),
        Some("theirs")
    );
}

fn deployment(namespace: &str, replicas: u32, image: &str) -> String {
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": namespace},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": image}]},
        }},
    });
    format!("---\n{object}\n")
}

async fn scale(client: &Client, namespace: &str, manager: &str, replicas: u32) {
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let params = PatchParams {
        field_manager: Some(manager.to_owned()),
        ..PatchParams::default()
    };
    let wish = json!({"spec": {"replicas": replicas}});
    api.patch_scale("web", &params, &Patch::Merge(&wish))
        .await
        .unwrap();
}

async fn replicas(client: &Client, namespace: &str) -> Option<i32> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    api.get("web").await.unwrap().spec.unwrap().replicas
}

#[tokio::test]
async fn the_autoscalers_replicas_are_yielded_also_when_the_manifest_changes() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("autoscaler").await.unwrap();
    let name = unique("autoscaler");
    create(
        client,
        &name,
        &deployment(&namespace, 2, "web:1"),
        json!({}),
    )
    .await;
    ready(client, &name).await;
    scale(client, &namespace, "kube-controller-manager", 5).await;
    let told = event(client, &name, "Healed").await;
    assert!(told.contains("left to the autoscaler"), "{told}");
    assert_eq!(replicas(client, &namespace).await, Some(5));

    change(
        client,
        &name,
        json!({"manifest": deployment(&namespace, 3, "web:2")}),
    )
    .await;
    ready(client, &name).await;
    assert_eq!(replicas(client, &namespace).await, Some(5));
    request(client, &name).await;
    assert_eq!(replicas(client, &namespace).await, Some(5));

    let mark = world.plane.audit().mark().unwrap();
    scale(client, &namespace, "kube-controller-manager", 7).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let writes = writes_in(world.plane, mark, &namespace).await;
    assert!(writes.is_empty(), "{}", show(&writes));
    assert_eq!(replicas(client, &namespace).await, Some(7));
}

#[tokio::test]
async fn replicas_scaled_by_a_person_are_put_back() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("scale").await.unwrap();
    let name = unique("scale");
    create(
        client,
        &name,
        &deployment(&namespace, 2, "web:1"),
        json!({}),
    )
    .await;
    ready(client, &name).await;
    scale(client, &namespace, "kubectl", 5).await;
    eventually("the replicas are put back", || async {
        (replicas(client, &namespace).await == Some(2)).then_some(())
    })
    .await;
    let told = event(client, &name, "Healed").await;
    assert!(
        told.contains("spec.replicas") && told.contains("kubectl"),
        "{told}"
    );
}

/// A ConfigMap whose content can never change again.
fn frozen(namespace: &str, value: &str, annotation: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: frozen\n  namespace: {namespace}\n  annotations: {{{annotation}}}\nimmutable: true\ndata: {{key: \"{value}\"}}\n"
    )
}

#[tokio::test]
async fn an_immutable_field_is_reported_and_the_object_stays() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("immutable").await.unwrap();
    let name = unique("immutable");
    create(client, &name, &frozen(&namespace, "1", ""), json!({})).await;
    ready(client, &name).await;
    let before = config_maps(client, &namespace).get("frozen").await.unwrap();
    change(
        client,
        &name,
        json!({"manifest": frozen(&namespace, "2", "")}),
    )
    .await;
    let resource = condition(client, &name, "Ready", "False").await;
    let (reason, message) = said(&resource, "Ready");
    assert_eq!(reason, "ImmutableField");
    assert!(message.contains("recreate"), "{message}");
    assert_eq!(
        config_maps(client, &namespace).get("frozen").await.unwrap(),
        before
    );
}

#[tokio::test]
async fn an_object_is_made_anew_where_its_annotation_or_the_policy_says_so() {
    let world = world().await;
    let client = &world.client;
    let annotation = "vidra.infrahub.operators.com/recreate: enabled";
    for (annotation, spec) in [
        (annotation, json!({})),
        ("", json!({"immutableFields": "Recreate"})),
    ] {
        let namespace = world.plane.namespace("recreate").await.unwrap();
        let name = unique("recreate");
        create(client, &name, &frozen(&namespace, "1", annotation), spec).await;
        ready(client, &name).await;
        let before = config_maps(client, &namespace).get("frozen").await.unwrap();
        change(
            client,
            &name,
            json!({"manifest": frozen(&namespace, "2", annotation)}),
        )
        .await;
        ready(client, &name).await;
        value_is(client, &namespace, "frozen", "2").await;
        let after = config_maps(client, &namespace).get("frozen").await.unwrap();
        assert_ne!(after.metadata.uid, before.metadata.uid);
        delete(client, &name).await;
        is_gone(client, &namespace, "frozen").await;
    }
}

#[tokio::test]
async fn a_refusal_that_is_not_about_an_immutable_field_recreates_nothing() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("recreate").await.unwrap();
    let name = unique("recreate");
    let spec = json!({"immutableFields": "Recreate"});
    create(client, &name, &deployment(&namespace, 1, "web:1"), spec).await;
    ready(client, &name).await;
    let api = dynamic(client, ("apps", "v1", "Deployment"), Some(&namespace));
    let before = fetch(&api, "web").await.unwrap();
    let bad = deployment(&namespace, 1, "web:1").replace("\"replicas\":1", "\"replicas\":-1");
    change(client, &name, json!({"manifest": bad})).await;
    let resource = condition(client, &name, "Ready", "False").await;
    assert_eq!(said(&resource, "Ready").0, "Rejected");
    assert_eq!(
        fetch(&api, "web").await.unwrap()["metadata"]["uid"],
        before["metadata"]["uid"]
    );
}

#[tokio::test]
async fn a_volume_claim_is_never_made_anew() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("claim").await.unwrap();
    let name = unique("claim");
    let claim = |mode: &str| {
        format!(
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: data\n  namespace: {namespace}\n  annotations: {{vidra.infrahub.operators.com/recreate: enabled}}\nspec:\n  accessModes: [{mode}]\n  resources: {{requests: {{storage: 1Gi}}}}\n"
        )
    };
    let spec = json!({"immutableFields": "Recreate"});
    create(client, &name, &claim("ReadWriteOnce"), spec).await;
    ready(client, &name).await;
    let api = dynamic(
        client,
        ("", "v1", "PersistentVolumeClaim"),
        Some(&namespace),
    );
    let before = fetch(&api, "data").await.unwrap();
    change(client, &name, json!({"manifest": claim("ReadWriteMany")})).await;
    let resource = condition(client, &name, "Ready", "False").await;
    assert!(!said(&resource, "Ready").1.is_empty());
    let after = fetch(&api, "data").await.unwrap();
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert!(after["metadata"].get("deletionTimestamp").is_none());
}
