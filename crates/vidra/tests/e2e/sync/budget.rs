//! How much a sync removes unasked: counted in objects, over an hour, and never because somebody
//! changed what is selected.

use serde_json::json;
use vidra_api::names::RELEASE_PRUNE_ANNOTATION;

use super::{ARTIFACT, Stage, said};
use crate::support::{config_map, eventually, is_gone, names};

/// The hash in the condition of a held removal.
fn hash_in(message: &str) -> String {
    let (_, hash) = message
        .rsplit_once(&format!("{RELEASE_PRUNE_ANNOTATION}="))
        .unwrap();
    hash.to_owned()
}

async fn release(stage: &Stage, hash: &str) {
    let patch = json!({"metadata": {"annotations": {RELEASE_PRUNE_ANNOTATION: hash}}});
    let api = super::syncs(stage.client());
    let params = kube::api::PatchParams::default();
    api.patch(&stage.name, &params, &kube::api::Patch::Merge(&patch))
        .await
        .unwrap();
}

/// Renders an artifact of many objects.
fn render_many(stage: &Stage, target: &str, count: usize) {
    let objects = (0..count).map(|number| {
        let name = format!("{target}-{number}");
        config_map(&stage.name, &name, "one")
    });
    stage.render_text(target, &objects.collect::<String>());
}

fn delete(stage: &Stage, target: &str) {
    stage.infrahub.artifact(ARTIFACT).target(target).delete();
}

#[tokio::test]
async fn one_artifact_of_many_objects_is_held_and_its_release_is_good_for_once() {
    let stage = Stage::new().await;
    render_many(&stage, "many", 30);
    render_many(&stage, "others", 40);
    stage.sync(json!({})).await;
    stage.ready().await;
    delete(&stage, "many");
    let sync = stage.look().await;
    let (_, message) = said(&sync, "PruneHeld");
    assert!(message.contains("30 objects would go"), "{message}");
    assert_eq!(stage.resources().await.len(), 2);
    let hash = hash_in(&message);
    release(&stage, &hash).await;
    is_gone(stage.client(), &stage.name, "many-0").await;
    eventually("the resource is gone", || async {
        (stage.resources().await.len() == 1).then_some(())
    })
    .await;

    // The annotation stays, and what comes and goes under the old name is held again.
    render_many(&stage, "many", 30);
    stage.look().await;
    stage.ready().await;
    delete(&stage, "many");
    let sync = stage.look().await;
    let (_, message) = said(&sync, "PruneHeld");
    assert_ne!(hash_in(&message), hash, "{message}");
    assert_eq!(stage.resources().await.len(), 2);
}

#[tokio::test]
async fn artifacts_that_go_one_after_the_other_are_held_like_those_that_go_at_once() {
    let stage = Stage::new().await;
    for number in 0..8 {
        stage.render(&format!("t{number}"), "one");
    }
    stage.sync(json!({})).await;
    stage.ready().await;
    for number in 0..4 {
        delete(&stage, &format!("t{number}"));
        stage.look().await;
        is_gone(stage.client(), &stage.name, &format!("t{number}")).await;
    }
    delete(&stage, "t4");
    let sync = stage.look().await;
    let (_, message) = said(&sync, "PruneHeld");
    assert!(message.contains("5 of 8 objects"), "{message}");
    assert_eq!(names(stage.client(), &stage.name).await.len(), 4);
}

#[tokio::test]
async fn a_registered_query_that_selects_less_removes_nothing_unasked() {
    let stage = Stage::new().await;
    stage.render("web", "one");
    stage.render("db", "one");
    stage.sync(json!({})).await;
    stage.ready().await;
    let narrow = "query ArtifactIDs($artifactname: [String]) { CoreArtifact(name__values: \
                  $artifactname, limit: 1) { edges { node { id } } } }";
    stage.infrahub.query("ArtifactIDs", narrow);
    let sync = eventually("the removal is held", || async {
        let sync = stage.look().await;
        Some(sync).filter(|sync| !said(sync, "PruneHeld").0.is_empty())
    })
    .await;
    let (_, message) = said(&sync, "PruneHeld");
    assert!(message.contains("still in Infrahub"), "{message}");
    assert_eq!(names(stage.client(), &stage.name).await, ["db", "web"]);

    stage.infrahub.delete_query("ArtifactIDs");
    eventually("nothing is held any more", || async {
        let sync = stage.look().await;
        said(&sync, "PruneHeld").0.is_empty().then_some(())
    })
    .await;
    assert_eq!(stage.resources().await.len(), 2);
}
