//! What was done to each object: the one result that feeds status, Events, metrics and logs.

use crate::{class::Class, identity::ObjectKey};

/// What happened to one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// It did not exist and was made.
    Created,
    /// It existed and was changed.
    Configured,
    /// It was as it should be.
    Unchanged,
    /// It was removed.
    Deleted,
    /// It was left alone, on purpose.
    Skipped,
    /// It could not be made as it should be.
    Failed,
}

impl Action {
    /// The stable name for status, metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Configured => "configured",
            Self::Unchanged => "unchanged",
            Self::Deleted => "deleted",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }
}

/// Why an object failed or was skipped, fit to be shown: no object content is ever in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Decides about the retry.
    pub class: Class,
    /// Stable, in `CamelCase`, for conditions, Events and metrics.
    pub reason: &'static str,
    /// A sentence that says what happened and what to do.
    pub message: String,
}

/// One object and what happened to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The object.
    pub key: ObjectKey,
    /// What happened.
    pub action: Action,
    /// Why, where that needs saying.
    pub cause: Option<Cause>,
}

/// Everything that happened in one reconcile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangeSet {
    changes: Vec<Change>,
}

impl ChangeSet {
    /// Records a change that needs no explanation.
    pub fn record(&mut self, key: ObjectKey, action: Action) {
        self.changes.push(Change {
            key,
            action,
            cause: None,
        });
    }

    /// Records a change with its cause.
    pub fn explain(&mut self, key: ObjectKey, action: Action, cause: Cause) {
        self.changes.push(Change {
            key,
            action,
            cause: Some(cause),
        });
    }

    /// Takes over the changes of another set.
    pub fn extend(&mut self, other: Self) {
        self.changes.extend(other.changes);
    }

    /// All changes in the order in which they happened.
    pub fn iter(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter()
    }

    /// The objects that failed.
    pub fn failures(&self) -> impl Iterator<Item = &Change> {
        self.iter().filter(|change| change.action == Action::Failed)
    }

    /// How many objects had one thing happen to them.
    pub fn count(&self, action: Action) -> usize {
        self.iter().filter(|change| change.action == action).count()
    }

    /// Whether anything was written.
    pub fn wrote(&self) -> bool {
        self.iter().any(|change| {
            matches!(
                change.action,
                Action::Created | Action::Configured | Action::Deleted
            )
        })
    }
}
