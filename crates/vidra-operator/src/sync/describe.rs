//! Putting a sync into words: its status. Pure, but for the time.

use kube::ResourceExt;
use vidra_api::{
    InfrahubSyncStatus, State as SyncState, SyncedArtifact, VidraResource,
    names::RELEASE_PRUNE_ANNOTATION,
};
use vidra_core::{change::Cause, class::Class};

use super::{
    memory::State,
    outcome::{Delivered, Outcome},
    resource::{complaint, is_ready, state_of},
    turn::Turn,
};
use crate::conditions::{Saying, now, say, unsay};

/// `artifacts` shows at most this many: the status must fit beside everything else.
const SHOWN_ARTIFACTS: usize = 1_000;
/// And at most this many bytes of them: what Infrahub calls its objects is not ours to bound.
const ROOM_FOR_ARTIFACTS: usize = 400 << 10;
/// `checksums` shows at most this many.
const SHOWN_CHECKSUMS: usize = 5_000;

/// How the resources of a sync stand.
#[derive(Default)]
struct Standing {
    total: usize,
    ready: usize,
    failed: Vec<String>,
    suspended: Vec<String>,
}

impl Turn<'_> {
    /// The status that a state amounts to.
    pub(crate) fn describe(&self, state: &State) -> InfrahubSyncStatus {
        let mut next = state.status.clone();
        if let Some(outcome) = &state.outcome {
            put_artifacts(&mut next, outcome);
        }
        self.put_resources(state, &mut next);
        let standing = self.standing(state);
        match self.contention(state) {
            None => unsay(&mut next.conditions, "Contended"),
            Some(message) => {
                let saying = Saying::new(true, "Contended", message);
                self.say(&mut next, "Contended", saying);
            }
        }
        next.observed_generation = self.sync.metadata.generation;
        if let Some(handled) = &state.handled {
            next.last_handled_reconcile_at = Some(handled.clone());
        }
        match (&state.error, &state.outcome) {
            (Some(cause), _) => self.describe_unread(&mut next, cause, &standing),
            (None, Some(outcome)) => self.describe_read(&mut next, outcome, &standing),
            (None, None) => {}
        }
        next
    }

    /// Infrahub could not be read: what was delivered stays.
    fn describe_unread(&self, next: &mut InfrahubSyncStatus, cause: &Cause, standing: &Standing) {
        let source = Saying::new(false, cause.reason, cause.message.clone());
        self.say(next, "SourceReady", source);
        self.describe_not_ready(next, cause);
        next.sync_state = Some(if standing.total > 0 {
            SyncState::Stale
        } else {
            SyncState::Failed
        });
        next.last_error = Some(cause.message.clone());
    }

    fn describe_read(&self, next: &mut InfrahubSyncStatus, outcome: &Outcome, standing: &Standing) {
        self.say(next, "SourceReady", self.source_saying(outcome));
        self.describe_held(next, outcome);
        let problem = outcome.problems().next().cloned();
        let problem = problem.map(|cause| with_count(cause, outcome.problems().count()));
        let Some(cause) = problem.or_else(|| standing.cause(outcome)) else {
            unsay(&mut next.conditions, "Reconciling");
            unsay(&mut next.conditions, "Stalled");
            let saying = Saying::new(true, "Succeeded", all_good(standing.total));
            self.say(next, "Ready", saying);
            next.sync_state = Some(SyncState::Succeeded);
            next.last_error = None;
            return;
        };
        self.describe_not_ready(next, &cause);
        next.sync_state = Some(state_word(outcome, standing));
        let is_failure = next.sync_state != Some(SyncState::Running);
        next.last_error = is_failure.then(|| cause.message.clone());
    }

    fn source_saying(&self, outcome: &Outcome) -> Saying {
        if let Some(unread) = &outcome.unread {
            return Saying::new(false, unread.reason, unread.message.clone());
        }
        let count = outcome.delivered.len();
        let spec = &self.sync.spec.source;
        let noun = if count == 1 { "artifact" } else { "artifacts" };
        let listed = format!(
            "{count} {noun} named {:?} on branch {:?}",
            spec.artifact_name(),
            spec.branch()
        );
        if outcome.is_plaintext {
            let message = format!(
                "{listed}; the connection is not encrypted: credentials and content can be read \
                 and changed on the way, use https"
            );
            return Saying::new(true, "PlainHttp", message);
        }
        Saying::new(true, "Succeeded", listed)
    }

    fn describe_held(&self, next: &mut InfrahubSyncStatus, outcome: &Outcome) {
        let Some(held) = &outcome.held else {
            unsay(&mut next.conditions, "PruneHeld");
            return;
        };
        let names: Vec<&str> = held.objects.iter().map(|key| key.name.as_str()).collect();
        let shown = names
            .iter()
            .take(10)
            .copied()
            .collect::<Vec<_>>()
            .join(", ");
        let message = format!(
            "{} VidraResources of artifacts that are gone are kept ({shown}): {}; to remove them \
             annotate this sync with {RELEASE_PRUNE_ANNOTATION}={}",
            names.len(),
            held.why,
            held.hash
        );
        self.say(next, "PruneHeld", Saying::new(true, "PruneHeld", message));
    }

    fn describe_not_ready(&self, next: &mut InfrahubSyncStatus, cause: &Cause) {
        let message = &cause.message;
        self.say(next, "Ready", Saying::new(false, cause.reason, message));
        let is_stalled = cause.class == Class::Invalid;
        let (kind, other) = if is_stalled {
            ("Stalled", "Reconciling")
        } else {
            ("Reconciling", "Stalled")
        };
        unsay(&mut next.conditions, other);
        self.say(next, kind, Saying::new(true, cause.reason, message));
    }

    /// Says that the sync is paused.
    pub(crate) fn describe_suspended(&self, state: &State) -> InfrahubSyncStatus {
        let mut next = state.status.clone();
        self.put_resources(state, &mut next);
        next.observed_generation = self.sync.metadata.generation;
        let message = "spec.suspend is true: Infrahub is not asked, nothing is changed or removed; \
                       what was delivered is still kept as it is";
        let saying = Saying {
            holds: None,
            reason: "Suspended",
            message: message.to_owned(),
        };
        self.say(&mut next, "Ready", saying);
        unsay(&mut next.conditions, "Reconciling");
        unsay(&mut next.conditions, "Stalled");
        next
    }

    /// Puts in how each resource stands now.
    fn put_resources(&self, state: &State, next: &mut InfrahubSyncStatus) {
        for artifact in &mut next.artifacts {
            let name = artifact.resource.as_ref();
            let state = name.map(|name| state_of(self.newest(state, name).as_deref()));
            artifact.resource_state = state;
        }
    }

    /// How all resources stand, also those that the status has no room for.
    fn standing(&self, state: &State) -> Standing {
        let mut standing = Standing::default();
        let Some(outcome) = &state.outcome else {
            for resource in self.controller.resources.of_sync(&self.uid()) {
                standing.add(&resource.name_any(), Some(&resource));
            }
            return standing;
        };
        let names = outcome
            .delivered
            .iter()
            .filter_map(|it| it.resource.as_ref());
        for name in names {
            standing.add(name, self.newest(state, name).as_deref());
        }
        standing
    }

    fn say(&self, next: &mut InfrahubSyncStatus, kind: &str, saying: Saying) {
        let generation = self.sync.metadata.generation.unwrap_or_default();
        say(&mut next.conditions, kind, generation, now(), saying);
    }
}

