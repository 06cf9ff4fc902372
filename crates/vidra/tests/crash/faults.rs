//! Calls that go wrong while the operator lives: lost answers, refusals, silence, slowness.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use vidra_lab::{
    controlplane::unique,
    proxy::{Effect, Fault, Gate, Rule, Seen},
};
use vidra_operator::settings::Settings;

use crate::{
    crashes::{Learned, ends_well, learn},
    oracle::Canaries,
    rig::{Rig, Within, until},
    scenario::{Scenario, prepare},
    support::{change, config_map, config_maps, create, quick_settings, ready, value_is},
};

#[tokio::test]
async fn a_lost_answer_to_any_write_leads_to_no_duplicate_and_no_wrong_owner() {
    survives_at_every_write(&Fault::Reply(Effect::Cut)).await;
}

#[tokio::test]
async fn a_lost_connection_before_any_write_is_made_up_for() {
    survives_at_every_write(&Fault::Request(Effect::Cut)).await;
}

#[tokio::test]
async fn a_refusal_of_any_write_by_a_busy_server_is_made_up_for() {
    survives_at_every_write(&Fault::Request(Effect::Answer {
        status: 429,
        headers: vec![("retry-after".to_owned(), "1".to_owned())],
        body: "Too many requests, please try again later.\n".to_owned(),
    }))
    .await;
}

#[tokio::test]
async fn a_refusal_of_any_write_by_a_broken_server_is_made_up_for() {
    survives_at_every_write(&Fault::Request(Effect::Answer {
        status: 503,
        headers: Vec::new(),
        body: "upstream connect error".to_owned(),
    }))
    .await;
}

/// Every scenario with the fault at every write, all at the same time.
async fn survives_at_every_write(fault: &Fault) {
    let rig = Arc::new(Rig::take().await);
    let _operator = rig.start_within(quick_settings());
    let learned = join_all(Scenario::STEADY.map(|scenario| learn(&rig, scenario))).await;
    let mut runs = Vec::new();
    for (scenario, learned) in Scenario::STEADY.into_iter().zip(learned) {
        for write in 1..=learned.act {
            let (rig, fault) = (rig.clone(), fault.clone());
            runs.push(async move { run(&rig, scenario, write, learned, fault).await });
        }
    }
    assert!(runs.len() > Scenario::STEADY.len(), "there are writes");
    join_all(runs).await;
}

async fn run(rig: &Rig, scenario: Scenario, write: usize, learned: Learned, fault: Fault) {
    let tag = unique(&format!("fault-{}-{write}", scenario.name()));
    prepare(&rig.client, &tag).await;
    let canaries = Canaries::look(&rig.client, &tag).await;
    if scenario.set_up(&rig.client, &tag).await {
        rig.until_written(&tag, learned.set_up).await;
    }
    let strikes = rig.strike(write, &tag, fault);
    scenario.act(&rig.client, &tag).await;
    until(|| format!("the fault on {tag}"), || strikes.struck() == 1).await;
    ends_well(rig, &tag, scenario, &canaries).await;
}

#[tokio::test]
async fn late_events_lead_to_no_wrong_deletion() {
    let rig = Rig::take().await;
    let late = Fault::Piece(Effect::Delay(Duration::from_millis(400)));
    let strikes = rig.proxy.add(Rule::every(Seen::is_watch, late));
    let _operator = rig.start_within(quick_settings());
    let runs = Scenario::STEADY.map(|scenario| {
        let rig = &rig;
        async move {
            let tag = unique(&format!("late-{}", scenario.name()));
            prepare(&rig.client, &tag).await;
            let canaries = Canaries::look(&rig.client, &tag).await;
            scenario.set_up(&rig.client, &tag).await;
            scenario.act(&rig.client, &tag).await;
            ends_well(rig, &tag, scenario, &canaries).await;
        }
    });
    join_all(runs).await;
    assert!(strikes.struck() > 0, "there were watches");
}

#[tokio::test]
async fn a_watch_that_fell_silent_is_made_up_for_by_the_timer() {
    let rig = Rig::take().await;
    let gate = Gate::opened();
    let silence = Fault::Piece(Effect::Hold(gate.clone()));
    let is_watch = |seen: &Seen| seen.is_watch() && seen.path.ends_with("/configmaps");
    let strikes = rig.proxy.add(Rule::every(is_watch, silence));
    let _operator = rig.start_within(Settings {
        requeue_resources_after: Duration::from_secs(1),
        ..quick_settings()
    });
    let tag = unique("silent");
    prepare(&rig.client, &tag).await;
    let manifest = config_map(&tag, "one", "good");
    create(&rig.client, &tag, &manifest, json!({})).await;
    ready(&rig.client, &tag).await;
    until(|| "a watch".to_owned(), || strikes.struck() > 0).await;
    gate.close();
    let edit = json!({"data": {"key": "bad"}});
    config_maps(&rig.client, &tag)
        .patch("one", &PatchParams::default(), &Patch::Merge(&edit))
        .await
        .unwrap();
    value_is(&rig.client, &tag, "one", "good").await;
    crate::crashes::delete(&rig, &tag).await;
}

