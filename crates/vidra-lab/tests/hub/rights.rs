//! Rights that are missing, granted late, or taken away.

use k8s_openapi::api::{
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use vidra_cluster::hub::BlindCause;
use vidra_lab::controlplane::{shared, unique};

use crate::support::{Scene, brisk, eventually, set, watched};

/// Lets a user do this with service accounts.
async fn grant(client: &Client, user: &str, name: &str, verbs: &[&str]) {
    let rules = json!([{"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": verbs}]);
    let role: ClusterRole =
        serde_json::from_value(json!({"metadata": {"name": name}, "rules": rules})).unwrap();
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }))
    .unwrap();
    let parameters = PostParams::default();
    Api::all(client.clone())
        .create(&parameters, &role)
        .await
        .unwrap();
    Api::all(client.clone())
        .create(&parameters, &binding)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_kind_that_we_may_not_watch_is_watched_once_we_may() {
    let plane = shared().await;
    let (admin, user) = (plane.client().unwrap(), unique("stranger"));
    let mut scene = Scene::new(plane.client_as(&user, &[]).unwrap(), brisk());
    let accounts = watched::<ServiceAccount>();
    scene.hub.need("one", set(&[&accounts]));
    assert_eq!(scene.blind(&accounts.kind).await, BlindCause::Forbidden);
    assert_eq!(
        scene.state(&accounts.kind).unwrap().blind,
        Some(BlindCause::Forbidden)
    );

    grant(&admin, &user, &unique("all"), &["list", "watch"]).await;
    scene.sighted(&accounts.kind).await;
    assert_eq!(scene.state(&accounts.kind).unwrap().blind, None);
}

#[tokio::test]
async fn a_user_that_may_list_but_not_watch_stays_blind_until_it_may_do_both() {
    let plane = shared().await;
    let (admin, user) = (plane.client().unwrap(), unique("lister"));
    grant(&admin, &user, &unique("list"), &["list"]).await;
    let mut scene = Scene::new(plane.client_as(&user, &[]).unwrap(), brisk());
    let accounts = watched::<ServiceAccount>();
    scene.hub.need("one", set(&[&accounts]));
    assert_eq!(scene.blind(&accounts.kind).await, BlindCause::Forbidden);
    grant(&admin, &user, &unique("watch"), &["watch"]).await;
    scene.sighted(&accounts.kind).await;
}

#[tokio::test]
async fn a_right_that_is_taken_away_ends_in_blindness_when_the_stream_ends() {
    let plane = shared().await;
    let (admin, user, name) = (plane.client().unwrap(), unique("former"), unique("all"));
    grant(&admin, &user, &name, &["list", "watch"]).await;
    let mut timing = brisk();
    timing.stream = (
        std::time::Duration::from_secs(1),
        std::time::Duration::from_secs(2),
    );
    let mut scene = Scene::new(plane.client_as(&user, &[]).unwrap(), timing);
    let accounts = watched::<ServiceAccount>();
    scene.hub.need("one", set(&[&accounts]));
    eventually("streams come and go", || {
        scene
            .state(&accounts.kind)
            .is_some_and(|state| state.streams > 1)
    })
    .await;
    let bindings: Api<ClusterRoleBinding> = Api::all(admin);
    let _deleted = bindings
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    assert_eq!(scene.blind(&accounts.kind).await, BlindCause::Forbidden);
}
