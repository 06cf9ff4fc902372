//! What was asked of the stand-in, so that tests can count it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::http::{HeaderMap, Method, Uri};
use serde::Serialize;

use super::{identity::Presented, lock, shared::Shared, text::percent_decode};

/// Which credential a request brought; a request may bring both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Authorization {
    /// None, or one that counts as none.
    Anonymous,
    /// A bearer token.
    Bearer,
    /// The header `X-INFRAHUB-KEY`.
    ApiToken,
    /// The cookie `access_token`.
    Cookie,
}

/// One request.
#[derive(Clone, Debug, Serialize)]
pub struct Call {
    /// The HTTP method.
    pub method: String,
    /// The path, percent-decoded.
    pub path: String,
    /// The query string as sent, without the question mark.
    pub query: String,
    /// The headers, names in lower case. Values are kept, credentials included: this is a lab.
    pub headers: Vec<(String, String)>,
    /// The credential that counts.
    pub authorization: Authorization,
    /// The status that was answered; `None` while the answer is pending.
    pub status: Option<u16>,
}

impl Call {
    pub(super) fn of(method: &Method, uri: &Uri, headers: &HeaderMap) -> Self {
        let presented = Presented::of(headers);
        let authorization = match (&presented.api_token, &presented.bearer) {
            (Some(_), _) => Authorization::ApiToken,
            (None, Some(_)) => Authorization::Bearer,
            (None, None) if presented.jwt("access_token").is_some() => Authorization::Cookie,
            (None, None) => Authorization::Anonymous,
        };
        let text = |value: &axum::http::HeaderValue| {
            String::from_utf8_lossy(value.as_bytes()).into_owned()
        };
        Self {
            method: method.to_string(),
            path: percent_decode(uri.path()),
            query: uri.query().unwrap_or_default().to_owned(),
            headers: headers
                .iter()
                .map(|(name, value)| (name.to_string(), text(value)))
                .collect(),
            authorization,
            status: None,
        }
    }

    /// The value of a header, by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
}

/// All requests so far, and how many were in work at the same time.
#[derive(Debug, Default)]
pub(super) struct Journal {
    pub(super) calls: Vec<Call>,
    /// Grows with every clearing, so that an answer does not mark a call of a later life.
    generation: usize,
    in_flight: Arc<AtomicUsize>,
    pub(super) max_in_flight: usize,
}

impl Journal {
    pub(super) fn clear(&mut self) {
        self.calls.clear();
        self.generation += 1;
        self.max_in_flight = self.in_flight.load(Ordering::SeqCst);
    }
}

/// Finds a call again in the journal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    index: usize,
    generation: usize,
}

/// A call in work; ends when it is dropped.
pub(super) struct Ticket {
    pub(super) mark: Mark,
    in_flight: Arc<AtomicUsize>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Shared {
    pub(super) fn begin(&self, call: Call) -> Ticket {
        let mut journal = lock(&self.journal);
        journal.calls.push(call);
        let in_flight = Arc::clone(&journal.in_flight);
        let current = in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        journal.max_in_flight = journal.max_in_flight.max(current);
        let mark = Mark {
            index: journal.calls.len() - 1,
            generation: journal.generation,
        };
        Ticket { mark, in_flight }
    }

    pub(super) fn note_status(&self, mark: Mark, status: u16) {
        let mut journal = lock(&self.journal);
        if journal.generation == mark.generation {
            journal.calls[mark.index].status = Some(status);
        }
    }
}
