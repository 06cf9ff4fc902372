//! The controller of `VidraResource`s.
//!
//! ```text
//!   intake (watch of the custom resources) --+
//!   sightings (watch hub) -------------------+--> queue --> turn --> reconcile --> report
//!   timers, retries, requests ---------------+                  \--> heal -------/
//! ```
//!
//! One owner never has two turns at once, and a turn either heals the objects that were noticed
//! or reconciles the whole owner.

mod adjust;
mod apply;
mod cleanup;
mod compile;
mod decode;
mod describe;
mod examine;
mod heal;
mod intake;
mod live;
mod look;
mod memory;
mod outcome;
mod policy;
mod prune;
mod reconcile;
mod recreate;
mod report;
mod sharing;
mod spill;
mod status;
mod turn;

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher, RandomState},
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::FutureExt;
use kube::ResourceExt;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::error;
use vidra_api::VidraResource;
use vidra_cluster::{
    connect::Cluster,
    discovery::Catalogue,
    hub::{BlindCause, Hub, Sighting, WatchedKind},
    store::Store,
};
use vidra_core::{identity::GroupKind, schedule::jittered, trigger::Trigger};

use self::{
    compile::inline_inventory,
    live::Snapshots,
    memory::{Owners, State},
    spill::is_spilled,
    turn::Turn,
};
use crate::{
    events::Events,
    known::Known,
    lock,
    metrics::Metrics,
    queue::{Queue, Slot, Work},
    settings::Live,
    shared::Shared,
};

/// Everything that the controller of `VidraResource`s shares between turns.
pub struct Controller {
    pub(crate) cluster: Cluster,
    pub(crate) catalogue: Catalogue,
    pub(crate) snapshots: Snapshots,
    pub(crate) hub: Hub,
    pub(crate) queue: Queue,
    pub(crate) events: Arc<Events>,
    pub(crate) settings: Live,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) store: Store,
    installation: String,
    owners: Owners,
    resources: Arc<Known>,
    blind: Mutex<BTreeMap<GroupKind, BlindCause>>,
    started: Instant,
    chance: RandomState,
}

impl Controller {
    /// A controller for one cluster.
    pub(crate) fn new(shared: Shared, hub: Hub) -> Self {
        Self {
            events: shared.events,
            cluster: shared.cluster,
            catalogue: Catalogue::default(),
            snapshots: Snapshots::default(),
            hub,
            queue: Queue::default(),
            settings: shared.settings,
            metrics: shared.metrics,
            store: shared.store,
            installation: shared.installation,
            owners: Owners::default(),
            resources: shared.resources,
            blind: Mutex::default(),
            started: Instant::now(),
            chance: RandomState::new(),
        }
    }

    /// Does the work of the queue, one owner at a time, until it is cancelled; a turn that is
    /// under way then is finished. Run several of these at once.
    pub async fn work(&self, cancel: &CancellationToken) {
        while let Some((name, work)) = cancel.run_until_cancelled(self.queue.next()).await {
            if !survives(self.take_turn(&name, work)).await {
                self.come_back_after_defect(&name);
            }
            self.queue.done(&name);
            self.snapshots.forget_old();
        }
        // There may be others, who have to take over what this one was waiting for.
        self.queue.wake();
    }

    fn come_back_after_defect(&self, name: &str) {
        self.metrics.panics.inc();
        error!(
            resource = name,
            "a defect in Vidra ended this turn; it is tried again"
        );
        let retry = Work::reconcile(Trigger::Retry);
        self.queue
            .add_after(name, Slot::Retry, retry, Duration::from_mins(1));
    }

    /// Hands sightings to their owners.
    pub async fn watch(&self, mut sightings: mpsc::Receiver<Sighting>) {
        while let Some(sighting) = sightings.recv().await {
            match sighting {
                Sighting::Blind { kind, cause } => self.take_sight(kind, Some(cause)),
                Sighting::Sighted { kind } => self.take_sight(kind, None),
                other => {
                    for name in self.owners.dispatch(other) {
                        self.queue.add(&name, Work::sightings());
                    }
                }
            }
        }
    }

