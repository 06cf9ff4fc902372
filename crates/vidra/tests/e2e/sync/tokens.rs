//! Tokens that end at any moment: one login more, and nothing else is to be seen of it.

use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use vidra_lab::{
    controlplane::Mark,
    standin::{Effect, Fault, When},
};

use super::{
    ARTIFACT, Stage, ensure_namespace, request, resources_of, said, sync_condition, syncs,
};
use crate::support::{is_gone, names, show, value_is};

/// No timer, so that every call is one that the test has asked for.
const NEVER: &str = "0";
const TARGETS: [&str; 3] = ["a", "b", "c"];

/// A source without a timer, with the Secret by name: it is waited for, even if the sync is seen
/// before it.
fn source(stage: &Stage) -> serde_json::Value {
    json!({"interval": NEVER, "credentialsRef": {"name": stage.name}})
}

async fn stage() -> Stage {
    let stage = Stage::new().await;
    for target in TARGETS {
        stage.render(target, "one");
    }
    stage
}

/// All tokens become invalid just before the call with this number.
fn expire_at(stage: &Stage, call: usize) {
    let fault = Fault::on("/", Effect::Expire);
    stage.infrahub.fault(fault.when(When::Nth(call)));
}

fn logins(stage: &Stage) -> usize {
    stage.infrahub.count("POST", "/api/auth/")
}

/// How many calls brought a token that was not good any more.
fn refusals(stage: &Stage) -> usize {
    let journal = stage.infrahub.journal();
    journal
        .iter()
        .filter(|call| call.status == Some(401))
        .count()
}

/// The names of what was deleted of a stage, resources and objects.
async fn deletions(stage: &Stage, mark: Mark) -> Vec<String> {
    let plane = stage.world.plane;
    plane.audit_fence().await.unwrap();
    // What is on its way out may go; its objects are gone before it is.
    let mut own = stage.resources().await;
    own.retain(|_, resource| resource.metadata.deletion_timestamp.is_none());
    let entries = plane.audit().since(mark).unwrap().into_iter();
    entries
        .filter(|entry| entry.verb.starts_with("delete"))
        .filter(|entry| {
            let is_resource = entry.resource == "vidraresources" && own.contains_key(&entry.name);
            is_resource || entry.namespace == stage.name
        })
        .map(|entry| format!("{} {}", entry.resource, entry.name))
        .collect()
}

#[tokio::test]
async fn a_token_that_ends_at_any_call_of_a_first_sync_costs_one_login() {
    let undisturbed = stage().await;
    undisturbed.sync(source(&undisturbed)).await;
    undisturbed.ready().await;
    assert_eq!(logins(&undisturbed), 1);
    let calls = undisturbed.infrahub.journal().len();
    // A login, a list and the contents.
    assert_eq!(calls, 2 + TARGETS.len());
    join_all((1..=calls).map(|call| async move {
        let stage = stage().await;
        let mark = stage.world.plane.audit().mark().unwrap();
        expire_at(&stage, call);
        stage.sync(source(&stage)).await;
        stage.ready().await;
        // The first call is the login itself, and what it gives is good.
        let extra = usize::from(call > 1);
        assert_eq!(logins(&stage), 1 + extra, "call {call}");
        assert!(refusals(&stage) >= extra, "call {call}");
        assert_eq!(names(stage.client(), &stage.name).await, TARGETS);
        let deleted = deletions(&stage, mark).await;
        assert!(deleted.is_empty(), "call {call}: {deleted:?}");
    }))
    .await;
}

#[tokio::test]
async fn a_token_that_ends_at_any_call_of_a_change_costs_one_login_and_deletes_nothing() {
    let stage = stage().await;
    stage.sync(source(&stage)).await;
    stage.ready().await;
    let mark = stage.world.plane.audit().mark().unwrap();
    let change = |value: String| {
        let stage = &stage;
        async move {
            for target in ["a", "b"] {
                stage.render(target, &value);
            }
            stage.infrahub.clear_journal();
            let sync = stage.look().await;
            let (reason, message) = said(&sync, "SourceReady");
            assert_eq!(reason, "PlainHttp", "{value}: {message}");
            for target in ["a", "b"] {
                value_is(stage.client(), &stage.name, target, &value).await;
            }
            stage.ready().await;
        }
    };
    change("undisturbed".to_owned()).await;
    let calls = stage.infrahub.journal().len();
    assert_eq!((calls, logins(&stage)), (3, 0));
    for call in 1..=calls {
        expire_at(&stage, call);
        change(format!("call{call}")).await;
        stage.infrahub.clear_faults();
        assert_eq!(logins(&stage), 1, "call {call}");
    }
    let deleted = deletions(&stage, mark).await;
    assert!(deleted.is_empty(), "{deleted:?}");
    value_is(stage.client(), &stage.name, "c", "one").await;
}