#[tokio::test]
async fn a_watch_of_the_resources_that_fell_silent_is_opened_anew() {
    let rig = Rig::take().await;
    let gate = Gate::opened();
    let silence = Fault::Piece(Effect::Hold(gate.clone()));
    let is_closed = Arc::new(AtomicBool::new(false));
    let closed = is_closed.clone();
    // Watches that are opened when the gate has closed pass.
    let is_early = move |seen: &Seen| {
        let is_watch = seen.is_watch() && seen.path.ends_with("/vidraresources");
        is_watch && !closed.load(Ordering::SeqCst)
    };
    let strikes = rig.proxy.add(Rule::every(is_early, silence));
    let mut config = rig.proxy.config();
    config.read_timeout = Some(Duration::from_secs(3));
    let _operator = Within::start(config, quick_settings());
    let tag = unique("deaf");
    prepare(&rig.client, &tag).await;
    let manifest = config_map(&tag, "one", "1");
    create(&rig.client, &tag, &manifest, json!({})).await;
    ready(&rig.client, &tag).await;
    assert!(strikes.struck() > 0, "there was a watch");
    is_closed.store(true, Ordering::SeqCst);
    gate.close();
    let manifest = config_map(&tag, "one", "2");
    change(&rig.client, &tag, json!({ "manifest": manifest })).await;
    value_is(&rig.client, &tag, "one", "2").await;
    crate::crashes::delete(&rig, &tag).await;
}

#[tokio::test]
async fn a_hanging_call_ends_at_its_deadline_and_holds_up_nobody_else() {
    let rig = Rig::take().await;
    let _operator = rig.start_within(Settings {
        call_timeout: Duration::from_secs(3),
        ..quick_settings()
    });
    let (stuck, free) = (unique("stuck"), unique("free"));
    prepare(&rig.client, &stuck).await;
    prepare(&rig.client, &free).await;
    let path = format!("/api/v1/namespaces/{stuck}/configmaps/one");
    let is_apply = move |seen: &Seen| seen.method == "PATCH" && seen.path == path;
    let never = Gate::closed();
    let hang = Fault::Request(Effect::Hold(never.clone()));
    let strikes = rig.proxy.add(Rule::every(is_apply, hang).times(1));
    let manifest = config_map(&stuck, "one", "1");
    create(&rig.client, &stuck, &manifest, json!({})).await;
    until(
        || "the call that hangs".to_owned(),
        || strikes.struck() == 1,
    )
    .await;
    let manifest = config_map(&free, "one", "1");
    create(&rig.client, &free, &manifest, json!({})).await;
    ready(&rig.client, &free).await;
    assert_eq!(strikes.matched(), 1, "the other call hangs still");
    ready(&rig.client, &stuck).await;
    change(
        &rig.client,
        &stuck,
        json!({"manifest": config_map(&stuck, "one", "2")}),
    )
    .await;
    value_is(&rig.client, &stuck, "one", "2").await;
    crate::crashes::delete(&rig, &stuck).await;
    crate::crashes::delete(&rig, &free).await;
}

#[tokio::test]
async fn however_many_resources_there_are_only_so_many_calls_are_under_way() {
    const RESOURCES: usize = 40;
    let rig = Rig::take().await;
    let tag = unique("many");
    prepare(&rig.client, &tag).await;
    let gate = Gate::closed();
    let path = format!("/namespaces/{tag}/configmaps/");
    let is_apply = move |seen: &Seen| seen.method == "PATCH" && seen.path.contains(&path);
    let hold = Fault::Request(Effect::Hold(gate.clone()));
    let strikes = rig.proxy.add(Rule::every(is_apply, hold));
    let settings = quick_settings();
    let workers = settings.workers;
    let _operator = rig.start_within(settings);
    let name = |number: usize| format!("{tag}-{number}");
    for number in 0..RESOURCES {
        let manifest = config_map(&tag, &name(number), "1");
        create(&rig.client, &name(number), &manifest, json!({})).await;
    }
    until(|| "all workers".to_owned(), || strikes.struck() >= workers).await;
    // Long enough for one more to show itself.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(strikes.struck(), workers);
    gate.open();
    for number in 0..RESOURCES {
        ready(&rig.client, &name(number)).await;
    }
    for number in 0..RESOURCES {
        crate::crashes::delete(&rig, &name(number)).await;
    }
}
