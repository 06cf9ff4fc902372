//! What somebody does to the resources of a sync, what happens while Infrahub is away, and what
//! happens at rest: nothing.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use vidra_api::{
    State, VidraResource,
    names::{ARTIFACT_CONTENT_ANNOTATION, ARTIFACT_ID_LABEL, CONTENT_LABEL},
};
use vidra_lab::{
    controlplane::{ControlPlane, unique},
    standin::Rendered,
};

use super::{ARTIFACT, OWN, Stage, ensure_namespace, said, syncs};
use crate::support::{
    Operator, World, config_map, config_maps, eventually, names, own_plane, quick_settings,
    request, resources, show, value_is,
};

const DOWNLOADS: &str = "/api/storage/";

fn no_timer() -> Value {
    json!({"interval": "0s"})
}

async fn own_stage() -> Stage {
    let (plane, client) = own_plane().await;
    let plane: &'static ControlPlane = Box::leak(Box::new(plane));
    Stage::on(World { plane, client }).await
}

async fn edit(stage: &Stage, name: &str, patch: &Value) {
    let api = resources(stage.client());
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

/// What the sync decides about a resource.
fn decided(resource: &VidraResource) -> Value {
    json!({
        "uid": resource.uid(),
        "label": resource.labels().get(ARTIFACT_ID_LABEL),
        "content": resource.annotations().get(ARTIFACT_CONTENT_ANNOTATION),
        "owners": resource.owner_references(),
        "destination": resource.spec.destination,
        "manifest": resource.spec.manifest,
        "manifestFrom": resource.spec.manifest_from,
    })
}

#[tokio::test]
async fn a_resource_that_somebody_deletes_is_made_again_at_once() {
    let stage = Stage::new().await;
    let id = stage.render("web", "one").id;
    stage.sync(no_timer()).await;
    stage.ready().await;
    // Also again, right after it was made.
    for _ in 0..2 {
        let before = stage.resources().await[&id].uid();
        let api = resources(stage.client());
        api.delete(&id, &DeleteParams::default()).await.unwrap();
        eventually("there is another resource", || async {
            let found = stage.resources().await.remove(&id)?;
            (found.uid() != before).then_some(())
        })
        .await;
    }
    stage.ready().await;
    value_is(stage.client(), &stage.name, "web", "one").await;
}

/// Edits one resource of a sync of its own: who edits again and again is answered more slowly.
async fn is_put_right(edited: impl FnOnce(&Stage, &str) -> Value) {
    let stage = Stage::new().await;
    let id = stage.render("web", "one").id;
    let other = stage.render("db", "one").id;
    stage.sync(no_timer()).await;
    stage.ready().await;
    let patch = edited(&stage, &other);
    let before = decided(&stage.resources().await[&id]);
    edit(&stage, &id, &patch).await;
    eventually(&format!("{patch} is put right"), || async {
        let found = resources(stage.client()).get(&id).await.unwrap();
        (decided(&found) == before).then_some(())
    })
    .await;
    stage.ready().await;
    value_is(stage.client(), &stage.name, "web", "one").await;
    assert_eq!(names(stage.client(), &stage.name).await, ["db", "web"]);
    assert_eq!(stage.resources().await.len(), 2);
}

#[tokio::test]
async fn content_that_somebody_edits_is_put_right_at_once() {
    is_put_right(
        |stage, _| json!({"spec": {"manifest": config_map(&stage.name, "web", "edited")}}),
    )
    .await;
    is_put_right(|_, _| json!({"spec": {"manifest": "no manifest"}})).await;
    let mark =
        |value: Value| json!({"metadata": {"annotations": {ARTIFACT_CONTENT_ANNOTATION: value}}});
    is_put_right(|_, _| mark(Value::Null)).await;
    is_put_right(|_, _| mark(json!("a b"))).await;
}

#[tokio::test]
async fn a_destination_that_somebody_edits_is_put_right_at_once() {
    is_put_right(|_, _| json!({"spec": {"destination": {"namespace": "elsewhere"}}})).await;
    is_put_right(|_, _| json!({"spec": {"destination": {"reconcileOnEvents": false}}})).await;
}

#[tokio::test]
async fn a_label_or_an_owner_that_somebody_edits_is_put_right_at_once() {
    let label = |value: Value| json!({"metadata": {"labels": {ARTIFACT_ID_LABEL: value}}});
    is_put_right(|_, _| label(json!("something"))).await;
    is_put_right(|_, other| label(json!(other))).await;
    is_put_right(|_, _| label(Value::Null)).await;
    is_put_right(|_, _| json!({"metadata": {"ownerReferences": []}})).await;
    let both = json!({"metadata": {"ownerReferences": [], "labels": {ARTIFACT_ID_LABEL: "x"}}});
    is_put_right(|_, _| both).await;
}

#[tokio::test]
async fn what_a_person_adds_to_a_resource_stays() {
    let stage = Stage::new().await;
    let id = stage.render("web", "one").id;
    stage.sync(no_timer()).await;
    stage.ready().await;
    let wish = json!({
        "metadata": {"labels": {"team": "shop"}},
        "spec": {"precedence": 5, "prune": {"enabled": false}, "adoption": "Never"},
    });
    edit(&stage, &id, &wish).await;
    stage.render("web", "two");
    stage.look().await;
    value_is(stage.client(), &stage.name, "web", "two").await;
    let resource = stage.resources().await.remove(&id).unwrap();
    let spec = json!(resource.spec);
    assert_eq!(resource.labels()["team"], "shop");
    assert_eq!(spec["precedence"], 5, "{spec}");
    assert_eq!(spec["prune"]["enabled"], false, "{spec}");
    assert_eq!(spec["adoption"], "Never", "{spec}");

    edit(&stage, &id, &json!({"spec": {"suspend": true}})).await;
    stage.render("web", "three");
    stage.look().await;
    let resource = stage.resources().await.remove(&id).unwrap();
    assert!(resource.spec.suspend, "a person's decision");
    assert!(resource.spec.manifest.unwrap().contains("three"));
    let sync = stage.condition("Ready", "False").await;
    assert_ne!(sync.status.unwrap().sync_state, Some(State::Succeeded));
    value_is(stage.client(), &stage.name, "web", "two").await;
    edit(&stage, &id, &json!({"spec": {"suspend": null}})).await;
    value_is(stage.client(), &stage.name, "web", "three").await;
    stage.ready().await;
}

#[tokio::test]
async fn while_infrahub_is_away_what_was_applied_is_still_healed_and_the_sync_is_stale() {
    let stage = Stage::new().await;
    let id = stage.render("web", "one").id;
    stage.sync(no_timer()).await;
    stage.ready().await;
    stage.infrahub.halt();
    let mark = stage.mark().await;
    let sync = stage.look().await;
    assert_eq!(said(&sync, "Ready").0, "InfrahubUnreachable");
    assert_eq!(said(&sync, "SourceReady").0, "InfrahubUnreachable");
    let status = sync.status.unwrap();
    assert_eq!(status.sync_state, Some(State::Stale));
    assert_eq!(status.artifacts.len(), 1, "{}", show(&status));
    let api = config_maps(stage.client(), &stage.name);
    let edited = json!({"data": {"key": "edited"}});
    api.patch("web", &PatchParams::default(), &Patch::Merge(&edited))
        .await
        .unwrap();
    value_is(stage.client(), &stage.name, "web", "one").await;
    api.delete("web", &DeleteParams::default()).await.unwrap();
    value_is(stage.client(), &stage.name, "web", "one").await;
    assert!(stage.deletions(mark, &[&id]).await.is_empty());
    stage.infrahub.resume().unwrap();
    stage.render("web", "two");
    value_is(stage.client(), &stage.name, "web", "two").await;
    stage.ready().await;
}

#[tokio::test]
async fn a_suspended_sync_asks_and_changes_nothing() {
    let stage = Stage::new().await;
    let id = stage.render("web", "one").id;
    stage.sync(json!({"interval": "1s"})).await;
    stage.ready().await;
    stage.change(json!({"suspend": true})).await;
    stage.reason("Suspended").await;
    // A poll that had begun has ended.
    stage.infrahub.clear_journal();
    let mark = stage.mark().await;
    stage.render("web", "two");
    let edited = config_map(&stage.name, "web", "three");
    edit(&stage, &id, &json!({"spec": {"manifest": edited}})).await;
    value_is(stage.client(), &stage.name, "web", "three").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(stage.infrahub.journal().is_empty());
    let writes = stage.writes(mark, &[&id]).await;
    let is_change =
        |it: &&vidra_lab::controlplane::Entry| it.name == id && it.subresource.is_empty();
    assert_eq!(
        writes.iter().filter(is_change).count(),
        0,
        "{}",
        show(&writes)
    );
    stage.change(json!({"suspend": false})).await;
    value_is(stage.client(), &stage.name, "web", "two").await;
    stage.ready().await;
}

#[tokio::test]
async fn the_status_follows_the_resources_by_events() {
    let stage = Stage::new().await;
    let later = unique("later");
    let good = stage.render("web", "one").id;
    let bad = stage.render_text("db", &config_map(&later, "db", "one")).id;
    stage.sync(no_timer()).await;
    let sync = stage.reason("ResourcesNotReady").await;
    let (_, message) = said(&sync, "Ready");
    assert!(message.contains(&bad), "{message}");
    assert!(message.contains(&later), "{message}");
    let status = sync.status.unwrap();
    assert_eq!(status.sync_state, Some(State::Failed));
    assert!(status.last_error.is_some());
    eventually("the other one is ready", || async {
        let sync = syncs(stage.client()).get(&stage.name).await.unwrap();
        let artifacts = sync.status?.artifacts;
        let shown = |id: &str| artifacts.iter().find(|it| it.id == id)?.resource_state;
        let is_so = shown(&good) == Some(State::Succeeded) && shown(&bad) == Some(State::Failed);
        is_so.then_some(())
    })
    .await;
    stage.infrahub.clear_journal();
    ensure_namespace(stage.client(), &later).await;
    let sync = stage.ready().await;
    assert!(sync.status.unwrap().last_error.is_none());
    assert!(
        stage.infrahub.journal().is_empty(),
        "nothing had to be asked"
    );
}

#[tokio::test]
async fn at_rest_a_poll_is_one_query_without_a_download_or_a_write() {
    let stage = Stage::new().await;
    let id = stage.render("web", "one").id;
    stage.sync(json!({"interval": "1s"})).await;
    stage.ready().await;
    let mark = stage.mark().await;
    stage.infrahub.clear_journal();
    let begin = Instant::now();
    eventually("there were five polls", || async {
        (stage.infrahub.journal().len() >= 5).then_some(())
    })
    .await;
    let calls = stage.infrahub.journal();
    let most = begin.elapsed().as_secs() + 2;
    assert!(
        calls.len() as u64 <= most,
        "{} calls in {most} s",
        calls.len()
    );
    let is_query = |call: &vidra_lab::standin::Call| call.path.starts_with("/graphql");
    assert!(calls.iter().all(is_query), "{}", show(&calls));
    let writes = stage.writes(mark, &[&id]).await;
    assert!(writes.is_empty(), "{}", show(&writes));
}

#[tokio::test]
async fn only_a_changed_checksum_costs_a_download() {
    let stage = Stage::new().await;
    let id = stage.render("web", "one").id;
    stage.render("db", "one");
    stage.sync(no_timer()).await;
    stage.ready().await;
    let mark = stage.mark().await;
    stage.infrahub.clear_journal();
    stage.render("web", "one");
    stage.look().await;
    assert_eq!(stage.infrahub.count("GET", DOWNLOADS), 0);
    let writes = stage.writes(mark, &[&id]).await;
    let writes = writes.iter().filter(|it| it.name != stage.name);
    assert_eq!(writes.count(), 0);
    stage.render("web", "two");
    stage.look().await;
    stage.ready().await;
    assert_eq!(stage.infrahub.count("GET", DOWNLOADS), 1);
}

/// A ConfigMap, a Secret and something large.
fn three_kinds(stage: &Stage) -> [Rendered; 3] {
    let padding = format!("# {}\n", "x".repeat(120)).repeat(5_000);
    [
        stage.render("web", "one"),
        stage.render_text("secret", &secret(&stage.name, "one")),
        stage.render_text(
            "large",
            &(config_map(&stage.name, "large", "one") + &padding),
        ),
    ]
}

fn secret(namespace: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: secret, namespace: {namespace}}}\n\
         stringData: {{key: hidden-{value}}}\n"
    )
}

