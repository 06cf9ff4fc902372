//! The configuration ConfigMap reaches syncs while the operator runs.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use vidra_operator::settings::Settings;

use super::{OWN, Stage, ensure_namespace};
use crate::support::{Operator, World, eventually, own_plane, quick_settings, value_is};

async fn configure(stage: &Stage, data: serde_json::Value) {
    let map: ConfigMap = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "vidra", "namespace": OWN, "labels": {"app": "vidra"}},
        "data": data,
    }))
    .unwrap();
    let api: Api<ConfigMap> = Api::namespaced(stage.client().clone(), OWN);
    let params = PatchParams::apply("e2e").force();
    api.patch("vidra", &params, &Patch::Apply(&map))
        .await
        .unwrap();
}

#[tokio::test]
async fn another_interval_and_another_query_apply_to_syncs_without_a_restart() {
    let (plane, client) = own_plane().await;
    let plane: &'static _ = Box::leak(Box::new(plane));
    ensure_namespace(&client, OWN).await;
    let stage = Stage::on(World { plane, client }).await;
    let settings = Settings {
        requeue_sync_after: Duration::ZERO,
        ..quick_settings()
    };
    let operator = Operator::start(plane.config(), settings);
    stage.render("web", "one");
    stage.render("db", "one");
    stage.sync(json!({})).await;
    stage.ready().await;

    configure(&stage, json!({"requeueSyncAfter": "1s"})).await;
    // The change itself is a reason to look; what is rendered after that is found by the timer.
    let polls = || stage.infrahub.count("POST", "/graphql/");
    let before = polls();
    eventually("the timer comes round", || async {
        (polls() >= before + 3).then_some(())
    })
    .await;
    stage.render("web", "two");
    value_is(stage.client(), &stage.name, "web", "two").await;

    let narrow = "query Narrow($artifactname: String!) { CoreArtifact(name__value: $artifactname, \
                  limit: 1) { edges { node { id } } } }";
    stage.infrahub.query("Narrow", narrow);
    configure(
        &stage,
        json!({"requeueSyncAfter": "1s", "queryName": "Narrow"}),
    )
    .await;
    eventually("the other query selects", || async {
        (stage.infrahub.count("POST", "/api/query/Narrow") > 0).then_some(())
    })
    .await;
    stage.condition("PruneHeld", "True").await;
    assert_eq!(stage.resources().await.len(), 2);
    operator.stop();
}
