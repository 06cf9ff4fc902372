//! Resources that are not as they were delivered: somebody deleted or edited them.

use std::time::Duration;

use tokio::time::Instant;
use vidra_core::trigger::{Trigger, TriggerSet};

use super::{
    memory::State,
    outcome::{Delivered, Outcome},
    resource::own,
    turn::Turn,
};
use crate::queue::{Slot, Work};

/// To put back what was delivered, an answer of Infrahub may be so old.
const YOUNG: Duration = Duration::from_secs(10);
/// How long until it is looked again whether a fight is over.
const TRUCE: Duration = Duration::from_mins(2);

impl Turn<'_> {
    /// Why Infrahub is asked in this turn, and how old its answer may be: also when a resource is
    /// not what was delivered, or when what waited for the resources can go on.
    pub(crate) fn occasion(&self, state: &mut State, work: Work) -> (TriggerSet, Instant) {
        let now = Instant::now();
        let mut triggers = work.triggers;
        let asked_at = work.asked_at.unwrap_or(now);
        let Some(outcome) = &state.outcome else {
            return (triggers, asked_at);
        };
        let can_go_on = !outcome.waiting.is_empty() && self.is_settled(state, outcome);
        let lost = self.lost(state, outcome);
        if can_go_on || (!lost.is_empty() && !triggers.is_empty()) {
            triggers.merge(TriggerSet::of(Trigger::Event));
        } else if !lost.is_empty() && self.may_restore(state, lost) {
            let young = now.checked_sub(YOUNG).unwrap_or(now);
            return (TriggerSet::of(Trigger::Event), young);
        }
        (triggers, asked_at)
    }

    /// The resources that are not as they were delivered.
    fn lost(&self, state: &State, outcome: &Outcome) -> Vec<String> {
        let known = &self.controller.resources;
        let is_lost = |delivered: &Delivered| {
            let Some(name) = &delivered.resource else {
                return false;
            };
            let Some(resource) = self.newest(state, name) else {
                return true;
            };
            let digest = known.digest_of(&resource);
            let own = own(self.sync, &resource, &delivered.artifact.id, digest);
            !own.is_ending && (!own.is_current || own.checksum != delivered.checksum)
        };
        let lost = outcome.delivered.iter().filter(|it| is_lost(it));
        lost.filter_map(|it| it.resource.clone()).collect()
    }

    /// Whether resources are put back now. Somebody who takes them away again and again is
    /// answered with growing delay.
    fn may_restore(&self, state: &mut State, lost: Vec<String>) -> bool {
        let age = self.controller.age();
        state.fights.retain(|_, fight| !fight.is_forgotten(age));
        let wait_for = |name: &String| {
            state
                .fights
                .get(name)
                .map_or(Duration::ZERO, |it| it.wait(age))
        };
        let wait = lost.iter().map(wait_for).min().unwrap_or_default();
        if wait.is_zero() {
            for name in lost {
                state.fights.entry(name).or_default().healed(age);
            }
            return true;
        }
        self.look_after(Slot::Heal, wait);
        false
    }

    /// What people should know of a fight, if there is one.
    pub(crate) fn contention(&self, state: &State) -> Option<String> {
        let age = self.controller.age();
        let fights = state.fights.iter();
        let mut fought = fights.filter(|(_, fight)| fight.is_contended(age));
        let (name, _) = fought.next()?;
        // So that the condition goes by itself.
        self.look_after(Slot::Truce, TRUCE);
        Some(format!(
            "somebody changes or deletes VidraResource {name} again and again; it is put back with \
             growing delay; its managedFields say who writes it"
        ))
    }

    fn look_after(&self, slot: Slot, delay: Duration) {
        let queue = &self.controller.queue;
        queue.add_after(&self.name, slot, Work::sightings(), delay);
    }
}
