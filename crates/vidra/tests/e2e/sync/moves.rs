//! A sync that is pointed elsewhere: branch, date, destination, name, server. What comes is there
//! before what goes, and what stays the same is never away.

use jiff::{SignedDuration, Timestamp};
use kube::{ResourceExt, api::PostParams};
use serde_json::{Value, json};
use vidra_api::{InfrahubSync, State, names::ORIGIN_ANNOTATION};
use vidra_lab::{
    controlplane::{Mark, unique},
    standin::{ADMIN, Rendered, StandIn},
};

use super::{ARTIFACT, Stage, ensure_namespace, put_secret, said, syncs};
use crate::support::{config_map, config_maps, eventually, is_gone, resources, show, value_is};

fn no_timer() -> Value {
    json!({"interval": "0s"})
}

impl Stage {
    async fn uid_of(&self, name: &str) -> Option<String> {
        let api = config_maps(self.client(), &self.name);
        api.get_opt(name).await.unwrap()?.uid()
    }

    /// Waits until the sync is ready, with these resources and no others.
    async fn settles_with(&self, ids: &[&str]) -> InfrahubSync {
        let mut wanted: Vec<&str> = ids.to_vec();
        wanted.sort_unstable();
        eventually(&format!("the sync has {wanted:?}"), || async {
            let has = self.resources().await;
            let has: Vec<&str> = has.keys().map(String::as_str).collect();
            (has == wanted).then_some(())
        })
        .await;
        self.ready().await
    }

    fn on_branch(&self, branch: &str, target: &str, value: &str) -> Rendered {
        let text = config_map(&self.name, target, value);
        let artifact = self.infrahub.artifact(ARTIFACT).target(target);
        artifact.branch(branch).content(text.into_bytes()).ready()
    }

    fn under(&self, infrahub: &StandIn, name: &str, documents: &[(&str, &str)]) -> Rendered {
        let texts = documents.iter();
        let texts = texts.map(|(object, value)| config_map(&self.name, object, value));
        let text: String = texts.collect();
        let artifact = infrahub.artifact(name).target("moved");
        artifact.content(text.into_bytes()).ready()
    }
}

#[tokio::test]
async fn another_branch_changes_the_same_resources_in_place() {
    let stage = Stage::new().await;
    let web = stage.render("web", "one");
    stage.infrahub.branch("next/one");
    let on_branch = stage.on_branch("next/one", "web", "two");
    assert_eq!(web.id, on_branch.id, "a branch has the artifacts of main");
    let only_main = stage.render("only-main", "one").id;
    let only_next = stage.on_branch("next/one", "only-next", "two").id;
    stage.sync(no_timer()).await;
    stage.settles_with(&[&web.id, &only_main]).await;
    let (resource, object) = (
        stage.resources().await[&web.id].uid(),
        stage.uid_of("web").await,
    );
    let mark = stage.mark().await;
    stage
        .change(json!({"source": {"targetBranch": "next/one"}}))
        .await;
    let sync = stage.settles_with(&[&web.id, &only_next]).await;
    value_is(stage.client(), &stage.name, "web", "two").await;
    value_is(stage.client(), &stage.name, "only-next", "two").await;
    is_gone(stage.client(), &stage.name, "only-main").await;
    let mut checksums = sync.status.unwrap().checksums;
    checksums.retain(|it| Some(it) == on_branch.checksum.as_ref());
    assert_eq!(checksums.len(), 1);
    assert_eq!(stage.resources().await[&web.id].uid(), resource);
    assert_eq!(stage.uid_of("web").await, object);
    let deletions = stage.deletions(mark, &[&web.id, &only_main]).await;
    let gone = [
        format!("vidraresources/{only_main}"),
        "configmaps/only-main".to_owned(),
    ];
    assert_eq!(deletions, gone);

    // And back again.
    stage
        .change(json!({"source": {"targetBranch": null}}))
        .await;
    stage.settles_with(&[&web.id, &only_main]).await;
    value_is(stage.client(), &stage.name, "web", "one").await;
}

