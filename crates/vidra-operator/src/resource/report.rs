//! The one place that reports: status, conditions, Events, the log line and when to come back.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;
use serde_json::{Value, json};
use tracing::{info, warn};
use vidra_api::{
    State as DeployState, VidraResourceStatus, names::RECONCILE_REQUESTED_AT_ANNOTATION,
};
use vidra_core::{
    change::{Action, Cause},
    inventory::Inventory,
    schedule::retry_after,
    trigger::{Trigger, TriggerSet},
};

use super::{
    heal::Healing,
    memory::State,
    outcome::Outcome,
    spill::Anchor,
    status::{self, leading, summary},
    turn::Turn,
};
use crate::{
    conditions::{Saying, now, unsay},
    events::Note,
    metrics::{Ended, Happened},
    queue::{Slot, Work},
};

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
        let mut unwritten = None;
        let mut anchor = None;
        if result.is_ok() {
            match self.put_inventory(state, &mut next, &state.inventory).await {
                Ok(put) => anchor = Some(put),
                Err(cause) => unwritten = Some(cause),
            }
        }
        let is_news = next != state.status;
        if is_news {
            next.last_trigger = triggers
                .iter()
                .map(|trigger| trigger.as_str().to_owned())
                .collect();
            unwritten = self.write(state, next, anchor).await.err().or(unwritten);
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
            self.describe_contention(&mut next, state);
            self.describe_ownership(&mut next, state);
            if !healing.healed.is_empty() {
                next.last_sync_time = Some(Time(now()));
            }
            let put = self.put_inventory(state, &mut next, &state.inventory).await;
            is_unwritten = put.is_err();
            if next != state.status {
                next.last_trigger = vec![Trigger::Event.as_str().to_owned()];
                is_unwritten |= self.write(state, next, put.ok()).await.is_err();
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
        next.deploy_state = Some(DeployState::Running);
        let saying = Saying::new(true, "Progressing", "objects are being applied");
        self.say(&mut next, "Reconciling", saying);
        let anchor = self.put_inventory(state, &mut next, ahead).await?;
        self.write(state, next, Some(anchor)).await
    }

    /// Reports the end of a resource. Its status goes with it, so only the log line is left.
    pub(crate) fn report_end(&self, outcome: &Outcome) {
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
        unsay(&mut next.conditions, "Reconciling");
        next.observed_generation = self.resource.metadata.generation;
        if next != state.status && self.write(state, next, None).await.is_err() {
            let work = Work::reconcile(Trigger::Retry);
            self.controller
                .queue
                .add_after(self.name(), Slot::Retry, work, Duration::from_secs(1));
        }
    }

    /// Writes a status, with what its inventory refers to if that is new. One that could not be
    /// written is a reason to come back.
    async fn write(
        &self,
        state: &mut State,
        next: VidraResourceStatus,
        anchor: Option<Anchor>,
    ) -> Result<(), Cause> {
        let written = self.patch_status(&next).await;
        match &written {
            Ok(()) => {
                state.status = next;
                if let Some(anchor) = anchor {
                    state.base = anchor.base;
                }
            }
            Err(cause) => {
                // It may have been written after all, and then nothing refers to the old base.
                state.base = None;
                warn!(
                    resource = self.name(),
                    reason = cause.reason,
                    "status not written: {}",
                    cause.message
                );
            }
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
        let regarding = self.resource.object_ref(&());
        self.controller.events.tell(&regarding, note).await;
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
