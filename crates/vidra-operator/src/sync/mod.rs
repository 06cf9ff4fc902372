//! The controller of `InfrahubSync`s.
//!
//! ```text
//!   intake (watch of the syncs) ---------+
//!   secrets (credentials change) --------+
//!   hints (Infrahub calls in) -----------+--> queue --> turn --> reconcile --> report
//!   timers, retries, requests -----------+                 \
//!   resources (a VidraResource changed) -+                  +--> standing -----> report
//! ```
//!
//! A turn either makes the resources equal to the artifacts, or only says how the resources stand.

mod credentials;
mod describe;
mod failure;
mod fetch;
mod hints;
mod intake;
mod memory;
mod outcome;
mod poll;
mod reconcile;
mod remove;
mod report;
mod resource;
mod restore;
mod secrets;
mod source;
mod turn;
mod write;

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::FutureExt;
use tokio::{sync::Semaphore, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::error;
use vidra_api::{GoDuration, InfrahubSync};
use vidra_cluster::{connect::Cluster, store::Store};
use vidra_core::{schedule::jittered, trigger::Trigger};
use vidra_infrahub::{Policy, Sessions};

use self::{
    hints::Hints,
    memory::{Memory, State},
    poll::Polls,
    secrets::KnownSecrets,
    turn::Turn,
};
use crate::{
    events::Events,
    known::Known,
    latch::Latch,
    lock,
    metrics::{Asked, Metrics},
    queue::{Queue, Slot, Work},
    settings::Live,
    shared::Shared,
};

/// How long the first turn waits for the Secrets in Vidra's namespace to be listed.
const LONGEST_LIST: Duration = Duration::from_secs(10);

/// Contents that are checked, stored and written at once.
const HANDS: usize = 16;
/// A sync that wants to ask more often asks this often.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// Everything that the controller of syncs shares between turns.
pub(crate) struct Controller {
    cluster: Cluster,
    settings: Live,
    events: Arc<Events>,
    metrics: Arc<Metrics>,
    /// The `VidraResource`s as last seen.
    resources: Arc<Known>,
    queue: Arc<Queue>,
    store: Store,
    syncs: Mutex<BTreeMap<String, Arc<InfrahubSync>>>,
    secrets: KnownSecrets,
    sessions: Mutex<Option<(Policy, Arc<Sessions>)>>,
    polls: Polls,
    pub(crate) hints: Hints,
    memory: Memory,
    /// Contents that are checked, stored and written at once: each may be large.
    hands: Arc<Semaphore>,
    /// Open once the syncs were listed.
    listed: Latch,
    started: Instant,
    chance: RandomState,
}

impl Controller {
    /// A controller of syncs.
    pub(crate) fn new(shared: Shared) -> Self {
        Self {
            cluster: shared.cluster,
            settings: shared.settings,
            events: shared.events,
            metrics: shared.metrics,
            resources: shared.resources,
            queue: shared.sync_queue,
            store: shared.store,
            syncs: Mutex::default(),
            secrets: KnownSecrets::default(),
            sessions: Mutex::default(),
            polls: Polls::default(),
            hints: Hints::default(),
            memory: Memory::default(),
            hands: Arc::new(Semaphore::new(HANDS)),
            listed: Latch::default(),
            started: Instant::now(),
            chance: RandomState::new(),
        }
    }

    /// Does the work of the queue, one sync at a time, until it is cancelled; a turn that is under
    /// way then is finished. Run several of these at once.
    pub(crate) async fn work(&self, cancel: &CancellationToken) {
        cancel.run_until_cancelled(self.prepare()).await;
        while let Some((name, work)) = cancel.run_until_cancelled(self.queue.next()).await {
            let turn = AssertUnwindSafe(self.take_turn(&name, work));
            if turn.catch_unwind().await.is_err() {
                self.come_back_after_defect(&name);
            }
            self.queue.done(&name);
        }
    }

    /// Waits until it is known which resources there are: what is not known is not missing. What
    /// the Secrets are is waited for as well, but not for ever: a sync then says what is wrong.
    async fn prepare(&self) {
        self.resources.listed.opened().await;
        let _ = tokio::time::timeout(LONGEST_LIST, self.secrets.listed.opened()).await;
    }

    fn come_back_after_defect(&self, name: &str) {
        self.metrics.panics.inc();
        error!(
            sync = name,
            "a defect in Vidra ended this turn; it is tried again"
        );
        let retry = Work::reconcile(Trigger::Retry);
        self.queue
            .add_after(name, Slot::Retry, retry, Duration::from_mins(1));
    }

    async fn take_turn(&self, name: &str, work: Work) {
        let Some(sync) = lock(&self.syncs).get(name).cloned() else {
            self.queue.forget(name);
            self.memory.forget(name);
            return;
        };
        if sync.metadata.deletion_timestamp.is_some() {
            // Its resources go with it, by garbage collection.
            self.queue.forget(name);
            return;
        }
        let memory = self.memory.of(name);
        let mut state = memory.lock().await;
        let turn = Turn::new(self, &sync);
        turn.load(&mut state);
        if sync.spec.suspend {
            self.queue.forget(name);
            return turn.report_suspended(&mut state).await;
        }
        let (triggers, asked_at) = turn.occasion(&mut state, work);
        if triggers.is_empty() {
            return turn.report_standing(&mut state).await;
        }
        let result = turn.reconcile(&mut state, asked_at).await;
        turn.report(&mut state, result, triggers).await;
    }

    /// Acts on changes of the settings for ever: other intervals, limits or another query.
    pub(crate) async fn follow_settings(&self) {
        let mut changes = self.settings.changes();
        while changes.next().await.is_some() {
            let names: Vec<String> = lock(&self.syncs).keys().cloned().collect();
            self.wake(names.iter(), Trigger::Event);
        }
    }

    /// Lets syncs look now, all asked at the same instant, so that one answer serves all.
    fn wake<'a>(&self, names: impl Iterator<Item = &'a String>, trigger: Trigger) {
        let now = Instant::now();
        for name in names {
            let work = Work::reconcile(trigger);
            self.queue.add_at(name, Slot::Look, work, now);
        }
    }

    /// Whether the syncs have been listed once.
    pub(crate) fn is_ready(&self) -> bool {
        self.listed.is_open()
    }

    /// Notes how many syncs there are.
    pub(crate) fn gauge(&self) {
        let count = lock(&self.syncs).len();
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.metrics.syncs_known.set(count);
    }

    /// Counts a webhook.
    pub(crate) fn count_webhook(&self, asked: &Asked) {
        self.metrics.webhooks.get_or_create(asked).inc();
    }

    /// How long this process has been running.
    fn age(&self) -> Duration {
        self.started.elapsed()
    }

    fn chance(&self, name: &str) -> u64 {
        self.chance.hash_one(name)
    }

    /// Plans the next poll by the timer. Syncs with equal intervals are due at the same instant,
    /// so that one query serves them all; the jitter keeps processes apart.
    fn plan_poll(&self, sync: &InfrahubSync, name: &str) {
        let own = sync.spec.source.interval.map(GoDuration::get);
        let own = own.map(|own| {
            if own.is_zero() {
                own
            } else {
                own.max(SHORTEST_INTERVAL)
            }
        });
        let interval = own.unwrap_or(self.settings.get().requeue_sync_after);
        if interval.is_zero() {
            self.queue.cancel(name, Slot::Pass);
            return;
        }
        let jitter = jittered(interval, self.chance("poll")).saturating_sub(interval);
        let begin = self.started + jitter;
        let age = Instant::now().saturating_duration_since(begin);
        let rounds = u32::try_from(age.as_nanos() / interval.as_nanos()).unwrap_or(u32::MAX - 1);
        let at = begin + interval * (rounds + 1);
        let work = Work::reconcile(Trigger::Timer);
        self.queue.add_at(name, Slot::Pass, work, at);
    }
}

impl Turn<'_> {
    /// Takes up what the status remembers, once per process and uid.
    fn load(&self, state: &mut State) {
        if state.uid == self.uid() {
            return;
        }
        let status = self.sync.status.clone().unwrap_or_default();
        *state = State::of(self.uid(), status);
    }
}
