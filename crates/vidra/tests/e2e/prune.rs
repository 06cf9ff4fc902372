//! What leaves a manifest: deleted within a budget, held beyond it, never leaked.

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use vidra_api::VidraResource;
use vidra_lab::controlplane::{ControlPlane, unique};

use crate::support::*;

const RELEASE: &str = "vidra.infrahub.operators.com/release-prune";

/// ConfigMaps `c00`, `c01` and so on.
fn many(namespace: &str, numbers: std::ops::Range<usize>) -> String {
    numbers
        .map(|number| config_map(namespace, &format!("c{number:02}"), "1"))
        .collect()
}

/// Makes a resource with objects and waits for it.
async fn deployed(client: &Client, manifest: &str, spec: Value) -> String {
    let name = unique("prune");
    create(client, &name, manifest, spec).await;
    ready(client, &name).await;
    name
}

async fn shrink(client: &Client, name: &str, manifest: &str) -> VidraResource {
    change(client, name, json!({"manifest": manifest})).await;
    ready(client, name).await
}

fn held(resource: &VidraResource) -> Option<(String, i32)> {
    let held = resource.status.as_ref()?.held.as_ref()?;
    Some((held.hash.clone(), held.total))
}

async fn count(client: &Client, namespace: &str) -> usize {
    names(client, namespace).await.len()
}

fn namespaces(client: &Client) -> Api<Namespace> {
    Api::all(client.clone())
}

fn namespace_document(name: &str) -> String {
    format!("---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n")
}

#[tokio::test]
async fn more_than_half_is_held_until_exactly_that_set_is_released() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("share").await.unwrap();
    let name = deployed(client, &many(&namespace, 0..10), json!({})).await;
    let resource = shrink(client, &name, &many(&namespace, 0..4)).await;
    let (hash, total) = held(&resource).expect("held");
    let (_, message) = said(&resource, "PruneHeld");
    assert_eq!(total, 6);
    assert!(message.contains(&hash), "{message}");
    let status = resource.status.as_ref().unwrap();
    assert_eq!(status.held.as_ref().unwrap().objects.len(), 6);
    assert_eq!(status.managed_resources.len(), 10, "held is not forgotten");

    annotate(client, &name, RELEASE, "000000000000").await;
    request(client, &name).await;
    assert_eq!(
        count(client, &namespace).await,
        10,
        "a wrong hash releases nothing"
    );

    let resource = shrink(client, &name, &many(&namespace, 0..3)).await;
    let (other, total) = held(&resource).expect("held");
    assert_eq!(total, 7);
    assert_ne!(other, hash, "another set has another hash");
    annotate(client, &name, RELEASE, &hash).await;
    request(client, &name).await;
    assert_eq!(
        count(client, &namespace).await,
        10,
        "the old hash releases nothing"
    );

    annotate(client, &name, RELEASE, &other).await;
    eventually("the released set is deleted", || async {
        (count(client, &namespace).await == 3).then_some(())
    })
    .await;
    let resource = request(client, &name).await;
    assert_eq!(held(&resource), None);
    assert_eq!(said(&resource, "PruneHeld").0, "");
}

#[tokio::test]
async fn half_of_the_objects_and_any_of_up_to_four_go_unasked() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("half").await.unwrap();
    let name = deployed(client, &many(&namespace, 0..8), json!({})).await;
    let resource = shrink(client, &name, &many(&namespace, 0..4)).await;
    assert_eq!(held(&resource), None);
    assert_eq!(count(client, &namespace).await, 4);
    let resource = shrink(client, &name, &many(&namespace, 0..1)).await;
    assert_eq!(held(&resource), None);
    assert_eq!(count(client, &namespace).await, 1);
}

#[tokio::test]
async fn at_most_twenty_five_go_unasked() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("count").await.unwrap();
    let name = deployed(client, &many(&namespace, 0..60), json!({})).await;
    let resource = shrink(client, &name, &many(&namespace, 0..34)).await;
    assert_eq!(held(&resource).map(|(_, total)| total), Some(26));
    assert_eq!(count(client, &namespace).await, 60);
    let resource = shrink(client, &name, &many(&namespace, 0..35)).await;
    assert_eq!(held(&resource), None);
    assert_eq!(count(client, &namespace).await, 35);
}

