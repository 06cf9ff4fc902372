//! From the Go operator to this one: its objects and its inventories are taken over in place.

use kube::{
    Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use vidra_lab::controlplane::ControlPlane;

use crate::{ownership::await_collection, support::*};

const OWNED_BY: &str = "vidraresource.infrahub.operators.com/owned-by";
const DEPLOYMENT: (&str, &str, &str) = ("apps", "v1", "Deployment");
const CONFIG_MAP: (&str, &str, &str) = ("", "v1", "ConfigMap");

/// A control plane with our definitions and the real collector, without an operator yet.
async fn plane() -> (ControlPlane, Client) {
    let plane = ControlPlane::builder()
        .controllers(&["garbage-collector-controller", "namespace-controller"])
        .start()
        .await
        .unwrap();
    let client = plane.client().unwrap();
    install_definitions(&client).await;
    (plane, client)
}

fn deployment(namespace: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web:1"}]},
        }},
    })
}

fn settings(namespace: &str, data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": namespace}, "data": data,
    })
}

/// A resource as the Go operator leaves it: finalizer, list of objects, no inventory.
async fn go_resource(client: &Client, name: &str, manifest: &[Value]) -> String {
    let text: Vec<String> = manifest.iter().map(ToString::to_string).collect();
    create(client, name, &text.join("\n---\n"), json!({})).await;
    let listed: Vec<Value> = manifest
        .iter()
        .map(|object| {
            json!({"kind": object["kind"], "apiVersion": object["apiVersion"],
                "name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"]})
        })
        .collect();
    let finalizer =
        json!({"metadata": {"finalizers": ["vidraresource.infrahub.operators.com/finalizer"]}});
    let params = PatchParams::default();
    let api = resources(client);
    api.patch(name, &params, &Patch::Merge(&finalizer))
        .await
        .unwrap();
    let status = json!({"status": {"managedResources": listed, "DeployState": "Succeeded",
        "lastSyncTime": "2025-01-01T00:00:00Z"}});
    let made = api
        .patch_status(name, &params, &Patch::Merge(&status))
        .await
        .unwrap();
    made.metadata.uid.unwrap()
}

/// An object as the Go operator makes it: by Update, with its annotation, label and reference.
async fn go_object(
    client: &Client,
    kind: (&str, &str, &str),
    mut object: Value,
    owners: &str,
    reference: (&str, &str),
) -> Value {
    let metadata = &mut object["metadata"];
    metadata["labels"] = json!({"managed-by": "vidra"});
    metadata["annotations"] = json!({OWNED_BY: owners});
    metadata["ownerReferences"] = json!([{"apiVersion": "infrahub.operators.com/v1alpha1",
        "kind": "VidraResource", "name": reference.0, "uid": reference.1,
        "controller": true, "blockOwnerDeletion": true}]);
    let namespace = metadata["namespace"].as_str().map(ToOwned::to_owned);
    let params = PostParams {
        field_manager: Some("manager".to_owned()),
        ..PostParams::default()
    };
    let object = serde_json::from_value(object).unwrap();
    let made = dynamic(client, kind, namespace.as_deref())
        .create(&params, &object)
        .await
        .unwrap();
    serde_json::to_value(made).unwrap()
}

