//! The operator's settings.
//!
//! ```text
//!   command line --> Settings (the base) --+
//!   ConfigMap ------> follow --> read -----+--> Live --> controllers
//! ```

mod follow;
mod judge;
mod live;
mod read;
mod spelling;

use std::{net::SocketAddr, time::Duration};

pub use vidra_core::guard::Budget;

pub(crate) use self::follow::follow;
pub use self::live::{Changes, Live};

/// What holds for all syncs and resources that do not say otherwise. Plain values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The namespace of Vidra's own Secrets and `ConfigMap`s.
    pub namespace: String,
    /// Where probes, metrics and webhooks are served; nowhere if absent.
    pub http_address: Option<SocketAddr>,
    /// How often Infrahub is asked by syncs that do not say otherwise; zero: never.
    pub requeue_sync_after: Duration,
    /// The query registered in Infrahub that selects artifacts; empty: only Vidra's own.
    pub query_name: String,
    /// How often the objects of a resource are checked in addition to events; zero: never.
    pub requeue_resources_after: Duration,
    /// Whether changes of managed objects are acted upon at once.
    pub event_based_reconcile: bool,
    /// How often everything is applied again, whatever the metadata says; zero: never.
    pub deep_pass: Duration,
    /// How many resources are worked on at once.
    pub workers: usize,
    /// How many contents of artifacts are downloaded at once from one Infrahub.
    pub downloads: usize,
    /// The largest content of an artifact, in bytes.
    pub largest_artifact: usize,
    /// How much may be deleted in one go by resources that do not say otherwise.
    pub budget: Budget,
    /// How long one call to an API server may take.
    pub call_timeout: Duration,
    /// How long stored content has to be unused before it is deleted; zero: it never is.
    pub collect_content_after: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: "vidra-system".to_owned(),
            http_address: None,
            requeue_sync_after: Duration::from_mins(1),
            query_name: "ArtifactIDs".to_owned(),
            requeue_resources_after: Duration::from_mins(10),
            event_based_reconcile: true,
            deep_pass: Duration::from_hours(24),
            workers: 8,
            downloads: 8,
            largest_artifact: 64 << 20,
            budget: Budget::default(),
            call_timeout: Duration::from_secs(30),
            collect_content_after: Duration::from_mins(10),
        }
    }
}
