//! Infrahub calls in: who it is, and what it wants us to look at.
//!
//! ```text
//!   size ──> time window ──> signature (three spellings) ──> read ──> seen before? ──> Hint
//! ```
//!
//! A webhook is a hint to look, never data: nothing in it is applied, and a lost one costs time.

mod hint;
mod python;
mod replay;

use std::{sync::Mutex, sync::PoisonError, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
pub use hint::Hint;
use hmac::{Hmac, KeyInit, Mac};
use jiff::{SignedDuration, Timestamp};
use python::{Spacing, reserialise};
use replay::Replays;
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

/// A webhook that is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No shared key is configured, so nobody can be recognised.
    #[error("no shared key is configured for webhooks; set one here and in Infrahub")]
    NoKey,
    /// Larger than any webhook of Infrahub.
    #[error("the body is too large for a webhook")]
    TooLarge,
    /// One of the three headers is missing.
    #[error("the webhook is not signed; set a shared key for it in Infrahub")]
    Unsigned,
    /// A header is there, but cannot be read.
    #[error("the webhook's signature headers cannot be read")]
    Unreadable,
    /// Too old, or from the future.
    #[error("the webhook's time is too far from ours; check the clocks")]
    OutsideWindow,
    /// Signed with another key, or changed on the way.
    #[error("the webhook's signature is wrong; compare the shared key here and in Infrahub")]
    WrongSignature,
    /// Too many at once.
    #[error("too many webhooks at once; send it again")]
    Busy,
    /// The signature is right, but the body is no event.
    #[error("the webhook's body is no event; do not transform it")]
    NoEvent,
}

impl Refusal {
    /// The HTTP status that tells it to the sender.
    pub fn status(self) -> u16 {
        match self {
            Self::NoKey => 503,
            Self::Busy => 429,
            Self::TooLarge => 413,
            Self::Unsigned | Self::OutsideWindow | Self::WrongSignature => 401,
            Self::Unreadable | Self::NoEvent => 400,
        }
    }

    /// A bounded label for metrics.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NoKey => "NoKey",
            Self::Busy => "Busy",
            Self::TooLarge => "TooLarge",
            Self::Unsigned => "Unsigned",
            Self::Unreadable => "Unreadable",
            Self::OutsideWindow => "OutsideWindow",
            Self::WrongSignature => "WrongSignature",
            Self::NoEvent => "NoEvent",
        }
    }
}

/// A request as it came in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delivery<'a> {
    /// The header `webhook-id`.
    pub id: Option<&'a str>,
    /// The header `webhook-timestamp`.
    pub timestamp: Option<&'a str>,
    /// The header `webhook-signature`.
    pub signature: Option<&'a str>,
    /// The body, byte by byte.
    pub body: &'a [u8],
}

/// What is accepted.
#[derive(Clone, Debug)]
pub struct Rules {
    /// How far the sender's clock may be from ours.
    pub window: Duration,
    /// The largest body, in bytes.
    pub body_limit: usize,
    /// How many events are remembered.
    pub memory: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            window: Duration::from_mins(5),
            body_limit: 1 << 20,
            memory: 4096,
        }
    }
}

/// What became of an accepted webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// Seen for the first time.
    Fresh(Hint),
    /// Another attempt to deliver an event that we know.
    Repeated,
}

/// Verifies webhooks and remembers them.
#[derive(Debug)]
pub struct Receiver {
    rules: Rules,
    replays: Mutex<Replays>,
}

impl Receiver {
    /// Remembers nothing yet.
    pub fn new(rules: Rules) -> Self {
        let replays = Mutex::new(Replays::new(rules.memory));
        Self { rules, replays }
    }

    /// The largest body, for whoever reads it from the network.
    pub fn body_limit(&self) -> usize {
        self.rules.body_limit
    }

