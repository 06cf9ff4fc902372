//! Shared lists of metadata: owners that look at the same time look at the same list.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use kube::api::ApiResource;
use tokio::time::Instant;
use vidra_api::names::{MANAGED_BY, MANAGED_BY_VIDRA};
use vidra_cluster::{connect::Cluster, failure::Failure};
use vidra_core::{
    identity::{GroupKind, ObjectKey},
    observed::Observed,
};

use crate::lock;

/// How old a list may be. Passes of owners with equal intervals fall together, so that one list
/// per kind serves them all.
pub(crate) const LONGEST_AGE: Duration = Duration::from_secs(15);

/// A list and when it was asked for.
#[derive(Clone)]
pub(crate) struct Snapshot {
    /// When the list was asked for: what was written later is not in it.
    pub(crate) asked_at: Instant,
    /// The metadata of all managed objects of the kind.
    pub(crate) objects: Arc<BTreeMap<ObjectKey, Observed>>,
}

type Slot = Arc<tokio::sync::Mutex<Option<Snapshot>>>;

/// The lists of one cluster.
#[derive(Default)]
pub(crate) struct Snapshots {
    slots: Mutex<HashMap<GroupKind, Slot>>,
}

impl Snapshots {
    /// A list of a kind that was not asked for before a given time; at most one is asked for at
    /// a time.
    pub(crate) async fn recent(
        &self,
        cluster: &Cluster,
        resource: &ApiResource,
        not_before: Instant,
    ) -> Result<Snapshot, Failure> {
        let kind = GroupKind::new(&resource.group, &resource.kind);
        let slot = lock(&self.slots).entry(kind).or_default().clone();
        let mut slot = slot.lock().await;
        if let Some(snapshot) = slot.as_ref().filter(|known| known.asked_at >= not_before) {
            return Ok(snapshot.clone());
        }
        let asked_at = Instant::now();
        let selector = format!("{MANAGED_BY}={MANAGED_BY_VIDRA}");
        let objects = Arc::new(cluster.list(resource, &selector).await?);
        let snapshot = Snapshot { asked_at, objects };
        *slot = Some(snapshot.clone());
        Ok(snapshot)
    }

    /// Lets go of the list of a kind, because something was seen that may not be in it.
    pub(crate) fn forget(&self, kind: &GroupKind) {
        lock(&self.slots).remove(kind);
    }

    /// Lets go of lists that nobody will look at again.
    pub(crate) fn forget_old(&self) {
        lock(&self.slots).retain(|_, slot| {
            let Ok(slot) = slot.try_lock() else {
                return true;
            };
            slot.as_ref()
                .is_some_and(|known| known.asked_at.elapsed() < LONGEST_AGE)
        });
    }
}
