//! The watch of the syncs themselves.

use std::{
    collections::{BTreeMap, HashMap},
    pin::pin,
    sync::Arc,
};

use futures::TryStreamExt;
use kube::{
    Api, ResourceExt,
    core::DeserializeGuard,
    runtime::{WatchStreamExt, watcher},
};
use tracing::{debug, warn};
use vidra_api::{
    InfrahubSync,
    names::{RECONCILE_REQUESTED_AT_ANNOTATION, RELEASE_PRUNE_ANNOTATION},
};
use vidra_core::trigger::Trigger;

use super::{Controller, source::Firsts};
use crate::{lock, queue::Work};

type Guarded = DeserializeGuard<InfrahubSync>;
type Syncs = BTreeMap<String, Arc<InfrahubSync>>;

impl Controller {
    /// Follows the syncs for ever. Nothing is worked on before the first complete list.
    pub(crate) async fn follow_syncs(&self) {
        let api: Api<Guarded> = Api::all(self.cluster.client.clone());
        let mut stream = pin!(watcher(api, watcher::Config::default()).default_backoff());
        let mut listed: HashMap<String, Arc<InfrahubSync>> = HashMap::new();
        loop {
            match stream.try_next().await {
                Ok(None) => return,
                Ok(Some(watcher::Event::Init)) => listed.clear(),
                Ok(Some(watcher::Event::InitApply(guarded))) => {
                    listed.extend(decoded(guarded).map(|sync| (sync.name_any(), sync)));
                }
                Ok(Some(watcher::Event::InitDone)) => self.take_list(&std::mem::take(&mut listed)),
                Ok(Some(watcher::Event::Apply(guarded))) => {
                    if let Some(sync) = decoded(guarded) {
                        self.take_change(&sync, Trigger::Event);
                    }
                }
                Ok(Some(watcher::Event::Delete(guarded))) => self.take_end(&guarded.name_any()),
                Err(error) => debug!(%error, "the watch of InfrahubSyncs begins anew"),
            }
        }
    }

    fn take_list(&self, listed: &HashMap<String, Arc<InfrahubSync>>) {
        let known: Vec<String> = lock(&self.syncs).keys().cloned().collect();
        for name in known.iter().filter(|name| !listed.contains_key(*name)) {
            self.take_end(name);
        }
        if !self.listed.open() {
            for sync in listed.values() {
                self.take_change(sync, Trigger::Event);
            }
            return;
        }
        // All of them before the first turn of any, and at one instant, so that the first answer
        // serves all.
        lock(&self.syncs).extend(listed.iter().map(|(name, it)| (name.clone(), it.clone())));
        self.wake(listed.keys(), Trigger::Start);
    }

    fn take_change(&self, sync: &Arc<InfrahubSync>, trigger: Trigger) {
        let name = sync.name_any();
        let known = self.change_syncs(|syncs| syncs.insert(name.clone(), sync.clone()));
        let trigger = match &known {
            None => trigger,
            Some(known) if is_requested(known, sync) => Trigger::Request,
            Some(known) if is_changed(known, sync) => Trigger::Event,
            Some(_) => return,
        };
        self.queue.add(&name, Work::reconcile(trigger));
    }

    fn take_end(&self, name: &str) {
        self.change_syncs(|syncs| syncs.remove(name));
        self.queue.add(name, Work::sightings());
    }

    /// Changes what is known of the syncs. The oldest one on a host decides where a Secret without
    /// an origin goes, so the others on that host look when it is another.
    fn change_syncs<T>(&self, change: impl FnOnce(&mut Syncs) -> T) -> T {
        let mut syncs = lock(&self.syncs);
        let before = Firsts::of(syncs.values());
        let result = change(&mut syncs);
        let firsts = Firsts::of(syncs.values());
        let concerned = syncs.iter().filter(|(_, sync)| {
            let url = &sync.spec.source.infrahub_api_url;
            before.on_host_of(url).is_some() && before.on_host_of(url) != firsts.on_host_of(url)
        });
        let concerned: Vec<String> = concerned.map(|(name, _)| name.clone()).collect();
        drop(syncs);
        self.wake(concerned.iter(), Trigger::Event);
        result
    }
}

fn decoded(guarded: Guarded) -> Option<Arc<InfrahubSync>> {
    match guarded.0 {
        Ok(mut sync) => {
            sync.metadata.managed_fields = None;
            Some(Arc::new(sync))
        }
        Err(invalid) => {
            let name = invalid.metadata.name.unwrap_or_default();
            warn!(sync = name, error = %invalid.error, "this InfrahubSync cannot be read and is left alone");
            None
        }
    }
}

/// Whether anything changed that a sync looks at; our own status writes do not count.
fn is_changed(known: &InfrahubSync, seen: &InfrahubSync) -> bool {
    let (one, other) = (&known.metadata, &seen.metadata);
    one.uid != other.uid
        || one.generation != other.generation
        || one.deletion_timestamp != other.deletion_timestamp
        || annotation(known, RELEASE_PRUNE_ANNOTATION) != annotation(seen, RELEASE_PRUNE_ANNOTATION)
}

fn is_requested(known: &InfrahubSync, seen: &InfrahubSync) -> bool {
    let wish = annotation(seen, RECONCILE_REQUESTED_AT_ANNOTATION);
    wish.is_some() && wish != annotation(known, RECONCILE_REQUESTED_AT_ANNOTATION)
}

fn annotation<'a>(sync: &'a InfrahubSync, key: &str) -> Option<&'a String> {
    sync.annotations().get(key)
}
