//! Somebody takes resources of a sync away: once, all at once, and again and again.

use kube::{ResourceExt, api::DeleteParams};
use serde_json::json;

use super::{Stage, said};
use crate::support::{eventually, resources};

async fn delete(stage: &Stage, name: &str) {
    let api = resources(stage.client());
    api.delete(name, &DeleteParams::default()).await.unwrap();
}

/// Waits until a resource is there again, as another one than before.
async fn is_back(stage: &Stage, name: &str, before: &str) {
    eventually(&format!("{name} is there again"), || async {
        let found = stage.resources().await.remove(name)?;
        (found.uid().as_deref() != Some(before)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn many_resources_that_are_deleted_at_once_are_no_fight() {
    let stage = Stage::new().await;
    for number in 0..12 {
        stage.render(&format!("t{number}"), "one");
    }
    stage.sync(json!({"interval": "0s"})).await;
    stage.ready().await;
    let before = stage.resources().await;
    for name in before.keys() {
        delete(&stage, name).await;
    }
    for (name, resource) in &before {
        is_back(&stage, name, &resource.uid().unwrap()).await;
    }
    let sync = stage.ready().await;
    assert_eq!(
        said(&sync, "Contended").0,
        "",
        "{}",
        said(&sync, "Contended").1
    );
}

#[tokio::test]
async fn a_resource_that_is_deleted_again_and_again_is_put_back_more_slowly_and_named() {
    let stage = Stage::new().await;
    let id = stage.render("web", "one").id;
    stage.sync(json!({"interval": "0s"})).await;
    stage.ready().await;
    for _ in 0..7 {
        let before = stage.resources().await[&id].uid().unwrap();
        delete(&stage, &id).await;
        is_back(&stage, &id, &before).await;
    }
    let sync = stage.condition("Contended", "True").await;
    let (_, message) = said(&sync, "Contended");
    assert!(message.contains(&id), "{message}");
}