#[tokio::test]
async fn a_branch_that_does_not_exist_removes_nothing() {
    let stage = Stage::new().await;
    let web = stage.render("web", "one").id;
    stage.sync(no_timer()).await;
    stage.ready().await;
    let mark = stage.mark().await;
    stage
        .change(json!({"source": {"targetBranch": "nowhere", "allowEmpty": true}}))
        .await;
    let sync = stage.reason("BranchNotFound").await;
    assert_eq!(sync.status.unwrap().sync_state, Some(State::Stale));
    let deletions = stage.deletions(mark, &[&web]).await;
    assert!(deletions.is_empty(), "{}", show(&deletions));
    // Once it is there, it is followed, by the next look.
    stage.on_branch("nowhere", "web", "two");
    stage.look().await;
    value_is(stage.client(), &stage.name, "web", "two").await;
}

#[tokio::test]
async fn a_fixed_date_is_a_rollback_that_stays_and_a_relative_date_moves() {
    let stage = Stage::new().await;
    let now = Timestamp::now();
    let hours = |count: i64| SignedDuration::from_hours(count);
    stage.infrahub.set_now(now - hours(4));
    let web = stage.render("web", "old").id;
    stage.infrahub.set_now(now - hours(2));
    stage.render("web", "new");
    let late = stage.render("late", "new").id;
    stage.infrahub.set_now(now);
    stage.sync(no_timer()).await;
    stage.settles_with(&[&web, &late]).await;
    let object = stage.uid_of("web").await;

    let date = (now - hours(3)).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    stage.change(json!({"source": {"targetDate": date}})).await;
    stage.settles_with(&[&web]).await;
    value_is(stage.client(), &stage.name, "web", "old").await;
    is_gone(stage.client(), &stage.name, "late").await;
    assert_eq!(stage.uid_of("web").await, object);
    // What is rendered now does not matter.
    stage.render("web", "newer");
    stage.look().await;
    stage.ready().await;
    value_is(stage.client(), &stage.name, "web", "old").await;

    stage
        .change(json!({"source": {"targetDate": "now-3h"}}))
        .await;
    stage.ready().await;
    value_is(stage.client(), &stage.name, "web", "old").await;
    stage.infrahub.advance(std::time::Duration::from_hours(2));
    stage.look().await;
    stage.settles_with(&[&web, &late]).await;
    value_is(stage.client(), &stage.name, "web", "new").await;

    stage.change(json!({"source": {"targetDate": ""}})).await;
    value_is(stage.client(), &stage.name, "web", "newer").await;
    assert_eq!(stage.uid_of("web").await, object);
}

#[tokio::test]
async fn another_namespace_gets_the_objects_before_the_old_one_loses_them() {
    let stage = Stage::new().await;
    let (old, new) = (stage.name.clone(), unique("new"));
    ensure_namespace(stage.client(), &new).await;
    let floating = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {key: one}\n";
    let fixed = config_map(&old, "fixed", "one");
    let id = stage.render_text("web", &format!("{floating}{fixed}")).id;
    stage
        .sync_as(&stage.name, no_timer(), json!({"namespace": old}))
        .await;
    stage.ready().await;
    let (resource, object) = (
        stage.resources().await[&id].uid(),
        stage.uid_of("fixed").await,
    );
    stage.infrahub.clear_journal();
    let mark = stage.mark().await;
    stage
        .change(json!({"destination": {"namespace": new}}))
        .await;
    value_is(stage.client(), &new, "web", "one").await;
    is_gone(stage.client(), &old, "web").await;
    stage.ready().await;
    assert_eq!(stage.resources().await[&id].uid(), resource);
    assert_eq!(stage.uid_of("fixed").await, object);
    assert_eq!(stage.deletions(mark, &[&id]).await, ["configmaps/web"]);
    assert!(created(&stage, mark, &new).await < deleted(&stage, mark, &old).await);
    let downloads = stage.infrahub.count("GET", "/api/storage/");
    assert_eq!(downloads, 0, "the content is the same");

    // Into a namespace that does not exist: what is there stays.
    let mark = stage.mark().await;
    let nowhere = json!({"destination": {"namespace": unique("nowhere")}});
    stage.change(nowhere).await;
    stage.reason("ResourcesNotReady").await;
    value_is(stage.client(), &new, "web", "one").await;
    assert!(stage.deletions(mark, &[&id]).await.is_empty());
    stage
        .change(json!({"destination": {"namespace": new}}))
        .await;
    stage.ready().await;
}