#[tokio::test]
async fn a_token_that_ends_at_any_call_of_a_removal_costs_one_login_and_no_other_object() {
    let stage = stage().await;
    // So few of so many that the deletion budget has nothing to say.
    let (going, staying) = (["g0", "g1", "g2", "g3"], (0..10).map(|it| format!("s{it}")));
    let staying: Vec<String> = staying.collect();
    for target in going.into_iter().chain(staying.iter().map(String::as_str)) {
        stage.render(target, "one");
    }
    stage.sync(source(&stage)).await;
    stage.ready().await;
    let mark = stage.world.plane.audit().mark().unwrap();
    let mut expected = Vec::new();
    let mut calls = 0;
    for (index, target) in going.iter().enumerate() {
        stage.infrahub.clear_journal();
        if index > 0 {
            expire_at(&stage, index);
        }
        stage.infrahub.artifact(ARTIFACT).target(target).delete();
        stage.look().await;
        is_gone(stage.client(), &stage.name, target).await;
        stage.ready().await;
        stage.infrahub.clear_faults();
        expected.push(format!("configmaps {target}"));
        if index == 0 {
            // The list, and the artifact that is not in it.
            calls = stage.infrahub.journal().len();
            assert_eq!((calls, logins(&stage)), (2, 0));
        } else if index <= calls {
            assert_eq!(logins(&stage), 1, "call {index}");
        } else {
            assert_eq!(logins(&stage), 0, "nothing ended");
        }
    }
    assert_eq!(deletions(&stage, mark).await, expected);
    let staying: Vec<&str> = TARGETS
        .into_iter()
        .chain(staying.iter().map(String::as_str))
        .collect();
    assert_eq!(names(stage.client(), &stage.name).await, staying);
}

#[tokio::test]
async fn a_token_that_cannot_be_renewed_in_the_middle_of_a_removal_removes_nothing() {
    let stage = stage().await;
    stage.sync(source(&stage)).await;
    stage.ready().await;
    let mark = stage.world.plane.audit().mark().unwrap();
    // The list can still be read, and says that an artifact is gone; the question whether it
    // really is cannot be asked any more.
    expire_at(&stage, 2);
    stage.infrahub.fault(Fault::status(
        "/api/auth/login",
        500,
        "Internal Server Error",
    ));
    stage.infrahub.artifact(ARTIFACT).target("a").delete();
    let sync = stage.look().await;
    let (reason, message) = said(&sync, "Ready");
    assert_eq!(reason, "InfrahubError", "{message}");
    assert_eq!(names(stage.client(), &stage.name).await, TARGETS);
    let deleted = deletions(&stage, mark).await;
    assert!(deleted.is_empty(), "{deleted:?}");
    stage.infrahub.clear_faults();
    is_gone(stage.client(), &stage.name, "a").await;
    stage.ready().await;
}

#[tokio::test]
async fn many_syncs_whose_token_has_ended_wait_for_one_login() {
    let stage = Stage::new().await;
    let client = stage.client();
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {key: \"v1\"}\n";
    stage.render_text("web", text);
    let all: Vec<String> = (0..12)
        .map(|index| format!("{}-{index}", stage.name))
        .collect();
    for name in &all {
        ensure_namespace(client, name).await;
        stage.infrahub.branch(name);
        let mut source = source(&stage);
        source["targetBranch"] = json!(name);
        stage
            .sync_as(name, source, json!({"namespace": name}))
            .await;
    }
    for name in &all {
        sync_condition(client, name, "Ready", "True").await;
    }
    assert_eq!(logins(&stage), 1, "the first login is shared as well");
    stage.infrahub.clear_journal();
    stage.infrahub.change_secret();
    // Long enough that all are under way before the first is refused.
    let slow = Effect::Delay { milliseconds: 500 };
    stage.infrahub.fault(Fault::on("/graphql", slow));
    join_all(all.iter().map(|name| request(client, name))).await;
    assert_eq!(logins(&stage), 1);
    assert!(refusals(&stage) > 1, "{}", refusals(&stage));
    for name in &all {
        let sync = syncs(client).get(name).await.unwrap();
        assert_eq!(
            said(&sync, "Ready").0,
            "Succeeded",
            "{}",
            show(&sync.status)
        );
        assert_eq!(resources_of(client, name).await.len(), 1);
    }
}

#[tokio::test]
async fn a_refresh_that_goes_wrong_is_followed_by_a_login() {
    let stage = stage().await;
    let (second, hour) = (Duration::from_secs(1), Duration::from_hours(1));
    stage.infrahub.token_lifetimes(second, hour);
    stage.sync(source(&stage)).await;
    stage.ready().await;
    for (status, body) in [
        (200, "<html></html>"),
        (200, ""),
        (200, "{}"),
        (302, ""),
        (401, ""),
        (404, ""),
        (422, ""),
        (500, "Internal Server Error"),
    ] {
        stage
            .infrahub
            .fault(Fault::status("/api/auth/refresh", status, body));
        stage.infrahub.clear_journal();
        // The token has ended.
        tokio::time::sleep(second + second / 5).await;
        let sync = stage.look().await;
        let (reason, message) = said(&sync, "Ready");
        assert_eq!(reason, "Succeeded", "{status} {body}: {message}");
        // More than once only if the new token, good for a second, had to be renewed as well.
        let refreshes = stage.infrahub.count("POST", "/api/auth/refresh");
        let logins = stage.infrahub.count("POST", "/api/auth/login");
        assert!(refreshes >= 1, "{status} {body}");
        assert_eq!(
            logins, refreshes,
            "a login for each refresh that went wrong"
        );
        stage.infrahub.clear_faults();
    }
}
