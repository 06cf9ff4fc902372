//! Putting an outcome into words: the conditions of a status.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use vidra_api::{State as DeployState, VidraResourceStatus, names::RELEASE_PRUNE_ANNOTATION};
use vidra_core::{change::Cause, class::Class, trigger::Trigger};

use super::{
    memory::State,
    outcome::Outcome,
    status::{leading, put_outcome, summary},
    turn::Turn,
};
use crate::{
    conditions::{Saying, now, say, unsay},
    queue::{Slot, Work},
};

/// How often objects are looked at whose kind cannot be watched.
const BLIND_POLL: Duration = Duration::from_mins(1);

impl Turn<'_> {
    pub(crate) fn describe(
        &self,
        next: &mut VidraResourceStatus,
        state: &mut State,
        outcome: &Outcome,
    ) {
        put_outcome(next, outcome, &state.inventory);
        if outcome.changes.wrote() || next.last_sync_time.is_none() {
            next.last_sync_time = Some(Time(now()));
        }
        match leading(outcome) {
            None => {
                unsay(&mut next.conditions, "Reconciling");
                unsay(&mut next.conditions, "Stalled");
                let saying = Saying::new(true, "Succeeded", all_good(outcome));
                self.say(next, "Ready", saying);
            }
            Some(cause) => self.describe_not_ready(next, cause, &summary(outcome)),
        }
        match &outcome.held {
            None => unsay(&mut next.conditions, "PruneHeld"),
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

    pub(crate) fn describe_failure(&self, next: &mut VidraResourceStatus, cause: &Cause) {
        next.deploy_state = Some(DeployState::Failed);
        next.last_error = Some(cause.message.clone());
        self.describe_not_ready(next, cause, &cause.message);
    }

    pub(crate) fn describe_not_ready(
        &self,
        next: &mut VidraResourceStatus,
        cause: &Cause,
        message: &str,
    ) {
        self.say(next, "Ready", Saying::new(false, cause.reason, message));
        let is_stalled = cause.class == Class::Invalid;
        let (kind, other) = if is_stalled {
            ("Stalled", "Reconciling")
        } else {
            ("Reconciling", "Stalled")
        };
        // What still holds is not taken back: its transition time would move with every try.
        unsay(&mut next.conditions, other);
        self.say(next, kind, Saying::new(true, cause.reason, message));
    }

    /// Names other owners and other tools that want or claim objects of this manifest.
    pub(crate) fn describe_ownership(&self, next: &mut VidraResourceStatus, state: &State) {
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
                unsay(&mut next.conditions, "OwnershipConflict");
                return;
            }
            (false, _) => "ClaimedByOther",
            (true, false) => "DifferentContent",
        };
        let saying = Saying::new(true, reason, listed(&[claimed, contested].concat()));
        self.say(next, "OwnershipConflict", saying);
    }

    pub(crate) fn describe_contention(&self, next: &mut VidraResourceStatus, state: &mut State) {
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
            unsay(&mut next.conditions, "Contended");
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
    pub(crate) fn describe_sight(&self, next: &mut VidraResourceStatus, state: &State) {
        let kinds = state
            .compiled
            .as_ref()
            .map(|compiled| compiled.kinds())
            .unwrap_or_default();
        let blind = if self.controller.follows_events(self.resource) {
            self.controller.blind_among(&kinds)
        } else {
            Vec::new()
        };
        if blind.is_empty() {
            unsay(&mut next.conditions, "Watching");
            return;
        }
        let message = format!("{}; changes are found by the timer only", blind.join("; "));
        self.say(next, "Watching", Saying::new(false, "NotWatched", message));
        let work = Work::reconcile(Trigger::Timer);
        self.controller
            .queue
            .add_after(self.name(), Slot::Look, work, BLIND_POLL);
    }

    pub(crate) fn say(&self, next: &mut VidraResourceStatus, kind: &str, saying: Saying) {
        say(
            &mut next.conditions,
            kind,
            self.resource.metadata.generation.unwrap_or_default(),
            now(),
            saying,
        );
    }
}

/// The first sentences of many, and how many more there are.
fn listed(sentences: &[String]) -> String {
    const SHOWN: usize = 10;
    let shown = sentences.iter().take(SHOWN).cloned().collect::<Vec<_>>();
    let text = shown.join("; ");
    match sentences.len().saturating_sub(SHOWN) {
        0 => text,
        more => format!("{text}; and {more} more"),
    }
}

fn all_good(outcome: &Outcome) -> String {
    match outcome.desired {
        1 => "1 object is as desired".to_owned(),
        count => format!("{count} objects are as desired"),
    }
}
