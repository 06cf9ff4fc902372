//! The controllers of Kubernetes itself, where a test needs them.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
    runtime::{conditions, wait::await_condition},
};
use serde_json::json;
use vidra_lab::controlplane::{ControlPlane, Error, Server};

const PATIENCE: Duration = Duration::from_mins(2);

async fn start(controllers: &[&str]) -> ControlPlane {
    ControlPlane::builder()
        .controllers(controllers)
        .start()
        .await
        .unwrap()
}

#[tokio::test]
async fn the_garbage_collector_deletes_what_a_deleted_owner_owned() {
    let plane = start(&["garbage-collector-controller"]).await;
    let api: Api<ConfigMap> = Api::namespaced(plane.client().unwrap(), "default");
    let create = async |object: serde_json::Value| {
        let object: ConfigMap = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object)
            .await
            .unwrap()
            .metadata
            .uid
            .unwrap()
    };
    let owner = create(json!({ "metadata": { "name": "owner" } })).await;
    let reference =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner });
    let metadata = json!({ "name": "owned", "ownerReferences": [reference] });
    let dependent = create(json!({ "metadata": metadata })).await;
    create(json!({ "metadata": { "name": "free" } })).await;

    api.delete("owner", &DeleteParams::background())
        .await
        .unwrap();
    let gone = await_condition(api.clone(), "owned", conditions::is_deleted(&dependent));
    tokio::time::timeout(PATIENCE, gone).await.unwrap().unwrap();
    api.get("free").await.unwrap();
}

#[tokio::test]
async fn the_namespace_controller_finishes_a_deletion() {
    let plane = start(&["namespace-controller"]).await;
    let name = plane.namespace("ending").await.unwrap();
    let client = plane.client().unwrap();
    let inside: ConfigMap =
        serde_json::from_value(json!({ "metadata": { "name": "inside" } })).unwrap();
    let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), &name);
    config_maps
        .create(&PostParams::default(), &inside)
        .await
        .unwrap();

    let namespaces: Api<Namespace> = Api::all(client);
    let uid = namespaces.get(&name).await.unwrap().metadata.uid.unwrap();
    namespaces
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    let gone = await_condition(namespaces, &name, conditions::is_deleted(&uid));
    tokio::time::timeout(PATIENCE, gone).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_unknown_controller_is_reported_with_the_log() {
    let plane = ControlPlane::start().await.unwrap();
    let error = plane
        .start_controllers(&["no-such-controller"])
        .await
        .unwrap_err();
    let Error::ServerDied {
        server: Server::ControllerManager,
        log,
        tail,
    } = error
    else {
        panic!("{error:?}")
    };
    assert!(tail.contains("no-such-controller"), "{tail}");
    std::fs::remove_file(log).unwrap();
    assert_eq!(plane.pid(Server::ControllerManager), None);
}
