//! What Infrahub lists is in the cluster, and follows it.

use kube::ResourceExt;
use serde_json::json;
use vidra_api::{State, names::ARTIFACT_ID_LABEL};

use super::{Stage, said};
use crate::support::{is_gone, names, show, value_is};

#[tokio::test]
async fn an_artifact_becomes_a_resource_and_its_objects() {
    let stage = Stage::new().await;
    let rendered = stage.render("web", "one");
    stage.sync(json!({})).await;
    let sync = stage.ready().await;
    value_is(stage.client(), &stage.name, "web", "one").await;
    let resources = stage.resources().await;
    let resource = &resources[&rendered.id];
    assert_eq!(resource.labels()[ARTIFACT_ID_LABEL], rendered.id);
    let status = sync.status.clone().unwrap();
    assert_eq!(
        status.sync_state,
        Some(State::Succeeded),
        "{}",
        show(&status)
    );
    assert_eq!(status.checksums, [rendered.checksum.clone().unwrap()]);
    assert!(status.last_error.is_none() && status.last_sync_time.is_some());
    let artifact = &status.artifacts[0];
    assert_eq!(artifact.id, rendered.id);
    assert_eq!(artifact.target.as_deref(), Some("web"));
    assert_eq!(artifact.checksum, rendered.checksum);
    assert_eq!(artifact.state.as_deref(), Some("Ready"));
    assert_eq!(artifact.resource_state, Some(State::Succeeded));
    let (reason, message) = said(&sync, "SourceReady");
    assert_eq!(reason, "PlainHttp", "{message}");
}

#[tokio::test]
async fn a_change_in_infrahub_is_followed_and_a_disappearance_too() {
    let stage = Stage::new().await;
    stage.render("web", "one");
    stage.render("db", "one");
    stage.sync(json!({})).await;
    stage.ready().await;
    stage.render("web", "two");
    stage.look().await;
    value_is(stage.client(), &stage.name, "web", "two").await;
    stage
        .infrahub
        .artifact(super::ARTIFACT)
        .target("db")
        .delete();
    stage.look().await;
    is_gone(stage.client(), &stage.name, "db").await;
    assert_eq!(names(stage.client(), &stage.name).await, ["web"]);
    let sync = stage.ready().await;
    assert_eq!(sync.status.unwrap().artifacts.len(), 1);
}
