//! The watch of the configuration: ConfigMaps with the label `app: vidra` in Vidra's own namespace.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    time::Duration,
};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
use kube::{
    Api, Resource, ResourceExt,
    runtime::{WatchStreamExt, watcher},
};
use tokio::sync::oneshot;
use tracing::{debug, info, warn};
use vidra_cluster::connect::Cluster;

use super::{
    Live, Settings,
    judge::{Complaint, Verdict, judge},
    read::differences,
};
use crate::events::{Events, Note};

const SELECTOR: &str = "app=vidra";
/// How long a start waits for the configuration. Without it, the command line holds.
const PATIENCE: Duration = Duration::from_secs(5);

/// Settings that follow the configuration from here on.
///
/// The future follows for ever, and has to be run; await the [`First`] before the settings are
/// used, so that nothing is done by settings that a configuration says otherwise.
pub(crate) fn follow(
    cluster: &Cluster,
    base: Settings,
) -> (Live, First, impl Future<Output = ()> + use<>) {
    let live = Live::new(base.clone());
    let (sender, receiver) = oneshot::channel();
    let follower = Follower {
        events: Events::new(cluster),
        base,
        live: live.clone(),
        maps: BTreeMap::new(),
        told: BTreeSet::new(),
        first: Some(sender),
        is_blind: false,
    };
    let api = Api::namespaced(cluster.client.clone(), &follower.base.namespace);
    (live, First(receiver), follower.run(api))
}

/// The first time that the configuration is known.
pub(crate) struct First(oneshot::Receiver<()>);

impl First {
    /// Waits until the configuration is known, or cannot be.
    pub(crate) async fn known(self) {
        if tokio::time::timeout(PATIENCE, self.0).await.is_err() {
            warn!(
                "the configuration cannot be read yet; going on with the command line's settings"
            );
        }
    }
}

/// A complaint that was told: the uid of the ConfigMap and what it was about.
type Told = (String, Complaint);

struct Follower {
    events: Events,
    /// What holds without a configuration.
    base: Settings,
    live: Live,
    /// The ConfigMaps as last seen, by name.
    maps: BTreeMap<String, ConfigMap>,
    told: BTreeSet<Told>,
    /// Who waits for the first list.
    first: Option<oneshot::Sender<()>>,
    /// Whether it was said that ConfigMaps cannot be listed.
    is_blind: bool,
}

impl Follower {
    async fn run(mut self, api: Api<ConfigMap>) {
        let config = watcher::Config::default().labels(SELECTOR);
        let mut stream = pin!(watcher(api, config).default_backoff());
        let mut listed = BTreeMap::new();
        while let Some(event) = stream.next().await {
            match event {
                Ok(watcher::Event::Init) => listed.clear(),
                Ok(watcher::Event::InitApply(map)) => {
                    listed.insert(map.name_any(), map);
                }
                Ok(watcher::Event::InitDone) => {
                    self.maps = std::mem::take(&mut listed);
                    self.is_blind = false;
                    self.settle().await;
                }
                Ok(watcher::Event::Apply(map)) => {
                    self.maps.insert(map.name_any(), map);
                    self.settle().await;
                }
                Ok(watcher::Event::Delete(map)) => {
                    self.maps.remove(&map.name_any());
                    self.settle().await;
                }
                Err(error) => self.note_failure(&error),
            }
        }
    }

    /// Puts in force what the ConfigMaps say, and then tells about it.
    async fn settle(&mut self) {
        let before = self.live.get();
        let data = self
            .maps
            .iter()
            .map(|(name, map)| (name.clone(), map.data.clone().unwrap_or_default()));
        let verdict = judge(&data.collect(), &self.base, &before);
        let changes = differences(&before, &verdict.settings);
        self.live.set(verdict.settings.clone());
        let is_start = self.first.take().is_some_and(|first| {
            // Whoever has stopped waiting reads the settings all the same.
            let _ = first.send(());
            true
        });
        self.log(&verdict, &changes, is_start);
        let before = self.complain(&verdict).await;
        if !is_start {
            self.confirm(&verdict, &changes, &before).await;
        }
    }

