//! The `VidraResource`s as last seen, for both controllers.
//!
//! One watch fills it. A sync that owns a resource is told of every change to it: its own status
//! sums up theirs, and a resource that somebody deleted or edited is made again.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt};
use vidra_api::{InfrahubSync, VidraResource, names::GROUP};
use vidra_core::manifest::digest;

use crate::{
    latch::Latch,
    lock,
    queue::{Queue, Work},
};

/// The digest of a manifest, and of which: uid and generation.
type Digested = (Option<String>, Option<i64>, String);

/// All resources by name.
pub(crate) struct Known {
    resources: Mutex<HashMap<String, Arc<VidraResource>>>,
    /// The work of the syncs.
    syncs: Arc<Queue>,
    /// How far the watch has come: the newest version that it has shown, ends included.
    progress: AtomicU64,
    /// Digests of manifests, by name.
    digests: Mutex<HashMap<String, Digested>>,
    /// Open once all of them were listed: before that, absence means nothing.
    pub(crate) listed: Latch,
}

impl Known {
    /// Nothing is known yet.
    pub(crate) fn new(syncs: Arc<Queue>) -> Self {
        Self {
            resources: Mutex::default(),
            syncs,
            progress: AtomicU64::new(0),
            digests: Mutex::default(),
            listed: Latch::default(),
        }
    }

    /// Takes a resource as it is now; answers how it was known before.
    pub(crate) fn put(&self, resource: &Arc<VidraResource>) -> Option<Arc<VidraResource>> {
        let known = self.lock().insert(resource.name_any(), resource.clone());
        self.advance(version_of(&**resource));
        if let Some(known) = &known {
            // A sync that has lost it should know as well.
            self.tell_syncs(known);
        }
        self.tell_syncs(resource);
        known
    }

    /// Forgets a resource that is gone.
    pub(crate) fn remove(&self, name: &str) {
        let known = self.lock().remove(name);
        lock(&self.digests).remove(name);
        if let Some(known) = known {
            self.tell_syncs(&known);
        }
    }

    /// Notes that the watch has come to a version.
    pub(crate) fn advance(&self, version: Option<u64>) {
        let version = version.unwrap_or_default();
        self.progress.fetch_max(version, Ordering::Relaxed);
    }

    /// Whether the watch has come to where a resource was written. What it does not show then is
    /// not there any more.
    pub(crate) fn has_come_to(&self, written: &VidraResource) -> bool {
        let shown = self.get(&written.name_any());
        let shown = shown.and_then(|shown| version_of(&*shown));
        let progress = shown.unwrap_or_else(|| self.progress.load(Ordering::Relaxed));
        Some(progress) >= version_of(written)
    }

    /// One resource.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<VidraResource>> {
        self.lock().get(name).cloned()
    }

    /// All resources, in no order.
    pub(crate) fn all(&self) -> Vec<Arc<VidraResource>> {
        self.lock().values().cloned().collect()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// The resources that a sync owns, by its uid and never by how they are called.
    pub(crate) fn of_sync(&self, uid: &str) -> Vec<Arc<VidraResource>> {
        let mut owned: Vec<_> = self
            .lock()
            .values()
            .filter(|resource| sync_owners(resource).any(|owner| owner.uid == uid))
            .cloned()
            .collect();
        owned.sort_by_key(|resource| resource.name_any());
        owned
    }

    /// The digest of the manifest in a resource, computed once per generation.
    pub(crate) fn digest_of(&self, resource: &VidraResource) -> Option<String> {
        let text = resource.spec.manifest.as_deref()?;
        let version = (resource.uid(), resource.metadata.generation);
        let name = resource.name_any();
        let known = lock(&self.digests).get(&name).cloned();
        if let Some((uid, generation, digest)) = known
            && (uid, generation) == version
        {
            return Some(digest);
        }
        let fresh = digest(text);
        let entry = (version.0, version.1, fresh.clone());
        lock(&self.digests).insert(name, entry);
        Some(fresh)
    }

    fn tell_syncs(&self, resource: &VidraResource) {
        for owner in sync_owners(resource) {
            self.syncs.add(&owner.name, Work::sightings());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<VidraResource>>> {
        self.resources
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The version of a custom resource. Versions of one kind grow with every write to any of them.
pub(crate) fn version_of(resource: &impl ResourceExt) -> Option<u64> {
    resource.resource_version()?.parse().ok()
}

/// The syncs that own a resource.
pub(crate) fn sync_owners(resource: &VidraResource) -> impl Iterator<Item = &OwnerReference> {
    resource.owner_references().iter().filter(|owner| {
        owner.kind == InfrahubSync::kind(&()) && owner.api_version.starts_with(GROUP)
    })
}