#[tokio::test]
async fn a_restart_writes_and_downloads_nothing() {
    let stage = own_stage().await;
    let operator = Operator::start(stage.world.plane.config(), quick_settings());
    three_kinds(&stage);
    stage.sync(json!({"interval": "1s"})).await;
    stage.ready().await;
    operator.stop();
    let mark = stage.mark().await;
    stage.infrahub.clear_journal();
    let operator = Operator::start(stage.world.plane.config(), quick_settings());
    eventually("there were three polls", || async {
        (stage.infrahub.count("POST", "/graphql") >= 3).then_some(())
    })
    .await;
    assert_eq!(stage.infrahub.count("GET", DOWNLOADS), 0);
    let plane = stage.world.plane;
    plane.audit_fence().await.unwrap();
    let writes = plane.audit().mutations(mark, "vidra/").unwrap();
    assert!(writes.is_empty(), "{}", show(&writes));
    operator.stop();
}

#[tokio::test]
async fn stored_content_that_was_lost_is_fetched_again() {
    let stage = own_stage().await;
    let operator = Operator::start(stage.world.plane.config(), quick_settings());
    let [_, hidden, _] = three_kinds(&stage);
    stage.sync(no_timer()).await;
    stage.ready().await;
    operator.stop();
    let stored: Api<Secret> = Api::namespaced(stage.client().clone(), OWN);
    let params = ListParams::default().labels(CONTENT_LABEL);
    let chunks = stored.list(&params).await.unwrap().items;
    assert!(chunks.len() >= 2, "{}", chunks.len());
    for chunk in chunks {
        let name = chunk.name_any();
        stored
            .delete(&name, &DeleteParams::default())
            .await
            .unwrap();
    }
    let mark = stage.mark().await;
    let operator = Operator::start(stage.world.plane.config(), quick_settings());
    eventually("the content is there again", || async {
        let found = stored.list(&params).await.unwrap().items;
        (found.len() >= 2).then_some(())
    })
    .await;
    stage.look().await;
    stage.ready().await;
    assert!(stage.deletions(mark, &[&hidden.id]).await.is_empty());
    operator.stop();
}