impl Standing {
    fn add(&mut self, name: &str, resource: Option<&VidraResource>) {
        self.total += 1;
        let Some(resource) = resource else {
            return;
        };
        if is_ready(resource) {
            self.ready += 1;
        } else if resource.spec.suspend {
            self.suspended.push(name.to_owned());
        } else if state_of(Some(resource)) == SyncState::Failed
            && let Some(complaint) = complaint(resource)
        {
            self.failed.push(format!("{name}: {complaint}"));
        }
    }

    /// Why the sync is not ready, although Infrahub could be read and everything be written.
    fn cause(&self, outcome: &Outcome) -> Option<Cause> {
        if let Some(first) = self.failed.first() {
            let count = self.failed.len();
            let message = format!("{count} of {} VidraResources failed; {first}", self.total);
            return Some(waiting("ResourcesNotReady", message));
        }
        if let Some(first) = self.suspended.first() {
            let count = self.suspended.len();
            let message = format!(
                "{count} of {} VidraResources are suspended and not kept up to date, {first} for \
                 example",
                self.total
            );
            return Some(waiting("ResourcesNotReady", message));
        }
        if self.ready < self.total {
            let open = self.total - self.ready;
            let message = format!("{open} of {} VidraResources are being applied", self.total);
            return Some(waiting("Progressing", message));
        }
        let count = outcome.waiting.len();
        (count > 0).then(|| {
            let message = format!("{count} VidraResources of artifacts that are gone will go next");
            waiting("Progressing", message)
        })
    }
}

