//! The two kinds of Vidra as Rust types, and the names that everybody who talks about them shares.
//!
//! ```text
//! InfrahubSync   which artifacts go where    sync.rs      -> deploy/crds/…_infrahubsyncs.yaml
//! VidraResource  one manifest and its place  resource.rs  -> deploy/crds/…_vidraresources.yaml
//! ```
//!
//! The field names are those that users of the Go operator have in their clusters, including the
//! odd spellings `artefactName` and `DeployState`. What the API server can check by itself it
//! checks: every rule in [`rules`] is part of the generated CRD, and its message
//! says what to write instead.
//!
//! Defaults are applied in code (the methods on the types) and never by the CRD, because a
//! default in a CRD is written into the users' objects and can then not be told from a choice.
//!
//! This crate does no I/O except for writing the CRD files ([`crds::write`]); it knows no client
//! and no runtime.

#![allow(
    clippy::doc_markdown,
    rustdoc::bare_urls,
    reason = "the comments on fields are the plain text that `kubectl explain` prints"
)]
#![allow(
    unreachable_pub,
    reason = "the expansion of KubeSchema copies each public struct into a function"
)]

mod columns;
pub mod common;
pub mod crds;
pub mod duration;
pub mod names;
pub mod resource;
pub mod rules;
pub mod sync;

pub use common::{Destination, KeyReference, NameReference, State};
pub use crds::{crd_yaml, crds};
pub use duration::{GoDuration, ParseDurationError};
pub use resource::{
    Adoption, Counts, DeletionPolicy, Failure, FieldConflicts, HeldPrune, ImmutableFields,
    ManagedResource, ManifestReference, ProtectedKind, PrunePolicy, StoredContent, StoredInventory,
    VidraResource, VidraResourceSpec, VidraResourceStatus,
};
pub use sync::{
    InfrahubSync, InfrahubSyncSource, InfrahubSyncSpec, InfrahubSyncStatus, SyncedArtifact,
};
