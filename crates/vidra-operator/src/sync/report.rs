//! The one place that reports a sync: status, conditions, Events, the log line and when to come
//! back.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;
use serde_json::json;
use tokio::time::Instant;
use tracing::{info, warn};
use vidra_api::{
    InfrahubSync, InfrahubSyncStatus, State as SyncState,
    names::{API_VERSION, RECONCILE_REQUESTED_AT_ANNOTATION},
};
use vidra_core::{
    change::Cause,
    schedule::retry_after,
    trigger::{Trigger, TriggerSet},
};

use super::{memory::State, outcome::Outcome, reconcile::Ended, turn::Turn};
use crate::{
    conditions::now,
    events::Note,
    metrics,
    queue::{Slot, Work},
};

/// How soon it is looked again at resources that are being applied.
const BACKSTOP: Duration = Duration::from_secs(10);
/// When a status is tried again that the API server does not take as it is.
const REFUSED: Duration = Duration::from_mins(5);
/// How long reports wait that only say how the resources stand, after one was written: while many
/// are applied they would be many.
const CALM: Duration = Duration::from_millis(200);

impl Turn<'_> {
    /// Reports the end of a reconcile, whichever way it ended.
    pub(crate) async fn report(
        &self,
        state: &mut State,
        result: Result<Outcome, Ended>,
        triggers: TriggerSet,
    ) {
        let before = state.error.take();
        let is_change = result.as_ref().is_ok_and(Outcome::wrote);
        let retry_at = match result {
            Ok(outcome) => {
                let retry = self.retry_of(state, &outcome);
                self.tell_writes(&outcome, triggers).await;
                state.outcome = Some(outcome);
                state.forget_refusals();
                retry
            }
            Err(ended) => {
                state.error = Some(ended.error.cause());
                // A name that means nothing is asked about by the timer; each asks for itself.
                let is_patient = matches!(ended.error.reason(), "ArtifactUnknown" | "NoArtifacts");
                let cause = ended.error.cause();
                let causes = if is_patient {
                    &[][..]
                } else {
                    std::slice::from_ref(&cause)
                };
                ended.retry_at.or_else(|| self.next_try(state, causes))
            }
        };
        // What was asked for while nobody ran is done by the start.
        if triggers.contains(Trigger::Request) || triggers.contains(Trigger::Start) {
            let wish = self.annotation(RECONCILE_REQUESTED_AT_ANNOTATION);
            state.handled = wish.map(str::to_owned);
        }
        self.count(state);
        let mut next = self.describe(state);
        if is_change || (state.error.is_none() && next.last_sync_time.is_none()) {
            next.last_sync_time = Some(Time(now()));
        }
        self.write_status(state, next, triggers).await;
        if before != state.error {
            self.tell_trouble(state, triggers).await;
        }
        self.come_back(retry_at);
    }

    /// Reports how the resources stand, without having asked Infrahub.
    pub(crate) async fn report_standing(&self, state: &mut State) {
        let calm = state.reported.map(|at| CALM.saturating_sub(at.elapsed()));
        if let Some(left) = calm.filter(|left| !left.is_zero()) {
            return self.report_later(left);
        }
        let next = self.describe(state);
        let triggers = TriggerSet::of(Trigger::Event);
        self.write_status(state, next, triggers).await;
    }

    fn report_later(&self, delay: Duration) {
        let queue = &self.controller.queue;
        queue.add_after(&self.name, Slot::Report, Work::sightings(), delay);
    }

    /// Says that the sync is paused.
    pub(crate) async fn report_suspended(&self, state: &mut State) {
        let next = self.describe_suspended(state);
        let triggers = TriggerSet::of(Trigger::Event);
        self.write_status(state, next, triggers).await;
    }

    /// Writes a status that says something new. One that could not be written is written later,
    /// and Infrahub is not asked because of it.
    async fn write_status(
        &self,
        state: &mut State,
        mut next: InfrahubSyncStatus,
        triggers: TriggerSet,
    ) {
        if next.sync_state == Some(SyncState::Running) {
            // Events say how the resources get on; this is the backstop, and asks nobody.
            self.report_later(BACKSTOP);
        }
        if next == state.status {
            return;
        }
        next.last_trigger = triggers.iter().map(|it| it.as_str().to_owned()).collect();
        let operations = json!([
            {"op": "test", "path": "/metadata/uid", "value": self.sync.metadata.uid},
            {"op": "add", "path": "/status", "value": next},
        ]);
        let plural = InfrahubSync::plural(&());
        let path = format!("/apis/{API_VERSION}/{plural}/{}/status", self.name);
        match self.controller.cluster.patch_json(&path, &operations).await {
            Ok(()) => {}
            Err(failure) if failure.is_not_found() => return,
            Err(failure) => {
                state.unwritten = state.unwritten.saturating_add(1);
                let chance = self.controller.chance(&self.name);
                let delay = retry_after(failure.class, state.unwritten, chance);
                self.report_later(delay.unwrap_or(REFUSED));
                warn!(
                    sync = self.name,
                    reason = failure.reason,
                    "status not written: {failure}"
                );
                return;
            }
        }
        self.tell_turn(state, &next).await;
        state.status = next;
        state.unwritten = 0;
        state.reported = Some(Instant::now());
    }

    /// When to try again what this sync alone has trouble with.
    fn retry_of(&self, state: &mut State, outcome: &Outcome) -> Option<Instant> {
        // What Infrahub has not rendered yet comes with the next poll or a webhook.
        let causes = outcome.problems();
        let causes: Vec<Cause> = causes
            .filter(|it| it.reason != "ArtifactNotReady")
            .cloned()
            .collect();
        if causes.is_empty() {
            state.failures = 0;
        }
        self.next_try(state, &causes)
    }

    fn next_try(&self, state: &mut State, causes: &[Cause]) -> Option<Instant> {
        causes.first()?;
        state.failures = state.failures.saturating_add(1);
        let chance = self.controller.chance(&self.name);
        let delays = causes
            .iter()
            .filter_map(|cause| retry_after(cause.class, state.failures, chance));
        delays.min().map(|delay| Instant::now() + delay)
    }

    /// Plans the next poll, and an earlier one after a failure.
    fn come_back(&self, retry_at: Option<Instant>) {
        let queue = &self.controller.queue;
        match retry_at {
            Some(at) => {
                let work = Work::reconcile(Trigger::Retry);
                queue.add_at(&self.name, Slot::Retry, work, at);
            }
            None => queue.cancel(&self.name, Slot::Retry),
        }
        self.controller.plan_poll(self.sync, &self.name);
    }

    fn count(&self, state: &State) {
        let problem = state.error.as_ref();
        let problems = state.outcome.as_ref();
        let problem = problem.or_else(|| problems.and_then(|it| it.problems().next()));
        let ended = metrics::Ended {
            outcome: problem.map_or("Succeeded", |cause| cause.class.as_str()),
            reason: problem.map_or("Succeeded", |cause| cause.reason),
        };
        self.controller.metrics.syncs.get_or_create(&ended).inc();
    }

    async fn tell_writes(&self, outcome: &Outcome, triggers: TriggerSet) {
        if !outcome.wrote() {
            return;
        }
        let sentence = counted(outcome);
        info!(sync = self.name, %triggers, "{sentence}");
        self.tell_event(Note::normal("Delivered", &sentence)).await;
    }

    async fn tell_trouble(&self, state: &State, triggers: TriggerSet) {
        let Some(cause) = &state.error else {
            info!(sync = self.name, %triggers, "Infrahub can be read again");
            return self
                .tell_event(Note::normal("SourceReady", "Infrahub can be read again"))
                .await;
        };
        warn!(sync = self.name, %triggers, reason = cause.reason, "{}", cause.message);
        self.tell_event(Note::warning(cause.reason, &cause.message))
            .await;
    }

    /// Tells when `Ready` or `PruneHeld` changes for another reason than the source.
    async fn tell_turn(&self, state: &State, after: &InfrahubSyncStatus) {
        let before = &state.status;
        for kind in ["Ready", "PruneHeld"] {
            let of = |status: &InfrahubSyncStatus| {
                let mut conditions = status.conditions.iter();
                conditions.find(|it| it.type_ == kind).cloned()
            };
            let Some(now) = of(after) else { continue };
            let is_told = of(before).is_some_and(|it| it.reason == now.reason)
                || (kind == "Ready" && state.error.is_some())
                || matches!(
                    now.reason.as_str(),
                    "Succeeded" | "Progressing" | "Suspended"
                );
            if !is_told {
                warn!(sync = self.name, reason = now.reason, "{}", now.message);
                self.tell_event(Note::warning(&now.reason, &now.message))
                    .await;
            }
        }
    }

    async fn tell_event(&self, note: Note<'_>) {
        let regarding = self.sync.object_ref(&());
        self.controller.events.tell(&regarding, note).await;
    }
}

fn counted(outcome: &Outcome) -> String {
    let counts = [
        (outcome.created, "created"),
        (outcome.updated, "updated"),
        (outcome.removed.len(), "removed"),
    ];
    let parts: Vec<String> = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    format!(
        "VidraResources {} for {} artifacts",
        parts.join(", "),
        outcome.delivered.len()
    )
}
