//! What can go wrong with stored content.

use vidra_core::{change::Cause, class::Class};

use crate::failure::Failure;

/// A step that failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The text is too large, or a reference claims that it is.
    #[error("the content is larger than {} MiB; split it", limit >> 20)]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// A reference that cannot be a digest.
    #[error("{digest:?} is no digest; it has to be sha256: and 64 hexadecimal digits")]
    Address {
        /// What it is.
        digest: String,
    },
    /// A chunk could not be written. The server's words are not shown: they may quote content.
    #[error(
        "cannot write Secret {secret}: {} (HTTP {}); Vidra needs to get, list, create and delete \
         Secrets in its namespace, and the namespace has to exist",
        source.reason, source.code
    )]
    Write {
        /// The Secret, with its namespace.
        secret: String,
        /// Why.
        #[source]
        source: Box<Failure>,
    },
    /// A Secret that is not ours has the name of a chunk.
    #[error("Secret {secret} was not made by Vidra and is in the way; delete or rename it")]
    Foreign {
        /// The Secret, with its namespace.
        secret: String,
    },
    /// A chunk could not be read.
    #[error("cannot read Secret {secret}: {source}")]
    Read {
        /// The Secret, with its namespace.
        secret: String,
        /// Why.
        #[source]
        source: Box<Failure>,
    },
    /// A chunk is not there.
    #[error("Secret {secret} is missing; restore it, or let its source write the content anew")]
    Missing {
        /// The Secret, with its namespace.
        secret: String,
    },
    /// What is stored is not what it should be.
    #[error(
        "the stored content {digest} is damaged: {damage}; restore its Secrets, or let its source \
         write the content anew"
    )]
    Damaged {
        /// What it should be.
        digest: String,
        /// What is wrong.
        damage: Damage,
    },
    /// The chunks, or what refers to them, could not be listed.
    #[error("cannot list {what}: {source}; nothing is collected")]
    List {
        /// What was to be listed.
        what: &'static str,
        /// Why.
        #[source]
        source: Box<Failure>,
    },
    /// An unused chunk could not be deleted.
    #[error("cannot delete the unused Secret {secret}: {} (HTTP {})", source.reason, source.code)]
    Delete {
        /// The Secret, with its namespace.
        secret: String,
        /// Why.
        #[source]
        source: Box<Failure>,
    },
}

/// How stored content differs from what it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// It goes on after its size, or after the largest size there is.
    #[error("it is larger than it should be")]
    Larger,
    /// It is no compressed text, or not all of it.
    #[error("it cannot be decompressed")]
    Undecodable,
    /// It has another size.
    #[error("its size is another")]
    OtherSize,
    /// It is another text.
    #[error("its digest is another")]
    OtherDigest,
}

impl StoreError {
    /// Decides about the retry.
    pub fn class(&self) -> Class {
        match self {
            Self::TooLarge { .. } | Self::Address { .. } => Class::Invalid,
            Self::Foreign { .. } | Self::Missing { .. } | Self::Damaged { .. } => Class::Waiting,
            // Not even an object that we made too large is the fault of whoever gave us content.
            Self::Write { source, .. } if source.class == Class::Invalid => Class::Fatal,
            Self::Write { source, .. }
            | Self::Read { source, .. }
            | Self::List { source, .. }
            | Self::Delete { source, .. } => source.class,
        }
    }

    /// Stable, for conditions, Events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "TooLarge",
            Self::Address { .. }
            | Self::Foreign { .. }
            | Self::Missing { .. }
            | Self::Damaged { .. } => "ContentMissing",
            Self::Write { .. } => "ContentNotWritten",
            Self::Read { .. } => "ContentUnavailable",
            Self::List { .. } | Self::Delete { .. } => "ContentNotCollected",
        }
    }

    /// The cause to be shown.
    pub fn cause(&self) -> Cause {
        Cause {
            class: self.class(),
            reason: self.reason(),
            message: self.to_string(),
        }
    }

    /// Whether the content is provably not there as it should be, as opposed to a question that
    /// got no answer.
    pub fn is_spoilt(&self) -> bool {
        matches!(
            self,
            Self::TooLarge { .. }
                | Self::Address { .. }
                | Self::Foreign { .. }
                | Self::Missing { .. }
                | Self::Damaged { .. }
        )
    }
}