#[tokio::test]
async fn a_resource_may_have_a_budget_of_its_own() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("budget").await.unwrap();
    let strict = json!({"prune": {"maxCount": 0}});
    let name = deployed(client, &many(&namespace, 0..3), strict).await;
    let resource = shrink(client, &name, &many(&namespace, 0..2)).await;
    assert_eq!(held(&resource).map(|(_, total)| total), Some(1));
    let lax =
        json!({"prune": {"maxCount": 100, "maxPercent": 100}, "manifest": many(&namespace, 0..1)});
    change(client, &name, lax).await;
    let resource = ready(client, &name).await;
    assert_eq!(held(&resource), None);
    assert_eq!(count(client, &namespace).await, 1);
}

#[tokio::test]
async fn nothing_is_pruned_where_pruning_is_off() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("off").await.unwrap();
    let off = json!({"prune": {"enabled": false}});
    let name = deployed(client, &many(&namespace, 0..3), off).await;
    shrink(client, &name, &many(&namespace, 0..2)).await;
    request(client, &name).await;
    assert_eq!(count(client, &namespace).await, 3);
    change(client, &name, json!({"prune": {"enabled": true}})).await;
    is_gone(client, &namespace, "c02").await;
}

#[tokio::test]
async fn an_object_whose_annotation_says_so_is_never_pruned() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("kept").await.unwrap();
    let kept = format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kept\n  namespace: {namespace}\n  annotations: {{vidra.infrahub.operators.com/prune: disabled}}\ndata: {{key: \"1\"}}\n"
    );
    let name = deployed(client, &(many(&namespace, 0..2) + &kept), json!({})).await;
    shrink(client, &name, &many(&namespace, 0..1)).await;
    assert_eq!(names(client, &namespace).await, ["c00", "kept"]);
    delete(client, &name).await;
    assert_eq!(names(client, &namespace).await, ["kept"]);
    let name = deployed(client, &kept, json!({})).await;
    delete(client, &name).await;
    assert_eq!(names(client, &namespace).await, ["kept"]);
}

#[tokio::test]
async fn protected_kinds_are_held_and_go_only_when_allowed_or_released() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("protected").await.unwrap();
    let claim = format!(
        "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: data, namespace: {namespace}}}\nspec:\n  accessModes: [ReadWriteOnce]\n  resources: {{requests: {{storage: 1Gi}}}}\n"
    );
    let extra = unique("extra");
    let all = many(&namespace, 0..3) + &claim + &namespace_document(&extra);
    let name = deployed(client, &all, json!({})).await;
    let resource = shrink(client, &name, &many(&namespace, 0..2)).await;
    is_gone(client, &namespace, "c02").await;
    assert_eq!(held(&resource).map(|(_, total)| total), Some(2));
    let claims = dynamic(
        client,
        ("", "v1", "PersistentVolumeClaim"),
        Some(&namespace),
    );
    assert!(fetch(&claims, "data").await.is_some());
    change(
        client,
        &name,
        json!({"prune": {"allowKinds": ["PersistentVolumeClaim"]}}),
    )
    .await;
    eventually("the claim is deleted", || async {
        match fetch(&claims, "data").await {
            None => Some(()),
            // Its finalizer waits for a controller that does not run here.
            Some(left) => left["metadata"].get("deletionTimestamp").map(|_| ()),
        }
    })
    .await;
    let resource = resources(client).get(&name).await.unwrap();
    assert!(
        namespaces(client)
            .get(&extra)
            .await
            .unwrap()
            .metadata
            .deletion_timestamp
            .is_none()
    );
    let release = held(&resource).map_or(String::new(), |(hash, _)| hash);
    annotate(client, &name, RELEASE, &release).await;
    let stripped = json!({"metadata": {"finalizers": null}});
    let _ = claims
        .patch("data", &PatchParams::default(), &Patch::Merge(&stripped))
        .await;
    let resource = request(client, &name).await;
    let release = held(&resource).map_or(release, |(hash, _)| hash);
    annotate(client, &name, RELEASE, &release).await;
    eventually("the namespace is deleted", || async {
        let found = namespaces(client).get_opt(&extra).await.unwrap();
        found
            .is_none_or(|it| it.metadata.deletion_timestamp.is_some())
            .then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_namespace_that_desired_objects_still_live_in_is_spared() {
    let world = world().await;
    let client = &world.client;
    let namespace = unique("lived-in");
    let objects = many(&namespace, 0..2);
    let allowed = json!({"prune": {"allowKinds": ["Namespace"]}});
    let name = deployed(
        client,
        &(namespace_document(&namespace) + &objects),
        allowed,
    )
    .await;
    shrink(client, &name, &objects).await;
    request(client, &name).await;
    assert!(
        namespaces(client)
            .get(&namespace)
            .await
            .unwrap()
            .metadata
            .deletion_timestamp
            .is_none()
    );
    assert_eq!(count(client, &namespace).await, 2);
}

#[tokio::test]
async fn the_namespace_of_a_deleted_resource_stays_while_another_has_objects_in_it() {
    let world = world().await;
    let client = &world.client;
    let namespace = unique("tenants");
    let house = deployed(
        client,
        &(namespace_document(&namespace) + &many(&namespace, 0..1)),
        json!({}),
    )
    .await;
    let tenant = deployed(client, &config_map(&namespace, "tenant", "1"), json!({})).await;
    delete(client, &house).await;
    is_gone(client, &namespace, "c00").await;
    assert!(
        namespaces(client)
            .get(&namespace)
            .await
            .unwrap()
            .metadata
            .deletion_timestamp
            .is_none()
    );
    value_is(client, &namespace, "tenant", "1").await;
    delete(client, &tenant).await;
    assert_eq!(count(client, &namespace).await, 0);
}

#[tokio::test]
async fn deleting_a_resource_deletes_protected_kinds_too() {
    let world = world().await;
    let client = &world.client;
    let namespace = unique("explicit");
    let name = deployed(
        client,
        &(namespace_document(&namespace) + &many(&namespace, 0..8)),
        json!({}),
    )
    .await;
    delete(client, &name).await;
    let left = namespaces(client).get_opt(&namespace).await.unwrap();
    assert!(left.is_none_or(|it| it.metadata.deletion_timestamp.is_some()));
    assert_eq!(count(client, &namespace).await, 0);
}

/// A definition of kind `Gadget` in a group of its own, served in two versions.
async fn gadgets(client: &Client) -> String {
    let group = format!("{}.example.com", unique("g"));
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = |name: &str, stored: bool| json!({"name": name, "served": true, "storage": stored, "schema": schema});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gadgets.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"kind": "Gadget", "plural": "gadgets"},
            "versions": [version("v1", true), version("v1beta1", false)]},
    });
    let api = definitions(client);
    let definition = serde_json::from_value(definition).unwrap();
    api.create(&PostParams::default(), &definition)
        .await
        .unwrap();
    let name = format!("gadgets.{group}");
    eventually("the definition is served", || async {
        let found = fetch(&api, &name).await?;
        let conditions = found["status"]["conditions"].as_array()?.clone();
        let is_established = |it: &Value| it["type"] == "Established" && it["status"] == "True";
        conditions.iter().any(is_established).then_some(())
    })
    .await;
    group
}