    /// Notes that a kind cannot be watched, or can be again, and lets its owners say so.
    fn take_sight(&self, kind: GroupKind, cause: Option<BlindCause>) {
        let names = self.owners.with_kind(&kind);
        match cause {
            Some(cause) => lock(&self.blind).insert(kind, cause),
            None => lock(&self.blind).remove(&kind),
        };
        for name in names {
            self.queue.add(&name, Work::reconcile(Trigger::Daemon));
        }
    }

    /// Kinds of these that cannot be watched now, each with a sentence.
    pub(crate) fn blind_among(&self, kinds: &BTreeSet<WatchedKind>) -> Vec<String> {
        let blind = lock(&self.blind);
        let causes = kinds
            .iter()
            .filter_map(|watched| Some((&watched.kind, blind.get(&watched.kind)?)));
        causes
            .map(|(kind, cause)| format!("{kind}: {cause}"))
            .collect()
    }

    async fn take_turn(&self, name: &str, work: Work) {
        let Some(resource) = self.resources.get(name) else {
            self.forget(name);
            return;
        };
        let owner = self.owners.owner(&self.installation, name);
        let mut state = owner.state.lock().await;
        let turn = Turn::new(self, &owner, &resource);
        turn.meet(&mut state);
        if resource.metadata.deletion_timestamp.is_some() {
            turn.end(&mut state, work).await;
        } else if resource.spec.suspend {
            turn.pause(&mut state).await;
        } else {
            if !work.triggers.is_empty() {
                let result = turn.reconcile(&mut state, work.triggers).await;
                turn.report(&mut state, result, work.triggers).await;
            }
            // Also after a reconcile: the lists it looked at may be older than what was noticed.
            if state.is_loaded {
                let healing = turn.heal(&mut state).await;
                turn.report_healing(&mut state, healing).await;
            }
        }
    }

    fn forget(&self, name: &str) {
        self.hub.release(name);
        self.owners.forget(name);
        self.queue.forget(name);
    }

    /// Whether the custom resources have been listed once.
    pub fn is_ready(&self) -> bool {
        self.resources.listed.is_open()
    }

    /// The metrics as Prometheus reads them.
    pub fn metrics(&self) -> String {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.metrics.watches.set(number(self.hub.state().len()));
        self.metrics.resources.set(number(self.resources.len()));
        self.metrics.text()
    }

    /// How long this process has been running.
    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// A number that differs between processes and names.
    pub(crate) fn chance(&self, name: &str) -> u64 {
        self.chance.hash_one(name)
    }

    /// A share of an interval that differs between names.
    pub(crate) fn spread(&self, name: &str, interval: Duration) -> Duration {
        let share = u32::try_from(self.chance(name) % 1_000).unwrap_or_default();
        interval * share / 1_000
    }

    /// How often a resource is looked at without being told of a change; zero: never.
    pub(crate) fn interval(&self, resource: &VidraResource) -> Duration {
        let own = resource.spec.interval.map(vidra_api::GoDuration::get);
        own.unwrap_or_else(|| self.settings.get().requeue_resources_after)
    }

    /// Plans the next periodic pass. Owners with equal intervals pass together, so that one list
    /// per kind serves them all; the jitter keeps processes apart.
    pub(crate) fn plan_pass(&self, resource: &VidraResource, name: &str) {
        loop {
            let settings = self.settings.get();
            self.plan_pass_after(self.interval(resource), name);
            // A change of the settings in between has planned as well, and may have been earlier.
            if Arc::ptr_eq(&settings, &self.settings.get()) {
                return;
            }
        }
    }

