//! What the operator may not do, and APIs that are away.

use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::support::*;

const CLUSTER_ROLE: (&str, &str, &str) = ("rbac.authorization.k8s.io", "v1", "ClusterRole");
const BINDING: (&str, &str, &str) = ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding");
const API_SERVICE: (&str, &str, &str) = ("apiregistration.k8s.io", "v1", "APIService");

async fn grant(client: &kube::Client, name: &str, permissions: Value) {
    let params = PatchParams::apply("e2e").force();
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name}, "rules": permissions});
    let roles = dynamic(client, CLUSTER_ROLE, None);
    roles
        .patch(name, &params, &Patch::Apply(&role))
        .await
        .unwrap();
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "restricted"}]});
    let bindings = dynamic(client, BINDING, None);
    bindings
        .patch(name, &params, &Patch::Apply(&binding))
        .await
        .unwrap();
}

/// Everything the operator needs, except to watch ConfigMaps.
fn all_but_watching() -> Value {
    json!([
        {"apiGroups": ["infrahub.operators.com"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["apiextensions.k8s.io"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["configmaps"],
         "verbs": ["get", "list", "create", "patch", "delete"]},
        {"nonResourceURLs": ["*"], "verbs": ["get"]},
    ])
}

#[tokio::test]
async fn a_kind_that_may_not_be_watched_is_named_healed_by_the_timer_and_watched_once_allowed() {
    let (plane, client) = own_plane().await;
    grant(&client, "restricted", all_but_watching()).await;
    let namespace = plane.namespace("rights").await.unwrap();
    let settings = vidra_operator::settings::Settings {
        requeue_resources_after: Duration::from_secs(2),
        ..quick_settings()
    };
    let operator = Operator::start(plane.config_as("restricted", &[]).unwrap(), settings);
    create(
        &client,
        "blind",
        &config_map(&namespace, "one", "good"),
        json!({}),
    )
    .await;
    let resource = condition(&client, "blind", "Watching", "False").await;
    let (reason, message) = said(&resource, "Watching");
    assert_eq!(reason, "NotWatched");
    assert!(message.contains("ConfigMap: not allowed"), "{message}");
    ready(&client, "blind").await;

    let edit = json!({"data": {"key": "bad"}});
    let api = config_maps(&client, &namespace);
    api.patch("one", &PatchParams::default(), &Patch::Merge(&edit))
        .await
        .unwrap();
    value_is(&client, &namespace, "one", "good").await;

    let watching = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["watch"]}]);
    grant(&client, "watching", watching).await;
    eventually("the condition is gone", || async {
        let resource = resources(&client).get("blind").await.unwrap();
        said(&resource, "Watching").0.is_empty().then_some(())
    })
    .await;
    operator.stop();
}

#[tokio::test]
async fn an_object_whose_api_server_is_away_is_kept_until_its_api_is_really_gone() {
    let (plane, client) = own_plane().await;
    let operator = Operator::start(plane.config(), quick_settings());
    let service: Value = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1.away.example.com"},
        "spec": {"group": "away.example.com", "version": "v1", "groupPriorityMinimum": 100,
            "versionPriority": 100, "insecureSkipTLSVerify": true,
            "service": {"name": "nobody", "namespace": "default"}}});
    let services = dynamic(&client, API_SERVICE, None);
    let service = serde_json::from_value(service).unwrap();
    services
        .create(&PostParams::default(), &service)
        .await
        .unwrap();

    // Other resources go on while that API is away.
    let namespace = plane.namespace("away").await.unwrap();
    create(
        &client,
        "near",
        &config_map(&namespace, "one", "1"),
        json!({}),
    )
    .await;
    ready(&client, "near").await;

    operator.stop();

    // A resource that has an object there, as its inventory would say.
    create(
        &client,
        "far",
        &config_map(&namespace, "two", "2"),
        json!({"suspend": true}),
    )
    .await;
    let status = json!({"metadata": {"finalizers": ["vidraresource.infrahub.operators.com/finalizer"]},
        "status": {"inventory": {"entries": [format!("away.example.com/v1/Thing/{namespace}/x/u/h/d/c")]}}});
    resources(&client)
        .patch("far", &PatchParams::default(), &Patch::Merge(&status))
        .await
        .unwrap();
    resources(&client)
        .patch_status("far", &PatchParams::default(), &Patch::Merge(&status))
        .await
        .unwrap();
    let operator = Operator::start(plane.config(), quick_settings());
    resources(&client)
        .delete("far", &DeleteParams::default())
        .await
        .unwrap();
    let resource = condition(&client, "far", "Ready", "False").await;
    let (reason, message) = said(&resource, "Ready");
    assert_eq!(reason, "UnknownKind", "{message}");
    assert_eq!(resource.status.unwrap().inventory.unwrap().entries.len(), 1);

    services
        .delete("v1.away.example.com", &DeleteParams::default())
        .await
        .unwrap();
    eventually("the resource is gone", || async {
        resources(&client)
            .get_opt("far")
            .await
            .unwrap()
            .is_none()
            .then_some(())
    })
    .await;
    operator.stop();
}
