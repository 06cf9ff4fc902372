//! What both controllers share.

use std::sync::Arc;

use vidra_cluster::{connect::Cluster, store::Store};

use crate::{events::Events, known::Known, metrics::Metrics, queue::Queue, settings::Live};

/// What both controllers share. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Shared {
    /// The cluster that the custom resources are in.
    pub(crate) cluster: Cluster,
    /// Which installation of Vidra this is.
    pub(crate) installation: String,
    /// What is configured, now.
    pub(crate) settings: Live,
    /// Tells people.
    pub(crate) events: Arc<Events>,
    /// Counts.
    pub(crate) metrics: Arc<Metrics>,
    /// The `VidraResource`s as last seen.
    pub(crate) resources: Arc<Known>,
    /// Content that does not fit a custom resource.
    pub(crate) store: Store,
    /// The work of the syncs: whoever sees a resource change tells its sync.
    pub(crate) sync_queue: Arc<Queue>,
}

impl Shared {
    /// Nothing has happened yet.
    pub(crate) fn new(cluster: Cluster, installation: String, settings: Live) -> Self {
        let sync_queue = Arc::new(Queue::default());
        let store = Store::new(cluster.clone(), settings.get().namespace.clone());
        Self {
            events: Arc::new(Events::new(&cluster)),
            metrics: Arc::default(),
            resources: Arc::new(Known::new(sync_queue.clone())),
            cluster,
            installation,
            settings,
            store,
            sync_queue,
        }
    }
}