fn waiting(reason: &'static str, message: String) -> Cause {
    Cause {
        class: Class::Waiting,
        reason,
        message,
    }
}

fn with_count(cause: Cause, count: usize) -> Cause {
    if count < 2 {
        return cause;
    }
    let message = format!("{} (and {} more)", cause.message, count - 1);
    Cause { message, ..cause }
}

/// The state in one word, when not everything is as it should be.
fn state_word(outcome: &Outcome, standing: &Standing) -> SyncState {
    let mut troubled = outcome.delivered.iter().filter(|it| it.problem.is_some());
    let has_trouble = outcome.problems().next().is_some();
    // What Infrahub could not confirm stays because of Infrahub, and not because of the cluster.
    let is_stuck = outcome.unremoved.is_some() && outcome.unremoved != outcome.unread;
    if has_trouble && !is_stuck && troubled.all(|it| it.resource.is_some()) {
        // What was delivered before is in place, but Infrahub has nothing newer to use.
        return SyncState::Stale;
    }
    if has_trouble || !standing.failed.is_empty() {
        return SyncState::Failed;
    }
    SyncState::Running
}

fn put_artifacts(next: &mut InfrahubSyncStatus, outcome: &Outcome) {
    let mut delivered: Vec<&Delivered> = outcome.delivered.iter().collect();
    delivered.sort_by(|one, other| one.artifact.id.cmp(&other.artifact.id));
    let mut checksums: Vec<String> = delivered
        .iter()
        .filter_map(|it| it.checksum.clone())
        .collect();
    checksums.sort();
    checksums.truncate(SHOWN_CHECKSUMS);
    next.checksums = checksums;
    let mut room = ROOM_FOR_ARTIFACTS;
    next.artifacts = delivered
        .into_iter()
        .take(SHOWN_ARTIFACTS)
        .map(synced)
        .take_while(|shown| {
            let size = size_of_shown(shown);
            let fits = size <= room;
            room = room.saturating_sub(size);
            fits
        })
        .collect();
}

/// About how many bytes an artifact takes in the status.
fn size_of_shown(shown: &SyncedArtifact) -> usize {
    const NAMES_OF_FIELDS: usize = 200;
    let texts = [&shown.name, &shown.target, &shown.checksum, &shown.resource];
    let texts = texts.into_iter().flatten().map(String::len);
    NAMES_OF_FIELDS + shown.id.len() + texts.sum::<usize>()
}

fn synced(delivered: &Delivered) -> SyncedArtifact {
    let artifact = &delivered.artifact;
    let bounded = |text: &str| text.chars().take(200).collect::<String>();
    let target = artifact.target.as_ref();
    let target = target.map(|it| it.display_label.as_deref().unwrap_or(&it.id));
    SyncedArtifact {
        id: bounded(&artifact.id),
        name: Some(bounded(&artifact.name)),
        target: target.map(bounded),
        checksum: delivered.checksum.clone(),
        state: Some(artifact.status.to_string()),
        resource: delivered.resource.clone(),
        resource_state: None,
    }
}

fn all_good(total: usize) -> String {
    match total {
        0 => "Infrahub has no artifacts for this sync, as allowed".to_owned(),
        1 => "1 artifact is delivered and applied".to_owned(),
        total => format!("{total} artifacts are delivered and applied"),
    }
}
