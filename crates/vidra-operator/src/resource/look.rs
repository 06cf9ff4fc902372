//! Looking at the live objects of an owner, and comparing: what is to be done.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;
use tracing::debug;
use vidra_cluster::failure::Failure;
use vidra_core::{
    identity::{GroupKind, ObjectKey},
    observed::Observed,
    plan::{Plan, Why, plan},
    trigger::{Trigger, TriggerSet},
};

use super::{
    decode::Compiled,
    live::{LONGEST_AGE, Snapshot},
    memory::State,
    spill::is_spilled,
    turn::Turn,
};

/// What was seen of the live objects of an owner.
#[derive(Default)]
pub(crate) struct Look {
    /// The objects that a list has shown.
    pub(crate) live: BTreeMap<ObjectKey, Observed>,
    /// Objects about which nothing was seen: applied after the list was asked for, or left to the
    /// watches.
    recent: BTreeSet<ObjectKey>,
    /// Kinds that could not be looked at.
    pub(crate) blind: BTreeMap<GroupKind, Failure>,
}

impl Turn<'_> {
    /// How old the lists may be that this turn looks at.
    ///
    /// A pass shares its lists with the passes of other owners. What watches tell makes up for an
    /// older list as well. Without either, an old list would hide what happened since.
    pub(crate) fn oldest_list(&self, state: &State, triggers: TriggerSet) -> Instant {
        let now = Instant::now();
        let is_pass = triggers
            .iter()
            .all(|trigger| matches!(trigger, Trigger::Timer | Trigger::Start));
        if !is_pass && !state.is_followed {
            return now;
        }
        let interval = self.controller.interval(self.resource);
        let age = if interval.is_zero() {
            LONGEST_AGE
        } else {
            LONGEST_AGE.min(interval / 2)
        };
        now.checked_sub(age).unwrap_or(now)
    }

    /// Looks at the live objects, or leaves that to the watches.
    pub(crate) async fn look(
        &self,
        state: &State,
        compiled: &Compiled,
        (triggers, not_before): (TriggerSet, Instant),
    ) -> Look {
        if self.is_left_to_watches(triggers) {
            let recent = state.inventory.iter().map(|entry| entry.key.clone());
            return Look {
                recent: recent.collect(),
                ..Look::default()
            };
        }
        self.list(state, compiled, not_before).await
    }

    /// At the start, what is ready is left to the first list of each watch: it reaches all owners,
    /// so that a restart costs one list per kind. Nothing is said about the objects meanwhile. An
    /// owner whose inventory had to be read from the store first may have missed that list.
    fn is_left_to_watches(&self, triggers: TriggerSet) -> bool {
        let is_start = triggers == TriggerSet::of(Trigger::Start);
        let status = self.resource.status.as_ref();
        let is_ready = status.is_some_and(|status| {
            let mut conditions = status.conditions.iter();
            status.observed_generation == self.resource.metadata.generation
                && conditions.any(|it| it.type_ == "Ready" && it.status == "True")
        });
        is_start
            && is_ready
            && !is_spilled(self.resource)
            && self.controller.follows_events(self.resource)
    }

    /// Lists the metadata of every kind that the owner has objects of.
    async fn list(&self, state: &State, compiled: &Compiled, not_before: Instant) -> Look {
        let mut resources = BTreeMap::new();
        for (key, desired) in &compiled.objects {
            if let (Some(resource), Some(_)) = (&desired.resource, state.inventory.get(key)) {
                resources.insert(key.group_kind(), resource.clone());
            }
        }
        let mut look = Look::default();
        for (kind, resource) in resources {
            match self
                .controller
                .snapshots
                .recent(self.cluster, &resource, not_before)
                .await
            {
                Ok(snapshot) => look.take(state, &kind, &snapshot),
                Err(failure) => {
                    look.blind.insert(kind, failure);
                }
            }
        }
        look
    }

    /// Compares what is desired with what is known and what was seen.
    pub(crate) fn plan(
        &self,
        state: &State,
        compiled: &Compiled,
        look: &Look,
        is_deep: bool,
    ) -> Plan {
        let wanted = compiled.wanted();
        let (live, recent) = (&look.live, &look.recent);
        let mut plan = plan(&wanted, &state.inventory, live, recent, &self.manager);
        // What a kind that could not be looked at has is unknown: neither missing nor drifted.
        plan.apply.retain(|key, why| {
            !look.blind.contains_key(&key.group_kind()) || matches!(why, Why::New | Why::Changed)
        });
        self.reopen(look, &mut plan);
        if is_deep {
            let intact = std::mem::take(&mut plan.intact);
            plan.apply
                .extend(intact.into_iter().map(|key| (key, Why::DeepPass)));
        }
        debug!(
            resource = self.name(),
            apply = plan.apply.len(),
            stale = plan.stale.len(),
            "planned"
        );
        plan
    }

    /// What we left to another owner is asked for again when that one changes its mind or goes.
    fn reopen(&self, look: &Look, plan: &mut Plan) {
        for key in std::mem::take(&mut plan.intact) {
            let live = look.live.get(&key).filter(|_| !look.recent.contains(&key));
            let is_open = live.is_some_and(|live| self.owner.is_open_again(&key, live));
            if is_open {
                plan.apply.insert(key, Why::Drifted);
                continue;
            }
            if let Some(live) = live {
                self.owner.see(&key, live);
            }
            plan.intact.push(key);
        }
    }
}

impl Look {
    /// Takes over a list. What we applied after it was asked for is not judged by it.
    fn take(&mut self, state: &State, kind: &GroupKind, snapshot: &Snapshot) {
        for entry in state
            .inventory
            .iter()
            .filter(|entry| entry.key.group_kind() == *kind)
        {
            let is_newer = state
                .applied_at
                .get(&entry.key)
                .is_some_and(|at| *at > snapshot.asked_at);
            if is_newer {
                self.recent.insert(entry.key.clone());
            } else if let Some(found) = snapshot.objects.get(&entry.key) {
                self.live.insert(entry.key.clone(), found.clone());
            }
        }
    }
}
