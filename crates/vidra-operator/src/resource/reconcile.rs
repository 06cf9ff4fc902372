//! The reconcile of one owner, step by step.
//!
//! ```text
//!   finalizer  I/O    before the first side effect
//!   load       pure   the inventory out of the status
//!   compile    I/O    only on a discovery miss; decoding is pure
//!   look       I/O    one shared metadata list per kind
//!   plan       pure   what to apply, what is stale
//!   examine    I/O    metadata of objects that we do not know yet
//!   announce   I/O    the write-ahead inventory
//!   apply      I/O    stage by stage
//!   prune      I/O    what the guard lets pass
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::{StreamExt, stream};
use tokio::time::Instant;
use tracing::debug;
use vidra_cluster::failure::Failure;
use vidra_core::{
    change::{Action, Cause, ChangeSet},
    class::Class,
    guard::Held,
    identity::{GroupKind, ObjectKey},
    inventory::{Entry, Inventory, Origin},
    manifest::{Stage, stage_of},
    observed::Observed,
    ownership::{may_take, standing},
    plan::{Plan, Why, plan},
    trigger::{Trigger, TriggerSet},
};

use super::{
    apply::{Done, claimed, left_alone},
    decode::{Compiled, Desired, compile},
    live::LONGEST_AGE,
    memory::State,
    turn::Turn,
};

/// Calls of one owner that are under way at once.
pub(crate) const CONCURRENCY: usize = 8;

/// What a reconcile came to.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// What happened to each object.
    pub(crate) changes: ChangeSet,
    /// Things worth saying about objects that are as desired.
    pub(crate) remarks: Vec<(ObjectKey, Cause)>,
    /// A deletion that waits for a release.
    pub(crate) held: Option<Held>,
    /// The digest of the manifest.
    pub(crate) digest: String,
    /// How many objects are desired.
    pub(crate) desired: usize,
    /// Objects that the metadata said were intact and that were not.
    pub(crate) wrong_verdicts: usize,
}