#[tokio::test]
async fn objects_of_the_go_operator_are_taken_over_without_deletion_or_restart() {
    let (plane, client) = plane().await;
    let namespace = plane.namespace("go").await.unwrap();
    let wanted = settings(&namespace, &json!({"key": "1"}));
    let uid = go_resource(&client, "artifact", &[deployment(&namespace), wanted]).await;
    let owner = ("artifact", uid.as_str());
    let web = go_object(
        &client,
        DEPLOYMENT,
        deployment(&namespace),
        "artifact,artifact",
        owner,
    )
    .await;
    let had = settings(&namespace, &json!({"key": "1", "left": "the manifest"}));
    let config = go_object(&client, CONFIG_MAP, had, "artifact", owner).await;

    let mark = plane.audit().mark().unwrap();
    let operator = Operator::start(plane.config(), quick_settings());
    let resource = ready(&client, "artifact").await;
    assert_eq!(resource.status.unwrap().counts.unwrap().adopted, 0);
    let taken = fetch(&dynamic(&client, DEPLOYMENT, Some(&namespace)), "web")
        .await
        .unwrap();
    assert_eq!(taken["metadata"]["uid"], web["metadata"]["uid"]);
    // The generation of a Deployment moves with its annotations; only its template restarts Pods.
    assert_eq!(taken["spec"], web["spec"], "no restart");
    let settings = fetch(&dynamic(&client, CONFIG_MAP, Some(&namespace)), "settings")
        .await
        .unwrap();
    assert_eq!(settings["metadata"]["uid"], config["metadata"]["uid"]);
    assert_eq!(
        settings["data"],
        json!({"key": "1"}),
        "what left the manifest is gone"
    );
    for object in [&taken, &settings] {
        assert!(
            object["metadata"].get("ownerReferences").is_none(),
            "{object:#}"
        );
        assert!(
            object["metadata"]["annotations"].get(OWNED_BY).is_none(),
            "{object:#}"
        );
    }
    let writes = writes_in(&plane, mark, &namespace).await;
    assert!(
        writes.iter().all(|entry| entry.verb == "patch"),
        "{}",
        show(&writes)
    );

    delete(&client, "artifact").await;
    is_gone(&client, &namespace, "settings").await;
    operator.stop();
}

#[tokio::test]
async fn an_object_that_two_resources_of_the_go_operator_share_survives_the_first_of_them() {
    let (plane, client) = plane().await;
    let namespace = plane.namespace("go").await.unwrap();
    let wanted = settings(&namespace, &json!({"key": "1"}));
    let first = go_resource(&client, "first", std::slice::from_ref(&wanted)).await;
    go_resource(&client, "second", std::slice::from_ref(&wanted)).await;
    let made = go_object(
        &client,
        CONFIG_MAP,
        wanted,
        "first,second,first",
        ("first", &first),
    )
    .await;
    let operator = Operator::start(plane.config(), quick_settings());
    ready(&client, "first").await;
    ready(&client, "second").await;
    delete(&client, "first").await;
    await_collection(&client, &namespace).await;
    let api = dynamic(&client, CONFIG_MAP, Some(&namespace));
    let left = fetch(&api, "settings").await.unwrap();
    assert_eq!(left["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(left["data"], json!({"key": "1"}));
    delete(&client, "second").await;
    is_gone(&client, &namespace, "settings").await;
    operator.stop();
}

#[tokio::test]
async fn a_resource_of_the_go_operator_that_was_deleted_while_nobody_ran_parts_with_its_objects() {
    let (plane, client) = plane().await;
    let namespace = plane.namespace("go").await.unwrap();
    let wanted = settings(&namespace, &json!({"key": "1"}));
    let foreign = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "foreign", "namespace": namespace}, "data": {"key": "theirs"}});
    let uid = go_resource(&client, "gone", &[wanted.clone(), foreign.clone()]).await;
    go_object(&client, CONFIG_MAP, wanted, "gone", ("gone", &uid)).await;
    let api = dynamic(&client, CONFIG_MAP, Some(&namespace));
    let foreign = serde_json::from_value(foreign).unwrap();
    api.create(&PostParams::default(), &foreign).await.unwrap();
    resources(&client)
        .delete("gone", &kube::api::DeleteParams::background())
        .await
        .unwrap();
    let operator = Operator::start(plane.config(), quick_settings());
    is_gone(&client, &namespace, "settings").await;
    eventually("the resource is gone", || async {
        resources(&client)
            .get_opt("gone")
            .await
            .unwrap()
            .is_none()
            .then_some(())
    })
    .await;
    assert!(
        fetch(&api, "foreign").await.is_some(),
        "listed, but without a mark"
    );
    operator.stop();
}
