//! The types of conditions and the reasons in them: the vocabulary of status, Events and metrics.
//!
//! Both are closed sets, so that a reason can be a metric label.

use std::fmt;

/// Defines an enum whose text is the name of the variant.
macro_rules! vocabulary {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$variant_meta])* $variant,)+ }

        impl $name {
            /// Every value, in the order of definition.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The text as written into the cluster.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant),)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(self.as_str())
            }
        }
    };
}

vocabulary! {
    /// The `type` of a condition on either kind. The first three are those of kstatus.
    ConditionType {
        /// The desired state is reached and observed.
        Ready,
        /// Work is under way; `Ready` is not yet decided for this generation.
        Reconciling,
        /// Nothing will get better without somebody changing something.
        Stalled,
        /// On a sync: whether Infrahub could be read, completely and validly.
        SourceReady,
        /// A deletion is over its budget and waits for a release.
        PruneHeld,
        /// Another owner or another tool claims an object; the message names it.
        OwnershipConflict,
        /// Somebody changes an object back again and again; the message names both managers.
        Contended,
        /// False: a kind may not or cannot be watched, and its drift is found by the timer only.
        Watching,
    }
}

vocabulary! {
    /// The `reason` of a condition, an Event and a failure.
    Reason {
        /// Everything is as desired.
        Succeeded,
        /// Work is under way.
        Progressing,
        /// `spec.suspend` is set.
        Suspended,
        /// The object is being deleted.
        Deleting,
        /// The spec cannot be worked with as written.
        InvalidSpec,
        /// The manifest cannot be decoded.
        InvalidManifest,
        /// The stored content that `manifestFrom` names is missing or damaged.
        ContentMissing,
        /// No credentials for this origin.
        CredentialsMissing,
        /// Several Secrets claim to be the credentials for this origin.
        CredentialsAmbiguous,
        /// The credentials belong to another origin and are not sent to this one.
        CredentialsForeign,
        /// The credentials were refused.
        CredentialsRejected,
        /// The kubeconfig is missing or not acceptable.
        KubeconfigInvalid,
        /// The target cluster does not answer.
        ClusterUnreachable,
        /// Infrahub does not answer.
        InfrahubUnreachable,
        /// Infrahub answered with an error.
        InfrahubError,
        /// The branch does not exist in Infrahub.
        BranchNotFound,
        /// A complete answer without any artifact; refused unless `allowEmpty`.
        NoArtifacts,
        /// Nothing in Infrahub has the name that the sync asks for; it is probably misspelt.
        ArtifactUnknown,
        /// Infrahub has not rendered the artifact, or failed to.
        ArtifactNotReady,
        /// The downloaded content does not have the checksum that Infrahub names.
        ChecksumMismatch,
        /// The permissions do not suffice.
        AccessDenied,
        /// The target cluster does not know a kind of the manifest.
        UnknownKind,
        /// The API server refused an object.
        Rejected,
        /// The change touches a field that cannot be changed.
        ImmutableField,
        /// Another manager owns a field and `fieldConflicts` is `Report`.
        FieldConflict,
        /// Somebody else's object; it is not touched.
        ClaimedByOther,
        /// Another `VidraResource` with a higher precedence decides the content.
        PrecedenceLost,
        /// At least one object could not be applied.
        ApplyFailed,
        /// At least one object could not be deleted.
        PruneFailed,
        /// A deletion is over its budget.
        PruneHeld,
        /// At least one `VidraResource` of the sync is not ready.
        ResourcesNotReady,
        /// Somebody takes an object from us again and again.
        Contended,
        /// Too large to be stored.
        TooLarge,
        /// A failure that should pass by itself; it is tried again.
        Transient,
        /// A mistake in Vidra itself.
        InternalError,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The API server's own pattern for `reason`: anything else would be refused in a status.
    #[test]
    fn every_reason_and_type_is_a_legal_condition_word() {
        let words = Reason::ALL.iter().map(|reason| reason.as_str());
        for word in words.chain(ConditionType::ALL.iter().map(|kind| kind.as_str())) {
            assert!(word.starts_with(|first: char| first.is_ascii_uppercase()));
            assert!(word.chars().all(|letter| letter.is_ascii_alphanumeric()));
        }
    }
}
