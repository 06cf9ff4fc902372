//! Pruning: parting with what is no longer desired. Stricter than applying.

use std::collections::BTreeSet;

use futures::{StreamExt, stream};
use kube::api::ApiResource;
use vidra_api::names::RELEASE_PRUNE_ANNOTATION;
use vidra_cluster::{failure::Failure, part::Deletion};
use vidra_core::{
    change::{Action, Cause},
    class::Class,
    guard,
    identity::ObjectKey,
    inventory::{Entry, Origin},
    manifest::order_key,
    observed::Observed,
    ownership::{Parting, part_with},
    plan::spare_namespaces,
};

use super::{
    decode::Compiled, memory::State, outcome::Outcome, reconcile::CONCURRENCY, turn::Turn,
};

/// An object that changes while we look is looked at again this often.
const ATTEMPTS: usize = 3;

/// How the parting with one object ended.
#[derive(Debug)]
pub(crate) enum Parted {
    /// It is gone, or no longer ours: forget it.
    Done {
        /// What happened.
        action: Action,
        /// Why it was not deleted, if it was not.
        remark: Option<Cause>,
    },
    /// It is still there: keep it in the inventory and come back.
    Survives(Cause),
}

impl Parted {
    /// Whether the object stays, and not only until its finalizers are done.
    fn is_refused(&self) -> bool {
        matches!(self, Self::Survives(cause) if cause.reason != "Terminating")
    }
}