fn definitions(client: &Client) -> Api<kube::api::DynamicObject> {
    dynamic(
        client,
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        None,
    )
}

fn gadget(group: &str, version: &str, namespace: &str) -> String {
    format!(
        "---\napiVersion: {group}/{version}\nkind: Gadget\nmetadata: {{name: one, namespace: {namespace}}}\nspec: {{size: 1}}\n"
    )
}

#[tokio::test]
async fn a_move_to_another_version_of_the_kind_is_an_update() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("version").await.unwrap();
    let group = gadgets(client).await;
    let name = deployed(client, &gadget(&group, "v1beta1", &namespace), json!({})).await;
    let api = dynamic(client, (&group, "v1", "Gadget"), Some(&namespace));
    let before = fetch(&api, "one").await.unwrap();
    let mark = world.plane.audit().mark().unwrap();
    let resource = shrink(client, &name, &gadget(&group, "v1", &namespace)).await;
    let after = fetch(&api, "one").await.unwrap();
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    let writes = writes_in(world.plane, mark, &namespace).await;
    assert!(
        writes.iter().all(|entry| entry.verb == "patch"),
        "{}",
        show(&writes)
    );
    let status = resource.status.unwrap();
    assert_eq!(status.managed_resources.len(), 1);
    assert_eq!(
        status.managed_resources[0].api_version,
        format!("{group}/v1")
    );
    delete(client, &name).await;
    assert!(fetch(&api, "one").await.is_none());
}

/// Takes a definition and a namespace away behind a resource and deletes it; answers what is left.
async fn left_after_the_ground_has_gone(policy: &str) -> Vec<String> {
    let world = world().await;
    let client = &world.client;
    let here = world.plane.namespace("ends").await.unwrap();
    let there = world.plane.namespace("ends").await.unwrap();
    let group = gadgets(client).await;
    let manifest = gadget(&group, "v1", &here) + &many(&here, 0..1) + &many(&there, 0..2);
    let name = deployed(client, &manifest, json!({"deletionPolicy": policy})).await;
    change(client, &name, json!({"suspend": true})).await;
    condition(client, &name, "Ready", "Unknown").await;
    let parameters = DeleteParams::default();
    definitions(client)
        .delete(&format!("gadgets.{group}"), &parameters)
        .await
        .unwrap();
    namespaces(client)
        .delete(&there, &parameters)
        .await
        .unwrap();
    delete(client, &name).await;
    names(client, &here).await
}

