//! What a reconcile came to.

use std::collections::BTreeMap;

use vidra_cluster::failure::Failure;
use vidra_core::{
    change::{Action, Cause, ChangeSet},
    class::Class,
    guard::Held,
    identity::{GroupKind, ObjectKey},
    plan::{Plan, Why},
};

use super::{
    apply::{Done, unknown_kind},
    decode::Compiled,
};

/// What a reconcile came to.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// What happened to each object.
    pub(crate) changes: ChangeSet,
    /// Things worth saying about objects that are as desired.
    pub(crate) remarks: Vec<(ObjectKey, Cause)>,
    /// A deletion that waits for a release.
    pub(crate) held: Option<Held>,
    /// The digest of the manifest.
    pub(crate) digest: String,
    /// How many objects are desired.
    pub(crate) desired: usize,
    /// Objects that the metadata said were intact and that were not.
    pub(crate) wrong_verdicts: usize,
}

impl Outcome {
    /// Nothing has happened yet to a desired set.
    pub(crate) fn of(compiled: &Compiled) -> Self {
        Self {
            digest: compiled.digest.clone(),
            desired: compiled.objects.len(),
            ..Self::default()
        }
    }

    /// Notes what needs nothing, and what cannot be made before it has ended.
    pub(crate) fn note_planned(&mut self, plan: &Plan) {
        for key in &plan.intact {
            self.changes.record(key.clone(), Action::Unchanged);
        }
        for key in &plan.terminating {
            self.changes
                .explain(key.clone(), Action::Failed, terminating());
        }
    }

    /// Notes how the apply of one object ended.
    pub(crate) fn note_applied(&mut self, key: &ObjectKey, why: Why, result: Result<Done, Cause>) {
        let done = match result {
            Ok(done) => done,
            Err(cause) => return self.changes.explain(key.clone(), Action::Failed, cause),
        };
        if why == Why::DeepPass && done.action != Action::Unchanged {
            self.wrong_verdicts += 1;
        }
        self.changes.record(key.clone(), done.action);
        self.remarks
            .extend(done.remarks.into_iter().map(|cause| (key.clone(), cause)));
    }

    /// Notes objects of kinds that could not be looked at.
    pub(crate) fn note_blind(&mut self, compiled: &Compiled, blind: &BTreeMap<GroupKind, Failure>) {
        for key in compiled.objects.keys() {
            let Some(failure) = blind.get(&key.group_kind()) else {
                continue;
            };
            if !self.changes.iter().any(|change| change.key == *key) {
                self.changes
                    .explain(key.clone(), Action::Failed, failure.cause(key));
            }
        }
    }

    /// Notes objects whose kind the cluster does not serve.
    pub(crate) fn note_unplaced(&mut self, compiled: &Compiled) {
        for (key, desired) in compiled
            .objects
            .iter()
            .filter(|(_, desired)| !desired.is_placed)
        {
            let cause = unknown_kind(key, desired);
            self.changes.explain(key.clone(), Action::Failed, cause);
        }
    }
}

fn terminating() -> Cause {
    Cause {
        class: Class::Waiting,
        reason: "Terminating",
        message: "somebody deleted it; waiting for its finalizers to make it again".to_owned(),
    }
}
