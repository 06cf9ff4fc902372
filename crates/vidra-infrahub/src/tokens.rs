//! The tokens of a login: made once, renewed in time, shared by all calls.
//!
//! ```text
//!   none ──login──> fresh ──time──> due ──refresh──> fresh
//!                     │              └──refused──login──> fresh
//!                     └──401 from a call──login──> fresh
//! ```

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use secrecy::SecretString;
use serde::Deserialize;
use tokio::sync::Mutex;
use vidra_core::class::Class;

use crate::error::Error;

/// How long before its end a token is renewed, at most.
const LONGEST_MARGIN: Duration = Duration::from_mins(1);
/// After a failed renewal, while the old token still works.
const RENEWAL_PAUSE: Duration = Duration::from_secs(5);

/// What a login gives.
pub(crate) struct Granted {
    pub(crate) access: SecretString,
    /// A refresh does not give a new one.
    pub(crate) refresh: Option<SecretString>,
    /// As the access token itself says.
    pub(crate) lifetime: Option<Duration>,
}

/// An access token and which one it is.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) token: SecretString,
    pub(crate) generation: u64,
}

/// How tokens are asked for; the keeper decides when.
pub(crate) trait Issuer {
    /// By user name and password.
    fn login(&self) -> impl Future<Output = Result<Granted, Error>> + Send;
    /// By a refresh token.
    fn refresh(&self, token: &SecretString) -> impl Future<Output = Result<Granted, Error>> + Send;
}

struct Held {
    access: Access,
    refresh: Option<SecretString>,
    /// `None`: the token does not say, so it is used until it is refused.
    renewal: Option<Instant>,
    end: Option<Instant>,
}

#[derive(Default)]
struct State {
    held: Option<Held>,
    generation: u64,
    failure: Option<(Instant, Error)>,
}

/// Keeps the tokens of one session.
pub(crate) struct Keeper {
    /// Held over a login on purpose: whoever comes meanwhile waits for its result.
    state: Mutex<State>,
    attempts: AtomicU64,
    rejection_memory: Duration,
}

impl Keeper {
    pub(crate) fn new(rejection_memory: Duration) -> Self {
        Self {
            state: Mutex::default(),
            attempts: AtomicU64::new(0),
            rejection_memory,
        }
    }

    /// A token that should work; never the one of generation `refused`.
    ///
    /// Times count from `now`, before anything is asked: a token seems to end a bit too early.
    pub(crate) async fn access(
        &self,
        issuer: &impl Issuer,
        refused: Option<u64>,
        now: Instant,
    ) -> Result<Access, Error> {
        let seen = self.attempts.load(Ordering::Acquire);
        let mut state = self.state.lock().await;
        if let Some(access) = usable(state.held.as_ref(), refused, now) {
            return Ok(access);
        }
        let is_news = self.attempts.load(Ordering::Acquire) > seen;
        if let Some(error) = self.recent_failure(&state, is_news, now) {
            return Err(error);
        }
        let result = renew(&mut state, issuer, refused, now).await;
        self.attempts.fetch_add(1, Ordering::AcqRel);
        state.failure = result.as_ref().err().map(|error| (now, error.clone()));
        result
    }

    /// A failure that also counts for this call: it happened while the call waited, or it is a
    /// refusal that another try would only repeat.
    fn recent_failure(&self, state: &State, is_news: bool, now: Instant) -> Option<Error> {
        let (at, error) = state.failure.as_ref()?;
        let is_refusal = matches!(error, Error::CredentialsRejected { .. });
        let is_remembered =
            is_refusal && now.saturating_duration_since(*at) < self.rejection_memory;
        (is_news || is_remembered).then(|| error.clone())
    }
}

fn usable(held: Option<&Held>, refused: Option<u64>, now: Instant) -> Option<Access> {
    let held = held?;
    let is_due = held.renewal.is_some_and(|renewal| renewal <= now);
    let is_refused = refused == Some(held.access.generation);
    (!is_due && !is_refused).then(|| held.access.clone())
}

async fn renew(
    state: &mut State,
    issuer: &impl Issuer,
    refused: Option<u64>,
    now: Instant,
) -> Result<Access, Error> {
    let current = state.held.as_ref().map(|held| held.access.generation);
    if current.is_some()
        && current != refused
        && let Some(result) = refresh(state, issuer, now).await
    {
        return result;
    }
    let granted = issuer.login().await?;
    Ok(keep(state, granted, now))
}

/// `None` where only a login helps.
async fn refresh(
    state: &mut State,
    issuer: &impl Issuer,
    now: Instant,
) -> Option<Result<Access, Error>> {
    let held = state.held.as_mut()?;
    let token = held.refresh.clone()?;
    match issuer.refresh(&token).await {
        Ok(mut granted) => {
            granted.refresh = granted.refresh.or(Some(token));
            Some(Ok(keep(state, granted, now)))
        }
        Err(error) if error.class() == Class::Denied => None,
        // A server that is away for a moment does not make a good token bad.
        Err(_) if held.end.is_some_and(|end| now < end) => {
            held.renewal = Some(now + RENEWAL_PAUSE);
            Some(Ok(held.access.clone()))
        }
        // A login would fail in the same way.
        Err(error) if error.reason() == "InfrahubUnreachable" || error.retry_after().is_some() => {
            Some(Err(error))
        }
        Err(_) => None,
    }
}

fn keep(state: &mut State, granted: Granted, now: Instant) -> Access {
    state.generation += 1;
    let access = Access {
        token: granted.access,
        generation: state.generation,
    };
    state.held = Some(Held {
        access: access.clone(),
        refresh: granted.refresh,
        renewal: granted
            .lifetime
            .map(|lifetime| now + lifetime.saturating_sub(margin(lifetime))),
        end: granted.lifetime.map(|lifetime| now + lifetime),
    });
    access
}

fn margin(lifetime: Duration) -> Duration {
    LONGEST_MARGIN.min(lifetime / 4)
}

#[derive(Deserialize)]
struct Claims {
    exp: i64,
    iat: Option<i64>,
}

/// How long a web token lives, by its own words. Its signature is the server's business.
///
/// Both times are the server's, so their difference is right even if our clocks differ.
pub(crate) fn lifetime(token: &str, now: Timestamp) -> Option<Duration> {
    let payload = token.split('.').nth(1)?;
    let payload = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    let claims: Claims = serde_json::from_slice(&payload).ok()?;
    let seconds = claims
        .exp
        .checked_sub(claims.iat.unwrap_or(now.as_second()))?;
    // More than a year is as good as for ever, and no clock overflows.
    let longest = 366 * 24 * 3600;
    u64::try_from(seconds.min(longest))
        .ok()
        .map(Duration::from_secs)
}

#[cfg(test)]
#[path = "tokens_tests.rs"]
mod tests;
