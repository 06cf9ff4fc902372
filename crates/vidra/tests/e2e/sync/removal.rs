//! What goes, and what must not: absence is proven, bounded and never a surprise.

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use vidra_api::{InfrahubSync, State, names::RELEASE_PRUNE_ANNOTATION};
use vidra_lab::{
    controlplane::{ControlPlane, unique},
    standin::{Effect, Fault, Rendered, When},
};

use super::{ARTIFACT, Stage, ensure_namespace, resources_of, said, syncs};
use crate::support::{
    Operator, World, eventually, install_definitions, is_gone, names, quick_settings, show,
    value_is,
};

/// No timer: only what a test asks for happens.
fn no_timer() -> Value {
    json!({"interval": "0s"})
}

const NOTHING: [&str; 0] = [];

/// An answer to the list query.
fn list_of(artifacts: &[(&Rendered, &str)]) -> String {
    let edges: Vec<Value> = artifacts
        .iter()
        .map(|(artifact, target)| {
            json!({"node": {
                "id": artifact.id, "name": {"value": ARTIFACT}, "status": {"value": "Ready"},
                "content_type": {"value": "application/yaml"},
                "checksum": {"value": artifact.checksum},
                "storage_id": {"value": artifact.storage_id},
                "object": {"node": {"id": "1", "__typename": "Any", "display_label": target}},
                "definition": {"node": null},
            }})
        })
        .collect();
    let data = json!({
        "CoreArtifact": {"count": edges.len(), "edges": edges},
        "CoreGraphQLQuery": {"edges": []},
    });
    json!({"data": data}).to_string()
}

