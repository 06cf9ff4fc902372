//! Who may do what, and who is seen to have done what.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;
use vidra_lab::controlplane::{ControlPlane, shared, unique};

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name }, "data": { "a": "b" } })).unwrap()
}

async fn config_maps(plane: &ControlPlane) -> Api<ConfigMap> {
    let namespace = plane.namespace("access").await.unwrap();
    Api::namespaced(plane.client().unwrap(), &namespace)
}

#[tokio::test]
async fn the_server_is_kubernetes_1_36() {
    let client = shared().await.client().unwrap();
    let version = client.apiserver_version().await.unwrap();
    assert_eq!(
        (version.major.as_str(), version.minor.as_str()),
        ("1", "36")
    );
    assert!(
        version.git_version.starts_with("v1.36."),
        "{}",
        version.git_version
    );
}

#[tokio::test]
async fn an_administrator_may_create_read_and_delete() {
    let api = config_maps(shared().await).await;
    api.create(&PostParams::default(), &config_map("one"))
        .await
        .unwrap();
    let found = api.get("one").await.unwrap();
    assert_eq!(found.data.unwrap()["a"], "b");
    api.delete("one", &DeleteParams::default()).await.unwrap();
    assert!(api.get_opt("one").await.unwrap().is_none());
}

#[tokio::test]
async fn a_pod_can_be_created_without_any_controller() {
    let plane = shared().await;
    let namespace = plane.namespace("pods").await.unwrap();
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "one" },
        "spec": { "containers": [{ "name": "main", "image": "example.test/image" }] },
    }))
    .unwrap();
    let api: Api<Pod> = Api::namespaced(plane.client().unwrap(), &namespace);
    api.create(&PostParams::default(), &pod).await.unwrap();
}

#[tokio::test]
async fn a_user_without_a_role_is_refused() {
    let client = shared()
        .await
        .client_as(&unique("nobody"), &["outsiders"])
        .unwrap();
    let error = Api::<Namespace>::all(client)
        .list(&ListParams::default())
        .await
        .unwrap_err();
    let kube::Error::Api(status) = error else {
        panic!("{error:?}")
    };
    assert_eq!(status.code, 403);
}

#[tokio::test]
async fn both_groups_of_a_user_reach_the_server() {
    let plane = shared().await;
    let user = unique("member");
    let mark = plane.audit().mark().unwrap();
    let client = plane.client_as(&user, &["first", "second"]).unwrap();
    client.apiserver_version().await.unwrap();
    let entry = plane
        .audit()
        .wait_for(mark, |entry| entry.user == user)
        .await
        .unwrap();
    assert!(
        entry.groups.contains(&"first".to_owned()),
        "{:?}",
        entry.groups
    );
    assert!(
        entry.groups.contains(&"second".to_owned()),
        "{:?}",
        entry.groups
    );
}

#[tokio::test]
async fn a_third_group_is_refused_and_not_left_out() {
    let Err(error) = shared().await.config_as("somebody", &["a", "b", "c"]) else {
        panic!("three groups were accepted")
    };
    assert!(format!("{error:?}").contains("TooManyGroups"), "{error:?}");
}

#[tokio::test]
async fn the_kubeconfig_files_open_the_same_doors() {
    let plane = shared().await;
    let admin = client_from(plane.kubeconfig()).await;
    Api::<Namespace>::all(admin)
        .get("kube-system")
        .await
        .unwrap();
    let path = plane.kubeconfig_as(&unique("nobody"), &[]).unwrap();
    let nobody = client_from(&path).await;
    let error = Api::<Namespace>::all(nobody)
        .get("kube-system")
        .await
        .unwrap_err();
    assert!(
        matches!(&error, kube::Error::Api(status) if status.code == 403),
        "{error:?}"
    );
}

async fn client_from(path: &std::path::Path) -> kube::Client {
    let kubeconfig = kube::config::Kubeconfig::read_from(path).unwrap();
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    kube::Client::try_from(config).unwrap()
}

#[tokio::test]
async fn the_audit_log_says_who_changed_what_and_what_came_of_it() {
    let plane = shared().await;
    let api = config_maps(plane).await;
    let mark = plane.audit().mark().unwrap();
    api.create(&PostParams::default(), &config_map("seen"))
        .await
        .unwrap();
    api.create(&PostParams::default(), &config_map("seen"))
        .await
        .unwrap_err();
    api.get("seen").await.unwrap();
    plane.audit_fence().await.unwrap();

    let namespace = api.get("seen").await.unwrap().metadata.namespace.unwrap();
    let entries = plane.audit().since(mark).unwrap();
    let ours: Vec<_> = entries
        .iter()
        .filter(|entry| entry.namespace == namespace)
        .collect();
    let creates: Vec<_> = ours.iter().filter(|entry| entry.is_mutation()).collect();
    let codes: Vec<u16> = creates.iter().map(|entry| entry.code).collect();
    assert_eq!(codes, [201, 409]);
    assert!(creates[0].is_about("", "configmaps"));
    assert_eq!(creates[0].user, "vidra-lab-admin");
    assert_eq!(
        creates[0].uri,
        format!("/api/v1/namespaces/{namespace}/configmaps?")
    );
    assert!(
        ours.iter()
            .any(|entry| entry.verb == "get" && entry.name == "seen")
    );
}

#[tokio::test]
async fn mutations_are_counted_by_user_agent() {
    let plane = shared().await;
    let namespace = plane.namespace("agents").await.unwrap();
    let mut config = plane.config();
    let agent = unique("test-agent");
    config
        .headers
        .push((axum::http::header::USER_AGENT, agent.parse().unwrap()));
    let api: Api<ConfigMap> = Api::namespaced(kube::Client::try_from(config).unwrap(), &namespace);
    let mark = plane.audit().mark().unwrap();
    api.create(&PostParams::default(), &config_map("one"))
        .await
        .unwrap();
    api.get("one").await.unwrap();
    plane.audit_fence().await.unwrap();
    let mutations = plane.audit().mutations(mark, &agent).unwrap();
    let seen: Vec<_> = mutations
        .iter()
        .map(|entry| (entry.verb.as_str(), entry.code))
        .collect();
    assert_eq!(seen, [("create", 201)]);
    assert!(
        plane
            .audit()
            .mutations(mark, "somebody-else")
            .unwrap()
            .is_empty()
    );
}
