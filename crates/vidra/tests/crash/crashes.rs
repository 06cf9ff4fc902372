//! `kill -9` at every write of every scenario, once each.

use std::{sync::Arc, time::Instant};

use vidra_lab::controlplane::unique;

use crate::{
    oracle::{self, Canaries},
    plan::Plan,
    rig::Rig,
    scenario::{Scenario, prepare, until_gone},
    support::resources,
};

/// Events are what this is about; the timer must not help.
const ARGUMENTS: [&str; 2] = ["--resync", "0"];

#[tokio::test]
async fn a_first_sync_survives_a_kill_at_every_write() {
    survives_a_kill_at_every_write(Scenario::FirstSync).await;
}

#[tokio::test]
async fn an_update_survives_a_kill_at_every_write() {
    survives_a_kill_at_every_write(Scenario::Update).await;
}

#[tokio::test]
async fn a_shrink_survives_a_kill_at_every_write() {
    survives_a_kill_at_every_write(Scenario::Shrink).await;
}

#[tokio::test]
async fn a_deletion_survives_a_kill_at_every_write() {
    survives_a_kill_at_every_write(Scenario::Delete).await;
}

#[tokio::test]
async fn a_first_sync_that_was_killed_at_any_write_leaks_nothing_when_the_manifest_shrinks_meanwhile()
 {
    survives_a_kill_at_every_write(Scenario::Overtaken).await;
}

/// How many writes there are in a run without a crash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Learned {
    pub(crate) set_up: usize,
    pub(crate) act: usize,
}

async fn survives_a_kill_at_every_write(scenario: Scenario) {
    if Plan::wanted().is_some_and(|plan| plan.scenario != scenario) {
        return;
    }
    let rig = Arc::new(Rig::take().await);
    let begin = Instant::now();
    rig.start(&ARGUMENTS);
    let learned = learn(&rig, scenario).await;
    let plans = Plan::all(scenario, learned.act);
    let mut failures = Vec::new();
    for plan in &plans {
        rig.proxy.clear();
        let (rig, plan) = (rig.clone(), *plan);
        // A task of its own, so that one failure does not hide the others.
        let run = tokio::spawn(async move { run(&rig, plan, learned).await });
        if let Err(error) = run.await {
            failures.push(format!("{plan}: {}", message(error)));
        }
    }
    eprintln!(
        "{}: {} writes, {} crashes, {} failures, {:.1} s",
        scenario.name(),
        learned.act,
        plans.len(),
        failures.len(),
        begin.elapsed().as_secs_f64()
    );
    assert!(!plans.is_empty(), "there is no such write");
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// Runs a scenario without a crash: it must work, and its writes are counted.
pub(crate) async fn learn(rig: &Rig, scenario: Scenario) -> Learned {
    let tag = unique("learn");
    prepare(&rig.client, &tag).await;
    let mut set_up = 0;
    if scenario.set_up(&rig.client, &tag).await {
        set_up = rig.until_quiet(&tag).await;
    }
    scenario.act(&rig.client, &tag).await;
    scenario.converge(&rig.client, &tag).await;
    let all = rig.until_quiet(&tag).await;
    scenario.meanwhile(&rig.client, &tag).await;
    scenario.converge(&rig.client, &tag).await;
    oracle::is_as_desired(&rig.client, &tag, scenario).await;
    delete(rig, &tag).await;
    Learned {
        set_up,
        act: all - set_up,
    }
}

async fn run(rig: &Rig, plan: Plan, learned: Learned) {
    let scenario = plan.scenario;
    let tag = unique("crash");
    prepare(&rig.client, &tag).await;
    let canaries = Canaries::look(&rig.client, &tag).await;
    rig.start(&ARGUMENTS);
    if scenario.set_up(&rig.client, &tag).await {
        rig.until_written(&tag, learned.set_up).await;
    }
    let strikes = rig.arm(plan, &tag);
    scenario.act(&rig.client, &tag).await;
    rig.until_dead(&strikes).await;
    scenario.meanwhile(&rig.client, &tag).await;
    rig.start(&ARGUMENTS);
    ends_well(rig, &tag, scenario, &canaries).await;
}

/// The scenario comes to its end, and after it the resource: as desired, then nothing left.
pub(crate) async fn ends_well(rig: &Rig, tag: &str, scenario: Scenario, canaries: &Canaries) {
    scenario.converge(&rig.client, tag).await;
    oracle::is_as_desired(&rig.client, tag, scenario).await;
    canaries.are_untouched(&rig.client, tag).await;
    delete(rig, tag).await;
    oracle::nothing_is_left(&rig.client, tag).await;
    canaries.are_untouched(&rig.client, tag).await;
}

pub(crate) async fn delete(rig: &Rig, tag: &str) {
    let params = kube::api::DeleteParams::default();
    match resources(&rig.client).delete(tag, &params).await {
        Ok(_) => until_gone(&rig.client, tag).await,
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => panic!("{error}"),
    }
}

fn message(error: tokio::task::JoinError) -> String {
    let panic = error.into_panic();
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
        .unwrap_or_default()
}