impl Turn<'_> {
    /// Parts with stale objects, as far as the guard lets it.
    ///
    /// Nothing is pruned while any object of the manifest could not be applied: what looks stale
    /// may be what the failed object was to replace.
    pub(crate) async fn prune(
        &self,
        state: &mut State,
        compiled: &Compiled,
        unwanted: Vec<ObjectKey>,
        outcome: &mut Outcome,
    ) {
        if unwanted.is_empty() || !self.policy.prunes {
            return;
        }
        let (candidates, spared) = spare_namespaces(unwanted, &compiled.wanted());
        for key in spared {
            outcome
                .remarks
                .push((key, left("it is a Namespace that is still used")));
        }
        let released = self
            .resource
            .metadata
            .annotations
            .iter()
            .flatten()
            .find_map(|(key, value)| (key == RELEASE_PRUNE_ANNOTATION).then_some(value.as_str()));
        let judgement = guard::judge(
            state.inventory.len(),
            candidates,
            &self.policy.budget,
            released,
        );
        outcome.held = judgement.held;
        if outcome.changes.count(Action::Failed) > 0 {
            return;
        }
        let current: BTreeSet<String> = compiled
            .objects
            .keys()
            .filter_map(|key| state.inventory.get(key)?.uid.clone())
            .collect();
        self.part_with_all(state, judgement.delete, &current, outcome)
            .await;
    }

    /// Parts with objects, last applied first.
    pub(crate) async fn part_with_all(
        &self,
        state: &mut State,
        mut keys: Vec<ObjectKey>,
        current: &BTreeSet<String>,
        outcome: &mut Outcome,
    ) {
        keys.sort_by_key(|key| std::cmp::Reverse(order_key(key)));
        let stages = keys.chunk_by(|one, other| order_key(one).stage() == order_key(other).stage());
        for stage in stages {
            let jobs: Vec<_> = stage
                .iter()
                .filter_map(|key| state.inventory.get(key).cloned())
                .map(|entry| async move {
                    let parted = self.part_with(&entry, current).await;
                    (entry.key, parted)
                })
                .collect();
            let mut results = stream::iter(jobs).buffered(CONCURRENCY);
            let mut is_refused = false;
            while let Some((key, parted)) = results.next().await {
                is_refused |= parted.is_refused();
                take_parted(state, key, parted, outcome);
            }
            // What is left may live in a Namespace, or be of a kind, that would come next: deleting
            // that would delete it after all.
            if is_refused {
                return;
            }
        }
    }

    /// Parts with one object, after looking at it again.
    pub(crate) async fn part_with(&self, entry: &Entry, current: &BTreeSet<String>) -> Parted {
        match self.try_part_with(entry, current).await {
            Ok(parted) => parted,
            Err(failure) => Parted::Survives(failure.cause(&entry.key)),
        }
    }

    async fn try_part_with(
        &self,
        entry: &Entry,
        current: &BTreeSet<String>,
    ) -> Result<Parted, Failure> {
        let Some(resource) = self.served(entry).await? else {
            return self.part_with_unserved(entry).await;
        };
        let mut refused = None;
        for _ in 0..ATTEMPTS {
            let Some(live) = self.cluster.look_at(&resource, &entry.key).await? else {
                return Ok(Parted::Done {
                    action: Action::Deleted,
                    remark: None,
                });
            };
            match self.part_with_live(entry, &resource, &live, current).await {
                Err(failure) if failure.is_conflict() => refused = Some(failure),
                other => return other,
            }
        }
        Err(refused.unwrap_or_else(Failure::contended))
    }

    async fn part_with_live(
        &self,
        entry: &Entry,
        resource: &ApiResource,
        live: &Observed,
        current: &BTreeSet<String>,
    ) -> Result<Parted, Failure> {
        if current.contains(&live.uid) {
            return Ok(forgotten("it is still desired under another group"));
        }
        if live.is_terminating {
            return Ok(Parted::Survives(terminating()));
        }
        match self.parting(entry, live) {
            Parting::Forget { why } => Ok(forgotten(&why)),
            Parting::Release { why } => {
                self.cluster.release(resource, live, &self.owner.id).await?;
                Ok(forgotten(&format!("{why}; its values stay")))
            }
            Parting::Leave => {
                self.leave(resource, live).await?;
                Ok(forgotten("other VidraResources still own it"))
            }
            Parting::Delete => match self.cluster.delete(resource, live).await? {
                Deletion::Gone => Ok(Parted::Done {
                    action: Action::Deleted,
                    remark: None,
                }),
                Deletion::Terminating => Ok(Parted::Survives(terminating())),
            },
        }
    }

    fn parting(&self, entry: &Entry, live: &Observed) -> Parting {
        let parting = part_with(entry, live, &self.owner.id);
        let is_namespace = entry.key.group.is_empty() && entry.key.kind == "Namespace";
        if parting == Parting::Delete
            && is_namespace
            && let Some(other) = self.controller.other_tenant(self.name(), &entry.key.name)
        {
            return Parting::Release {
                why: format!("VidraResource {other} has objects in it"),
            };
        }
        parting
    }

    async fn served(&self, entry: &Entry) -> Result<Option<ApiResource>, Failure> {
        let kind = entry.key.group_kind();
        for attempt in 0..2 {
            let kinds = match attempt {
                0 => self.controller.catalogue.kinds(self.cluster).await?,
                _ => self.controller.catalogue.fresh(self.cluster).await?,
            };
            if let Some(served) = kinds.any(&kind, &entry.version) {
                return Ok(Some(served.resource.clone()));
            }
        }
        Ok(None)
    }

    /// The kind is not served: its objects are gone with it, unless its API server is only away.
    async fn part_with_unserved(&self, entry: &Entry) -> Result<Parted, Failure> {
        if self
            .cluster
            .is_kind_gone(&entry.key, &entry.version)
            .await?
        {
            return Ok(Parted::Done {
                action: Action::Deleted,
                remark: None,
            });
        }
        Ok(Parted::Survives(Cause {
            class: Class::Waiting,
            reason: "UnknownKind",
            message: "its API is not available now; it stays in the inventory".to_owned(),
        }))
    }
}

fn take_parted(state: &mut State, key: ObjectKey, parted: Parted, outcome: &mut Outcome) {
    match parted {
        Parted::Survives(cause) => outcome.changes.explain(key, Action::Failed, cause),
        Parted::Done { action, remark } => {
            let entry = state.inventory.remove(&key);
            state.applied_at.remove(&key);
            let never_was =
                entry.is_some_and(|entry| entry.uid.is_none() && entry.origin == Origin::Announced);
            if never_was && action == Action::Deleted {
                return;
            }
            outcome
                .remarks
                .extend(remark.map(|remark| (key.clone(), remark)));
            outcome.changes.record(key, action);
        }
    }
}

fn forgotten(why: &str) -> Parted {
    Parted::Done {
        action: Action::Skipped,
        remark: Some(left(why)),
    }
}

fn left(why: &str) -> Cause {
    Cause {
        class: Class::Waiting,
        reason: "NotDeleted",
        message: format!("not deleted: {why}"),
    }
}

fn terminating() -> Cause {
    Cause {
        class: Class::Waiting,
        reason: "Terminating",
        message: "it is being deleted; finalizers hold it".to_owned(),
    }
}