/// A resource as the Go operator made it.
async fn legacy(stage: &Stage, id: &str, manifest: &str, owners: Value) -> VidraResource {
    let resource = json!({
        "apiVersion": "infrahub.operators.com/v1alpha1", "kind": "VidraResource",
        "metadata": {"name": id, "ownerReferences": owners,
            "finalizers": ["vidraresource.infrahub.operators.com/finalizer"]},
        "spec": {"destination": {"server": "https://kubernetes.default.svc"},
            "manifest": manifest, "reconciledAt": "2025-01-01T00:00:00Z"},
    });
    let resource = serde_json::from_value(resource).unwrap();
    let api = resources(stage.client());
    api.create(&PostParams::default(), &resource).await.unwrap()
}

#[tokio::test]
async fn resources_of_the_go_operator_are_taken_over_in_place() {
    let stage = Stage::new().await;
    stage
        .sync_as(
            &stage.name,
            no_timer(),
            json!({"server": "https://kubernetes.default.svc"}),
        )
        .await;
    stage.change(json!({"suspend": true})).await;
    stage.reason("Suspended").await;
    let uid = syncs(stage.client()).get(&stage.name).await.unwrap().uid();
    let owner = json!({"apiVersion": "infrahub.operators.com/v1alpha1", "kind": "InfrahubSync",
        "name": stage.name, "uid": uid});
    let mut controller = owner.clone();
    controller["controller"] = json!(true);
    controller["blockOwnerDeletion"] = json!(true);
    let owners = [
        ("none", json!([])),
        ("plain", json!([owner])),
        ("controller", json!([controller])),
        ("old", json!([owner])),
    ];
    let mut made = Vec::new();
    for (target, owners) in owners {
        let rendered = stage.render(target, "one");
        let value = if target == "old" { "older" } else { "one" };
        let manifest = config_map(&stage.name, target, value);
        let resource = legacy(&stage, &rendered.id, &manifest, owners).await;
        value_is(stage.client(), &stage.name, target, value).await;
        made.push((rendered, resource.uid()));
    }
    let objects = uids(&stage).await;
    let ids: Vec<&str> = made.iter().map(|(it, _)| it.id.as_str()).collect();
    let mark = stage.mark().await;
    stage.change(json!({"suspend": false})).await;
    stage.ready().await;
    let resources = stage.resources().await;
    assert_eq!(resources.len(), made.len());
    for (rendered, uid) in &made {
        let resource = &resources[&rendered.id];
        assert_eq!(resource.uid(), *uid, "taken over in place");
        assert_eq!(resource.labels()[ARTIFACT_ID_LABEL], rendered.id);
        let owners = resource.owner_references();
        assert_eq!(owners.len(), 1, "{}", show(&owners));
        assert_eq!(owners[0].controller, Some(true));
    }
    value_is(stage.client(), &stage.name, "old", "one").await;
    assert_eq!(uids(&stage).await, objects, "the objects as well");
    assert!(stage.deletions(mark, &ids).await.is_empty());
}

