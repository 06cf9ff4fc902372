//! Infrahub calls in: which syncs should look now. A hint is never data, and a flood of hints is
//! one early poll.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::Timestamp;
use secrecy::SecretString;
use tokio::time::Instant;
use tracing::debug;
use vidra_api::InfrahubSync;
use vidra_core::trigger::Trigger;
use vidra_infrahub::{
    TargetDate,
    webhook::{Accepted, Delivery, Hint, Receiver, Refusal, Rules, verify},
};

use super::{Controller, resource::artifact_of, source::Source};
use crate::{
    known::sync_owners,
    lock,
    queue::{Slot, Work},
};

/// After a hint was followed, further ones wait this long and are followed together.
const CALM: Duration = Duration::from_millis(500);

/// Who may call in, and who has just been heard.
pub(crate) struct Hints {
    receiver: Receiver,
    rules: Rules,
    /// The keys by the Secret that they are in.
    keys: Mutex<BTreeMap<String, SecretString>>,
    /// When each sync last followed a hint.
    followed: Mutex<HashMap<String, Instant>>,
}

impl Default for Hints {
    fn default() -> Self {
        Self {
            receiver: Receiver::new(Rules::default()),
            rules: Rules::default(),
            keys: Mutex::default(),
            followed: Mutex::default(),
        }
    }
}

impl Hints {
    /// The largest body that is read.
    pub(crate) fn body_limit(&self) -> usize {
        self.rules.body_limit
    }

    /// Refuses what cannot be right whatever its body is: no key, no signature, another time.
    pub(crate) fn precheck(&self, delivery: &Delivery<'_>) -> Result<(), Refusal> {
        let keys: Vec<SecretString> = lock(&self.keys).values().cloned().collect();
        match verify(&keys, delivery, Timestamp::now(), &self.rules) {
            // Only the body is still to be checked.
            Ok(()) | Err(Refusal::WrongSignature) => Ok(()),
            Err(refusal) => Err(refusal),
        }
    }

    /// Takes the key that a Secret holds now.
    pub(crate) fn learn(&self, secret: &str, key: Option<SecretString>) {
        let mut keys = lock(&self.keys);
        match key {
            Some(key) => keys.insert(secret.to_owned(), key),
            None => keys.remove(secret),
        };
    }

    /// Judges a call: what it hints at, and the Secrets whose key it was signed with.
    fn judge(
        &self,
        delivery: &Delivery<'_>,
        now: Timestamp,
    ) -> Result<(Accepted, BTreeSet<String>), Refusal> {
        let keys = lock(&self.keys).clone();
        let all: Vec<SecretString> = keys.values().cloned().collect();
        let accepted = self.receiver.accept(&all, delivery, now)?;
        let signed = keys.into_iter().filter(|(_, key)| {
            verify(std::slice::from_ref(key), delivery, now, &self.rules).is_ok()
        });
        Ok((accepted, signed.map(|(secret, _)| secret).collect()))
    }

    /// When a sync may follow a hint that came now.
    fn when(&self, name: &str, now: Instant) -> Instant {
        let mut followed = lock(&self.followed);
        followed.retain(|_, at| *at + CALM > now);
        let at = match followed.get(name) {
            None => now,
            // It is planned already, and will see what this hint is about as well.
            Some(planned) if *planned > now => *planned,
            Some(last) => (*last + CALM).max(now),
        };
        followed.insert(name.to_owned(), at);
        at
    }
}

impl Controller {
    /// Takes a call; answers how many syncs look because of it.
    pub(crate) fn take_call(&self, delivery: &Delivery<'_>) -> Result<usize, Refusal> {
        let (accepted, secrets) = self.hints.judge(delivery, Timestamp::now())?;
        let Accepted::Fresh(hint) = accepted else {
            return Ok(0);
        };
        let names = self.concerned(&hint, &secrets);
        debug!(
            event = hint.event,
            syncs = names.len(),
            "Infrahub called in"
        );
        // One instant for all, so that one answer serves all.
        let now = Instant::now();
        for name in &names {
            let at = self.hints.when(name, now);
            let work = Work::reconcile(Trigger::Webhook);
            self.queue.add_at(name, Slot::Hint, work, at);
        }
        Ok(names.len())
    }

    /// The syncs that a hint concerns.
    fn concerned(&self, hint: &Hint, secrets: &BTreeSet<String>) -> Vec<String> {
        let syncs = lock(&self.syncs).clone();
        let sources = self.sources();
        let near: Vec<(&String, &Arc<InfrahubSync>)> = syncs
            .iter()
            .filter(|(name, sync)| {
                let source = sources.get(*name).and_then(|it| it.as_ref().ok());
                !sync.spec.suspend && source.is_some_and(|it| may_concern(hint, it, secrets))
            })
            .collect();
        let owners = self.owners_of(hint);
        let exact = near.iter().filter(|(name, _)| owners.contains(*name));
        let exact: Vec<String> = exact.map(|(name, _)| (*name).clone()).collect();
        if !exact.is_empty() {
            return exact;
        }
        near.into_iter().map(|(name, _)| name.clone()).collect()
    }
}

impl Controller {
    /// The syncs that have a resource of the artifact that a hint is about.
    fn owners_of(&self, hint: &Hint) -> BTreeSet<String> {
        let Some(id) = &hint.artifact_id else {
            return BTreeSet::new();
        };
        let resources = self.resources.all();
        let made = resources.iter().filter(|it| artifact_of(it) == *id);
        made.flat_map(|resource| sync_owners(resource))
            .map(|owner| owner.name.clone())
            .collect()
    }

    /// Forgets the keys of Secrets that are gone.
    pub(crate) fn forget_keys(&self) {
        let secrets = self.secrets.get().unwrap_or_default();
        lock(&self.hints.keys).retain(|secret, _| secrets.contains_key(secret));
    }
}

/// Whether what a hint is about can be seen in a source at all.
fn may_concern(hint: &Hint, source: &Source, secrets: &BTreeSet<String>) -> bool {
    let is_signed = source
        .secret
        .as_ref()
        .is_some_and(|it| secrets.contains(it));
    let is_pinned = matches!(source.date, Some(TargetDate::Fixed { .. }));
    // What is not about an artifact, a merge above all, changes artifacts on other branches.
    let is_elsewhere = hint.is_about_an_artifact()
        && hint
            .branch
            .as_ref()
            .is_some_and(|branch| *branch != source.branch);
    is_signed && !is_pinned && !is_elsewhere
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_hint_is_followed_at_once_and_a_flood_after_it_once_more() {
        let hints = Hints::default();
        let start = Instant::now();
        assert_eq!(hints.when("a", start), start);
        let second = hints.when("a", start + Duration::from_millis(10));
        assert_eq!(second, start + CALM);
        for more in 20..450 {
            let at = hints.when("a", start + Duration::from_millis(more));
            assert_eq!(at, second, "{more}");
        }
        assert_eq!(hints.when("b", start), start, "another sync is not held up");
    }
}
