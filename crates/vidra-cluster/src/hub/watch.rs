//! The driver of one watch: performs what [`Course`] decides and tells what it sees.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ApiResource;
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tracing::{debug, info, warn};
use vidra_core::identity::ObjectKey;

use super::{
    course::{Course, Reaction, Step},
    failure::Failure,
    known::{Known, Lost},
    orders::{Mailbox, Order},
    record::Record,
    sighting::{Sighting, WatchedKind},
    source::{Change, Changes, Source},
    timing::{Timing, random_share},
};
use crate::observe::observe;

/// Why a step was not completed.
enum End {
    Failed(Failure),
    Ordered(Order),
    /// Nobody listens any longer.
    Unheard,
}

/// One watch.
pub(super) struct Watch<S> {
    watched: Arc<WatchedKind>,
    /// Shared with every sighting.
    resource: Arc<ApiResource>,
    /// The resources that turned out not to be served, in this round.
    tried: Vec<WatchedKind>,
    course: Course,
    known: Known,
    source: S,
    sink: mpsc::Sender<Sighting>,
    timing: Arc<Timing>,
    record: Record,
}

impl<S: Source> Watch<S> {
    pub(super) fn new(
        watched: WatchedKind,
        source: S,
        sink: mpsc::Sender<Sighting>,
        timing: Arc<Timing>,
        record: Record,
    ) -> Self {
        Self {
            resource: Arc::new(watched.resource.clone()),
            known: Known::new(watched.kind.clone()),
            watched: Arc::new(watched),
            tried: Vec::new(),
            course: Course::new(),
            source,
            sink,
            timing,
            record,
        }
    }

