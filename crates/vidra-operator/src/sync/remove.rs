//! Removing the resources of artifacts that are gone: confirmed, within the budget, and after
//! everything that takes their place is ready.

use std::collections::BTreeSet;

use kube::{ResourceExt, core::ApiResource};
use vidra_api::{VidraResource, names::RELEASE_PRUNE_ANNOTATION};
use vidra_cluster::{failure::Failure, observe::observe};
use vidra_core::guard::{Candidate, Judgement, Measure, judge_candidates};
use vidra_infrahub::Source as Selected;

use super::{
    failure::SyncError,
    memory::State,
    outcome::Outcome,
    reconcile::Round,
    resource::{is_dear, is_ready, key_of, selected_for, weight_of},
    turn::Turn,
};

/// Why a resource is held whose artifact is still there.
const NOT_SELECTED: &str =
    "the artifact is still in Infrahub, and only the registered query selects it no longer";

impl Turn<'_> {
    /// Removes what may be removed, and notes why the rest stays.
    pub(crate) async fn remove(&self, state: &mut State, round: &Round, outcome: &mut Outcome) {
        if round.stale.is_empty() {
            return;
        }
        if !self.is_settled(state, outcome) {
            let names = round.stale.iter().map(|stale| stale.resource.clone());
            outcome.waiting = names.collect();
            return;
        }
        let unselected = match self.confirm(round).await {
            Ok(unselected) => unselected,
            Err(error) => {
                outcome.unread = outcome.unread.take().or_else(|| Some(error.cause()));
                outcome.unremoved = Some(error.cause());
                return;
            }
        };
        let judgement = self.judge(state, round, &unselected);
        outcome.held = judgement.held;
        for key in judgement.delete {
            let Some((resource, _)) = round.own.get(&key.name) else {
                continue;
            };
            match self.delete(resource).await {
                Ok(()) => {
                    // What somebody released was looked at.
                    let weight = weight_of(resource);
                    state.note_removal(if judgement.is_released { 0 } else { weight });
                    outcome.removed.push(key.name);
                }
                Err(error) => outcome.unremoved = Some(error.cause()),
            }
        }
    }

    /// Whether every listed artifact is in the cluster, with its newest content: what takes the
    /// place of something comes before that something goes.
    pub(crate) fn is_settled(&self, state: &State, outcome: &Outcome) -> bool {
        outcome.delivered.iter().all(|delivered| {
            let name = delivered.resource.as_ref();
            let resource = name.and_then(|name| self.newest(state, name));
            delivered.problem.is_none() && resource.is_some_and(|resource| is_ready(&resource))
        })
    }

    /// Asks for the artifacts by their ids. None may be there as the sync wants it. Answers those
    /// that are there, but are not selected any more: that somebody changed the selection is not
    /// that they are gone.
    async fn confirm(&self, round: &Round) -> Result<BTreeSet<String>, SyncError> {
        let stale = round.stale.iter();
        let ids: BTreeSet<String> = stale.map(|stale| stale.artifact.clone()).collect();
        let view = round.source.view();
        let found = round.answer.session.look_up(&view, &ids).await?;
        if round.answer.listing.source == Selected::Registered {
            return Ok(found.into_keys().collect());
        }
        let wanted = self.sync.spec.source.artifact_name();
        let mut still_there = found.values();
        if let Some(artifact) = still_there.find(|found| found.name == wanted) {
            let id = artifact.id.clone();
            return Err(SyncError::Contradiction { id });
        }
        let unselected = round.stale.iter().filter(|stale| {
            let resource = round.own.get(&stale.resource);
            let selected_for = resource.and_then(|(resource, _)| selected_for(resource));
            selected_for == Some(wanted) && found.contains_key(&stale.artifact)
        });
        Ok(unselected.map(|stale| stale.artifact.clone()).collect())
    }

    /// What of the stale resources may go now. What went within the last hour counts as well.
    fn judge(&self, state: &State, round: &Round, unselected: &BTreeSet<String>) -> Judgement {
        let staying = round.own.values().filter(|(_, own)| !own.is_ending);
        let measure = Measure {
            total: staying.map(|(resource, _)| weight_of(resource)).sum(),
            recent: state.removed_of_late(),
            budget: &self.controller.settings.get().budget,
            released: self.annotation(RELEASE_PRUNE_ANNOTATION),
        };
        let candidates = round.stale.iter().filter_map(|stale| {
            let (resource, _) = round.own.get(&stale.resource)?;
            let unselected = unselected.contains(&stale.artifact);
            let unselected = unselected.then_some(NOT_SELECTED);
            Some(Candidate {
                key: key_of(&stale.resource),
                weight: weight_of(resource),
                mark: resource.uid().unwrap_or_default(),
                held: unselected.or_else(|| is_dear(resource)),
            })
        });
        judge_candidates(&measure, candidates.collect())
    }

    /// Deletes a resource if it is exactly the one that was judged. Its status may have changed
    /// meanwhile, nothing else.
    async fn delete(&self, resource: &VidraResource) -> Result<(), SyncError> {
        let kind = ApiResource::erase::<VidraResource>(&());
        let key = key_of(&resource.name_any());
        let seen = observe(&key.group_kind(), &resource.metadata);
        let cluster = &self.controller.cluster;
        let mut deleted = cluster.delete(&kind, &seen).await;
        if deleted.as_ref().is_err_and(Failure::is_conflict)
            && let Some(again) = self.read_again(resource).await
        {
            let seen = observe(&key.group_kind(), &again.metadata);
            deleted = cluster.delete(&kind, &seen).await;
        }
        deleted.map(|_| ()).map_err(|source| SyncError::Remove {
            name: key.name,
            source,
        })
    }
}
