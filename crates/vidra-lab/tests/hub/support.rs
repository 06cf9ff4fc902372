//! What several of these tests need.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;
use vidra_cluster::hub::{BlindCause, Hub, KindState, Sighting, Timing, WatchedKind};
use vidra_core::{
    identity::{ClusterId, GroupKind, ObjectKey},
    observed::Observed,
};

/// Nothing here takes longer unless it never happens.
const PATIENCE: Duration = Duration::from_mins(1);

/// Production's, but for pauses that a test can wait for.
pub(crate) fn brisk() -> Timing {
    let pause = (Duration::from_millis(50), Duration::from_millis(500));
    Timing {
        pause,
        call: Duration::from_secs(10),
        ..Timing::default()
    }
}

/// A hub and what it tells.
pub(crate) struct Scene {
    pub(crate) hub: Hub,
    sightings: mpsc::Receiver<Sighting>,
}

impl Scene {
    pub(crate) fn new(client: Client, timing: Timing) -> Self {
        let (sink, sightings) = mpsc::channel(16);
        let cancel = CancellationToken::new();
        let hub = Hub::with_timing(ClusterId::local(), client, sink, &cancel, timing);
        Self { hub, sightings }
    }

    pub(crate) async fn next(&mut self) -> Sighting {
        let sighting = timeout(PATIENCE, self.sightings.recv())
            .await
            .expect("a sighting in time");
        sighting.expect("a hub that is still there")
    }

    /// The first sighting of which `pick` makes something; others, of other tests above all, are
    /// passed over.
    pub(crate) async fn until<T>(&mut self, mut pick: impl FnMut(&Sighting) -> Option<T>) -> T {
        loop {
            if let Some(picked) = pick(&self.next().await) {
                return picked;
            }
        }
    }

    pub(crate) async fn seen(&mut self, wanted: &ObjectKey) -> Observed {
        self.until(|sighting| match sighting {
            Sighting::Seen { object, .. } if object.key == *wanted => Some(object.clone()),
            Sighting::Gone { key, .. } if key == wanted => panic!("{key} is gone instead"),
            _ => None,
        })
        .await
    }

    /// The uid of the object that went.
    pub(crate) async fn gone(&mut self, wanted: &ObjectKey) -> String {
        self.until(|sighting| match sighting {
            Sighting::Gone { key, uid } if key == wanted => Some(uid.clone()),
            _ => None,
        })
        .await
    }

    pub(crate) async fn listed(&mut self, wanted: &GroupKind) -> BTreeSet<ObjectKey> {
        self.until(|sighting| match sighting {
            Sighting::Listed { kind, keys } if kind == wanted => Some(keys.clone()),
            _ => None,
        })
        .await
    }

    pub(crate) async fn blind(&mut self, wanted: &GroupKind) -> BlindCause {
        self.until(|sighting| match sighting {
            Sighting::Blind { kind, cause } if kind == wanted => Some(cause.clone()),
            _ => None,
        })
        .await
    }

    pub(crate) async fn sighted(&mut self, wanted: &GroupKind) {
        self.until(|sighting| match sighting {
            Sighting::Sighted { kind } if kind == wanted => Some(()),
            Sighting::Blind { kind, cause } if kind == wanted => panic!("blind: {cause}"),
            _ => None,
        })
        .await;
    }

    pub(crate) fn state(&self, kind: &GroupKind) -> Option<KindState> {
        self.hub
            .state()
            .into_iter()
            .find(|state| state.watched.kind == *kind)
    }

    /// Waits until a stream is open, so that what follows is an event and not part of a list.
    pub(crate) async fn watching(&self, kind: &GroupKind) {
        eventually("a stream is open", || {
            self.state(kind).is_some_and(|state| state.is_watching)
        })
        .await;
    }
}

/// Waits for what no sighting tells.
pub(crate) async fn eventually(claim: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "not in time: {claim}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) fn watched<K: Resource<DynamicType = ()>>() -> WatchedKind {
    WatchedKind::new(ApiResource::erase::<K>(&()))
}

pub(crate) fn set(kinds: &[&WatchedKind]) -> BTreeSet<WatchedKind> {
    kinds.iter().map(|&kind| kind.clone()).collect()
}

/// `ConfigMap`s in one namespace.
pub(crate) struct Maps {
    api: Api<ConfigMap>,
    namespace: String,
}

impl Maps {
    pub(crate) fn new(client: Client, namespace: &str) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
        }
    }

    pub(crate) fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::new("", "ConfigMap", Some(&self.namespace), name)
    }

    /// Makes one with our label.
    pub(crate) async fn create(&self, name: &str) -> ObjectKey {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([("managed-by".to_owned(), "vidra".to_owned())].into()),
            ..ObjectMeta::default()
        };
        let map = ConfigMap {
            metadata,
            ..ConfigMap::default()
        };
        self.api.create(&PostParams::default(), &map).await.unwrap();
        self.key(name)
    }

    pub(crate) async fn write(&self, name: &str, value: &str) -> ConfigMap {
        self.merge(name, json!({"data": {"value": value}})).await
    }

    pub(crate) async fn label(&self, name: &str, value: Option<&str>) -> ConfigMap {
        self.merge(name, json!({"metadata": {"labels": {"managed-by": value}}}))
            .await
    }

    pub(crate) async fn delete(&self, name: &str) {
        let _deleted = self
            .api
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    async fn merge(&self, name: &str, patch: serde_json::Value) -> ConfigMap {
        self.api
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap()
    }
}