/// When the ConfigMap `web` was made in a namespace.
async fn created(stage: &Stage, mark: Mark, namespace: &str) -> String {
    at(stage, mark, namespace, |entry| entry.code == 201).await
}

/// When the ConfigMap `web` was deleted from a namespace.
async fn deleted(stage: &Stage, mark: Mark, namespace: &str) -> String {
    at(stage, mark, namespace, |entry| entry.verb == "delete").await
}

async fn at(
    stage: &Stage,
    mark: Mark,
    namespace: &str,
    is_it: impl Fn(&vidra_lab::controlplane::Entry) -> bool,
) -> String {
    stage.world.plane.audit_fence().await.unwrap();
    let entries = stage.world.plane.audit().mutations(mark, "vidra/").unwrap();
    let mut entries = entries.into_iter();
    let found =
        entries.find(|entry| entry.namespace == namespace && entry.name == "web" && is_it(entry));
    found.expect("it is in the audit log").time
}

/// Points the sync elsewhere, where other artifacts have some of the same objects, and checks that
/// those are never away.
async fn moves_without_a_gap(stage: &Stage, before: &Rendered, after: &Rendered, to: Value) {
    let uids = |stage: &Stage| {
        let names = ["same", "other"].map(str::to_owned);
        let api = config_maps(stage.client(), &stage.name);
        async move {
            let mut uids = Vec::new();
            for name in names {
                uids.push(api.get(&name).await.unwrap().uid());
            }
            uids
        }
    };
    let known = uids(stage).await;
    let mark = stage.mark().await;
    stage.change(json!({"source": to})).await;
    stage.settles_with(&[&after.id]).await;
    is_gone(stage.client(), &stage.name, "goes").await;
    value_is(stage.client(), &stage.name, "same", "one").await;
    value_is(stage.client(), &stage.name, "other", "two").await;
    value_is(stage.client(), &stage.name, "comes", "two").await;
    assert_eq!(uids(stage).await, known, "the objects were never away");
    let deletions = stage.deletions(mark, &[&before.id, &after.id]).await;
    let gone = [
        format!("vidraresources/{}", before.id),
        "configmaps/goes".to_owned(),
    ];
    assert_eq!(deletions, gone);
}

const BEFORE: [(&str, &str); 3] = [("same", "one"), ("other", "one"), ("goes", "one")];
const AFTER: [(&str, &str); 3] = [("same", "one"), ("other", "two"), ("comes", "two")];

#[tokio::test]
async fn another_artifact_name_leaves_no_gap_for_what_stays() {
    let stage = Stage::new().await;
    let before = stage.under(&stage.infrahub, ARTIFACT, &BEFORE);
    let after = stage.under(&stage.infrahub, "other", &AFTER);
    stage.sync(no_timer()).await;
    stage.ready().await;
    let to = json!({"artifactName": "other"});
    moves_without_a_gap(&stage, &before, &after, to).await;
}

#[tokio::test]
async fn another_infrahub_leaves_no_gap_for_what_stays() {
    let stage = Stage::new().await;
    let before = stage.under(&stage.infrahub, ARTIFACT, &BEFORE);
    stage.sync(no_timer()).await;
    stage.ready().await;
    let other = StandIn::start().unwrap();
    let after = stage.under(&other, ARTIFACT, &AFTER);
    let annotations = [(ORIGIN_ANNOTATION.to_owned(), other.url())];
    let data = [("username", ADMIN.0), ("password", ADMIN.1)];
    let secret = unique("other");
    put_secret(stage.client(), &secret, &data, annotations.into()).await;
    let to = json!({"infrahubAPIURL": other.url()});
    moves_without_a_gap(&stage, &before, &after, to).await;
}

