//! Looking at objects that were never applied: are they there, and may we take them?

use futures::{StreamExt, stream};
use vidra_cluster::failure::Failure;
use vidra_core::{
    change::{Action, Cause},
    identity::ObjectKey,
    inventory::{Entry, Origin},
    observed::Observed,
    ownership::{may_take, standing},
    plan::Why,
};

use super::{
    apply::{claimed, left_alone},
    decode::Desired,
    memory::State,
    reconcile::{CONCURRENCY, Round},
    turn::Turn,
};

impl Turn<'_> {
    /// Looks at the objects that we have not applied yet, and at those that no list has shown
    /// since we applied them; answers what is about to be applied.
    pub(crate) async fn examine(&self, state: &State, round: &mut Round) -> Vec<Entry> {
        let compiled = round.compiled.clone();
        let looks = round.unseen().into_iter().filter_map(|key| {
            let desired = compiled.objects.get(&key)?;
            Some(async move {
                let found = match &desired.resource {
                    Some(resource) => self.cluster.look_at(resource, &key).await,
                    None => Ok(None),
                };
                (key, desired, found)
            })
        });
        let looks: Vec<_> = looks.collect();
        let found: Vec<_> = stream::iter(looks)
            .buffer_unordered(CONCURRENCY)
            .collect()
            .await;
        let mut announced = Vec::new();
        for (key, desired, found) in found {
            match self.consider(state, (&key, desired), found, round) {
                Ok(entry) => announced.push(entry),
                Err(cause) => round.outcome.changes.explain(key, Action::Failed, cause),
            }
        }
        announced
    }

    fn consider(
        &self,
        state: &State,
        (key, desired): (&ObjectKey, &Desired),
        found: Result<Option<Observed>, Failure>,
        round: &mut Round,
    ) -> Result<Entry, Cause> {
        let known = state.inventory.get(key);
        let announced = |origin| Entry::announced(key.clone(), &desired.version, origin);
        let Some(live) = found.map_err(|failure| failure.cause(key))? else {
            round.before.remove(key);
            return Ok(known
                .cloned()
                .unwrap_or_else(|| announced(Origin::Announced)));
        };
        let taken = may_take(&standing(&live, &self.owner.id), self.policy.adoption);
        let is_left_alone = left_alone(desired, Some(&live)).is_some();
        round.before.insert(key.clone(), live);
        match (known, taken) {
            (Some(known), Ok(_)) => Ok(known.clone()),
            (None, Ok(origin)) => Ok(announced(origin)),
            (_, Err(_)) if is_left_alone => Ok(announced(Origin::Adopted)),
            // Announced or even listed by the Go operator does not make it ours.
            (_, Err(why)) => Err(claimed(&why)),
        }
    }
}

impl Round {
    fn unseen(&self) -> Vec<ObjectKey> {
        let is_unseen = |key: &ObjectKey, why: Why| {
            why == Why::New || (why != Why::Missing && !self.before.contains_key(key))
        };
        let unseen = self
            .plan
            .apply
            .iter()
            .filter(|(key, why)| is_unseen(key, **why));
        unseen.map(|(key, _)| key.clone()).collect()
    }
}
