//! The status that an outcome amounts to. Pure.

use vidra_api::{
    Counts, Failure, HeldPrune, ManagedResource, State as DeployState, VidraResourceStatus,
};
use vidra_core::{
    change::{Action, Cause, Change},
    class::Class,
    guard::Held,
    identity::ObjectKey,
    inventory::{Entry, Inventory, Origin},
};

use super::outcome::Outcome;

/// An object as users of the Go operator know it.
pub(crate) fn managed(entry: &Entry) -> ManagedResource {
    ManagedResource {
        kind: entry.key.kind.clone(),
        api_version: api_version(&entry.key, &entry.version),
        name: entry.key.name.clone(),
        namespace: entry.key.namespace.clone(),
    }
}

fn api_version(key: &ObjectKey, version: &str) -> String {
    if key.group.is_empty() {
        version.to_owned()
    } else {
        format!("{}/{version}", key.group)
    }
}

/// Puts a complete reconcile into a status, except for the inventory.
pub(crate) fn put_outcome(
    status: &mut VidraResourceStatus,
    outcome: &Outcome,
    inventory: &Inventory,
) {
    let pruned = status
        .counts
        .map(|counts| counts.pruned)
        .unwrap_or_default();
    let count = |action| number(outcome.changes.count(action));
    status.counts = Some(Counts {
        desired: number(outcome.desired),
        applied: count(Action::Created) + count(Action::Configured) + count(Action::Unchanged),
        failed: count(Action::Failed),
        pruned: if outcome.changes.wrote() {
            count(Action::Deleted)
        } else {
            pruned
        },
        adopted: number(
            inventory
                .iter()
                .filter(|entry| entry.origin == Origin::Adopted)
                .count(),
        ),
        held: number(
            outcome
                .held
                .as_ref()
                .map(|held| held.objects.len())
                .unwrap_or_default(),
        ),
    });
    status.failures = outcome
        .changes
        .failures()
        .take(VidraResourceStatus::MAX_FAILURES)
        .map(failure)
        .collect();
    status.held = outcome.held.as_ref().map(held);
    let is_clean = status.failures.is_empty();
    status.deploy_state = Some(if is_clean {
        DeployState::Succeeded
    } else {
        DeployState::Failed
    });
    status.last_error = (!is_clean).then(|| summary(outcome));
    if is_clean {
        status.last_applied_digest = Some(outcome.digest.clone());
    }
}

/// One sentence about what failed.
pub(crate) fn summary(outcome: &Outcome) -> String {
    let failed = outcome.changes.count(Action::Failed);
    let Some(first) = outcome.changes.failures().next() else {
        return String::new();
    };
    let why = first
        .cause
        .as_ref()
        .map(|cause| cause.message.as_str())
        .unwrap_or_default();
    let rest = if failed > 1 {
        format!(" (and {} more)", failed - 1)
    } else {
        String::new()
    };
    format!("{}: {why}{rest}", first.key)
}

/// The cause that decides what the whole resource is called.
pub(crate) fn leading(outcome: &Outcome) -> Option<&Cause> {
    let causes = outcome
        .changes
        .failures()
        .filter_map(|change| change.cause.as_ref());
    causes.max_by_key(|cause| match cause.class {
        Class::Invalid => 5,
        Class::Denied => 4,
        Class::Conflict => 3,
        Class::Fatal => 2,
        Class::Transient => 1,
        Class::Waiting => 0,
    })
}

fn failure(change: &Change) -> Failure {
    let cause = change.cause.as_ref();
    Failure {
        object: change.key.to_string(),
        reason: cause
            .map(|cause| cause.reason)
            .unwrap_or_default()
            .to_owned(),
        message: cause.map(|cause| cause.message.clone()).unwrap_or_default(),
    }
}

fn held(held: &Held) -> HeldPrune {
    HeldPrune {
        hash: held.hash.clone(),
        objects: held
            .objects
            .iter()
            .take(HeldPrune::MAX_OBJECTS)
            .map(ToString::to_string)
            .collect(),
        total: number(held.objects.len()),
    }
}

/// How many objects a reconcile had to do with.
pub(crate) fn total(outcome: &Outcome) -> usize {
    outcome.desired + outcome.changes.count(Action::Deleted)
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
