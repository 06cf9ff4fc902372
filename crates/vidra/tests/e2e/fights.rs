//! Fights: another writer that does not give up costs little, delays nobody, and is named.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use kube::{Client, api::Patch};
use serde_json::json;
use vidra_core::fight::Fight;
use vidra_lab::controlplane::{Mark, unique};

use crate::{drift::manager, support::*};

const FIGHT_FOR: Duration = Duration::from_secs(15);
const FIGHTER: &str = "stubborn";

/// Changes a value every 100 ms until told to stop.
struct Fighter {
    stop: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<Duration>,
}

impl Fighter {
    fn start(client: &Client, namespace: &str, name: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn({
            let (stop, name) = (stop.clone(), name.to_owned());
            let api = config_maps(client, namespace);
            async move {
                let start = Instant::now();
                let mut round = 0_u32;
                while !stop.load(Ordering::Relaxed) {
                    round += 1;
                    let patch = json!({"data": {"key": format!("bad{round}")}});
                    api.patch(&name, &manager(FIGHTER), &Patch::Merge(&patch))
                        .await
                        .unwrap();
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                start.elapsed()
            }
        });
        Self { stop, task }
    }

    fn is_fighting(&self) -> bool {
        !self.task.is_finished() && !self.stop.load(Ordering::Relaxed)
    }

    async fn stop(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap()
    }
}

/// The most heals that a fight of this length may cost.
fn most_heals(length: Duration) -> usize {
    let mut fight = Fight::default();
    let mut now = Duration::ZERO;
    let mut heals = 0;
    while now <= length {
        if fight.wait(now).is_zero() {
            fight.healed(now);
            heals += 1;
        }
        now += Duration::from_millis(1);
    }
    heals
}

#[tokio::test]
async fn a_stubborn_writer_costs_few_writes_delays_nobody_is_named_and_loses_in_the_end() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("fights").await.unwrap();
    let (contested, calm) = (unique("contested"), unique("calm"));
    let manifest =
        config_map(&namespace, "taken", "good") + &config_map(&namespace, "near", "good");
    create(client, &contested, &manifest, json!({})).await;
    create(
        client,
        &calm,
        &config_map(&namespace, "far", "good"),
        json!({}),
    )
    .await;
    ready(client, &contested).await;
    ready(client, &calm).await;
    let mark = world.plane.audit().mark().unwrap();
    let start = Instant::now();
    let fighter = Fighter::start(client, &namespace, "taken");
    let resource = condition(client, &contested, "Contended", "True").await;
    let (_, message) = said(&resource, "Contended");
    assert!(message.contains(FIGHTER), "{message}");
    assert!(message.contains("taken"), "{message}");
    for other in ["near", "far"] {
        let patch = json!({"data": {"key": "bad"}});
        config_maps(client, &namespace)
            .patch(other, &manager("drifter"), &Patch::Merge(&patch))
            .await
            .unwrap();
        value_is(client, &namespace, other, "good").await;
        assert!(
            fighter.is_fighting(),
            "{other} waited for the end of the fight"
        );
    }
    tokio::time::sleep(FIGHT_FOR.saturating_sub(start.elapsed())).await;
    let length = fighter.stop().await;
    let heals = heals_of(&world, mark, &namespace, "taken").await;
    let most = most_heals(length);
    assert!((6..=most).contains(&heals), "{heals} heals, at most {most}");
    value_is(client, &namespace, "taken", "good").await;
}

async fn heals_of(world: &World, mark: Mark, namespace: &str, name: &str) -> usize {
    let writes = writes_in(world.plane, mark, namespace).await;
    writes.iter().filter(|entry| entry.name == name).count()
}

#[tokio::test]
async fn a_storm_of_two_hundred_changes_of_our_field_ends_in_the_desired_state() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("fights").await.unwrap();
    let name = unique("storm");
    create(
        client,
        &name,
        &config_map(&namespace, "one", "good"),
        json!({}),
    )
    .await;
    ready(client, &name).await;
    let mark = world.plane.audit().mark().unwrap();
    let start = Instant::now();
    let api = config_maps(client, &namespace);
    for round in 0..200 {
        let patch = json!({"data": {"key": format!("bad{round}")}});
        api.patch("one", &manager(FIGHTER), &Patch::Merge(&patch))
            .await
            .unwrap();
    }
    value_is(client, &namespace, "one", "good").await;
    let heals = heals_of(&world, mark, &namespace, "one").await;
    let most = most_heals(start.elapsed());
    assert!((1..=most).contains(&heals), "{heals} heals, at most {most}");
}

#[tokio::test]
async fn two_fights_of_one_resource_do_not_wait_for_each_other() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("fights").await.unwrap();
    let name = unique("two");
    let manifest = config_map(&namespace, "a", "good") + &config_map(&namespace, "b", "good");
    create(client, &name, &manifest, json!({})).await;
    ready(client, &name).await;
    // The second fight is much hotter than the first, so its next heal is much further away.
    let hot = Fighter::start(client, &namespace, "b");
    condition(client, &name, "Contended", "True").await;
    tokio::time::sleep(Duration::from_secs(8)).await;
    let warm = Fighter::start(client, &namespace, "a");
    tokio::time::sleep(Duration::from_secs(2)).await;
    warm.stop().await;
    value_is(client, &namespace, "a", "good").await;
    assert!(hot.is_fighting());
    hot.stop().await;
    value_is(client, &namespace, "b", "good").await;
}