#[tokio::test]
async fn what_was_there_stays_while_what_should_take_its_place_fails() {
    let stage = Stage::new().await;
    let before = stage.under(&stage.infrahub, ARTIFACT, &BEFORE);
    stage.sync(no_timer()).await;
    stage.ready().await;
    let mark = stage.mark().await;
    let other = || stage.infrahub.artifact("other").target("moved");
    // Not rendered, then no manifest, then one that the API server refuses.
    let after = other().pending();
    stage
        .change(json!({"source": {"artifactName": "other"}}))
        .await;
    let sync = stage.reason("ArtifactNotReady").await;
    assert_ne!(sync.status.unwrap().sync_state, Some(State::Succeeded));
    other().content("<html></html>").ready();
    stage.look().await;
    stage.reason("ManifestInvalid").await;
    let missing = config_map("no-such-namespace", "web", "one");
    other().content(missing.into_bytes()).ready();
    stage.look().await;
    stage.reason("ResourcesNotReady").await;
    let deletions = stage.deletions(mark, &[&before.id, &after.id]).await;
    assert!(deletions.is_empty(), "{}", show(&deletions));
    for (name, value) in BEFORE {
        value_is(stage.client(), &stage.name, name, value).await;
    }
    stage.under(&stage.infrahub, "other", &AFTER);
    stage.look().await;
    stage.settles_with(&[&after.id]).await;
    is_gone(stage.client(), &stage.name, "goes").await;
    value_is(stage.client(), &stage.name, "same", "one").await;
}

#[tokio::test]
async fn a_resource_that_was_to_go_stays_when_the_sync_comes_back() {
    let stage = Stage::new().await;
    let before = stage.under(&stage.infrahub, ARTIFACT, &BEFORE);
    stage.infrahub.artifact("other").target("moved").pending();
    stage.sync(no_timer()).await;
    stage.ready().await;
    let uid = stage.resources().await[&before.id].uid();
    stage
        .change(json!({"source": {"artifactName": "other"}}))
        .await;
    stage.reason("ArtifactNotReady").await;
    stage
        .change(json!({"source": {"artifactName": ARTIFACT}}))
        .await;
    stage.settles_with(&[&before.id]).await;
    let resource = resources(stage.client()).get(&before.id).await.unwrap();
    assert_eq!(resource.uid(), uid);
}

#[tokio::test]
async fn a_date_in_the_future_or_of_another_form_is_refused_by_the_api_server() {
    let stage = Stage::new().await;
    for (date, why) in [
        ("now+2h", "sign"),
        ("yesterday", "targetDate"),
        ("2025-01-31", "targetDate"),
        ("now-2d", "targetDate"),
    ] {
        let sync = json!({
            "apiVersion": "infrahub.operators.com/v1alpha1", "kind": "InfrahubSync",
            "metadata": {"name": unique("dated")},
            "spec": {"source": {"infrahubAPIURL": stage.infrahub.url(),
                "artifactName": ARTIFACT, "targetDate": date}},
        });
        let sync: InfrahubSync = serde_json::from_value(sync).unwrap();
        let refused = syncs(stage.client())
            .create(&PostParams::default(), &sync)
            .await;
        let message = refused.expect_err(date).to_string();
        assert!(message.contains(why), "{date}: {message}");
    }
}

#[tokio::test]
async fn a_day_that_does_not_exist_stalls_the_sync_and_removes_nothing() {
    let stage = Stage::new().await;
    let web = stage.render("web", "one").id;
    stage.sync(no_timer()).await;
    stage.ready().await;
    let mark = stage.mark().await;
    stage.infrahub.clear_journal();
    let date = json!({"source": {"targetDate": "2025-02-30T00:00:00Z"}});
    stage.change(date).await;
    let sync = stage.reason("InvalidSpec").await;
    let (_, message) = said(&sync, "Stalled");
    assert!(message.contains("targetDate"), "{message}");
    assert_eq!(sync.status.unwrap().sync_state, Some(State::Stale));
    assert!(stage.infrahub.journal().is_empty(), "nothing to ask");
    assert!(stage.deletions(mark, &[&web]).await.is_empty());
    stage.change(json!({"source": {"targetDate": null}})).await;
    stage.ready().await;
}
