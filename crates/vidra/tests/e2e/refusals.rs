//! Objects that the API server refuses: the others are applied, the cause is named, nothing is
//! hammered, and what was refused is applied once the cause is gone.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Client,
    api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use vidra_api::VidraResource;
use vidra_lab::controlplane::unique;

use crate::support::*;

/// Reason and message of the failure that names an object.
fn failure(resource: &VidraResource, object: &str) -> (String, String) {
    let status = resource.status.as_ref().unwrap();
    let found = status.failures.iter().find(|it| it.object.contains(object));
    let found = found.unwrap_or_else(|| panic!("no failure of {object} in {status:#?}"));
    (found.reason.clone(), found.message.clone())
}

async fn put(api: &Api<DynamicObject>, object: Value) {
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    let params = PatchParams::apply("somebody").force();
    api.patch(&name, &params, &Patch::Apply(&object))
        .await
        .unwrap();
}

/// Waits until the API server refuses (or no longer refuses) an object, which it learns about
/// from its own watches.
async fn until_refused(api: &Api<DynamicObject>, object: &Value, is_refused: bool) {
    let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    eventually("the API server has learnt its rule", || async {
        (api.create(&params, &object).await.is_err() == is_refused).then_some(())
    })
    .await;
}

#[tokio::test]
async fn one_bad_object_does_not_stop_the_others_and_is_not_tried_again() {
    let world = world().await;
    let namespace = world.plane.namespace("refusals").await.unwrap();
    let name = unique("unknown-field");
    let misspelt = format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: bad, namespace: {namespace}}}\ndatta: {{key: x}}\n"
    );
    let manifest =
        config_map(&namespace, "before", "1") + &misspelt + &config_map(&namespace, "later", "2");
    create(&world.client, &name, &manifest, json!({})).await;
    let resource = condition(&world.client, &name, "Ready", "False").await;
    assert_eq!(names(&world.client, &namespace).await, ["before", "later"]);
    let (reason, message) = failure(&resource, "bad");
    assert_eq!(reason, "Rejected", "{message}");
    assert!(message.contains("datta"), "{message}");
    assert_eq!(said(&resource, "Stalled").0, "Rejected");
    let counts = resource.status.as_ref().unwrap().counts.unwrap();
    assert_eq!((counts.desired, counts.applied, counts.failed), (3, 2, 1));

    world.plane.audit_fence().await.unwrap();
    let mark = world.plane.audit().mark().unwrap();
    tokio::time::sleep(Duration::from_secs(4)).await;
    let writes = writes_in(world.plane, mark, &namespace).await;
    assert!(writes.is_empty(), "{}", show(&writes));

    change(
        &world.client,
        &name,
        json!({"manifest": manifest.replace("datta", "data")}),
    )
    .await;
    ready(&world.client, &name).await;
    delete(&world.client, &name).await;
}

#[tokio::test]
async fn a_value_that_the_api_server_refuses_is_named_with_its_field() {
    let world = world().await;
    let namespace = world.plane.namespace("refusals").await.unwrap();
    let name = unique("invalid");
    let manifest = config_map(&namespace, "good", "1")
        + &format!(
            "---\napiVersion: v1\nkind: Service\nmetadata: {{name: bad, namespace: {namespace}}}\nspec: {{ports: [{{port: 123456}}]}}\n"
        );
    create(&world.client, &name, &manifest, json!({})).await;
    let resource = condition(&world.client, &name, "Ready", "False").await;
    let (reason, message) = failure(&resource, "bad");
    assert_eq!(reason, "Rejected", "{message}");
    assert!(message.contains("spec.ports[0].port"), "{message}");
    value_is(&world.client, &namespace, "good", "1").await;
    delete(&world.client, &name).await;
}

#[tokio::test]
async fn the_words_of_a_refusal_do_not_carry_a_value_of_a_secret() {
    let world = world().await;
    let namespace = world.plane.namespace("refusals").await.unwrap();
    let name = unique("secret");
    let manifest = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: bad, namespace: {namespace}}}\ntype: kubernetes.io/tls\nstringData: {{wrong: [hunter2]}}\n"
    );
    create(&world.client, &name, &manifest, json!({})).await;
    let resource = condition(&world.client, &name, "Ready", "False").await;
    let status = serde_json::to_string(&resource.status).unwrap();
    assert!(status.contains("Secret"), "{status}");
    assert!(!status.contains("hunter2"), "{status}");
    delete(&world.client, &name).await;
}

fn policy(name: &str, namespace: &str) -> [Value; 2] {
    let kind = |kind: &str| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name},
        })
    };
    let mut policy = kind("ValidatingAdmissionPolicy");
    policy["spec"] = json!({
        "failurePolicy": "Fail",
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"], "resources": ["serviceaccounts"]}],
        },
        "validations": [{"expression": "false", "message": "accounts are made elsewhere"}],
    });
    let mut binding = kind("ValidatingAdmissionPolicyBinding");
    binding["spec"] = json!({"policyName": name, "validationActions": ["Deny"]});
    [policy, binding]
}

