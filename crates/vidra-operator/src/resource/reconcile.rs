//! The reconcile of one owner, step by step.
//!
//! ```text
//!   finalizer  I/O    before the first side effect
//!   load       I/O    the inventory out of the status; the store only if it is there
//!   compile    I/O    on a discovery miss and for stored content; decoding is pure
//!   look       I/O    one shared metadata list per kind
//!   plan       pure   what to apply, what is stale
//!   examine    I/O    metadata of objects that we do not know yet
//!   announce   I/O    the write-ahead inventory
//!   apply      I/O    stage by stage
//!   prune      I/O    what the guard lets pass
//! ```

use std::{collections::BTreeMap, sync::Arc};

use futures::{StreamExt, stream};
use tokio::time::Instant;
use vidra_core::{
    change::Cause,
    identity::ObjectKey,
    inventory::Entry,
    manifest::{Stage, stage_of},
    observed::Observed,
    plan::Plan,
    trigger::{Trigger, TriggerSet},
};

use super::{apply::Done, decode::Compiled, memory::State, outcome::Outcome, turn::Turn};

/// Calls of one owner that are under way at once.
pub(crate) const CONCURRENCY: usize = 8;

/// What the steps of one reconcile hand on.
pub(crate) struct Round {
    /// The desired set.
    pub(crate) compiled: Arc<Compiled>,
    /// What is to be done.
    pub(crate) plan: Plan,
    /// What is known of the live objects before anything is written.
    pub(crate) before: BTreeMap<ObjectKey, Observed>,
    /// What has come of it so far.
    pub(crate) outcome: Outcome,
}

impl Turn<'_> {
    /// Makes the cluster equal to the manifest.
    pub(crate) async fn reconcile(
        &self,
        state: &mut State,
        triggers: TriggerSet,
    ) -> Result<Outcome, Cause> {
        self.refuse_remote()?;
        self.ensure_finalizer().await?;
        self.load(state).await?;
        let compiled = self.compile(state).await?;
        let not_before = self.oldest_list(state, triggers);
        self.follow(state, &compiled);
        let look = self.look(state, &compiled, (triggers, not_before)).await;
        let is_deep = self.is_deep(state, triggers);
        let plan = self.plan(state, &compiled, &look, is_deep);
        let mut outcome = Outcome::of(&compiled);
        outcome.note_planned(&plan);
        let mut round = Round {
            compiled,
            plan,
            before: look.live,
            outcome,
        };
        let announced = self.examine(state, &mut round).await;
        self.announce(state, announced).await?;
        self.apply_all(state, &mut round).await?;
        let Round {
            compiled,
            plan,
            mut outcome,
            ..
        } = round;
        outcome.note_blind(&compiled, &look.blind);
        outcome.note_unplaced(&compiled);
        self.prune(state, &compiled, plan.stale, &mut outcome).await;
        self.follow(state, &compiled);
        Ok(outcome)
    }

    fn is_deep(&self, state: &mut State, triggers: TriggerSet) -> bool {
        let interval = self.controller.settings.get().deep_pass;
        let now = Instant::now();
        let planned = state.deep_pass.filter(|(_, by)| *by == interval);
        let (due, _) = planned.unwrap_or_else(|| {
            let first = self.controller.spread(self.name(), interval);
            (now + first, interval)
        });
        let is_deep = triggers.contains(Trigger::Request) || (!interval.is_zero() && now >= due);
        let next = if is_deep { now + interval } else { due };
        state.deep_pass = Some((next, interval));
        is_deep
    }

    /// Writes the inventory ahead: old and new together, before the first apply.
    async fn announce(&self, state: &mut State, announced: Vec<Entry>) -> Result<(), Cause> {
        let ahead = state.inventory.ahead(announced);
        if ahead == state.inventory {
            return Ok(());
        }
        self.write_ahead(state, &ahead).await?;
        state.inventory = ahead;
        Ok(())
    }

    /// Applies stage by stage. Between the foundations and the rest, waits until the kinds that
    /// the manifest itself defines are served.
    async fn apply_all(&self, state: &mut State, round: &mut Round) -> Result<(), Cause> {
        for stage in [Stage::Foundation, Stage::Rest, Stage::Last] {
            if stage == Stage::Rest && round.compiled.is_incomplete() {
                round.compiled = self
                    .await_definitions(state, round.compiled.clone())
                    .await?;
            }
            self.apply_one_stage(state, round, stage).await;
        }
        Ok(())
    }

    async fn apply_one_stage(&self, state: &mut State, round: &mut Round, wanted: Stage) {
        let Round {
            compiled,
            plan,
            before,
            outcome,
        } = round;
        let jobs: Vec<_> = plan
            .apply
            .iter()
            .filter(|(key, _)| stage_of(&key.group, &key.kind) == wanted)
            .filter_map(|(key, why)| {
                let entry = state.inventory.get(key)?.clone();
                let desired = compiled.objects.get(key)?;
                let before = before.get(key).cloned();
                Some(async move { (key, *why, self.apply(desired, entry, before).await) })
            })
            .collect();
        let mut results = stream::iter(jobs).buffer_unordered(CONCURRENCY);
        while let Some((key, why, result)) = results.next().await {
            if let Ok(done) = &result {
                keep(state, done);
            }
            outcome.note_applied(key, why, result);
        }
    }
}

/// Keeps what an apply returned.
pub(crate) fn keep(state: &mut State, done: &Done) {
    state
        .applied_at
        .insert(done.entry.key.clone(), Instant::now());
    state.inventory.put(done.entry.clone());
}
