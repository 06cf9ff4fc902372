//! What is counted. Labels are bounded: actions, reasons and kinds, never names of objects.

use std::sync::{Mutex, PoisonError};

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

/// How a reconcile ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Ended {
    pub(crate) outcome: &'static str,
    pub(crate) reason: &'static str,
}

/// How Infrahub answered.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Asked {
    pub(crate) outcome: &'static str,
}

/// What happened to objects.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Happened {
    pub(crate) action: &'static str,
}

/// A kind of object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OfKind {
    pub(crate) kind: String,
}

/// All metrics of the operator.
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    /// Reconciles by how they ended.
    pub(crate) reconciles: Family<Ended, Counter>,
    /// Syncs by how they ended.
    pub(crate) syncs: Family<Ended, Counter>,
    /// Lists of artifacts asked of Infrahub, by how it answered.
    pub(crate) polls: Family<Asked, Counter>,
    /// Calls of Infrahub, by what became of them.
    pub(crate) webhooks: Family<Asked, Counter>,
    /// Objects by what happened to them; unchanged ones are not counted.
    pub(crate) changes: Family<Happened, Counter>,
    /// Objects put back after drift, by kind.
    pub(crate) heals: Family<OfKind, Counter>,
    /// From noticing drift to having it put back.
    pub(crate) heal_seconds: Histogram,
    /// Objects that had drifted although their metadata said otherwise. Must stay 0.
    pub(crate) wrong_verdicts: Counter,
    /// Turns that a defect of ours ended.
    pub(crate) panics: Counter,
    /// Watches on managed kinds.
    pub(crate) watches: Gauge,
    /// Resources known.
    pub(crate) resources: Gauge,
    /// Syncs known.
    pub(crate) syncs_known: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            registry: Mutex::new(Registry::with_prefix("vidra")),
            reconciles: Family::default(),
            syncs: Family::default(),
            polls: Family::default(),
            webhooks: Family::default(),
            changes: Family::default(),
            heals: Family::default(),
            heal_seconds: Histogram::new(exponential_buckets(0.001, 2.0, 14)),
            wrong_verdicts: Counter::default(),
            panics: Counter::default(),
            watches: Gauge::default(),
            resources: Gauge::default(),
            syncs_known: Gauge::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&self) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.register(
            "reconciles",
            "Reconciles by outcome and reason",
            self.reconciles.clone(),
        );
        registry.register("syncs", "Syncs by outcome and reason", self.syncs.clone());
        registry.register(
            "infrahub_polls",
            "Lists of artifacts asked of Infrahub by how it answered",
            self.polls.clone(),
        );
        registry.register(
            "webhooks",
            "Calls of Infrahub by what became of them",
            self.webhooks.clone(),
        );
        registry.register(
            "object_changes",
            "Objects by what was done to them",
            self.changes.clone(),
        );
        registry.register("heals", "Objects put back after drift", self.heals.clone());
        registry.register(
            "heal_seconds",
            "Seconds from noticing drift to having it put back",
            self.heal_seconds.clone(),
        );
        registry.register(
            "wrong_verdicts",
            "Objects that had drifted although their metadata said otherwise",
            self.wrong_verdicts.clone(),
        );
        registry.register(
            "panics",
            "Turns that a defect of Vidra ended",
            self.panics.clone(),
        );
        registry.register("watches", "Watches on managed kinds", self.watches.clone());
        registry.register(
            "infrahubsyncs",
            "InfrahubSyncs known",
            self.syncs_known.clone(),
        );
        registry.register("resources", "VidraResources known", self.resources.clone());
    }

    /// The text that Prometheus reads.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        // Writing to a String does not fail.
        let _ = encode(&mut text, &registry);
        text
    }
}