    fn plan_pass_after(&self, interval: Duration, name: &str) {
        if interval.is_zero() {
            self.queue.cancel(name, Slot::Pass);
            return;
        }
        let age = self.age();
        let rounds = u32::try_from(age.as_nanos() / interval.as_nanos()).unwrap_or(u32::MAX - 1);
        let slot = interval * (rounds + 1);
        let jitter = jittered(interval, self.chance("pass")).saturating_sub(interval);
        let delay = slot.saturating_sub(age) + jitter;
        self.queue
            .add_after(name, Slot::Pass, Work::reconcile(Trigger::Timer), delay);
    }

    /// Whether a resource wants to act on events.
    pub(crate) fn follows_events(&self, resource: &VidraResource) -> bool {
        let wish = resource.spec.destination.reconcile_on_events;
        wish.unwrap_or_else(|| self.settings.get().event_based_reconcile)
    }

    /// Another resource that has objects in a namespace.
    pub(crate) fn other_tenant(&self, name: &str, namespace: &str) -> Option<String> {
        let others = self.resources.all().into_iter();
        others
            .filter(|other| other.name_any() != name && self.has_objects_in(other, namespace))
            .map(|other| other.name_any())
            .min()
    }

    fn has_objects_in(&self, resource: &VidraResource, namespace: &str) -> bool {
        if is_spilled(resource) {
            let owner = self.owners.owner(&self.installation, &resource.name_any());
            return owner.may_be_in(namespace);
        }
        let Some(status) = &resource.status else {
            return false;
        };
        match inline_inventory(status) {
            Ok(inventory) => inventory
                .iter()
                .any(|entry| entry.key.namespace.as_deref() == Some(namespace)),
            // What we cannot read may be there.
            Err(_) => true,
        }
    }
}

impl Turn<'_> {
    async fn end(&self, state: &mut State, work: Work) {
        self.controller.hub.release(self.name());
        self.controller
            .owners
            .follow(self.name(), &std::collections::BTreeSet::new());
        let result = self.cleanup(state).await;
        let is_over = result.as_ref().is_ok_and(|outcome| {
            outcome.changes.failures().all(|failure| {
                failure
                    .cause
                    .as_ref()
                    .is_some_and(|cause| cause.reason == "Terminating")
            })
        });
        if is_over {
            self.report_end(&result.unwrap_or_default());
        } else {
            let mut triggers = work.triggers;
            triggers.merge(vidra_core::trigger::TriggerSet::of(Trigger::Event));
            self.report(state, result, triggers).await;
        }
    }

    async fn pause(&self, state: &mut State) {
        self.controller.hub.release(self.name());
        self.controller.queue.forget(self.name());
        state.is_followed = false;
        if let Err(cause) = self.load(state).await {
            self.report(
                state,
                Err(cause),
                vidra_core::trigger::TriggerSet::default(),
            )
            .await;
            return;
        }
        self.report_suspended(state).await;
    }

    /// Follows the objects of this owner, or not, as it wishes.
    fn follow(&self, state: &mut State, compiled: &decode::Compiled) {
        state.is_followed = self.controller.follows_events(self.resource);
        if !state.is_followed {
            self.controller.hub.release(self.name());
            self.controller
                .owners
                .follow(self.name(), &std::collections::BTreeSet::new());
            return;
        }
        let mut objects: std::collections::BTreeSet<_> = state
            .inventory
            .iter()
            .map(|entry| entry.key.clone())
            .collect();
        objects.extend(compiled.objects.keys().cloned());
        self.controller.owners.follow(self.name(), &objects);
        self.controller.hub.need(self.name(), compiled.kinds());
    }
}

/// Runs a turn; answers whether it came to its end. A defect in one turn must not end the others.
async fn survives(turn: impl Future<Output = ()>) -> bool {
    AssertUnwindSafe(turn).catch_unwind().await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_in_one_turn_ends_that_turn_only() {
        assert!(!survives(async { panic!("a defect") }).await);
        assert!(survives(async {}).await);
    }
}
