//! Healing: one apply of one object, because of what was seen of it.

use std::time::Duration;

use tokio::time::Instant;
use tracing::info;
use vidra_core::{
    change::{Action, Cause},
    drift::Attribution,
    identity::ObjectKey,
};

use super::{
    apply::Done,
    memory::{Glimpse, Noticed, State},
    reconcile::keep,
    turn::Turn,
};
use crate::{
    metrics::OfKind,
    queue::{Slot, Work},
};

/// Fields that are named one by one in a sentence.
const NAMED_FIELDS: usize = 3;

/// What became of the noticed objects of an owner.
#[derive(Debug, Default)]
pub(crate) struct Healing {
    /// What was put right.
    pub(crate) healed: Vec<Healed>,
    /// Whether the whole owner has to be reconciled.
    pub(crate) needs_reconcile: bool,
    /// Whether inventory entries changed.
    pub(crate) is_changed: bool,
    /// When the first of the heals that have to wait is due.
    wait: Option<Duration>,
}

/// An object that was put right.
#[derive(Debug)]
pub(crate) struct Healed {
    /// What was done to it, and by whom.
    pub(crate) what: String,
    /// The whole sentence, with what we did about it.
    pub(crate) sentence: String,
}

impl Turn<'_> {
    /// Judges everything that was noticed again, and puts right what is not as it should be.
    pub(crate) async fn heal(&self, state: &mut State) -> Healing {
        let mut healing = Healing::default();
        for (key, noticed) in self.owner.take_noticed() {
            self.heal_one(state, key, noticed, &mut healing).await;
        }
        // One delay for all that wait, so the shortest: a fight must not delay other heals.
        if let Some(wait) = healing.wait {
            let queue = &self.controller.queue;
            queue.add_after(self.name(), Slot::Heal, Work::sightings(), wait);
        }
        healing
    }

    async fn heal_one(
        &self,
        state: &mut State,
        key: ObjectKey,
        noticed: Noticed,
        healing: &mut Healing,
    ) {
        if !self.owner.is_suspicious(&key, &noticed.0) {
            if let Glimpse::Live(live) = &noticed.0 {
                healing.is_changed |= self.owner.see(&key, live);
            }
            return;
        }
        let is_old_news = is_superseded(state, &key, &noticed) || is_unmade(state, &key, &noticed);
        if is_ending(&noticed.0) || is_old_news {
            return;
        }
        let wait = state
            .fights
            .get(&key)
            .map(|(fight, _)| fight.wait(self.controller.age()));
        if let Some(wait) = wait.filter(|wait| !wait.is_zero()) {
            self.owner.put_back(key, noticed);
            healing.wait = Some(healing.wait.map_or(wait, |other| other.min(wait)));
            return;
        }
        match self.put_right(state, &key, &noticed).await {
            None => healing.needs_reconcile = true,
            Some(Err(cause)) => {
                self.controller.snapshots.forget(&key.group_kind());
                info!(resource = self.name(), object = %key, reason = cause.reason, "heal failed");
                healing.needs_reconcile = true;
            }
            Some(Ok(done)) => self.take_healed(state, &noticed, &done, healing),
        }
    }

    /// Applies the object; `None` if only a whole reconcile can tell what to do.
    async fn put_right(
        &self,
        state: &State,
        key: &ObjectKey,
        noticed: &Noticed,
    ) -> Option<Result<Done, Cause>> {
        let compiled = state.compiled.clone()?;
        let desired = compiled.objects.get(key)?;
        let entry = state
            .inventory
            .get(key)
            .filter(|entry| entry.uid.is_some())?
            .clone();
        let before = match &noticed.0 {
            Glimpse::Live(live) => Some((**live).clone()),
            Glimpse::Gone(_) => None,
        };
        Some(self.apply(desired, entry, before).await)
    }

    fn take_healed(
        &self,
        state: &mut State,
        noticed: &Noticed,
        done: &Done,
        healing: &mut Healing,
    ) {
        let key = done.entry.key.clone();
        let known = state
            .inventory
            .get(&key)
            .and_then(|entry| entry.uid.clone());
        let is_same_object = known == done.entry.uid;
        keep(state, done);
        healing.is_changed = true;
        if done.action == Action::Skipped {
            return;
        }
        let is_only_replicas = done
            .attribution
            .as_ref()
            .is_some_and(|found| found.fields.is_empty());
        if is_only_replicas && self.owner.sight(&key).is_autoscaled {
            let what = format!("spec.replicas of {key} is left to the autoscaler");
            let sentence = what.clone();
            healing.healed.push(Healed { what, sentence });
            return;
        }
        if done.action == Action::Unchanged {
            return;
        }
        let by = done.attribution.as_ref().and_then(|found| found.by.clone());
        let fight = state.fights.entry(key.clone()).or_default();
        fight.0.healed(self.controller.age());
        fight.1 = by.unwrap_or_else(|| "somebody".to_owned());
        self.count_heal(&key, noticed);
        let was_seen = matches!(noticed.0, Glimpse::Live(_));
        let what = what_happened(&key, done, was_seen, is_same_object);
        let sentence = format!("{what}; put back after {}", since(noticed.1));
        healing.healed.push(Healed { what, sentence });
    }

    fn count_heal(&self, key: &ObjectKey, noticed: &Noticed) {
        let metrics = &self.controller.metrics;
        let kind = key.group_kind().to_string();
        metrics.heals.get_or_create(&OfKind { kind }).inc();
        let seconds = noticed.1.elapsed().as_secs_f64();
        metrics.heal_seconds.observe(seconds);
    }
}

/// A list that lacked an object which we have applied since: a watch that had just begun.
fn is_superseded(state: &State, key: &ObjectKey, noticed: &Noticed) -> bool {
    let applied_at = state.applied_at.get(key);
    matches!(noticed.0, Glimpse::Gone(None)) && applied_at.is_some_and(|at| *at > noticed.1)
}

/// A list without an object that we could not make so far is no news: its next try is planned.
fn is_unmade(state: &State, key: &ObjectKey, noticed: &Noticed) -> bool {
    let is_made = state.inventory.get(key).is_some_and(|it| it.uid.is_some());
    matches!(noticed.0, Glimpse::Gone(None)) && !is_made
}

fn is_ending(glimpse: &Glimpse) -> bool {
    matches!(glimpse, Glimpse::Live(live) if live.is_terminating)
}

fn what_happened(key: &ObjectKey, done: &Done, was_seen: bool, is_same_object: bool) -> String {
    match &done.attribution {
        Some(Attribution { fields, by }) if was_seen && is_same_object => {
            let by = by.as_deref().unwrap_or("somebody");
            format!("{} of {key} was changed by {by}", named(fields))
        }
        _ if was_seen => format!("{key} was replaced by another object"),
        _ if is_same_object => format!("the label of {key} was removed"),
        _ => format!("{key} was deleted"),
    }
}

fn named(fields: &[vidra_core::fields::FieldPath]) -> String {
    let shown: Vec<String> = fields
        .iter()
        .take(NAMED_FIELDS)
        .map(ToString::to_string)
        .collect();
    match fields.len() {
        0 => "the content".to_owned(),
        count if count > NAMED_FIELDS => {
            format!(
                "{} and {} more fields",
                shown.join(", "),
                count - NAMED_FIELDS
            )
        }
        _ => shown.join(", "),
    }
}

fn since(at: Instant) -> String {
    let elapsed = at.elapsed();
    if elapsed.as_secs() > 9 {
        format!("{} s", elapsed.as_secs())
    } else {
        format!("{} ms", elapsed.as_millis())
    }
}