#[tokio::test]
async fn a_resource_can_be_deleted_after_a_definition_and_a_namespace_have_gone() {
    let left = left_after_the_ground_has_gone("Delete").await;
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_resource_can_be_orphaned_after_a_definition_and_a_namespace_have_gone() {
    assert_eq!(left_after_the_ground_has_gone("Orphan").await, ["c00"]);
}

#[tokio::test]
async fn objects_whose_deletion_is_refused_stay_in_the_inventory_until_it_succeeds() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("survivors").await.unwrap();
    let lax = json!({"prune": {"maxPercent": 100}});
    let name = deployed(client, &many(&namespace, 0..7), lax).await;
    let policy = forbid_deletion(client, &namespace, &["c01", "c02", "c03"]).await;
    change(client, &name, json!({"manifest": many(&namespace, 0..1)})).await;
    let resource = condition(client, &name, "Ready", "False").await;
    assert!(
        said(&resource, "Ready").1.contains("not today"),
        "{}",
        show(&resource.status)
    );
    for _ in 0..3 {
        let resource = request(client, &name).await;
        assert_eq!(resource.status.unwrap().managed_resources.len(), 4);
    }
    assert_eq!(
        names(client, &namespace).await,
        ["c00", "c01", "c02", "c03"]
    );
    allow_deletion(client, &policy).await;
    eventually("all are gone", || async {
        request(client, &name).await;
        (names(client, &namespace).await == ["c00"]).then_some(())
    })
    .await;
    let status = ready(client, &name).await.status.unwrap();
    assert_eq!(status.managed_resources.len(), 1);
}

const POLICY: (&str, &str, &str) = (
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicy",
);
const BINDING: (&str, &str, &str) = (
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicyBinding",
);

/// Makes the API server refuse to delete these objects, and waits until it does.
async fn forbid_deletion(client: &Client, namespace: &str, objects: &[&str]) -> String {
    let name = unique("keep");
    let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name}, "spec": {"failurePolicy": "Fail",
            "matchConstraints": {"namespaceSelector": selector, "resourceRules": [{"apiGroups": [""],
                "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["configmaps"]}]},
            "validations": [{"expression": format!("!(oldObject.metadata.name in {})", json!(objects)),
                "message": "not today"}]},
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]},
    });
    for (kind, object) in [(POLICY, policy), (BINDING, binding)] {
        let object = serde_json::from_value(object).unwrap();
        dynamic(client, kind, None)
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
    }
    let dry = DeleteParams {
        dry_run: true,
        ..DeleteParams::default()
    };
    let api = config_maps(client, namespace);
    eventually("the policy is enforced", || async {
        api.delete(objects[0], &dry).await.is_err().then_some(())
    })
    .await;
    name
}

async fn allow_deletion(client: &Client, policy: &str) {
    for kind in [BINDING, POLICY] {
        dynamic(client, kind, None)
            .delete(policy, &DeleteParams::default())
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn an_object_that_a_finalizer_holds_stays_in_the_inventory_until_it_is_gone() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("finalizer").await.unwrap();
    let name = deployed(client, &many(&namespace, 0..2), json!({})).await;
    let api = config_maps(client, &namespace);
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    let params = PatchParams::default();
    api.patch("c01", &params, &Patch::Merge(&hold))
        .await
        .unwrap();
    change(client, &name, json!({"manifest": many(&namespace, 0..1)})).await;
    let resource = condition(client, &name, "Ready", "False").await;
    assert_eq!(said(&resource, "Ready").0, "Terminating");
    assert_eq!(resource.status.unwrap().managed_resources.len(), 2);
    let free = json!({"metadata": {"finalizers": null}});
    api.patch("c01", &params, &Patch::Merge(&free))
        .await
        .unwrap();
    let status = ready(client, &name).await.status.unwrap();
    assert_eq!(status.managed_resources.len(), 1);
    is_gone(client, &namespace, "c01").await;
}

#[tokio::test]
async fn objects_of_a_first_apply_that_failed_in_part_are_not_leaked() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("partial").await.unwrap();
    let broken = format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: broken, namespace: {namespace}}}\nspec: {{ports: [{{port: 0}}]}}\n"
    );
    let name = unique("partial");
    create(
        client,
        &name,
        &(many(&namespace, 0..19) + &broken),
        json!({}),
    )
    .await;
    condition(client, &name, "Ready", "False").await;
    assert_eq!(
        count(client, &namespace).await,
        19,
        "one bad object does not stop the others"
    );
    shrink(client, &name, &many(&namespace, 5..19)).await;
    assert_eq!(count(client, &namespace).await, 14);
    assert_eq!(names(client, &namespace).await[0], "c05");
}

