//! The one place that reports: status, conditions, Events, the log line and when to come back.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use tracing::{info, warn};
use vidra_api::{
    State as DeployState, VidraResourceStatus,
    names::{RECONCILE_REQUESTED_AT_ANNOTATION, RELEASE_PRUNE_ANNOTATION},
};
use vidra_core::{
    change::{Action, Cause},
    class::Class,
    inventory::Inventory,
    schedule::retry_after,
    trigger::{Trigger, TriggerSet},
};

use super::{
    heal::Healing,
    memory::State,
    reconcile::Outcome,
    status::{self, Saying, leading, put_inventory, put_outcome, say, summary, unsay},
    turn::Turn,
};
use crate::{
    events::Note,
    metrics::{Ended, Happened},
    queue::{Slot, Work},
};

/// How often objects are looked at whose kind cannot be watched.
const BLIND_POLL: Duration = Duration::from_mins(1);

impl Turn<'_> {
    /// Reports the end of a reconcile, whichever way it ended.
    pub(crate) async fn report(
        &self,
        state: &mut State,
        result: Result<Outcome, Cause>,
        triggers: TriggerSet,
    ) {
        let mut next = state.status.clone();
        match &result {
            Ok(outcome) => self.describe(&mut next, state, outcome),
            Err(cause) => self.describe_failure(&mut next, cause),
        }
        self.describe_contention(&mut next, state);
        self.describe_sight(&mut next, state);
        next.observed_generation = self.resource.metadata.generation;
        if triggers.contains(Trigger::Request) {
            next.last_handled_reconcile_at = self.annotation(RECONCILE_REQUESTED_AT_ANNOTATION);
        }
        let is_news = next != state.status;
        let mut unwritten = None;
        if is_news {
            next.last_trigger = triggers
                .iter()
                .map(|trigger| trigger.as_str().to_owned())
                .collect();
            unwritten = self.write(state, next).await.err();
        }
        self.count(&result);
        self.tell(&result, is_news, triggers).await;
        self.come_back(state, &result, unwritten.as_ref());
    }

    fn count(&self, result: &Result<Outcome, Cause>) {
        let metrics = &self.controller.metrics;
        let cause = match result {
            Ok(outcome) => leading(outcome),
            Err(cause) => Some(cause),
        };
        let outcome = cause.map_or("Succeeded", |cause| cause.class.as_str());
        let reason = cause.map_or("Succeeded", |cause| cause.reason);
        metrics
            .reconciles
            .get_or_create(&Ended { outcome, reason })
            .inc();
        let Ok(outcome) = result else { return };
        metrics.wrong_verdicts.inc_by(outcome.wrong_verdicts as u64);
        for action in [
            Action::Created,
            Action::Configured,
            Action::Deleted,
            Action::Failed,
        ] {
            let count = outcome.changes.count(action) as u64;
            let happened = Happened {
                action: action.as_str(),
            };
            metrics.changes.get_or_create(&happened).inc_by(count);
        }
    }

    /// Reports heals: one Event and one log line each, and the entries that changed.
    pub(crate) async fn report_healing(&self, state: &mut State, healing: Healing) {
        let mut is_unwritten = false;
        for healed in &healing.healed {
            info!(resource = self.name(), "{}", healed.sentence);
            let note = Note::normal("Healed", &healed.sentence);
            self.tell_event(note.about(&healed.what)).await;
        }
        if healing.is_changed {
            let mut next = state.status.clone();
            put_inventory(&mut next, &state.inventory);
            self.describe_contention(&mut next, state);
            self.describe_ownership(&mut next, state);
            if !healing.healed.is_empty() {
                next.last_sync_time = Some(Time(now()));
            }
            if next != state.status {
                next.last_trigger = vec![Trigger::Event.as_str().to_owned()];
                is_unwritten = self.write(state, next).await.is_err();
            }
        }
        if healing.needs_reconcile || is_unwritten {
            self.controller
                .queue
                .add(self.name(), Work::reconcile(Trigger::Event));
        }
    }

    /// Writes the inventory ahead of the first apply. Unlike a report, it must succeed.
    pub(crate) async fn write_ahead(
        &self,
        state: &mut State,
        ahead: &Inventory,
    ) -> Result<(), Cause> {
        let mut next = state.status.clone();
        put_inventory(&mut next, ahead);
        next.deploy_state = Some(DeployState::Running);
        let saying = Saying::new(true, "Progressing", "objects are being applied");
        self.say(&mut next, "Reconciling", saying);
        self.patch_status(&next).await?;
        state.status = next;
        Ok(())
    }

    /// Reports the end of a resource. Its status goes with it, so only the log line is left.
    pub(crate) async fn report_end(&self, outcome: Outcome) {
        let deleted = outcome.changes.count(Action::Deleted);
        let left = outcome.changes.count(Action::Skipped);
        info!(
            resource = self.name(),
            deleted, left, "the resource was deleted"
        );
        for (key, cause) in &outcome.remarks {
            info!(resource = self.name(), object = %key, reason = cause.reason, "{}", cause.message);
        }
    }

    /// Says that the resource is paused.
    pub(crate) async fn report_suspended(&self, state: &mut State) {
        let mut next = state.status.clone();
        let message = "spec.suspend is true: nothing is applied, put right or deleted";
        let saying = Saying {
            holds: None,
            reason: "Suspended",
            message: message.to_owned(),
        };
        self.say(&mut next, "Ready", saying);
        unsay(&mut next, "Reconciling");
        next.observed_generation = self.resource.metadata.generation;
        if next != state.status && self.write(state, next).await.is_err() {
            let work = Work::reconcile(Trigger::Retry);
            self.controller
                .queue
                .add_after(self.name(), Slot::Retry, work, Duration::from_secs(1));
        }
    }

    fn describe(&self, next: &mut VidraResourceStatus, state: &mut State, outcome: &Outcome) {
        put_outcome(next, outcome, &state.inventory);
        if outcome.changes.wrote() || next.last_sync_time.is_none() {
            next.last_sync_time = Some(Time(now()));
        }
        match leading(outcome) {
            None => {
                unsay(next, "Reconciling");
                unsay(next, "Stalled");
                let saying = Saying::new(true, "Succeeded", all_good(outcome));
                self.say(next, "Ready", saying);
            }
            Some(cause) => self.describe_not_ready(next, cause, &summary(outcome)),
        }
        match &outcome.held {
            None => unsay(next, "PruneHeld"),
            Some(held) => {
                let message = format!(
                    "{}; to delete them annotate {RELEASE_PRUNE_ANNOTATION}={}",
                    held.why, held.hash
                );
                self.say(next, "PruneHeld", Saying::new(true, "PruneHeld", message));
            }
        }
        self.describe_ownership(next, state);
    }

    fn describe_failure(&self, next: &mut VidraResourceStatus, cause: &Cause) {
        next.deploy_state = Some(DeployState::Failed);
        next.last_error = Some(cause.message.clone());
        self.describe_not_ready(next, cause, &cause.message);
    }

    fn describe_not_ready(&self, next: &mut VidraResourceStatus, cause: &Cause, message: &str) {
        self.say(next, "Ready", Saying::new(false, cause.reason, message));
        let is_stalled = cause.class == Class::Invalid;
        let (kind, other) = if is_stalled {
            ("Stalled", "Reconciling")
        } else {
            ("Reconciling", "Stalled")
        };
        // What still holds is not taken back: its transition time would move with every try.
        unsay(next, other);
        self.say(next, kind, Saying::new(true, cause.reason, message));
    }

    /// Names other owners and other tools that want or claim objects of this manifest.
    fn describe_ownership(&self, next: &mut VidraResourceStatus, state: &State) {
        let claimed: Vec<String> = next
            .failures
            .iter()
            .filter(|failure| failure.reason == "ClaimedByOther")
            .map(|failure| format!("{}: {}", failure.object, failure.message))
            .collect();
        let contested: Vec<String> = state
            .inventory
            .iter()
            .filter_map(|entry| {
                let sentence = self.owner.sight(&entry.key).rivalry.sentence()?;
                Some(format!("{}: {sentence}", entry.key))
            })
            .collect();
        let reason = match (claimed.is_empty(), contested.is_empty()) {
            (true, true) => {
                unsay(next, "OwnershipConflict");
                return;
            }
            (false, _) => "ClaimedByOther",
            (true, false) => "DifferentContent",
        };
        let saying = Saying::new(true, reason, listed(&[claimed, contested].concat()));
        self.say(next, "OwnershipConflict", saying);
    }

    fn describe_contention(&self, next: &mut VidraResourceStatus, state: &mut State) {
        let age = self.controller.age();
        state
            .fights
            .retain(|_, (fight, _)| !fight.is_forgotten(age));
        let fought: Vec<String> = state
            .fights
            .iter()
            .filter(|(_, (fight, _))| fight.is_contended(age))
            .map(|(key, (_, by))| format!("{key} is changed again and again by {by}"))
            .collect();
        if fought.is_empty() {
            unsay(next, "Contended");
            return;
        }
        let message = format!("{}; it is put back with growing delay", fought.join("; "));
        self.say(next, "Contended", Saying::new(true, "Contended", message));
        // Look again when the heat may have gone, so that the condition goes by itself.
        let work = Work::reconcile(Trigger::Timer);
        self.controller
            .queue
            .add_after(self.name(), Slot::Look, work, Duration::from_mins(2));
    }

    /// Says which kinds cannot be watched: their drift is found by the timer alone.
    fn describe_sight(&self, next: &mut VidraResourceStatus, state: &State) {
        let kinds = state
            .compiled
            .as_ref()
            .map(|compiled| compiled.kinds())
            .unwrap_or_default();
        let blind = if self.follows_events() {
            self.controller.blind_among(&kinds)
        } else {
            Vec::new()
        };
        if blind.is_empty() {
            unsay(next, "Watching");
            return;
        }
        let message = format!("{}; changes are found by the timer only", blind.join("; "));
        self.say(next, "Watching", Saying::new(false, "NotWatched", message));
        let work = Work::reconcile(Trigger::Timer);
        self.controller
            .queue
            .add_after(self.name(), Slot::Look, work, BLIND_POLL);
    }

    fn say(&self, next: &mut VidraResourceStatus, kind: &str, saying: Saying) {
        say(
            next,
            kind,
            self.resource.metadata.generation.unwrap_or_default(),
            now(),
            saying,
        );
    }

    /// Writes a status. One that could not be written is a reason to come back.
    async fn write(&self, state: &mut State, next: VidraResourceStatus) -> Result<(), Cause> {
        let written = self.patch_status(&next).await;
        match &written {
            Ok(()) => state.status = next,
            Err(cause) => warn!(
                resource = self.name(),
                reason = cause.reason,
                "status not written: {}",
                cause.message
            ),
        }
        written
    }

    /// Replaces the whole status, of exactly this resource and not of one with its name.
    async fn patch_status(&self, status: &VidraResourceStatus) -> Result<(), Cause> {
        let operations: Value = json!([
            {"op": "test", "path": "/metadata/uid", "value": self.resource.metadata.uid},
            {"op": "add", "path": "/status", "value": status},
        ]);
        let path = format!(
            "/apis/{}/vidraresources/{}/status",
            vidra_api::names::API_VERSION,
            self.name()
        );
        let result = self.controller.cluster.patch_json(&path, &operations).await;
        match result {
            Ok(()) => Ok(()),
            Err(failure) if failure.is_not_found() => Ok(()),
            Err(failure) => Err(Cause {
                class: failure.class,
                reason: "StatusNotWritten",
                message: format!("the status could not be written: {failure}"),
            }),
        }
    }

    async fn tell(&self, result: &Result<Outcome, Cause>, is_news: bool, triggers: TriggerSet) {
        match result {
            Ok(outcome) => self.tell_outcome(outcome, is_news, triggers).await,
            Err(cause) if is_news => {
                warn!(resource = self.name(), %triggers, reason = cause.reason, "{}", cause.message);
                self.tell_event(Note::warning(cause.reason, &cause.message))
                    .await;
            }
            Err(_) => {}
        }
    }

    async fn tell_outcome(&self, outcome: &Outcome, is_news: bool, triggers: TriggerSet) {
        let changes = &outcome.changes;
        if changes.wrote() {
            let sentence = counted(outcome);
            info!(resource = self.name(), %triggers, "{sentence}");
            self.tell_event(Note::normal("Applied", &sentence)).await;
        }
        if outcome.wrong_verdicts > 0 {
            let count = outcome.wrong_verdicts;
            warn!(
                resource = self.name(),
                count, "objects had drifted although their metadata said otherwise"
            );
        }
        if !is_news {
            return;
        }
        if let Some(cause) = leading(outcome) {
            let sentence = summary(outcome);
            warn!(resource = self.name(), %triggers, reason = cause.reason, "{sentence}");
            self.tell_event(Note::warning(cause.reason, &sentence))
                .await;
        }
        if let Some(held) = &outcome.held {
            warn!(
                resource = self.name(),
                hash = held.hash,
                "deletion held: {}",
                held.why
            );
            self.tell_event(Note::warning("PruneHeld", &held.why)).await;
        }
        for (key, cause) in &outcome.remarks {
            self.tell_event(Note::normal(
                cause.reason,
                &format!("{key}: {}", cause.message),
            ))
            .await;
        }
    }

    async fn tell_event(&self, note: Note<'_>) {
        self.controller.events.tell(self.resource, note).await;
    }

    /// Decides when to come back: soon after a failure, and always with the next pass.
    fn come_back(
        &self,
        state: &mut State,
        result: &Result<Outcome, Cause>,
        unwritten: Option<&Cause>,
    ) {
        let mut causes: Vec<&Cause> = match result {
            Err(cause) => vec![cause],
            Ok(outcome) => outcome
                .changes
                .failures()
                .filter_map(|change| change.cause.as_ref())
                .collect(),
        };
        causes.extend(unwritten);
        state.failures = if causes.is_empty() {
            0
        } else {
            state.failures.saturating_add(1)
        };
        let chance = self.controller.chance(self.name());
        let retry = causes
            .iter()
            .filter_map(|cause| retry_after(cause.class, state.failures, chance))
            .min();
        match retry {
            Some(delay) => {
                let work = Work::reconcile(Trigger::Retry);
                self.controller
                    .queue
                    .add_after(self.name(), Slot::Retry, work, delay);
            }
            None if causes.is_empty() => {
                self.controller.queue.cancel(self.name(), Slot::Retry);
            }
            None => {}
        }
        self.controller.plan_pass(self.resource, self.name());
    }

    fn annotation(&self, key: &str) -> Option<String> {
        self.resource
            .metadata
            .annotations
            .as_ref()?
            .get(key)
            .cloned()
    }
}

/// The first sentences of many, and how many more there are.
fn listed(sentences: &[String]) -> String {
    const SHOWN: usize = 10;
    let shown = sentences.iter().take(SHOWN).cloned().collect::<Vec<_>>();
    let mut text = shown.join("; ");
    if let Some(more) = sentences.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        text.push_str(&format!("; and {more} more"));
    }
    text
}

fn all_good(outcome: &Outcome) -> String {
    match outcome.desired {
        1 => "1 object is as desired".to_owned(),
        count => format!("{count} objects are as desired"),
    }
}

fn counted(outcome: &Outcome) -> String {
    let actions = [
        Action::Created,
        Action::Configured,
        Action::Deleted,
        Action::Failed,
    ];
    let parts: Vec<String> = actions
        .into_iter()
        .filter_map(|action| {
            let count = outcome.changes.count(action);
            (count > 0).then(|| format!("{count} {}", action.as_str()))
        })
        .collect();
    format!("{} of {} objects", parts.join(", "), status::total(outcome))
}

fn now() -> Timestamp {
    // Full seconds: that is all that the API keeps, and what is read back must compare equal.
    Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default()
}
