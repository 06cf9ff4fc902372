//! The watch hub: one metadata-only, label-selected watch per kind in use, in all namespaces.
//!
//! ```text
//!   need, release --> Registry --+--> Watch (kind A) --+
//!   (by owner)       who needs   +--> Watch (kind B) --+--> Sender<Sighting>, bounded
//!                    what        +--> Watch (kind C) --+
//!
//!   Watch:  Course   decides (pure): list, watch, pause, say that it is blind
//!           Source   asks the API server
//!           Known    name and uid of every object, to notice those that a list no longer has
//! ```
//!
//! The hub tells what it sees and judges nothing. It never tells that an object is gone unless an
//! event or a complete list says so: a kind that cannot be watched is `Blind`, not empty.

mod course;
mod failure;
mod known;
mod orders;
mod record;
mod registry;
mod sighting;
mod source;
mod timing;
mod watch;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use kube::Client;
use tokio::sync::{
    mpsc,
    watch::{Sender, channel},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{Instrument, debug, info_span};
use vidra_core::identity::{ClusterId, GroupKind};

use self::{
    orders::{Mailbox, Orders},
    record::Record,
    registry::Registry,
    source::ApiServer,
    watch::Watch,
};
pub use self::{
    sighting::{BlindCause, KindState, Position, Sighting, WatchedKind},
    timing::Timing,
};

/// The watches of one cluster. Clones share them; they end with the last clone.
#[derive(Clone)]
pub struct Hub(Arc<Inner>);

struct Inner {
    cluster: ClusterId,
    source: ApiServer,
    sink: mpsc::Sender<Sighting>,
    cancel: CancellationToken,
    tasks: TaskTracker,
    desk: Mutex<Desk>,
}

#[derive(Default)]
struct Desk {
    registry: Registry,
    running: BTreeMap<GroupKind, Running>,
}

/// The hub's end of one watch.
struct Running {
    orders: Sender<Orders>,
    record: Record,
    cancel: CancellationToken,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl Hub {
    /// A hub without watches. Sightings go to `sink`, at the pace at which they are taken from it;
    /// everything ends with `cancel`.
    ///
    /// The client should not retry by itself: how long to wait is decided here.
    pub fn new(
        cluster: ClusterId,
        client: Client,
        sink: mpsc::Sender<Sighting>,
        cancel: &CancellationToken,
    ) -> Self {
        Self::with_timing(cluster, client, sink, cancel, Timing::default())
    }

    /// A hub that keeps to other durations.
    pub fn with_timing(
        cluster: ClusterId,
        client: Client,
        sink: mpsc::Sender<Sighting>,
        cancel: &CancellationToken,
        timing: Timing,
    ) -> Self {
        Self(Arc::new(Inner {
            cluster,
            source: ApiServer {
                client,
                timing: Arc::new(timing),
            },
            sink,
            // A child, so that the end of this hub is not the end of whatever else the caller runs.
            cancel: cancel.child_token(),
            tasks: TaskTracker::new(),
            desk: Mutex::default(),
        }))
    }

    /// Replaces the set of kinds that an owner needs. Watches that nobody needed before start,
    /// those that nobody needs any longer end. Must be called within a tokio runtime.
    ///
    /// A kind that is needed in several versions is still watched once, through one of them.
    pub fn need(&self, owner: &str, kinds: BTreeSet<WatchedKind>) {
        let mut desk = self.desk();
        for kind in desk.registry.need(owner, kinds) {
            let candidates = desk.registry.candidates(&kind);
            self.adjust(&mut desk.running, kind, candidates);
        }
    }

    /// An owner needs nothing any longer.
    pub fn release(&self, owner: &str) {
        self.need(owner, BTreeSet::new());
    }

    /// How each watch is doing.
    pub fn state(&self) -> Vec<KindState> {
        let desk = self.desk();
        let owners = |kind| desk.registry.count(kind);
        desk.running
            .iter()
            .map(|(kind, running)| running.record.state(owners(kind)))
            .collect()
    }

    /// How many tasks there are: one per watch, and those that are just ending.
    pub fn tasks(&self) -> usize {
        self.0.tasks.len()
    }

    /// A kind may be watchable from now on (its CRD appeared, a right was granted): a watch that
    /// waits tries again at once.
    pub fn rearm(&self, kind: &GroupKind) {
        self.order(kind, |orders| orders.rearms += 1);
    }

    /// Lists a kind anew, whatever its watch believes.
    pub fn relist(&self, kind: &GroupKind) {
        self.order(kind, |orders| orders.relists += 1);
    }

    /// Where a watch is now, to be asked **before** a consistent list; see
    /// [`Hub::restart_if_ahead`]. `None` while it is not watching.
    pub fn position(&self, kind: &GroupKind) -> Option<Position> {
        let version = self.desk().running.get(kind)?.record.version()?;
        Some(Position {
            kind: kind.clone(),
            version,
        })
    }

    /// Compares a position with the resource version of a consistent list that was made after it
    /// was taken. A list that is older than the watch means that the cluster's history was
    /// replaced, as by a restore of etcd: then the watch starts anew with a list, and this
    /// returns true.
    pub fn restart_if_ahead(&self, position: &Position, listed_version: &str) -> bool {
        let is_ahead = listed_version
            .parse()
            .is_ok_and(|listed: u64| position.version > listed);
        if is_ahead {
            let (cluster, kind) = (&self.0.cluster, &position.kind);
            tracing::warn!(%cluster, %kind, "the watch is ahead of the cluster; it starts anew");
            self.relist(&position.kind);
        }
        is_ahead
    }

    /// Ends all watches and returns when they have ended.
    pub async fn shutdown(&self) {
        self.0.cancel.cancel();
        self.desk().running.clear();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    fn adjust(
        &self,
        running: &mut BTreeMap<GroupKind, Running>,
        kind: GroupKind,
        candidates: Vec<WatchedKind>,
    ) {
        match (running.get(&kind), candidates.first()) {
            (Some(watch), Some(_)) => {
                watch
                    .orders
                    .send_modify(|orders| orders.candidates = candidates);
            }
            (None, Some(first)) => {
                let watch = self.start(first.clone(), candidates);
                running.insert(kind, watch);
            }
            (Some(watch), None) => {
                watch.cancel.cancel();
                debug!(cluster = %self.0.cluster, %kind, "nobody needs this watch any longer");
                running.remove(&kind);
            }
            (None, None) => {}
        }
    }

    fn start(&self, first: WatchedKind, candidates: Vec<WatchedKind>) -> Running {
        let Inner {
            cluster,
            source,
            sink,
            cancel,
            tasks,
            desk: _,
        } = &*self.0;
        let span = info_span!("hub", %cluster, kind = %first.kind);
        let record = Record::new(first.clone());
        let (orders, receiver) = channel(Orders::new(candidates));
        let timing = Arc::clone(&source.timing);
        let watch = Watch::new(first, source.clone(), sink.clone(), timing, record.clone());
        let running = Running {
            orders,
            record,
            cancel: cancel.child_token(),
        };
        let end = running.cancel.clone();
        let run = async move {
            end.run_until_cancelled(watch.run(Mailbox::new(receiver)))
                .await
        };
        tasks.spawn(run.instrument(span));
        running
    }

    fn order(&self, kind: &GroupKind, change: impl FnOnce(&mut Orders)) {
        if let Some(watch) = self.desk().running.get(kind) {
            watch.orders.send_modify(change);
        }
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.0.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