async fn uids(stage: &Stage) -> Vec<Option<String>> {
    let api = config_maps(stage.client(), &stage.name);
    let mut found = api.list(&ListParams::default()).await.unwrap().items;
    found.retain(|it| it.name_any() != "kube-root-ca.crt");
    found.into_iter().map(|it| it.uid()).collect()
}

#[tokio::test]
async fn an_artifact_that_is_not_ready_keeps_what_is_applied_and_the_sync_says_so() {
    let stage = Stage::new().await;
    let id = stage.render("web", "0").id;
    stage.render("db", "0");
    stage.sync(no_timer()).await;
    stage.ready().await;
    let artifact = || stage.infrahub.artifact(ARTIFACT).target("web");
    for round in 1..=3 {
        let mark = stage.mark().await;
        let (word, _) = match round {
            1 => ("Pending", artifact().pending()),
            2 => ("Processing", artifact().processing()),
            _ => ("Error", artifact().failed()),
        };
        // The others are followed all the same.
        stage.render("db", &round.to_string());
        let sync = stage.look().await;
        let (reason, message) = said(&sync, "Ready");
        assert_eq!(reason, "ArtifactNotReady", "{message}");
        assert!(
            message.contains("web") && message.contains(word),
            "{message}"
        );
        let status = sync.status.unwrap();
        assert_eq!(status.sync_state, Some(State::Stale), "{}", show(&status));
        let shown = status.artifacts.iter().find(|it| it.id == id).unwrap();
        assert_eq!(shown.state.as_deref(), Some(word));
        assert_eq!(shown.resource_state, Some(State::Succeeded));
        value_is(stage.client(), &stage.name, "db", &round.to_string()).await;
        value_is(stage.client(), &stage.name, "web", &(round - 1).to_string()).await;
        let writes = stage.writes(mark, &[&id]).await;
        assert!(writes.iter().all(|it| it.name != id && it.name != "web"));
        stage.render("web", &round.to_string());
        stage.look().await;
        stage.ready().await;
        value_is(stage.client(), &stage.name, "web", &round.to_string()).await;
    }
}

