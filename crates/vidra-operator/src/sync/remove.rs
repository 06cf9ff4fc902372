//! Removing the resources of artifacts that are gone: confirmed, within the budget, and after
//! everything that takes their place is ready.

use std::collections::BTreeSet;

use kube::core::ApiResource;
use vidra_api::{VidraResource, names::RELEASE_PRUNE_ANNOTATION};
use vidra_cluster::observe::observe;
use vidra_core::{guard::judge_by, identity::ObjectKey};
use vidra_infrahub::{Artifact, Source as Selected};

use super::{
    failure::SyncError,
    memory::State,
    outcome::Outcome,
    reconcile::Round,
    resource::{holds_protected, is_ready, key_of},
    turn::Turn,
};

impl Turn<'_> {
    /// Removes what may be removed, and notes why the rest stays.
    pub(crate) async fn remove(&self, state: &State, round: &Round, outcome: &mut Outcome) {
        if round.stale.is_empty() {
            return;
        }
        if !self.is_settled(state, outcome) {
            let names = round.stale.iter().map(|stale| stale.resource.clone());
            outcome.waiting = names.collect();
            return;
        }
        if let Err(error) = self.confirm(round).await {
            outcome.unread = outcome.unread.take().or_else(|| Some(error.cause()));
            outcome.unremoved = Some(error.cause());
            return;
        }
        for key in self.judge(round, outcome) {
            let Some((resource, _)) = round.own.get(&key.name) else {
                continue;
            };
            match self.delete(resource).await {
                Ok(()) => outcome.removed.push(key.name),
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

    /// Asks about the artifacts once more: each must be gone, or must no longer match.
    async fn confirm(&self, round: &Round) -> Result<(), SyncError> {
        let (view, session) = (round.source.view(), &round.answer.session);
        let stale = round.stale.iter();
        let ids: BTreeSet<String> = stale.map(|stale| stale.artifact.clone()).collect();
        let wanted = self.sync.spec.source.artifact_name();
        // A registered query selects by its own rule, so being there is not being selected; it is
        // asked once more.
        let found: Vec<Artifact> = if round.answer.listing.source == Selected::Registered {
            let query = self.controller.settings.get().query_name.clone();
            let names = BTreeSet::from([wanted.to_owned()]);
            let again = session.list_artifacts(&view, &names, Some(&query)).await?;
            again.artifacts.into_values().flatten().collect()
        } else {
            let found = session.look_up(&view, &ids).await?;
            found.into_values().filter(|it| it.name == wanted).collect()
        };
        match found.into_iter().find(|found| ids.contains(&found.id)) {
            None => Ok(()),
            Some(artifact) => Err(SyncError::Contradiction { id: artifact.id }),
        }
    }

    fn judge(&self, round: &Round, outcome: &mut Outcome) -> Vec<ObjectKey> {
        let keys = round.stale.iter().map(|stale| key_of(&stale.resource));
        let budget = &self.controller.settings.get().budget;
        let released = self.annotation(RELEASE_PRUNE_ANNOTATION);
        let judgement = judge_by(round.own.len(), keys.collect(), budget, released, |key| {
            let known = round.own.get(&key.name);
            known.is_some_and(|(resource, _)| holds_protected(resource))
        });
        outcome.held = judgement.held;
        judgement.delete
    }

    /// Deletes a resource if it is exactly the one that was judged, in exactly that state.
    async fn delete(&self, resource: &VidraResource) -> Result<(), SyncError> {
        let kind = ApiResource::erase::<VidraResource>(&());
        let key = key_of(resource.metadata.name.as_deref().unwrap_or_default());
        let seen = observe(&key.group_kind(), &resource.metadata);
        let deleted = self.controller.cluster.delete(&kind, &seen).await;
        deleted.map(|_| ()).map_err(|source| SyncError::Remove {
            name: key.name,
            source,
        })
    }
}