async fn set_quota(client: &Client, namespace: &str, limit: &str) {
    let api = dynamic(client, ("", "v1", "ResourceQuota"), Some(namespace));
    let hard = json!({"count/configmaps": limit});
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "few", "namespace": namespace}, "spec": {"hard": hard},
    });
    put(&api, quota).await;
    // No controller runs here that would do it.
    let status = json!({"status": {"hard": hard, "used": {"count/configmaps": "0"}}});
    api.patch_status("few", &PatchParams::default(), &Patch::Merge(&status))
        .await
        .unwrap();
}

#[tokio::test]
async fn quota_and_admission_refusals_name_their_cause_back_off_and_recover() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("refusals").await.unwrap();
    let name = unique("denied");
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe"}});
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "probe"}});
    let configs = dynamic(client, ("", "v1", "ConfigMap"), Some(&namespace));
    let accounts = dynamic(client, ("", "v1", "ServiceAccount"), Some(&namespace));
    let admission = "admissionregistration.k8s.io";
    let policies = dynamic(client, (admission, "v1", "ValidatingAdmissionPolicy"), None);
    let bindings = dynamic(
        client,
        (admission, "v1", "ValidatingAdmissionPolicyBinding"),
        None,
    );
    set_quota(client, &namespace, "0").await;
    let [policy, binding] = policy(&name, &namespace);
    put(&policies, policy).await;
    put(&bindings, binding).await;
    until_refused(&configs, &config, true).await;
    until_refused(&accounts, &account, true).await;

    let manifest = config_map(&namespace, "counted", "1")
        + &format!(
            "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: judged, namespace: {namespace}}}\n\
             ---\napiVersion: v1\nkind: Endpoints\nmetadata: {{name: free, namespace: {namespace}}}\n"
        );
    create(client, &name, &manifest, json!({})).await;
    let resource = condition(client, &name, "Ready", "False").await;
    let (reason, message) = failure(&resource, "counted");
    assert_eq!(reason, "QuotaExceeded", "{message}");
    assert!(message.contains("few"), "{message}");
    let (reason, message) = failure(&resource, "judged");
    assert_eq!(reason, "AdmissionDenied", "{message}");
    assert!(message.contains("accounts are made elsewhere"), "{message}");
    let free = dynamic(client, ("", "v1", "Endpoints"), Some(&namespace));
    assert!(fetch(&free, "free").await.is_some());

    world.plane.audit_fence().await.unwrap();
    let mark = world.plane.audit().mark().unwrap();
    tokio::time::sleep(Duration::from_secs(8)).await;
    let writes = writes_in(world.plane, mark, &namespace).await;
    assert!(writes.is_empty(), "{}", show(&writes));

    set_quota(client, &namespace, "10").await;
    bindings
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    policies
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    until_refused(&configs, &config, false).await;
    until_refused(&accounts, &account, false).await;
    // Nobody tells us: the next try does it.
    let status = ready(client, &name).await.status.unwrap();
    assert_eq!(status.last_trigger, ["Retry"], "{}", show(&status));
    assert_eq!(status.last_error, None);
    delete(client, &name).await;
}

/// Ends a namespace as its controller would.
async fn finish(spaces: &Api<Namespace>, namespace: &str) {
    let mut space = spaces.get(namespace).await.unwrap();
    space.spec.get_or_insert_default().finalizers = None;
    spaces
        .replace_subresource("finalize", namespace, &PostParams::default(), &space)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_namespace_that_goes_is_missing_and_comes_back_is_waited_for() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("refusals").await.unwrap();
    let other = world.plane.namespace("refusals").await.unwrap();
    let name = unique("namespace");
    let spaces: Api<Namespace> = Api::all(client.clone());
    // No controller empties it, so it stays in this state until the test ends it.
    spaces
        .delete(&namespace, &DeleteParams::default())
        .await
        .unwrap();
    let manifest = config_map(&namespace, "one", "1") + &config_map(&other, "two", "2");
    let mark = world.plane.audit().mark().unwrap();
    create(client, &name, &manifest, json!({})).await;
    let resource = condition(client, &name, "Ready", "False").await;
    let (reason, message) = failure(&resource, "one");
    assert_eq!(reason, "NamespaceTerminating", "{message}");
    assert!(message.contains(&namespace), "{message}");
    value_is(client, &other, "two", "2").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let writes = writes_in(world.plane, mark, &namespace).await;
    assert!((1..=4).contains(&writes.len()), "{}", show(&writes));

    finish(&spaces, &namespace).await;
    eventually("the namespace is named as missing", || async {
        let resource = resources(client).get(&name).await.unwrap();
        (said(&resource, "Ready").0 == "NamespaceMissing").then_some(())
    })
    .await;
    let again: Namespace =
        serde_json::from_value(json!({"metadata": {"name": namespace}})).unwrap();
    spaces.create(&PostParams::default(), &again).await.unwrap();
    ready(client, &name).await;
    value_is(client, &namespace, "one", "1").await;
    delete(client, &name).await;
}