    /// Judges a webhook. Any of the keys will do, so that a key can be changed without a gap.
    pub fn accept(
        &self,
        keys: &[SecretString],
        delivery: &Delivery<'_>,
        now: Timestamp,
    ) -> Result<Accepted, Refusal> {
        verify(keys, delivery, now, &self.rules)?;
        let (event_id, hint) = Hint::read(delivery.body).ok_or(Refusal::NoEvent)?;
        // Each attempt has its own message id, but the event keeps its own.
        let id = event_id.unwrap_or_else(|| delivery.id.unwrap_or_default().to_owned());
        let mut replays = self.replays.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(if replays.is_new(&id) {
            Accepted::Fresh(hint)
        } else {
            Accepted::Repeated
        })
    }
}

/// Whether a request comes from somebody who has one of the keys, now. Pure.
pub fn verify(
    keys: &[SecretString],
    delivery: &Delivery<'_>,
    now: Timestamp,
    rules: &Rules,
) -> Result<(), Refusal> {
    if delivery.body.len() > rules.body_limit {
        return Err(Refusal::TooLarge);
    }
    // An empty key is a key that everybody has.
    let is_key = |key: &&SecretString| !key.expose_secret().is_empty();
    let keys: Vec<_> = keys.iter().filter(is_key).collect();
    if keys.is_empty() {
        return Err(Refusal::NoKey);
    }
    let signed = Signed::read(delivery)?;
    signed.check_time(now, rules.window)?;
    if keys.iter().any(|key| signed.is_by(key)) {
        return Ok(());
    }
    Err(Refusal::WrongSignature)
}

/// The three headers, read.
struct Signed<'a> {
    id: &'a str,
    timestamp: &'a str,
    seconds: i64,
    signatures: Vec<Vec<u8>>,
    body: &'a [u8],
}

impl<'a> Signed<'a> {
    fn read(delivery: &Delivery<'a>) -> Result<Self, Refusal> {
        let (Some(id), Some(timestamp), Some(signature)) =
            (delivery.id, delivery.timestamp, delivery.signature)
        else {
            return Err(Refusal::Unsigned);
        };
        let is_number = !timestamp.is_empty() && timestamp.bytes().all(|b| b.is_ascii_digit());
        let seconds = timestamp.parse().ok().filter(|_| is_number);
        let seconds = seconds.ok_or(Refusal::Unreadable)?;
        // The standard allows several signatures, and others than ours beside them.
        let ours = signature
            .split(' ')
            .filter_map(|one| one.strip_prefix("v1,"));
        let signatures: Vec<_> = ours
            .take(8)
            .filter_map(|one| STANDARD.decode(one).ok())
            .collect();
        if signatures.is_empty() {
            return Err(Refusal::Unreadable);
        }
        Ok(Self {
            id,
            timestamp,
            seconds,
            signatures,
            body: delivery.body,
        })
    }

    fn check_time(&self, now: Timestamp, window: Duration) -> Result<(), Refusal> {
        let sent = Timestamp::from_second(self.seconds).map_err(|_| Refusal::Unreadable)?;
        let window = SignedDuration::try_from(window).unwrap_or(SignedDuration::MAX);
        if now.duration_since(sent).abs() > window {
            return Err(Refusal::OutsideWindow);
        }
        Ok(())
    }

    /// The versions of Infrahub sign different spellings of the body, and not always the one
    /// that they send.
    fn is_by(&self, key: &SecretString) -> bool {
        let matches = |payload: &[u8]| self.matches(key, payload);
        matches(self.body)
            || [Spacing::Compact, Spacing::Python]
                .into_iter()
                .any(|spacing| {
                    reserialise(self.body, spacing)
                        .is_some_and(|payload| matches(payload.as_bytes()))
                })
    }

    fn matches(&self, key: &SecretString, payload: &[u8]) -> bool {
        // HMAC takes keys of every length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key.expose_secret().as_bytes()) else {
            return false;
        };
        for part in [
            self.id.as_bytes(),
            b".",
            self.timestamp.as_bytes(),
            b".",
            payload,
        ] {
            mac.update(part);
        }
        let is_right = |signature: &Vec<u8>| mac.clone().verify_slice(signature).is_ok();
        self.signatures.iter().any(is_right)
    }
}

#[cfg(test)]
mod tests;
