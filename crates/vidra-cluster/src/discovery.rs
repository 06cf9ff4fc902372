//! Which kinds a cluster serves, and whether they are namespaced.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use kube::{
    api::ApiResource,
    discovery::{Discovery, Scope},
};
use tokio::{sync::Mutex, time::Instant};
use vidra_core::identity::GroupKind;

use crate::{connect::Cluster, failure::Failure};

/// Misses lead to at most one refresh in this time.
const REFRESH_PAUSE: Duration = Duration::from_secs(1);
/// What a snapshot may be old before a hit refreshes it: aggregated APIs send no event.
const LONGEST_AGE: Duration = Duration::from_mins(10);

/// One served version of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// How to address it.
    pub resource: ApiResource,
    /// Whether its objects live in namespaces.
    pub is_namespaced: bool,
}

/// A complete picture of the kinds at one moment.
#[derive(Debug, Default)]
pub struct Kinds {
    served: BTreeMap<GroupKind, Vec<Served>>,
}

impl Kinds {
    /// A kind in exactly this version.
    pub fn exact(&self, kind: &GroupKind, version: &str) -> Option<&Served> {
        self.served
            .get(kind)?
            .iter()
            .find(|served| served.resource.version == version)
    }

    /// A kind in this version, or in whichever is served.
    pub fn any(&self, kind: &GroupKind, version: &str) -> Option<&Served> {
        self.exact(kind, version)
            .or_else(|| self.served.get(kind)?.first())
    }
}

/// The cached discovery of one cluster.
#[derive(Default)]
pub struct Catalogue {
    state: Mutex<Option<(Instant, Arc<Kinds>)>>,
    edition: AtomicU64,
}

impl Catalogue {
    /// A number that grows whenever the kinds may have changed.
    pub fn edition(&self) -> u64 {
        self.edition.load(Ordering::Relaxed)
    }

    /// Forgets what was seen: a definition came, changed or went.
    pub async fn forget(&self) {
        *self.state.lock().await = None;
        self.edition.fetch_add(1, Ordering::Relaxed);
    }

    /// The kinds as last seen, refreshed if that was long ago.
    pub async fn kinds(&self, cluster: &Cluster) -> Result<Arc<Kinds>, Failure> {
        self.at_most(cluster, LONGEST_AGE).await
    }

    /// The kinds as they are now; for a kind that was not known a moment ago.
    pub async fn fresh(&self, cluster: &Cluster) -> Result<Arc<Kinds>, Failure> {
        self.at_most(cluster, REFRESH_PAUSE).await
    }

    /// The kinds as they are at this moment, whatever was seen before.
    pub async fn now(&self, cluster: &Cluster) -> Result<Arc<Kinds>, Failure> {
        self.at_most(cluster, Duration::ZERO).await
    }

    async fn at_most(&self, cluster: &Cluster, age: Duration) -> Result<Arc<Kinds>, Failure> {
        let mut state = self.state.lock().await;
        if let Some((at, kinds)) = &*state
            && at.elapsed() < age
        {
            return Ok(kinds.clone());
        }
        let kinds = Arc::new(discover(cluster).await?);
        *state = Some((Instant::now(), kinds.clone()));
        Ok(kinds)
    }
}

async fn discover(cluster: &Cluster) -> Result<Kinds, Failure> {
    let run = Discovery::new(cluster.client.clone()).run_aggregated();
    let discovery = tokio::time::timeout(cluster.timeout, run)
        .await
        .map_err(|_| Failure::timeout(cluster.timeout))?
        .map_err(|error| Failure::unreachable(&error))?;
    let mut served: BTreeMap<GroupKind, Vec<Served>> = BTreeMap::new();
    for group in discovery.groups() {
        for version in group.versions() {
            for (resource, capabilities) in group.versioned_resources(version) {
                let kind = GroupKind::new(&resource.group, &resource.kind);
                let is_namespaced = capabilities.scope == Scope::Namespaced;
                served.entry(kind).or_default().push(Served {
                    resource,
                    is_namespaced,
                });
            }
        }
    }
    Ok(Kinds { served })
}
