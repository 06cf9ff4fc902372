//! What tests of faults do to the servers.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{Api, api::PostParams};
use serde_json::json;
use vidra_lab::controlplane::{ControlPlane, Error, Server};

use crate::support::is_alive;

async fn create(plane: &ControlPlane, name: &str) {
    let object: ConfigMap =
        serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
    let api: Api<ConfigMap> = Api::namespaced(plane.client().unwrap(), "default");
    api.create(&PostParams::default(), &object).await.unwrap();
}

async fn exists(plane: &ControlPlane, name: &str) -> bool {
    let api: Api<ConfigMap> = Api::namespaced(plane.client().unwrap(), "default");
    api.get_opt(name).await.unwrap().is_some()
}

#[tokio::test]
async fn a_restarted_api_server_has_the_same_address_data_and_audit_log() {
    let plane = ControlPlane::start().await.unwrap();
    create(&plane, "before").await;
    plane.audit_fence().await.unwrap();
    let (port, pid) = (plane.port(), plane.pid(Server::Apiserver).unwrap());
    plane.restart_apiserver().await.unwrap();
    assert_eq!(plane.port(), port);
    assert_ne!(plane.pid(Server::Apiserver).unwrap(), pid);
    assert!(!is_alive(pid), "the old one still runs");
    assert!(exists(&plane, "before").await);
    let entries = plane.audit().entries().unwrap();
    assert!(
        entries
            .iter()
            .any(|entry| entry.verb == "create" && entry.resource == "configmaps")
    );
}

#[tokio::test]
async fn a_killed_etcd_comes_back_with_its_data() {
    let plane = ControlPlane::start().await.unwrap();
    create(&plane, "before").await;
    let pid = plane.pid(Server::Etcd).unwrap();
    plane.kill(Server::Etcd).unwrap();
    assert_eq!(plane.pid(Server::Etcd), None);
    assert!(!is_alive(pid), "the killed one still runs");
    assert!(matches!(
        plane.pause(Server::Etcd).unwrap_err(),
        Error::NotRunning {
            server: Server::Etcd
        }
    ));
    plane.restart(Server::Etcd).await.unwrap();
    assert_ne!(plane.pid(Server::Etcd).unwrap(), pid);
    assert!(exists(&plane, "before").await);
}

#[tokio::test]
async fn a_paused_api_server_does_not_answer_until_it_is_resumed() {
    let plane = ControlPlane::start().await.unwrap();
    let namespaces: Api<Namespace> = Api::all(plane.client().unwrap());
    plane.pause(Server::Apiserver).unwrap();
    let asked = tokio::time::timeout(Duration::from_secs(2), namespaces.get("default")).await;
    assert!(asked.is_err(), "a paused server has answered: {asked:?}");
    plane.resume(Server::Apiserver).unwrap();
    namespaces.get("default").await.unwrap();
}
