//! What a sync came to.

use vidra_core::{change::Cause, guard::Held};
use vidra_infrahub::Artifact;

/// One artifact and what became of it.
#[derive(Debug, Clone)]
pub(crate) struct Delivered {
    /// The artifact, as Infrahub lists it.
    pub(crate) artifact: Artifact,
    /// The name of its resource, if it has one.
    pub(crate) resource: Option<String>,
    /// The checksum of the content that its resource carries.
    pub(crate) checksum: Option<String>,
    /// Why its content was not delivered.
    pub(crate) problem: Option<Cause>,
}

/// What a sync came to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    /// All listed artifacts.
    pub(crate) delivered: Vec<Delivered>,
    /// How many resources were made.
    pub(crate) created: usize,
    /// How many resources were changed.
    pub(crate) updated: usize,
    /// Which resources were removed.
    pub(crate) removed: Vec<String>,
    /// Resources of artifacts that are gone, and which may go when all others are ready.
    pub(crate) waiting: Vec<String>,
    /// A removal that is over the budget.
    pub(crate) held: Option<Held>,
    /// Why resources of artifacts that are gone could not be removed.
    pub(crate) unremoved: Option<Cause>,
    /// What of Infrahub could not be read after the list, or cannot be: the first of it.
    pub(crate) unread: Option<Cause>,
    /// Whether everything on the way to Infrahub can be read.
    pub(crate) is_plaintext: bool,
}

impl Outcome {
    /// Whether anything was written.
    pub(crate) fn wrote(&self) -> bool {
        self.created + self.updated + self.removed.len() > 0
    }

    /// Everything that went wrong, the artifacts first.
    pub(crate) fn problems(&self) -> impl Iterator<Item = &Cause> {
        let artifacts = self.delivered.iter().filter_map(|it| it.problem.as_ref());
        artifacts.chain(self.unremoved.as_ref())
    }
}
