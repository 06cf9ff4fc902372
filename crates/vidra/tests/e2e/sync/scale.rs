//! Many syncs on one Infrahub: one query for all, and few downloads at once.

use std::time::{Duration, Instant};

use kube::api::ListParams;
use serde_json::json;
use vidra_lab::standin::{Effect, Fault, StandIn};
use vidra_operator::settings::Settings;

use super::{OWN, Stage, ensure_namespace, syncs};
use crate::support::{Operator, World, eventually, own_plane, quick_settings};

const SYNCS: usize = 200;
const TICK: Duration = Duration::from_secs(3);
const DOWNLOADS: &str = "/api/storage/object/";

/// How many lists of artifacts were asked for.
fn queries(infrahub: &StandIn) -> usize {
    infrahub.count("POST", "/graphql/")
}

/// Makes syncs that each want an artifact of their own.
async fn make_syncs(stage: &Stage) {
    for number in 0..SYNCS {
        let name = format!("many-{number}");
        let text = crate::support::config_map(&stage.name, &name, "one");
        let artifact = stage.infrahub.artifact(&name).target(&name);
        artifact.content(text.into_bytes()).ready();
        let source = json!({"artifactName": name});
        stage.sync_as(&name, source, json!({})).await;
    }
}

async fn all_ready(stage: &Stage) {
    eventually("all syncs are ready", || async {
        let listed = syncs(stage.client()).list(&ListParams::default()).await;
        let ready = listed.unwrap().into_iter().filter(|sync| {
            let status = sync.status.clone().unwrap_or_default();
            let mut conditions = status.conditions.iter();
            conditions.any(|it| it.type_ == "Ready" && it.status == "True")
        });
        (ready.count() == SYNCS).then_some(())
    })
    .await;
}

/// Waits until so many more queries came, and tells how long that took.
async fn await_queries(infrahub: &StandIn, more: usize) -> Duration {
    let (begin, before) = (Instant::now(), queries(infrahub));
    eventually("the timer comes round", || async {
        (queries(infrahub) >= before + more).then_some(())
    })
    .await;
    begin.elapsed()
}

/// Settings with a timer for the syncs.
fn every(interval: Duration) -> Settings {
    Settings {
        requeue_sync_after: interval,
        ..quick_settings()
    }
}

#[tokio::test]
async fn two_hundred_syncs_on_one_infrahub_cost_one_query_per_tick() {
    let (plane, client) = own_plane().await;
    let config = plane.config();
    let plane: &'static _ = Box::leak(Box::new(plane));
    ensure_namespace(&client, OWN).await;
    let stage = Stage::on(World { plane, client }).await;
    make_syncs(&stage).await;
    let slowly = Effect::Delay { milliseconds: 100 };
    let slowly = stage.infrahub.fault(Fault::on(DOWNLOADS, slowly));
    let operator = Operator::start(config, every(Duration::ZERO));
    eventually("everything is downloaded", || async {
        (stage.infrahub.count("GET", DOWNLOADS) == SYNCS).then_some(())
    })
    .await;
    let at_once = stage.infrahub.max_in_flight();
    assert!((2..=8).contains(&at_once), "{at_once} requests at once");
    assert_eq!(queries(&stage.infrahub), 1, "for the names of all");
    assert_eq!(stage.infrahub.count("POST", "/api/auth/login"), 1);
    all_ready(&stage).await;
    operator.stop();

    // A start over what is there is one query as well; from then on one for each tick.
    stage.infrahub.disarm(slowly);
    stage.infrahub.clear_journal();
    let operator = Operator::start(plane.config(), every(TICK));
    await_queries(&stage.infrahub, 1).await;
    let took = await_queries(&stage.infrahub, 4).await;
    assert!(took > TICK * 3, "4 queries within {took:?}");
    assert_eq!(stage.infrahub.count("GET", DOWNLOADS), 0);
    assert_eq!(stage.infrahub.count("POST", "/api/auth"), 1);
    operator.stop();
}
