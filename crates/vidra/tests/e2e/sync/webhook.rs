//! Infrahub calls in, and the sync looks at once. The timers of these syncs are off.

use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use vidra_lab::standin::{Delivery, Event, Generation, Json, Subscription};

use super::Stage;
use crate::support::{eventually, http_address, value_is};

const KEY: &str = "a shared key";

fn url() -> String {
    format!("http://{}/webhooks/infrahub", http_address())
}

/// A stage whose sync has been delivered, listens and never looks by itself.
async fn listening() -> Stage {
    let stage = Stage::new().await;
    let (user, password) = vidra_lab::standin::ADMIN;
    let data = [
        ("username", user),
        ("password", password),
        ("webhookKey", KEY),
    ];
    stage.secret(&stage.name, &data).await;
    stage.render("web", "one");
    stage.sync(json!({"interval": "0s"})).await;
    stage.ready().await;
    value_is(stage.client(), &stage.name, "web", "one").await;
    stage
}

/// The event of the last change.
fn last_event(stage: &Stage) -> Event {
    stage.infrahub.events().last().unwrap().clone()
}

/// Sends a signed webhook; tells the status of the answer.
async fn send(stage: &Stage, generation: Generation, event: &Event) -> u16 {
    let infrahub = &stage.infrahub;
    let sent = infrahub.send_webhook(&url(), KEY, generation, event).await;
    sent.unwrap()
}

async fn post(delivery: &Delivery) -> u16 {
    let mut request = reqwest::Client::new()
        .post(url())
        .body(delivery.body.clone());
    for (name, value) in &delivery.headers {
        request = request.header(*name, value);
    }
    request.send().await.unwrap().status().as_u16()
}

fn polls(stage: &Stage) -> usize {
    stage.infrahub.count("POST", "/graphql/")
}

#[tokio::test]
async fn a_webhook_of_every_generation_that_can_be_verified_leads_to_the_object() {
    let stage = listening().await;
    let generations = [Generation::Dumps, Generation::Mismatch, Generation::Compact];
    for (number, generation) in generations.into_iter().enumerate() {
        let value = format!("value-{number}");
        stage.render("web", &value);
        let event = last_event(&stage);
        assert_eq!(send(&stage, generation, &event).await, 202);
        value_is(stage.client(), &stage.name, "web", &value).await;
    }
    let sync = stage.ready().await;
    let triggers = sync.status.unwrap().last_trigger;
    assert!(!triggers.contains(&"Timer".to_owned()), "{triggers:?}");
}

#[tokio::test]
async fn every_event_of_a_subscription_is_followed_also_those_of_new_and_deleted_artifacts() {
    let stage = listening().await;
    stage.infrahub.subscribe(Subscription {
        url: url(),
        key: Some(KEY.to_owned()),
        generation: Generation::Dumps,
        event: "all".to_owned(),
    });
    stage.render("db", "new");
    value_is(stage.client(), &stage.name, "db", "new").await;
    stage
        .infrahub
        .artifact(super::ARTIFACT)
        .target("db")
        .delete();
    crate::support::is_gone(stage.client(), &stage.name, "db").await;
}

