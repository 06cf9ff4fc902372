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
        let has_lost = self.has_lost(state, outcome);
        if can_go_on || (has_lost && !triggers.is_empty()) {
            triggers.merge(TriggerSet::of(Trigger::Event));
        } else if has_lost && self.may_restore(state) {
            let young = now.checked_sub(YOUNG).unwrap_or(now);
            return (TriggerSet::of(Trigger::Event), young);
        }
        (triggers, asked_at)
    }

    fn has_lost(&self, state: &State, outcome: &Outcome) -> bool {
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
        outcome.delivered.iter().any(is_lost)
    }

    /// Whether resources are put back now. Somebody who takes them away again and again is
    /// answered with growing delay.
    fn may_restore(&self, state: &mut State) -> bool {
        let age = self.controller.age();
        let wait = state.fight.wait(age);
        if wait.is_zero() {
            state.fight.healed(age);
            return true;
        }
        self.look_after(wait);
        false
    }

    /// What people should know of a fight, if there is one.
    pub(crate) fn contention(&self, state: &State) -> Option<String> {
        if !state.fight.is_contended(self.controller.age()) {
            return None;
        }
        // So that the condition goes by itself.
        self.look_after(TRUCE);
        let message = "somebody changes or deletes VidraResources of this sync again and again; \
                       they are put back with growing delay; see who writes them in their \
                       managedFields";
        Some(message.to_owned())
    }

    fn look_after(&self, delay: Duration) {
        let queue = &self.controller.queue;
        queue.add_after(&self.name, Slot::Heal, Work::sightings(), delay);
    }
}