    fn log(&self, verdict: &Verdict, changes: &[String], is_start: bool) {
        let namespace = &self.base.namespace;
        match &verdict.configuration {
            Some(name) if is_start || !changes.is_empty() => {
                info!(
                    configmap = name,
                    namespace,
                    "configured: {}",
                    spoken(changes)
                );
            }
            None if is_start && verdict.complaints.is_empty() => {
                info!(
                    namespace,
                    "no ConfigMap with the label app=vidra; the command line holds"
                );
            }
            None if !changes.is_empty() => {
                info!(namespace, "the configuration is gone: {}", spoken(changes));
            }
            _ => {}
        }
    }

    /// Tells complaints that are new; answers those that were told before.
    async fn complain(&mut self, verdict: &Verdict) -> BTreeSet<Told> {
        let mut complaints = BTreeSet::new();
        for (name, complaint) in &verdict.complaints {
            let Some(map) = self.maps.get(name) else {
                continue;
            };
            let told = (map.uid().unwrap_or_default(), complaint.clone());
            if !self.told.contains(&told) {
                let (reason, text) = (complaint.reason(), complaint.text());
                warn!(
                    configmap = name,
                    namespace = self.base.namespace,
                    reason,
                    "{text}"
                );
                let note = Note::warning(reason, text);
                self.events.tell(&reference(map), note).await;
            }
            complaints.insert(told);
        }
        std::mem::replace(&mut self.told, complaints)
    }

    /// Tells that a configuration is used: where that changes something, and after complaints.
    async fn confirm(&self, verdict: &Verdict, changes: &[String], before: &BTreeSet<Told>) {
        let Some(map) = verdict
            .configuration
            .as_ref()
            .and_then(|name| self.maps.get(name))
        else {
            return;
        };
        let uid = map.uid().unwrap_or_default();
        let is_wrong = |told: &BTreeSet<Told>| {
            let mut about_it = told.iter().filter(|(of, _)| *of == uid);
            about_it.any(|(_, complaint)| complaint.is_about_values())
        };
        let is_corrected = is_wrong(before) && !is_wrong(&self.told);
        if !changes.is_empty() || is_corrected {
            let text = spoken(changes);
            let note = Note::normal("Configured", &text);
            self.events.tell(&reference(map), note).await;
        }
    }

    /// Says once that ConfigMaps cannot be listed. What holds stays in force.
    fn note_failure(&mut self, error: &watcher::Error) {
        let is_forbidden = is_forbidden(error);
        if !is_forbidden && !matches!(error, watcher::Error::InitialListFailed(_)) {
            debug!(%error, "the watch of the configuration begins anew");
            return;
        }
        if !std::mem::replace(&mut self.is_blind, true) {
            let namespace = &self.base.namespace;
            warn!(
                namespace, %error,
                "the configuration cannot be read, and the settings stay as they are; Vidra needs \
                 to list and watch ConfigMaps in its namespace"
            );
        }
        if is_forbidden && let Some(first) = self.first.take() {
            // Waiting would not help.
            let _ = first.send(());
        }
    }
}

fn is_forbidden(error: &watcher::Error) -> bool {
    use watcher::Error::{InitialListFailed, WatchFailed, WatchStartFailed};
    let (InitialListFailed(cause) | WatchStartFailed(cause) | WatchFailed(cause)) = error else {
        return false;
    };
    matches!(cause, kube::Error::Api(status) if status.code == 403)
}

fn spoken(changes: &[String]) -> String {
    if changes.is_empty() {
        "the settings are as they were".to_owned()
    } else {
        changes.join(", ")
    }
}

fn reference(map: &ConfigMap) -> ObjectReference {
    map.object_ref(&())
}
