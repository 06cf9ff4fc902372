//! What the operator remembers of each sync between turns.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::time::Instant;
use vidra_api::{InfrahubSyncStatus, VidraResource};
use vidra_core::{change::Cause, class::Class, delivery::is_usable_id, fight::Fight};
use vidra_infrahub::{Artifact, Trust, trust};

use super::{failure::SyncError, outcome::Outcome};
use crate::{known::Known, lock};

/// Removals within this time count as one: a thousand small ones are a large one.
const LATELY: Duration = Duration::from_hours(1);
/// How far behind the watch may be.
const LONGEST_DELAY: Duration = Duration::from_secs(5);

/// The state of a sync; only its turn may touch it.
#[derive(Default)]
pub(crate) struct State {
    /// The uid of the sync: a new one under the old name starts afresh.
    pub(crate) uid: String,
    /// The status as last written or read.
    pub(crate) status: InfrahubSyncStatus,
    /// What the last complete sync came to.
    pub(crate) outcome: Option<Outcome>,
    /// Why the last sync could not be done.
    pub(crate) error: Option<Cause>,
    /// Resources that somebody takes away again and again.
    pub(crate) fights: BTreeMap<String, Fight>,
    /// The request that was handled last.
    pub(crate) handled: Option<String>,
    /// When the status was last written.
    pub(crate) reported: Option<Instant>,
    /// How often in a row the status could not be written.
    pub(crate) unwritten: u32,
    /// Failures in a row that are this sync's own.
    pub(crate) failures: u32,
    /// How many objects went with resources that were removed, and when.
    removals: Vec<(Instant, usize)>,
    /// Resources that were written a moment ago.
    pub(crate) written: Vec<Written>,
    /// Content that cannot be delivered, by artifact: its checksum and why.
    refused: BTreeMap<String, (String, Cause)>,
}

impl State {
    /// What is known of a sync before its first turn.
    pub(crate) fn of(uid: String, status: InfrahubSyncStatus) -> Self {
        Self {
            uid,
            status,
            ..Self::default()
        }
    }

    /// Notes that so many objects went.
    pub(crate) fn note_removal(&mut self, count: usize) {
        self.removals.retain(|(at, _)| at.elapsed() < LATELY);
        self.removals.push((Instant::now(), count));
    }

    /// How many objects went of late.
    pub(crate) fn removed_of_late(&self) -> usize {
        let removals = self.removals.iter();
        let lately = removals.filter(|(at, _)| at.elapsed() < LATELY);
        lately.map(|(_, count)| count).sum()
    }

    /// Why content cannot be delivered, if it is still the same.
    pub(crate) fn refusal(&self, artifact: &str, checksum: Option<&str>) -> Option<&Cause> {
        let (refused, cause) = self.refused.get(artifact)?;
        (Some(refused.as_str()) == checksum).then_some(cause)
    }

    /// Why an artifact was not delivered, and remembers what only other content can mend.
    pub(crate) fn problem_of(
        &mut self,
        artifact: &Artifact,
        error: Option<SyncError>,
    ) -> Option<Cause> {
        let checksum = match trust(artifact) {
            Trust::Untrusted(why) => return Some(untrusted(artifact, &why)),
            Trust::Trusted { checksum, .. } => checksum,
        };
        if !is_usable_id(&artifact.id) {
            let id = artifact.id.chars().take(80).collect();
            return Some(SyncError::UnusableId { id }.cause());
        }
        let Some(error) = error else {
            return self.refusal(&artifact.id, Some(&checksum)).cloned();
        };
        let cause = Cause {
            message: format!("artifact {}: {error}", called(artifact)),
            ..error.cause()
        };
        if error.is_of_content() {
            let refusal = (checksum, cause.clone());
            self.refused.insert(artifact.id.clone(), refusal);
        }
        Some(cause)
    }

    /// Forgets refusals of artifacts that are not listed any more.
    pub(crate) fn forget_refusals(&mut self) {
        let outcome = self.outcome.as_ref();
        let listed = outcome.iter().flat_map(|outcome| &outcome.delivered);
        let listed: Vec<&String> = listed.map(|it| &it.artifact.id).collect();
        self.refused.retain(|id, _| listed.contains(&id));
    }
}

fn untrusted(artifact: &Artifact, why: &vidra_infrahub::Untrusted) -> Cause {
    Cause {
        class: Class::Waiting,
        reason: why.reason(),
        message: format!("artifact {}: {why}", called(artifact)),
    }
}

/// How people know an artifact: by what it was rendered for, and by its id.
fn called(artifact: &Artifact) -> String {
    let id: String = artifact.id.chars().take(80).collect();
    let target = artifact.target.as_ref();
    match target.and_then(|target| target.display_label.as_deref()) {
        None => id,
        Some(label) => {
            let label: String = label
                .chars()
                .filter(|it| !it.is_control())
                .take(80)
                .collect();
            format!("of {label:?} ({id})")
        }
    }
}

/// A resource as it was written. The watch may be behind, and what was written must not be written
/// again because of that.
pub(crate) struct Written {
    /// What the API server returned.
    pub(crate) resource: Arc<VidraResource>,
    at: Instant,
}

impl Written {
    /// It was written just now.
    pub(crate) fn now(resource: VidraResource) -> Self {
        Self {
            resource: Arc::new(resource),
            at: Instant::now(),
        }
    }

    /// Whether the watch has not come so far yet. That is not believed for ever: a list that begins
    /// the watch anew does not show what ended before it.
    pub(crate) fn is_unseen(&self, known: &Known) -> bool {
        self.at.elapsed() < LONGEST_DELAY && !known.has_come_to(&self.resource)
    }
}

/// All syncs' states.
#[derive(Default)]
pub(crate) struct Memory(Mutex<HashMap<String, Arc<tokio::sync::Mutex<State>>>>);

impl Memory {
    /// The state of a sync, made if it is new.
    pub(crate) fn of(&self, name: &str) -> Arc<tokio::sync::Mutex<State>> {
        lock(&self.0).entry(name.to_owned()).or_default().clone()
    }

    /// Forgets a sync that is gone.
    pub(crate) fn forget(&self, name: &str) {
        lock(&self.0).remove(name);
    }
}
