//! Why a sync could not be done, wholly or in part.

use std::{sync::Arc, time::Duration};

use vidra_cluster::{failure::Failure, store::StoreError};
use vidra_core::{change::Cause, class::Class, identity::ObjectKey, manifest::ManifestError};
use vidra_infrahub::Error;

use super::credentials::CredentialsError;

/// Why a sync could not be done.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum SyncError {
    /// Asking Infrahub.
    #[error("{}", sentence(.0))]
    Infrahub(#[from] Error),
    /// Finding and reading the credentials.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// A complete answer that is empty.
    #[error(
        "Infrahub has {definitions} definitions but no artifact named {name:?} on branch \
         {branch:?}; nothing is removed because of it; set spec.source.allowEmpty if everything \
         that was delivered should go"
    )]
    NoArtifacts {
        /// The name of the sync.
        name: String,
        /// Its branch.
        branch: String,
        /// How many definitions make artifacts of that name.
        definitions: u64,
    },
    /// A registered query that selects nothing.
    #[error(
        "the query that is registered in Infrahub selects no artifact named {name:?} on branch \
         {branch:?}, although there are {artifacts}; nothing is removed because of it; correct \
         the query, leave queryName empty, or set spec.source.allowEmpty if everything that was \
         delivered should go"
    )]
    NothingSelected {
        /// The name of the sync.
        name: String,
        /// Its branch.
        branch: String,
        /// How many artifacts of that name there are.
        artifacts: u64,
    },
    /// A name that nothing in Infrahub has.
    #[error(
        "Infrahub has neither an artifact nor an artifact definition named {name:?} on branch \
         {branch:?}; check the spelling of the artifact's name; nothing is removed because of it"
    )]
    UnknownName {
        /// The name of the sync.
        name: String,
        /// Its branch.
        branch: String,
    },
    /// A list without an artifact that is there all the same.
    #[error(
        "Infrahub's list lacks the artifact {id}, but the artifact is still there under the same \
         name; nothing is removed, and it is asked again"
    )]
    Contradiction {
        /// The artifact.
        id: String,
    },
    /// An id that no object can have.
    #[error("Infrahub names an artifact by the id {id:?}, which cannot be the name of an object")]
    UnusableId {
        /// What it says, shortened.
        id: String,
    },
    /// Content that is no manifest.
    #[error("the content is no usable manifest: {source}; correct the transformation in Infrahub")]
    Manifest {
        /// Why.
        source: ManifestError,
    },
    /// Content without objects.
    #[error(
        "the content has no Kubernetes objects; correct the transformation in Infrahub; what was \
         delivered before stays"
    )]
    NoObjects,
    /// Storing content that does not fit a custom resource, or must not be in one.
    #[error(transparent)]
    Store(#[from] Arc<StoreError>),
    /// Writing a `VidraResource`.
    #[error("the VidraResource {name} could not be written: {}", shown(.name, .source))]
    Write {
        /// Its name.
        name: String,
        /// What the API server said.
        source: Failure,
    },
    /// Removing a `VidraResource`.
    #[error("the VidraResource {name} could not be removed: {}", shown(.name, .source))]
    Remove {
        /// Its name.
        name: String,
        /// What the API server said.
        source: Failure,
    },
}

impl SyncError {
    /// Whether the content was read and is no good: only other content helps.
    pub(crate) fn is_of_content(&self) -> bool {
        matches!(
            self,
            Self::Manifest { .. }
                | Self::NoObjects
                | Self::Infrahub(Error::EmptyContent | Error::NotText)
        )
    }

    /// Whether Infrahub could not be read completely, or says what cannot be.
    pub(crate) fn is_of_source(&self) -> bool {
        match self {
            Self::Infrahub(_) => !self.is_of_content(),
            Self::UnusableId { .. } | Self::Contradiction { .. } => true,
            _ => false,
        }
    }

    /// Decides about the retry.
    pub(crate) fn class(&self) -> Class {
        match self {
            // Other content comes with the next poll.
            _ if self.is_of_content() => Class::Invalid,
            Self::Infrahub(error) => error.class(),
            Self::Credentials(error) => error.class(),
            Self::NoArtifacts { .. } | Self::NothingSelected { .. } | Self::UnknownName { .. } => {
                Class::Waiting
            }
            Self::UnusableId { .. } | Self::Contradiction { .. } => Class::Transient,
            Self::Manifest { .. } | Self::NoObjects => Class::Invalid,
            Self::Store(error) => error.class(),
            Self::Write { source, .. } | Self::Remove { source, .. } => source.class,
        }
    }

    /// Stable, for conditions, Events and metrics.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Infrahub(error) => error.reason(),
            Self::Credentials(error) => error.reason(),
            Self::NoArtifacts { .. } | Self::NothingSelected { .. } => "NoArtifacts",
            Self::UnknownName { .. } => "ArtifactUnknown",
            Self::UnusableId { .. } | Self::Contradiction { .. } => "InfrahubError",
            Self::Manifest { source } => source.reason(),
            Self::NoObjects => "EmptyManifest",
            Self::Store(error) => error.reason(),
            Self::Write { .. } => "ApplyFailed",
            Self::Remove { .. } => "PruneFailed",
        }
    }

    /// How long the other side wants to be left alone.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Infrahub(error) => error.retry_after(),
            Self::Write { source, .. } | Self::Remove { source, .. } => source.retry_after,
            _ => None,
        }
    }

    /// What is shown.
    pub(crate) fn cause(&self) -> Cause {
        Cause {
            class: self.class(),
            reason: self.reason(),
            message: self.to_string(),
        }
    }
}

/// The error and, where that alone says what is wrong, what caused it.
fn sentence(error: &Error) -> String {
    match error {
        Error::InvalidDate(date) => date.to_string(),
        other => other.to_string(),
    }
}

fn shown(name: &str, failure: &Failure) -> String {
    let key = ObjectKey::new(vidra_api::names::GROUP, "VidraResource", None, name);
    failure.cause(&key).message
}
