//! The watch of the custom resources themselves.

use std::{collections::HashMap, pin::pin, sync::Arc};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, ResourceExt,
    core::{DeserializeGuard, PartialObjectMeta},
    runtime::{WatchStreamExt, watcher},
};
use tracing::{debug, warn};
use vidra_api::{
    VidraResource,
    names::{FINALIZER, RECONCILE_REQUESTED_AT_ANNOTATION, RELEASE_PRUNE_ANNOTATION},
};
use vidra_core::trigger::Trigger;

use super::{Controller, compile::inline_inventory, spill::is_spilled};
use crate::{known::version_of, queue::Work};

type Guarded = DeserializeGuard<VidraResource>;

impl Controller {
    /// Follows the custom resources for ever. Nothing is worked on before the first complete list.
    pub async fn follow_resources(&self) {
        let api: Api<Guarded> = Api::all(self.cluster.client.clone());
        let mut stream = pin!(watcher(api, watcher::Config::default()).default_backoff());
        let mut listed: HashMap<String, Arc<VidraResource>> = HashMap::new();
        loop {
            match stream.try_next().await {
                Ok(None) => return,
                Ok(Some(watcher::Event::Init)) => listed.clear(),
                Ok(Some(watcher::Event::InitApply(guarded))) => {
                    listed.extend(decoded(guarded).map(|resource| (resource.name_any(), resource)));
                }
                Ok(Some(watcher::Event::InitDone)) => self.take_list(&std::mem::take(&mut listed)),
                Ok(Some(watcher::Event::Apply(guarded))) => {
                    if let Some(resource) = decoded(guarded) {
                        self.take_change(&resource, Trigger::Event);
                    }
                }
                Ok(Some(watcher::Event::Delete(guarded))) => {
                    self.resources.advance(version_of(&guarded));
                    self.take_end(&guarded.name_any());
                }
                Err(error) => debug!(%error, "the watch of VidraResources begins anew"),
            }
        }
    }

    /// Follows CustomResourceDefinitions for ever: a kind that was missing may be there now.
    pub async fn follow_definitions(&self) {
        let api: Api<PartialObjectMeta<CustomResourceDefinition>> =
            Api::all(self.cluster.client.clone());
        let mut stream = pin!(watcher(api, watcher::Config::default()).default_backoff());
        let mut is_listed = false;
        while let Some(event) = stream.next().await {
            match event {
                Ok(watcher::Event::InitDone) => is_listed = true,
                Ok(watcher::Event::Apply(_) | watcher::Event::Delete(_)) if is_listed => {
                    self.take_definition().await;
                }
                Ok(_) => {}
                Err(error) => debug!(%error, "the watch of definitions begins anew"),
            }
        }
    }

    /// Wakes every resource that waits for a kind.
    async fn take_definition(&self) {
        self.catalogue.forget().await;
        for kind in self.hub.state() {
            self.hub.rearm(&kind.watched.kind);
        }
        let waiting: Vec<String> = self
            .resources
            .all()
            .iter()
            .filter(|resource| is_waiting_for_kind(resource))
            .map(|resource| resource.name_any())
            .collect();
        for name in waiting {
            self.queue.add(&name, Work::reconcile(Trigger::Event));
        }
    }

    fn take_list(&self, listed: &HashMap<String, Arc<VidraResource>>) {
        for known in self.resources.all() {
            let name = known.name_any();
            if !listed.contains_key(&name) {
                self.take_end(&name);
            }
        }
        if self.resources.listed.is_open() {
            for resource in listed.values() {
                self.take_change(resource, Trigger::Event);
            }
            return;
        }
        // All of them before the first turn of any: the first list of a watch then reaches every
        // owner, and none has to make a list of its own.
        for resource in listed.values() {
            self.expect(resource);
        }
        for resource in listed.values() {
            self.take_change(resource, Trigger::Start);
        }
        self.resources.listed.open();
    }

    /// Lets watches tell a resource about its objects before its first turn.
    fn expect(&self, resource: &VidraResource) {
        let status = resource.status.clone().unwrap_or_default();
        if is_spilled(resource) {
            // It is read in its first turn, which then makes a list of its own.
            return;
        }
        let Ok(inventory) = inline_inventory(&status) else {
            // Its first turn says why, and touches nothing.
            return;
        };
        if self.follows_events(resource) {
            let name = resource.name_any();
            let owner = self.owners.owner(&self.installation, &name);
            owner.expect_inventory(&inventory);
            let objects = inventory.iter().map(|entry| entry.key.clone()).collect();
            self.owners.follow(&name, &objects);
        }
    }

    fn take_change(&self, resource: &Arc<VidraResource>, trigger: Trigger) {
        let name = resource.name_any();
        let known = self.resources.put(resource);
        let Some(known) = known else {
            self.queue.add(&name, Work::reconcile(trigger));
            return;
        };
        if is_requested(&known, resource) {
            self.queue.add(&name, Work::reconcile(Trigger::Request));
        } else if is_changed(&known, resource) {
            self.queue.add(&name, Work::reconcile(Trigger::Event));
        }
    }

    fn take_end(&self, name: &str) {
        self.resources.remove(name);
        self.queue.add(name, Work::sightings());
    }
}

fn decoded(guarded: Guarded) -> Option<Arc<VidraResource>> {
    match guarded.0 {
        Ok(mut resource) => {
            resource.metadata.managed_fields = None;
            Some(Arc::new(resource))
        }
        Err(invalid) => {
            let name = invalid.metadata.name.unwrap_or_default();
            warn!(resource = name, error = %invalid.error, "this VidraResource cannot be read and is left alone");
            None
        }
    }
}

fn is_waiting_for_kind(resource: &VidraResource) -> bool {
    let failures = resource.status.iter().flat_map(|status| &status.failures);
    failures
        .into_iter()
        .any(|failure| failure.reason == "UnknownKind" || failure.reason == "NotFound")
}

/// Whether anything changed that a reconcile looks at; our own status writes do not count.
fn is_changed(known: &VidraResource, seen: &VidraResource) -> bool {
    let one = &known.metadata;
    let other = &seen.metadata;
    let has_finalizer =
        |resource: &VidraResource| resource.finalizers().iter().any(|name| name == FINALIZER);
    one.uid != other.uid
        || one.generation != other.generation
        || one.deletion_timestamp != other.deletion_timestamp
        || (has_finalizer(known) && !has_finalizer(seen))
        || annotation(known, RELEASE_PRUNE_ANNOTATION) != annotation(seen, RELEASE_PRUNE_ANNOTATION)
}

fn is_requested(known: &VidraResource, seen: &VidraResource) -> bool {
    let wish = annotation(seen, RECONCILE_REQUESTED_AT_ANNOTATION);
    wish.is_some() && wish != annotation(known, RECONCILE_REQUESTED_AT_ANNOTATION)
}

fn annotation<'a>(resource: &'a VidraResource, key: &str) -> Option<&'a String> {
    resource.annotations().get(key)
}
