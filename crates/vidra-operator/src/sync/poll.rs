//! Asking Infrahub, once for all syncs with the same source.
//!
//! A turn may use any answer that was asked for after the turn itself was. Syncs that are due
//! together are due at the same instant, so the first of them asks, for the names of all, and the
//! others find the answer there. What failed is shared in the same way, and tried again together.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::time::Instant;
use vidra_core::schedule::retry_after;
use vidra_infrahub::{Listing, Policy, Session, Sessions};

use super::{
    Controller,
    failure::SyncError,
    source::{Source, names},
};
use crate::{lock, metrics::Asked};

/// How long what is known of a source that nobody asks for is kept.
const FORGOTTEN_AFTER: Duration = Duration::from_hours(1);

/// What Infrahub answered, or why it did not.
pub(crate) struct Polled {
    /// When it was asked.
    asked: Instant,
    /// The names that it was asked for.
    names: BTreeSet<String>,
    /// The answer.
    pub(crate) result: Result<Answer, SyncError>,
    /// When to try again, if that may help.
    pub(crate) retry_at: Option<Instant>,
    failures: u32,
}

impl Polled {
    fn serves(&self, name: &str, asked_at: Instant) -> bool {
        self.asked >= asked_at && self.names.contains(name)
    }
}

/// A complete answer.
#[derive(Clone)]
pub(crate) struct Answer {
    /// Who asked; for what else there is to ask.
    pub(crate) session: Arc<Session>,
    /// The artifacts by name.
    pub(crate) listing: Arc<Listing>,
}

/// A session, and the versions of the Secrets that it was made from.
struct Access {
    versions: (Option<String>, Option<String>),
    policy: Policy,
    session: Arc<Session>,
}

#[derive(Default)]
struct Slot {
    access: Option<Access>,
    last: Option<Arc<Polled>>,
}

/// What is known of each source.
#[derive(Default)]
pub(crate) struct Polls(Mutex<HashMap<Source, Arc<tokio::sync::Mutex<Slot>>>>);

impl Polls {
    fn slot(&self, source: &Source) -> Arc<tokio::sync::Mutex<Slot>> {
        let mut slots = lock(&self.0);
        slots.retain(|_, slot| !is_forgotten(slot));
        slots.entry(source.clone()).or_default().clone()
    }
}

fn is_forgotten(slot: &tokio::sync::Mutex<Slot>) -> bool {
    let Ok(slot) = slot.try_lock() else {
        return false;
    };
    let last = slot.last.as_ref();
    last.is_some_and(|last| last.asked.elapsed() > FORGOTTEN_AFTER)
}

impl Controller {
    /// The answer for a name that was asked for at `asked_at` or later.
    pub(crate) async fn poll(&self, source: &Source, name: &str, asked_at: Instant) -> Arc<Polled> {
        let slot = self.polls.slot(source);
        let mut slot = slot.lock().await;
        let known = slot.last.clone();
        if let Some(known) = known.filter(|known| known.serves(name, asked_at)) {
            return known;
        }
        let polled = Arc::new(self.ask(source, name, &mut slot).await);
        slot.last = Some(polled.clone());
        polled
    }

    async fn ask(&self, source: &Source, name: &str, slot: &mut Slot) -> Polled {
        let asked = Instant::now();
        let settings = self.settings.get();
        let syncs = lock(&self.syncs).clone();
        let secrets = self.secrets.get();
        let mut names = names(source, &syncs, secrets.as_deref(), &settings.namespace);
        names.insert(name.to_owned());
        let result = self.list(source, &names, slot).await;
        let outcome = result
            .as_ref()
            .map_or_else(SyncError::reason, |_| "Succeeded");
        self.metrics.polls.get_or_create(&Asked { outcome }).inc();
        let failures = match (&result, &slot.last) {
            (Ok(_), _) => 0,
            (Err(_), known) => known.as_ref().map_or(0, |known| known.failures) + 1,
        };
        let retry_at = result.as_ref().err().and_then(|error| {
            let chance = self.chance(source.address.origin().host());
            let wish = retry_after(error.class(), failures, chance);
            Some(asked + wish?.max(error.retry_after().unwrap_or_default()))
        });
        Polled {
            asked,
            names,
            result,
            retry_at,
            failures,
        }
    }

    async fn list(
        &self,
        source: &Source,
        names: &BTreeSet<String>,
        slot: &mut Slot,
    ) -> Result<Answer, SyncError> {
        let session = self.access(source, slot).await?;
        let query = self.settings.get().query_name.clone();
        let listing = session
            .list_artifacts(&source.view(), names, Some(&query))
            .await?;
        Ok(Answer {
            session,
            listing: Arc::new(listing),
        })
    }

    /// The session of a source, made anew only if a Secret or a limit has changed.
    async fn access(&self, source: &Source, slot: &mut Slot) -> Result<Arc<Session>, SyncError> {
        let secrets = self.secrets.get().unwrap_or_default();
        let version = |name: &String| secrets.get(name).map(|facts| facts.version.clone());
        let authority = source.authority.as_ref();
        let versions = (
            source.secret.as_ref().and_then(version),
            authority.and_then(|(name, _)| version(name)),
        );
        let policy = self.policy();
        if let Some(access) = &slot.access
            && access.versions == versions
            && access.policy == policy
        {
            return Ok(access.session.clone());
        }
        let session = self.open(source).await?;
        slot.access = Some(Access {
            versions,
            policy,
            session: session.clone(),
        });
        Ok(session)
    }

    async fn open(&self, source: &Source) -> Result<Arc<Session>, SyncError> {
        let mut credentials = vidra_infrahub::Credentials::Anonymous;
        if let Some(name) = &source.secret {
            let keys = self.read_credentials(name, source.address.origin()).await?;
            credentials = keys.credentials;
            self.hints.learn(name, keys.webhook);
        }
        let bundle = match &source.authority {
            None => None,
            Some((name, key)) => Some(self.read_bundle(name, key).await?),
        };
        let sessions = self.sessions();
        Ok(sessions.session(&source.address, &credentials, bundle.as_deref())?)
    }

    /// The limits that are configured now.
    fn policy(&self) -> Policy {
        let settings = self.settings.get();
        Policy {
            downloads: settings.downloads,
            content_limit: settings.largest_artifact,
            ..Policy::default()
        }
    }

    fn sessions(&self) -> Arc<Sessions> {
        let policy = self.policy();
        let mut known = lock(&self.sessions);
        match &*known {
            Some((of, sessions)) if *of == policy => sessions.clone(),
            _ => {
                let sessions = Arc::new(Sessions::new(policy.clone()));
                *known = Some((policy, sessions.clone()));
                sessions
            }
        }
    }
}