#[tokio::test]
async fn secrets_and_large_content_are_stored_elsewhere_and_come_back_when_they_are_neither() {
    let stage = Stage::new().await;
    let small = config_map(&stage.name, "web", "one");
    let padding = format!("# {}\n", "x".repeat(120)).repeat(5_000);
    let large = format!("{small}{padding}");
    let hidden = format!(
        "{}{}",
        secret(&stage.name, "one"),
        config_map(&stage.name, "web", "1")
    );
    let more = format!("{}{small}", secret(&stage.name, "two"));
    let id = stage.render_text("web", &small).id;
    stage.sync(no_timer()).await;
    stage.ready().await;
    let uid = stage.resources().await[&id].uid();
    for (text, is_stored) in [
        (&hidden, true),
        (&more, true),
        (&small, false),
        (&large, true),
        (&small, false),
        (&hidden, true),
        (&large, true),
    ] {
        stage.render_text("web", text);
        stage.look().await;
        stage.ready().await;
        let resource = stage.resources().await.remove(&id).unwrap();
        assert_eq!(resource.uid(), uid);
        let spec = &resource.spec;
        assert_eq!(spec.manifest_from.is_some(), is_stored);
        assert_eq!(spec.manifest.is_some(), !is_stored);
        assert!(!json!(resource).to_string().contains("hidden-"));
        let live: Api<Secret> = Api::namespaced(stage.client().clone(), &stage.name);
        let live = live.get_opt("secret").await.unwrap();
        assert_eq!(live.is_some(), text.contains("hidden-"), "{}", show(&live));
        let value = if text == &hidden { "1" } else { "one" };
        value_is(stage.client(), &stage.name, "web", value).await;
    }
    request(stage.client(), &id).await;
}