#[tokio::test]
async fn nothing_is_pruned_while_an_object_cannot_be_applied() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("failing").await.unwrap();
    let name = deployed(client, &many(&namespace, 0..3), json!({})).await;
    let broken = format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: broken, namespace: {namespace}}}\nspec: {{ports: [{{port: 0}}]}}\n"
    );
    let manifest = many(&namespace, 0..2) + &broken;
    change(client, &name, json!({"manifest": manifest})).await;
    condition(client, &name, "Ready", "False").await;
    request(client, &name).await;
    assert_eq!(count(client, &namespace).await, 3);
    shrink(client, &name, &many(&namespace, 0..2)).await;
    assert_eq!(count(client, &namespace).await, 2);
}

#[tokio::test]
async fn orphaning_one_owner_leaves_the_object_to_the_other() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("orphan").await.unwrap();
    let shared = config_map(&namespace, "shared", "1");
    let orphaning = deployed(
        client,
        &(shared.clone() + &many(&namespace, 0..1)),
        json!({"deletionPolicy": "Orphan"}),
    )
    .await;
    let deleting = deployed(client, &shared, json!({})).await;
    delete(client, &orphaning).await;
    assert_eq!(names(client, &namespace).await, ["c00", "shared"]);
    delete(client, &deleting).await;
    assert_eq!(names(client, &namespace).await, ["c00"]);
}

#[tokio::test]
async fn the_finalizer_and_the_inventory_are_written_before_the_first_object() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("first").await.unwrap();
    let mark = world.plane.audit().mark().unwrap();
    let name = deployed(client, &many(&namespace, 0..2), json!({})).await;
    world.plane.audit_fence().await.unwrap();
    let writes = world.plane.audit().mutations(mark, "vidra/").unwrap();
    let is_ours = |entry: &&vidra_lab::controlplane::Entry| {
        entry.resource != "events" && (entry.name == name || entry.namespace == namespace)
    };
    let order: Vec<String> = writes
        .iter()
        .filter(is_ours)
        .map(|entry| format!("{} {}", entry.resource, entry.subresource))
        .collect();
    assert_eq!(
        order[..3],
        ["vidraresources ", "vidraresources status", "configmaps "],
        "{order:?}"
    );
}

#[tokio::test]
async fn deletes_come_in_reverse_order_with_preconditions_and_propagation() {
    let policy = std::env::temp_dir().join(unique("audit-policy"));
    let rules = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n- level: Request\n  verbs: [delete]\n- level: Metadata\n";
    std::fs::write(&policy, rules).unwrap();
    let plane = ControlPlane::builder()
        .apiserver_argument(format!("--audit-policy-file={}", policy.display()))
        .start()
        .await
        .unwrap();
    let client = plane.client().unwrap();
    install_definitions(&client).await;
    let operator = Operator::start(plane.config(), quick_settings());
    let namespace = unique("order");
    let webhook = "---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: last}\nwebhooks: []\n";
    let manifest = webhook.to_owned() + &many(&namespace, 0..2) + &namespace_document(&namespace);
    let name = deployed(&client, &manifest, json!({})).await;
    let mark = plane.audit().mark().unwrap();
    delete(&client, &name).await;
    plane.audit_fence().await.unwrap();
    let deletes: Vec<_> = plane.audit().mutations(mark, "vidra/").unwrap();
    let order: Vec<&str> = deletes
        .iter()
        .filter(|entry| entry.verb == "delete")
        .map(|entry| entry.resource.as_str())
        .collect();
    assert_eq!(
        order,
        [
            "validatingwebhookconfigurations",
            "configmaps",
            "configmaps",
            "namespaces"
        ]
    );
    let log = std::fs::read_to_string(plane.audit().path()).unwrap();
    let bodies: Vec<Value> = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|event| event["verb"] == "delete")
        .filter(|event| {
            event["userAgent"]
                .as_str()
                .is_some_and(|agent| agent.starts_with("vidra/"))
        })
        .map(|event| event["requestObject"].clone())
        .collect();
    assert_eq!(bodies.len(), 4);
    for body in bodies {
        assert_eq!(body["propagationPolicy"], "Background", "{body}");
        assert!(body["preconditions"]["uid"].is_string(), "{body}");
        assert!(
            body["preconditions"]["resourceVersion"].is_string(),
            "{body}"
        );
    }
    operator.stop();
    std::fs::remove_file(policy).unwrap();
}
