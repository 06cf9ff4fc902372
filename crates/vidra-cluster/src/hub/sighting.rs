//! What the hub is asked for and what it tells.

use std::{
    cmp::Ordering,
    collections::BTreeSet,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use kube::api::ApiResource;
use vidra_core::{
    identity::{GroupKind, ObjectKey},
    observed::Observed,
};

/// A kind to watch and the resource that serves it.
///
/// Ordered and compared by kind, version and plural name, which is all that a request needs.
#[derive(Debug, Clone)]
pub struct WatchedKind {
    /// The kind.
    pub kind: GroupKind,
    /// The resource, in one of the versions that serve the kind.
    pub resource: ApiResource,
}

impl WatchedKind {
    /// Watches this resource.
    pub fn new(resource: ApiResource) -> Self {
        Self {
            kind: GroupKind::new(&resource.group, &resource.kind),
            resource,
        }
    }

    fn identity(&self) -> (&GroupKind, &str, &str) {
        (&self.kind, &self.resource.version, &self.resource.plural)
    }
}

impl PartialEq for WatchedKind {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for WatchedKind {}

impl Ord for WatchedKind {
    fn cmp(&self, other: &Self) -> Ordering {
        self.identity().cmp(&other.identity())
    }
}

impl PartialOrd for WatchedKind {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for WatchedKind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

/// What a watch has to tell.
///
/// Of one kind, sightings arrive in the order in which the API server told them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sighting {
    /// An object was added or modified, or is part of a list.
    Seen {
        /// Its metadata.
        object: Observed,
        /// The resource that it was seen through.
        resource: Arc<ApiResource>,
    },
    /// An object was deleted, has lost our label, or was missing from a list.
    Gone {
        /// The object.
        key: ObjectKey,
        /// Its uid; another object may already have its name.
        uid: String,
    },
    /// A list is complete. Each of its objects was `Seen` before.
    Listed {
        /// The kind.
        kind: GroupKind,
        /// Every object of the kind that carries our label.
        keys: BTreeSet<ObjectKey>,
    },
    /// The kind cannot be watched at present. Nothing is known about its objects until `Sighted`;
    /// above all, they are not gone.
    Blind {
        /// The kind.
        kind: GroupKind,
        /// Why.
        cause: BlindCause,
    },
    /// The kind is watched again. A list came before it if anything could have been missed.
    Sighted {
        /// The kind.
        kind: GroupKind,
    },
}

/// Why a kind cannot be watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlindCause {
    /// We may not list and watch it.
    Forbidden,
    /// The API server does not serve it.
    KindGone,
    /// It failed several times in a row.
    Failing {
        /// What went wrong last; no content of objects.
        message: String,
    },
}

impl BlindCause {
    /// Whether both are the same state, whatever their texts say.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.reason() == other.reason()
    }

    /// A bounded name for metrics and conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Forbidden => "Forbidden",
            Self::KindGone => "KindGone",
            Self::Failing { .. } => "Failing",
        }
    }
}

impl fmt::Display for BlindCause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forbidden => formatter.write_str("not allowed to list and watch this kind"),
            Self::KindGone => formatter.write_str("the API server does not serve this kind"),
            Self::Failing { message } => formatter.write_str(message),
        }
    }
}

/// How the watch of one kind is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindState {
    /// The kind and the resource in use.
    pub watched: WatchedKind,
    /// How many owners need it.
    pub owners: usize,
    /// How long ago the first owner needed it.
    pub age: Duration,
    /// How long ago the API server last said anything, bookmarks included.
    pub quiet: Duration,
    /// How many objects are known.
    pub objects: usize,
    /// How many lists were complete.
    pub lists: u64,
    /// How many watch streams were opened; more than one are restarts.
    pub streams: u64,
    /// Whether a stream is open now.
    pub is_watching: bool,
    /// Why it cannot be watched now.
    pub blind: Option<BlindCause>,
}

/// Where a watch was at one moment; see [`super::Hub::restart_if_ahead`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    pub(super) kind: GroupKind,
    pub(super) version: u64,
}