#[tokio::test]
async fn what_is_not_signed_by_a_known_key_now_and_for_the_first_time_changes_nothing() {
    let stage = listening().await;
    stage.render("web", "two");
    stage.infrahub.clear_journal();
    let event = last_event(&stage);
    let now = Timestamp::now();
    let made = |key, at| Delivery::new(&event, key, Generation::Dumps, at);
    let minutes = SignedDuration::from_mins;
    assert_eq!(post(&made(None, now)).await, 401, "unsigned");
    assert_eq!(post(&made(Some("wrong"), now)).await, 401, "another key");
    assert_eq!(post(&made(Some(""), now)).await, 401, "an empty key");
    assert_eq!(post(&made(Some(KEY), now - minutes(6))).await, 401, "old");
    assert_eq!(
        post(&made(Some(KEY), now + minutes(6))).await,
        401,
        "future"
    );
    let mut changed = made(Some(KEY), now);
    changed.body = changed.body.replace("updated", "deleted");
    assert_eq!(post(&changed).await, 401, "changed on the way");
    let mut large = made(Some(KEY), now);
    large.body = "x".repeat(2 << 20);
    assert_eq!(post(&large).await, 413, "too large");
    let mut nonsense = made(Some(KEY), now);
    nonsense
        .headers
        .retain(|(name, _)| *name != "webhook-signature");
    nonsense
        .headers
        .push(("webhook-signature", "nonsense".to_owned()));
    assert_eq!(post(&nonsense).await, 400, "no signature at all");
    assert_eq!(polls(&stage), 0);

    assert_eq!(post(&made(Some(KEY), now)).await, 202);
    value_is(stage.client(), &stage.name, "web", "two").await;
    stage.ready().await;
    stage.infrahub.clear_journal();
    // Each attempt is signed anew; the event is the same.
    assert_eq!(post(&made(Some(KEY), Timestamp::now())).await, 202);
    stage.look().await;
    assert_eq!(polls(&stage), 1, "only the look that was asked for");
}

#[tokio::test]
async fn a_flood_of_webhooks_is_a_few_polls_and_the_last_change_is_seen() {
    let stage = listening().await;
    stage.infrahub.clear_journal();
    let begin = Instant::now();
    for number in 0..100 {
        stage.render("web", &format!("flood-{number}"));
        let event = last_event(&stage);
        assert_eq!(send(&stage, Generation::Dumps, &event).await, 202);
    }
    value_is(stage.client(), &stage.name, "web", "flood-99").await;
    // At once, then twice a second, and once for what came last.
    let most = usize::try_from(begin.elapsed().as_millis() / 500).unwrap() + 2;
    let polls = polls(&stage);
    assert!(
        polls <= most.min(99),
        "{polls} polls for 100 webhooks, at most {most}"
    );
}

#[tokio::test]
async fn a_webhook_of_one_infrahub_does_not_wake_syncs_of_another_or_of_another_branch() {
    let stage = listening().await;
    let other = Stage::new().await;
    other.render("web", "one");
    other.sync(json!({"interval": "0s"})).await;
    other.ready().await;
    stage.infrahub.branch("next");
    let branched = format!("{}-next", stage.name);
    let source = json!({"interval": "0s", "targetBranch": "next"});
    stage.sync_as(&branched, source, json!({})).await;
    super::sync_condition(stage.client(), &branched, "Ready", "True").await;
    for infrahub in [&stage.infrahub, &other.infrahub] {
        infrahub.clear_journal();
    }
    stage.render("web", "two");
    let event = last_event(&stage);
    assert_eq!(send(&stage, Generation::Dumps, &event).await, 202);
    value_is(stage.client(), &stage.name, "web", "two").await;
    assert_eq!(polls(&other), 0);
    assert_eq!(stage.infrahub.count("POST", "/graphql/next"), 0);
    assert_eq!(stage.infrahub.count("POST", "/graphql/main"), 1);

    // Nobody knows a new artifact yet, so every sync that may see it looks, and no other.
    stage.render("new", "one");
    let event = last_event(&stage);
    assert_eq!(send(&stage, Generation::Dumps, &event).await, 202);
    value_is(stage.client(), &stage.name, "new", "one").await;
    assert_eq!(polls(&other), 0);
    assert_eq!(stage.infrahub.count("POST", "/graphql/next"), 0);

    // What is about no artifact, such as a merge, may have changed every branch.
    let merge = Event::new(
        "infrahub.branch.merged",
        None,
        Json::object([]),
        Timestamp::now(),
    );
    assert_eq!(send(&stage, Generation::Dumps, &merge).await, 202);
    eventually("the other branch is looked at", || async {
        (stage.infrahub.count("POST", "/graphql/next") == 1).then_some(())
    })
    .await;
}