    /// Runs until nobody listens any longer; to be ended by dropping it.
    pub(super) async fn run(mut self, mut mailbox: Mailbox) {
        loop {
            let current = Arc::clone(&self.watched);
            let outcome = tokio::select! {
                outcome = self.perform() => outcome,
                order = mailbox.while_busy(&current) => Err(End::Ordered(order)),
            };
            self.publish(false);
            match outcome {
                Ok(()) => {}
                Err(End::Unheard) => return,
                Err(End::Ordered(order)) => self.obey(order),
                Err(End::Failed(failure)) => {
                    if self.recover(failure, &mut mailbox).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    async fn perform(&mut self) -> Result<(), End> {
        match self.course.step().clone() {
            Step::List => self.list().await,
            Step::Watch { version } => self.watch(&version).await,
            Step::Check { .. } => self.check().await,
        }
    }

    async fn list(&mut self) -> Result<(), End> {
        let mut keys = BTreeSet::new();
        let mut token = None;
        loop {
            let page = self
                .source
                .list(&self.resource, token)
                .await
                .map_err(End::Failed)?;
            for metadata in &page.objects {
                keys.insert(self.see(metadata).await?);
            }
            token = page.next;
            if token.is_none() {
                return self.complete(keys, page.version).await;
            }
        }
    }

    /// Only a complete list proves that something is missing.
    async fn complete(&mut self, keys: BTreeSet<ObjectKey>, version: String) -> Result<(), End> {
        if version.is_empty() {
            let message = "the API server sent a list without a resource version".to_owned();
            return Err(End::Failed(Failure::Broken { message }));
        }
        for lost in self.known.missing_from(&keys) {
            self.miss(lost).await?;
        }
        debug!(objects = keys.len(), version, "listed");
        self.tell(Sighting::Listed {
            kind: self.watched.kind.clone(),
            keys,
        })
        .await?;
        self.course.listed(version);
        self.record.update(|facts| facts.lists += 1);
        Ok(())
    }

    async fn watch(&mut self, version: &str) -> Result<(), End> {
        let changes = self
            .source
            .watch(&self.resource, version)
            .await
            .map_err(End::Failed)?;
        let opened = Instant::now();
        self.open().await?;
        let failure = self.follow(changes).await?;
        if opened.elapsed() >= self.timing.settled {
            self.course.proved();
        }
        Err(End::Failed(failure))
    }

    async fn check(&mut self) -> Result<(), End> {
        let present = self
            .source
            .version(&self.resource)
            .await
            .map_err(End::Failed)?;
        self.course.checked(&present);
        Ok(())
    }

    async fn open(&mut self) -> Result<(), End> {
        self.tried.clear();
        self.record.update(|facts| facts.streams += 1);
        if self.course.opened() {
            info!("watching again");
            self.tell(Sighting::Sighted {
                kind: self.watched.kind.clone(),
            })
            .await?;
        }
        self.publish(true);
        Ok(())
    }

    /// Takes changes until the stream fails. The next one is asked for only after the last one
    /// was taken by the consumer, so that a slow consumer slows the API server down.
    async fn follow(&mut self, mut changes: Changes) -> Result<Failure, End> {
        let mut had_spoken = false;
        loop {
            match timeout(self.timing.idle, changes.next()).await {
                Err(_late) => return Ok(Failure::Silent { had_spoken }),
                Ok(None) => return Ok(Failure::Ended),
                Ok(Some(Err(failure))) => return Ok(failure),
                Ok(Some(Ok(change))) => self.take(change).await?,
            }
            had_spoken = true;
        }
    }

    /// The version moves on only when the consumer has the change: what is cut short in between
    /// is told again.
    async fn take(&mut self, change: Change) -> Result<(), End> {
        let version = match change {
            Change::Bookmark(version) => version,
            Change::Seen(metadata) => {
                self.see(&metadata).await?;
                metadata.resource_version.unwrap_or_default()
            }
            Change::Gone(metadata) => {
                let object = observe(&self.watched.kind, &metadata);
                self.miss(Lost {
                    key: object.key,
                    uid: object.uid,
                })
                .await?;
                object.resource_version
            }
        };
        self.course.advanced(&version).map_err(End::Failed)?;
        self.publish(true);
        Ok(())
    }

    async fn see(&mut self, metadata: &ObjectMeta) -> Result<ObjectKey, End> {
        let object = observe(&self.watched.kind, metadata);
        if let Some(lost) = self.known.replaced_by(&object) {
            self.miss(lost).await?;
        }
        self.known.insert(&object);
        let key = object.key.clone();
        self.tell(Sighting::Seen {
            object,
            resource: Arc::clone(&self.resource),
        })
        .await?;
        Ok(key)
    }

    /// Forgets an object only after that was told, so that a loss cannot get lost itself.
    async fn miss(&mut self, lost: Lost) -> Result<(), End> {
        let key = lost.key.clone();
        self.tell(Sighting::Gone {
            key: lost.key,
            uid: lost.uid,
        })
        .await?;
        self.known.remove(&key);
        Ok(())
    }

    async fn recover(&mut self, failure: Failure, mailbox: &mut Mailbox) -> Result<(), End> {
        debug!(?failure, "interrupted");
        if failure == Failure::KindGone {
            self.tried.push(WatchedKind::clone(&self.watched));
            if let Some(other) = mailbox.untried(&self.tried) {
                self.obey(Order::Switch(other));
                return Ok(());
            }
            self.tried.clear();
        }
        let Reaction {
            blind,
            failures,
            at_least,
        } = self.course.failed(failure);
        if let Some(cause) = blind {
            warn!(reason = cause.reason(), %cause, "cannot watch");
            self.tell(Sighting::Blind {
                kind: self.watched.kind.clone(),
                cause,
            })
            .await?;
        }
        self.publish(false);
        self.pause(
            self.timing
                .pause_after(failures, random_share())
                .max(at_least),
            mailbox,
        )
        .await;
        Ok(())
    }

    async fn pause(&mut self, pause: Duration, mailbox: &mut Mailbox) {
        if pause.is_zero() {
            return;
        }
        let current = Arc::clone(&self.watched);
        tokio::select! {
            () = sleep(pause) => {}
            order = mailbox.while_pausing(&current) => self.obey(order),
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Rearm => self.course.proved(),
            Order::Relist => self.course.restart(),
            Order::Switch(watched) => {
                debug!(version = watched.resource.version, "another version");
                self.resource = Arc::new(watched.resource.clone());
                self.watched = Arc::new(watched);
                self.course.restart();
            }
        }
    }

    async fn tell(&self, sighting: Sighting) -> Result<(), End> {
        self.sink
            .send(sighting)
            .await
            .map_err(|_closed| End::Unheard)
    }

    fn publish(&self, is_watching: bool) {
        self.record.update(|facts| {
            facts.watched.clone_from(&self.watched);
            facts.objects = self.known.len();
            facts.blind = self.course.blind().cloned();
            facts.version = self.course.version();
            facts.is_watching = is_watching;
            if is_watching {
                facts.heard = Instant::now();
            }
        });
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