async fn release(stage: &Stage, hash: &str) {
    let patch = json!({"metadata": {"annotations": {RELEASE_PRUNE_ANNOTATION: hash}}});
    let api = syncs(stage.client());
    api.patch(&stage.name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
}

/// The hash at the end of the message of `PruneHeld`.
fn hash_of(sync: &InfrahubSync) -> String {
    let (_, message) = said(sync, "PruneHeld");
    let hash = message.rsplit('=').next().unwrap_or_default();
    assert_eq!(hash.len(), 12, "{message}");
    hash.to_owned()
}

#[tokio::test]
async fn a_look_up_that_fails_removes_nothing_and_the_removal_goes_on_by_itself() {
    let stage = Stage::new().await;
    let [web, db] = ["web", "db"].map(|target| stage.render(target, "one").id);
    stage.sync(no_timer()).await;
    stage.ready().await;
    let mark = stage.mark().await;
    stage.remove("db");
    // The list is answered; what is asked about the artifact that it lacks is not.
    stage
        .infrahub
        .fault(Fault::status("/graphql", 500, "no").when(When::After(1)));
    let sync = stage.look().await;
    assert_eq!(said(&sync, "Ready").0, "InfrahubError", "{}", show(&sync));
    assert_eq!(stage.deletions(mark, &[&web, &db]).await, NOTHING);
    assert_eq!(names(stage.client(), &stage.name).await, ["db", "web"]);
    stage.infrahub.clear_faults();
    is_gone(stage.client(), &stage.name, "db").await;
    stage.ready().await;
    // Its objects go before the resource itself does.
    eventually("only the other resource is left", || async {
        let resources = stage.resources().await;
        resources.into_keys().eq([web.clone()]).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_list_that_lacks_an_artifact_which_is_still_there_is_not_believed() {
    let stage = Stage::new().await;
    let [web, db] = ["web", "db"].map(|target| stage.render(target, "one"));
    stage.sync(no_timer()).await;
    stage.ready().await;
    let mark = stage.mark().await;
    let body = list_of(&[(&web, "web")]);
    let lie = Fault::on("/graphql", Effect::Content { body });
    stage.infrahub.fault(lie.when(When::Nth(1)));
    let sync = stage.look().await;
    let (reason, message) = said(&sync, "Ready");
    assert_eq!(reason, "InfrahubError", "{message}");
    assert!(message.contains(&db.id), "{message}");
    assert!(message.contains("nothing is removed"), "{message}");
    // The next list is complete again.
    let sync = stage.ready().await;
    assert_eq!(sync.status.unwrap().artifacts.len(), 2);
    assert_eq!(stage.deletions(mark, &[&web.id, &db.id]).await, NOTHING);
}

#[tokio::test]
async fn an_empty_list_of_a_name_that_has_artifacts_is_not_believed_even_where_it_may_be_empty() {
    let stage = Stage::new().await;
    let web = stage.render("web", "one");
    stage
        .sync(json!({"interval": "0s", "allowEmpty": true}))
        .await;
    stage.ready().await;
    let mark = stage.mark().await;
    let body = list_of(&[]);
    let lie = Fault::on("/graphql", Effect::Content { body });
    stage.infrahub.fault(lie.when(When::Nth(1)));
    let sync = stage.look().await;
    assert_eq!(said(&sync, "Ready").0, "InfrahubError", "{}", show(&sync));
    stage.ready().await;
    assert_eq!(stage.deletions(mark, &[&web.id]).await, NOTHING);
}

#[tokio::test]
async fn an_artifact_that_got_another_name_goes() {
    let stage = Stage::new().await;
    let [web, db] = ["web", "db"].map(|target| stage.render(target, "one").id);
    stage.sync(no_timer()).await;
    stage.ready().await;
    stage.infrahub.rename(&db, "elsewhere");
    stage.look().await;
    is_gone(stage.client(), &stage.name, "db").await;
    let sync = stage.ready().await;
    let artifacts = sync.status.unwrap().artifacts;
    assert_eq!(artifacts.len(), 1, "{}", show(&artifacts));
    assert_eq!(artifacts[0].id, web);
}

#[tokio::test]
async fn an_empty_group_removes_nothing_unless_that_is_allowed() {
    let stage = Stage::new().await;
    let web = stage.render("web", "one").id;
    stage.sync(no_timer()).await;
    stage.ready().await;
    let mark = stage.mark().await;
    stage.remove("web");
    let sync = stage.look().await;
    let (reason, message) = said(&sync, "Ready");
    assert_eq!(reason, "NoArtifacts", "{message}");
    assert!(message.contains("allowEmpty"), "{message}");
    let status = sync.status.unwrap();
    assert_eq!(status.sync_state, Some(State::Stale));
    assert_eq!(status.last_error, Some(message));
    assert_eq!(status.artifacts.len(), 1, "what is in place is still shown");
    assert_eq!(stage.deletions(mark, &[&web]).await, NOTHING);
    stage.change(json!({"source": {"allowEmpty": true}})).await;
    is_gone(stage.client(), &stage.name, "web").await;
    let sync = stage.ready().await;
    let status = sync.status.unwrap();
    assert_eq!(status.sync_state, Some(State::Succeeded));
    assert!(status.artifacts.is_empty() && status.checksums.is_empty());
    assert!(stage.resources().await.is_empty());
}

#[tokio::test]
async fn a_misspelt_name_is_told_from_an_empty_group_and_is_never_a_success() {
    let stage = Stage::new().await;
    let web = stage.render("web", "one").id;
    stage
        .sync(json!({"interval": "0s", "artifactName": "manifets"}))
        .await;
    let sync = stage.reason("ArtifactUnknown").await;
    let (_, message) = said(&sync, "Ready");
    assert!(message.contains("\"manifets\""), "{message}");
    assert_eq!(sync.status.unwrap().sync_state, Some(State::Failed));
    let right = json!({"source": {"artifactName": ARTIFACT}});
    stage.change(right.clone()).await;
    stage.ready().await;
    let mark = stage.mark().await;
    // Not even where an empty answer is allowed: a name that means nothing is no answer.
    let wrong = json!({"source": {"artifactName": "manifets", "allowEmpty": true}});
    stage.change(wrong).await;
    let sync = stage.reason("ArtifactUnknown").await;
    assert_eq!(sync.status.unwrap().sync_state, Some(State::Stale));
    stage.change(right).await;
    stage.ready().await;
    assert_eq!(stage.deletions(mark, &[&web]).await, NOTHING);
}

#[tokio::test]
async fn more_than_half_is_held_until_exactly_that_set_is_released() {
    let stage = Stage::new().await;
    let targets: Vec<String> = (0..8).map(|number| format!("t{number}")).collect();
    let rendered = targets.iter().map(|target| stage.render(target, "one").id);
    let ids: Vec<String> = rendered.collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    stage.sync(no_timer()).await;
    stage.ready().await;
    let mark = stage.mark().await;
    for target in &targets[..5] {
        stage.remove(target);
    }
    let sync = stage.look().await;
    let (_, message) = said(&sync, "PruneHeld");
    assert!(message.contains("5 of 8"), "{message}");
    assert!(message.contains(ids[0]), "{message}");
    let first = hash_of(&sync);
    release(&stage, "000000000000").await;
    stage.look().await;

    stage.remove(&targets[5]);
    let sync = stage.look().await;
    let second = hash_of(&sync);
    assert_ne!(first, second, "another set has another hash");
    release(&stage, &first).await;
    stage.look().await;
    assert_eq!(stage.deletions(mark, &ids).await, NOTHING);
    assert_eq!(names(stage.client(), &stage.name).await, targets);

    release(&stage, &second).await;
    for target in &targets[..6] {
        is_gone(stage.client(), &stage.name, target).await;
    }
    let sync = stage.look().await;
    assert_eq!(said(&sync, "PruneHeld").0, "");
    assert_eq!(said(&sync, "Ready").0, "Succeeded", "{}", show(&sync));
    assert_eq!(names(stage.client(), &stage.name).await, targets[6..]);
}

#[tokio::test]
async fn a_resource_with_a_namespace_in_it_is_held() {
    let stage = Stage::new().await;
    let other = unique("precious");
    let text = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {other}}}\n");
    let dear = stage.render_text("dear", &text).id;
    stage.render("web", "one");
    stage.render("db", "one");
    stage.sync(no_timer()).await;
    stage.ready().await;
    let mark = stage.mark().await;
    stage.remove("dear");
    stage.remove("db");
    let sync = stage.look().await;
    let (_, message) = said(&sync, "PruneHeld");
    assert!(message.contains(&dear), "{message}");
    assert!(message.contains("Namespaces"), "{message}");
    // Only what is dear is held.
    is_gone(stage.client(), &stage.name, "db").await;
    assert_eq!(
        stage.deletions(mark, &[&dear, &other]).await,
        ["configmaps/db"]
    );
    release(&stage, &hash_of(&sync)).await;
    let namespaces: Api<Namespace> = Api::all(stage.client().clone());
    eventually("the Namespace ends", || async {
        let found = namespaces.get_opt(&other).await.unwrap();
        let is_ending = found.is_none_or(|it| it.metadata.deletion_timestamp.is_some());
        is_ending.then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_removal_waits_until_all_others_are_ready_and_then_goes_on_by_itself() {
    let stage = Stage::new().await;
    let web = stage.render("web", "one").id;
    let db = stage.render("db", "one").id;
    stage.sync(no_timer()).await;
    stage.ready().await;
    let mark = stage.mark().await;
    // There is no such namespace yet.
    let later = unique("later");
    stage.render_text("web", &crate::support::config_map(&later, "web", "two"));
    stage.remove("db");
    stage.look().await;
    let sync = stage.reason("ResourcesNotReady").await;
    let (_, message) = said(&sync, "Ready");
    assert!(message.contains(&web), "{message}");
    assert_eq!(sync.status.unwrap().sync_state, Some(State::Failed));
    // However often it looks.
    stage.look().await;
    assert!(stage.resources().await.contains_key(&db));
    assert_eq!(stage.deletions(mark, &[&web, &db]).await, NOTHING);
    ensure_namespace(stage.client(), &later).await;
    value_is(stage.client(), &later, "web", "two").await;
    is_gone(stage.client(), &stage.name, "db").await;
    stage.ready().await;
}

#[tokio::test]
async fn a_removal_waits_while_the_content_of_another_artifact_cannot_be_used() {
    let stage = Stage::new().await;
    let web = stage.render("web", "one").id;
    let db = stage.render("db", "one").id;
    stage.sync(no_timer()).await;
    stage.ready().await;
    let mark = stage.mark().await;
    // What was in one may be meant to be in the other now, but that cannot be known.
    stage.render_text("web", "this is no manifest");
    stage.remove("db");
    let sync = stage.look().await;
    assert_eq!(said(&sync, "Ready").0, "ManifestInvalid", "{}", show(&sync));
    stage.look().await;
    assert!(stage.resources().await.contains_key(&db));
    assert_eq!(stage.deletions(mark, &[&web, &db]).await, NOTHING);
    let both = ["web", "db"].map(|name| crate::support::config_map(&stage.name, name, "two"));
    stage.render_text("web", &both.concat());
    stage.look().await;
    value_is(stage.client(), &stage.name, "db", "two").await;
    eventually("the resource of the artifact is gone", || async {
        (!stage.resources().await.contains_key(&db)).then_some(())
    })
    .await;
    stage.ready().await;
    value_is(stage.client(), &stage.name, "db", "two").await;
    let deletions = stage.deletions(mark, &[&web, &db]).await;
    assert_eq!(deletions, [format!("vidraresources/{db}")]);
}

#[tokio::test]
async fn deleting_a_sync_removes_its_resources_and_their_objects_and_nothing_else() {
    let plane = ControlPlane::builder()
        .controllers(&["garbage-collector-controller"])
        .start()
        .await
        .unwrap();
    let client = plane.client().unwrap();
    install_definitions(&client).await;
    let plane: &'static ControlPlane = Box::leak(Box::new(plane));
    let operator = Operator::start(plane.config(), quick_settings());
    let stage = Stage::on(World { plane, client }).await;
    stage.render("web", "one");
    stage.render("db", "one");
    let other = stage.infrahub.artifact("other").target("kept");
    let text = crate::support::config_map(&stage.name, "kept", "one");
    other.content(text.into_bytes()).ready();
    stage.sync(json!({})).await;
    let source = json!({"artifactName": "other"});
    stage.sync_as("other", source, json!({})).await;
    stage.ready().await;
    super::sync_condition(stage.client(), "other", "Ready", "True").await;
    let api = syncs(stage.client());
    api.delete(&stage.name, &DeleteParams::default())
        .await
        .unwrap();
    for target in ["web", "db"] {
        is_gone(stage.client(), &stage.name, target).await;
    }
    eventually("its resources are gone", || async {
        stage.resources().await.is_empty().then_some(())
    })
    .await;
    assert_eq!(names(stage.client(), &stage.name).await, ["kept"]);
    assert_eq!(resources_of(stage.client(), "other").await.len(), 1);
    operator.stop();
}