/// What was seen of the live objects of an owner.
#[derive(Default)]
struct Look {
    live: BTreeMap<ObjectKey, Observed>,
    /// Objects that we applied after the list was asked for: it says nothing about them.
    recent: BTreeSet<ObjectKey>,
    /// Kinds that could not be looked at.
    blind: BTreeMap<GroupKind, Failure>,
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
        self.load(state)?;
        let mut compiled = self.compile(state).await?;
        let not_before = self.oldest_list(state, triggers);
        self.follow(state, &compiled);
        let look = self.look(state, &compiled, not_before).await;
        let is_deep = self.is_deep(state, triggers);
        let plan = self.plan(state, &compiled, &look, is_deep);
        let mut outcome = Outcome {
            digest: compiled.digest.clone(),
            ..Outcome::default()
        };
        self.note_waiting(&plan, &mut outcome);
        let mut before = look.live;
        let announced = self
            .examine(state, &compiled, &plan, &mut before, &mut outcome)
            .await;
        self.announce(state, announced).await?;
        for stage in [Stage::Foundation, Stage::Rest, Stage::Last] {
            if stage == Stage::Rest && compiled.is_incomplete() {
                compiled = self.await_definitions(state, compiled).await?;
            }
            self.apply_stage(state, &compiled, &plan, stage, &before, &mut outcome)
                .await;
        }
        self.note_blind(&compiled, &look.blind, &mut outcome);
        self.note_unplaced(&compiled, &mut outcome);
        outcome.desired = compiled.objects.len();
        self.prune(state, &compiled, plan.stale, &mut outcome).await;
        self.follow(state, &compiled);
        Ok(outcome)
    }

    /// Reads the inventory, once per process and uid.
    pub(crate) fn load(&self, state: &mut State) -> Result<(), Cause> {
        let uid = self.resource.metadata.uid.clone().unwrap_or_default();
        if state.uid == uid {
            return Ok(());
        }
        let status = self.resource.status.clone().unwrap_or_default();
        let inventory = read_inventory(&status)?;
        *state = State {
            uid,
            inventory,
            status,
            ..State::default()
        };
        self.owner.expect_inventory(&state.inventory);
        Ok(())
    }

    async fn compile(&self, state: &mut State) -> Result<Arc<Compiled>, Cause> {
        let generation = self.resource.metadata.generation.unwrap_or_default();
        let edition = self.controller.catalogue.edition();
        let is_current = std::mem::replace(&mut state.edition, edition) == edition;
        let known = state
            .compiled
            .clone()
            .filter(|known| is_current && known.generation == generation);
        if let Some(known) = known.filter(|known| !known.is_incomplete()) {
            return Ok(known);
        }
        let kinds = self
            .controller
            .catalogue
            .kinds(self.cluster)
            .await
            .map_err(no_discovery)?;
        let compiled = self.decode(&kinds)?;
        let compiled = if compiled.is_incomplete() {
            let fresh = self
                .controller
                .catalogue
                .fresh(self.cluster)
                .await
                .map_err(no_discovery)?;
            self.decode(&fresh)?
        } else {
            compiled
        };
        let compiled = Arc::new(compiled);
        state.compiled = Some(compiled.clone());
        Ok(compiled)
    }

    fn decode(&self, kinds: &vidra_cluster::discovery::Kinds) -> Result<Compiled, Cause> {
        let spec = &self.resource.spec;
        let text = spec.manifest.as_deref().ok_or_else(no_manifest)?;
        let generation = self.resource.metadata.generation.unwrap_or_default();
        compile(
            text,
            spec.destination.default_namespace(),
            (generation, spec.precedence),
            kinds,
        )
        .map_err(|error| Cause {
            class: Class::Invalid,
            reason: error.reason(),
            message: error.to_string(),
        })
        .and_then(|compiled| {
            if compiled.objects.is_empty() {
                Err(empty_manifest())
            } else {
                Ok(compiled)
            }
        })
    }

    /// After the foundations: waits until the CRDs of this manifest are served.
    async fn await_definitions(
        &self,
        state: &mut State,
        compiled: Arc<Compiled>,
    ) -> Result<Arc<Compiled>, Cause> {
        const POLLS: u32 = 60;
        let is_settled = |compiled: &Compiled| {
            compiled
                .objects
                .values()
                .all(|desired| desired.resource.is_some() || !desired.is_placed)
        };
        let mut compiled = compiled;
        for poll in 0..POLLS {
            if is_settled(&compiled) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(
                u64::from(poll.min(10)) * 25,
            ))
            .await;
            let kinds = self
                .controller
                .catalogue
                .now(self.cluster)
                .await
                .map_err(no_discovery)?;
            compiled = Arc::new(self.decode(&kinds)?);
        }
        state.compiled = Some(compiled.clone());
        Ok(compiled)
    }

    /// How old the lists may be that this turn looks at.
    ///
    /// A pass shares its lists with the passes of other owners. What watches tell makes up for an
    /// older list as well. Without either, an old list would hide what happened since.
    fn oldest_list(&self, state: &State, triggers: TriggerSet) -> Instant {
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

    async fn look(&self, state: &State, compiled: &Compiled, not_before: Instant) -> Look {
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

    fn is_deep(&self, state: &mut State, triggers: TriggerSet) -> bool {
        let interval = self.controller.settings.deep_pass;
        let now = Instant::now();
        let due = *state
            .deep_pass_at
            .get_or_insert(now + self.controller.spread(self.name(), interval));
        let is_deep = triggers.contains(Trigger::Request) || (!interval.is_zero() && now >= due);
        if is_deep {
            state.deep_pass_at = Some(now + interval);
        }
        is_deep
    }

    fn plan(&self, state: &State, compiled: &Compiled, look: &Look, is_deep: bool) -> Plan {
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

    fn note_waiting(&self, plan: &Plan, outcome: &mut Outcome) {
        for key in &plan.intact {
            outcome.changes.record(key.clone(), Action::Unchanged);
        }
        for key in &plan.terminating {
            let cause = Cause {
                class: Class::Waiting,
                reason: "Terminating",
                message: "somebody deleted it; waiting for its finalizers to make it again"
                    .to_owned(),
            };
            outcome.changes.explain(key.clone(), Action::Failed, cause);
        }
    }

    /// Looks at the objects that we have not applied yet: are they there, and may we take them?
    /// And at those that no list has shown since we applied them.
    async fn examine(
        &self,
        state: &State,
        compiled: &Compiled,
        plan: &Plan,
        before: &mut BTreeMap<ObjectKey, Observed>,
        outcome: &mut Outcome,
    ) -> Vec<Entry> {
        let is_unseen =
            |key: &ObjectKey, why: Why| why != Why::Missing && !before.contains_key(key);
        let unknown: Vec<&ObjectKey> = plan
            .apply
            .iter()
            .filter(|(key, why)| **why == Why::New || is_unseen(key, **why))
            .map(|(key, _)| key)
            .collect();
        let looks = unknown
            .into_iter()
            .filter_map(|key| Some((key, compiled.objects.get(key)?)));
        let looks: Vec<_> = looks
            .map(|(key, desired)| async move {
                let Some(resource) = &desired.resource else {
                    return (key, desired, Ok(None));
                };
                (key, desired, self.cluster.look_at(resource, key).await)
            })
            .collect();
        let found: Vec<_> = stream::iter(looks)
            .buffer_unordered(CONCURRENCY)
            .collect()
            .await;
        let mut announced = Vec::new();
        for (key, desired, found) in found {
            match self.consider(state, (key, desired), found, before) {
                Ok(entry) => announced.push(entry),
                Err(cause) => outcome.changes.explain(key.clone(), Action::Failed, cause),
            }
        }
        announced
    }

    fn consider(
        &self,
        state: &State,
        (key, desired): (&ObjectKey, &Desired),
        found: Result<Option<Observed>, Failure>,
        before: &mut BTreeMap<ObjectKey, Observed>,
    ) -> Result<Entry, Cause> {
        let known = state.inventory.get(key);
        let announced = |origin| Entry::announced(key.clone(), &desired.version, origin);
        let Some(live) = found.map_err(|failure| failure.cause(key))? else {
            before.remove(key);
            return Ok(known
                .cloned()
                .unwrap_or_else(|| announced(Origin::Announced)));
        };
        let taken = may_take(&standing(&live, &self.owner.id), self.policy.adoption);
        let is_left_alone = left_alone(desired, Some(&live)).is_some();
        before.insert(key.clone(), live);
        match (known, taken) {
            (Some(known), Ok(_)) => Ok(known.clone()),
            (None, Ok(origin)) => Ok(announced(origin)),
            (_, Err(_)) if is_left_alone => Ok(announced(Origin::Adopted)),
            // Announced or even listed by the Go operator does not make it ours.
            (_, Err(why)) => Err(claimed(&why)),
        }
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

    async fn apply_stage(
        &self,
        state: &mut State,
        compiled: &Compiled,
        plan: &Plan,
        stage: Stage,
        before: &BTreeMap<ObjectKey, Observed>,
        outcome: &mut Outcome,
    ) {
        let jobs = plan
            .apply
            .iter()
            .filter(|(key, _)| stage_of(&key.group, &key.kind) == stage);
        let jobs: Vec<_> = jobs
            .filter_map(|(key, why)| {
                let entry = state.inventory.get(key)?.clone();
                let desired = compiled.objects.get(key)?;
                let before = before.get(key).cloned();
                Some(async move { (key, *why, self.apply(desired, entry, before).await) })
            })
            .collect();
        let mut results = stream::iter(jobs).buffer_unordered(CONCURRENCY);
        while let Some((key, why, result)) = results.next().await {
            self.take_result(state, key, why, result, outcome);
        }
    }

    fn take_result(
        &self,
        state: &mut State,
        key: &ObjectKey,
        why: Why,
        result: Result<Done, Cause>,
        outcome: &mut Outcome,
    ) {
        match result {
            Err(cause) => outcome.changes.explain(key.clone(), Action::Failed, cause),
            Ok(done) => {
                if why == Why::DeepPass && done.action != Action::Unchanged {
                    outcome.wrong_verdicts += 1;
                }
                self.keep(state, &done);
                outcome.changes.record(key.clone(), done.action);
                let remarks = done.remarks.into_iter();
                outcome
                    .remarks
                    .extend(remarks.map(|cause| (key.clone(), cause)));
            }
        }
    }

    /// Keeps what an apply returned.
    pub(crate) fn keep(&self, state: &mut State, done: &Done) {
        state
            .applied_at
            .insert(done.entry.key.clone(), Instant::now());
        state.inventory.put(done.entry.clone());
    }

    fn note_blind(
        &self,
        compiled: &Compiled,
        blind: &BTreeMap<GroupKind, Failure>,
        outcome: &mut Outcome,
    ) {
        for key in compiled.objects.keys() {
            let Some(failure) = blind.get(&key.group_kind()) else {
                continue;
            };
            if !outcome.changes.iter().any(|change| change.key == *key) {
                outcome
                    .changes
                    .explain(key.clone(), Action::Failed, failure.cause(key));
            }
        }
    }

    fn note_unplaced(&self, compiled: &Compiled, outcome: &mut Outcome) {
        for (key, desired) in &compiled.objects {
            if !desired.is_placed {
                let cause = super::apply::unknown_kind(key, desired);
                outcome.changes.explain(key.clone(), Action::Failed, cause);
            }
        }
    }
}

impl Look {
    /// Takes over a list. What we applied after it was asked for is not judged by it.
    fn take(&mut self, state: &State, kind: &GroupKind, snapshot: &super::live::Snapshot) {
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

fn no_manifest() -> Cause {
    Cause {
        class: Class::Invalid,
        reason: "ContentMissing",
        message: "spec.manifestFrom is not supported yet; give the manifest in spec.manifest"
            .to_owned(),
    }
}

/// An empty text is more often an accident than a wish, and it would delete everything.
fn empty_manifest() -> Cause {
    Cause {
        class: Class::Invalid,
        reason: "EmptyManifest",
        message: "the manifest has no objects and nothing is deleted because of it; delete this \
                  VidraResource if all its objects should go"
            .to_owned(),
    }
}

fn no_discovery(failure: Failure) -> Cause {
    let message = format!("cannot tell which kinds the cluster serves: {failure}");
    Cause {
        class: Class::Transient,
        reason: "ClusterUnreachable",
        message,
    }
}

/// The stored inventory, or the Go operator's list of managed resources.
fn read_inventory(status: &vidra_api::VidraResourceStatus) -> Result<Inventory, Cause> {
    if let Some(stored) = &status.inventory {
        return Inventory::decode(stored.entries.iter().map(String::as_str)).map_err(|error| {
            Cause {
                class: Class::Fatal,
                reason: "InventoryUnreadable",
                message: format!("{error}; nothing is applied or deleted until it is repaired"),
            }
        });
    }
    let mut inventory = Inventory::default();
    for object in &status.managed_resources {
        let (group, version) = object
            .api_version
            .split_once('/')
            .unwrap_or(("", &object.api_version));
        let namespace = object
            .namespace
            .as_deref()
            .filter(|namespace| !namespace.is_empty());
        let key = ObjectKey::new(group, &object.kind, namespace, &object.name);
        inventory.put(Entry::announced(key, version, Origin::Inherited));
    }
    Ok(inventory)
}
