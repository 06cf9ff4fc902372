//! Things that go wrong on purpose.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    io::{self, Read},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::Response,
};
use flate2::{Compression, write::GzEncoder};
use futures::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::{journal::Ticket, respond};

/// Which of the matching calls a fault hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// All of them.
    #[default]
    Every,
    /// The first so many.
    First(usize),
    /// Only this one, counted from one.
    Nth(usize),
    /// All after the first so many.
    After(usize),
}

impl When {
    fn hits(self, call: usize) -> bool {
        match self {
            Self::Every => true,
            Self::First(count) => call <= count,
            Self::Nth(wanted) => call == wanted,
            Self::After(count) => call > count,
        }
    }
}

/// What happens to a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Effect {
    /// This answer instead of the real one. Headers are given by name.
    Answer {
        /// HTTP status.
        status: u16,
        /// The body, any text.
        #[serde(default)]
        body: String,
        /// Headers, by name.
        #[serde(default)]
        headers: BTreeMap<String, String>,
    },
    /// The real answer, later.
    Delay {
        /// How much later.
        milliseconds: u64,
    },
    /// No answer, until the client gives up.
    Hang,
    /// The real answer, one byte at a time.
    Drip {
        /// The pause before each byte.
        milliseconds: u64,
    },
    /// The real headers, the beginning of the body, then the connection is cut.
    Truncate {
        /// How many bytes of the body are sent.
        bytes: usize,
    },
    /// The real status and headers with this content: what a broken proxy or disk would serve.
    Content {
        /// The content to send instead.
        body: String,
    },
    /// The real headers, then so many bytes, without a length that would warn the client.
    Oversized {
        /// How many bytes are sent.
        bytes: u64,
    },
    /// The real headers, then so many bytes, compressed: little on the way, a lot when unpacked.
    Packed {
        /// How many bytes it unpacks to.
        bytes: u64,
    },
    /// The real answer, after all tokens that logins gave out have become invalid.
    Expire,
    /// Somewhere else.
    Redirect {
        /// 301, 302, 303, 307 or 308.
        status: u16,
        /// Where to, relative or with an origin of its own.
        location: String,
    },
}

/// A fault: where, when, what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Only calls with this method; all methods if absent.
    #[serde(default)]
    pub method: Option<String>,
    /// Only calls whose path begins like this.
    pub path: String,
    /// Which of those calls.
    #[serde(default)]
    pub when: When,
    /// What happens to them.
    pub effect: Effect,
}

impl Fault {
    /// A fault for every call whose path begins with `path`.
    pub fn on(path: &str, effect: Effect) -> Self {
        Self {
            method: None,
            path: path.to_owned(),
            when: When::Every,
            effect,
        }
    }

    /// Answers every such call with a status and a text.
    pub fn status(path: &str, status: u16, body: &str) -> Self {
        let (body, headers) = (body.to_owned(), BTreeMap::new());
        Self::on(
            path,
            Effect::Answer {
                status,
                body,
                headers,
            },
        )
    }

    /// Only for calls with this method.
    #[must_use]
    pub fn method(mut self, method: &str) -> Self {
        self.method = Some(method.to_owned());
        self
    }

    /// Only for some of the calls.
    #[must_use]
    pub fn when(mut self, when: When) -> Self {
        self.when = when;
        self
    }

    fn matches(&self, method: &str, path: &str) -> bool {
        let is_method = self
            .method
            .as_ref()
            .is_none_or(|one| one.eq_ignore_ascii_case(method));
        is_method && path.starts_with(&self.path)
    }
}

/// A fault and how many calls matched it so far.
#[derive(Clone, Debug)]
pub(super) struct Armed {
    pub(super) id: u64,
    pub(super) fault: Fault,
    pub(super) calls: usize,
}

/// Counts the call for all faults that match it; the first that hits decides.
pub(super) fn strike(faults: &mut [Armed], method: &str, path: &str) -> Option<Effect> {
    let mut effect = None;
    for armed in faults
        .iter_mut()
        .filter(|armed| armed.fault.matches(method, path))
    {
        armed.calls += 1;
        if effect.is_none() && armed.fault.when.hits(armed.calls) {
            effect = Some(armed.fault.effect.clone());
        }
    }
    effect
}

/// Does `effect` to a call; `real` makes the real answer, if it is needed.
pub(super) async fn apply(
    effect: Effect,
    real: impl Future<Output = Response>,
    ticket: Ticket,
) -> (Response, Option<Ticket>) {
    match effect {
        Effect::Answer {
            status,
            body,
            headers,
        } => (answer(status, body, &headers), Some(ticket)),
        Effect::Delay { milliseconds } => {
            sleep(Duration::from_millis(milliseconds)).await;
            (real.await, Some(ticket))
        }
        Effect::Hang => std::future::pending().await,
        Effect::Drip { milliseconds } => (drip(real.await, milliseconds, ticket).await, None),
        Effect::Truncate { bytes } => (truncate(real.await, bytes).await, Some(ticket)),
        Effect::Content { body } => {
            let (mut head, _) = real.await.into_parts();
            head.headers.remove(header::CONTENT_LENGTH);
            (Response::from_parts(head, Body::from(body)), Some(ticket))
        }
        Effect::Oversized { bytes } => (oversized(real.await, bytes, ticket), None),
        Effect::Packed { bytes } => (packed(real.await, bytes), Some(ticket)),
        // The tokens are the server's to change, and it has.
        Effect::Expire => (real.await, Some(ticket)),
        Effect::Redirect { status, location } => {
            let headers = BTreeMap::from([("location".to_owned(), location)]);
            (answer(status, String::new(), &headers), Some(ticket))
        }
    }
}

fn answer(status: u16, body: String, headers: &BTreeMap<String, String>) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = respond::bare(status, body);
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// Head and whole body of an answer of our own; those are small and cannot fail.
async fn take_apart(response: Response) -> (axum::http::response::Parts, Bytes) {
    let (head, body) = response.into_parts();
    (
        head,
        axum::body::to_bytes(body, usize::MAX)
            .await
            .unwrap_or_default(),
    )
}

async fn drip(response: Response, milliseconds: u64, ticket: Ticket) -> Response {
    let (mut head, bytes) = take_apart(response).await;
    head.headers
        .insert(header::CONTENT_LENGTH, HeaderValue::from(bytes.len()));
    let pieces = stream::iter(0..bytes.len()).then(move |index| {
        let (piece, _ticket) = (bytes.slice(index..=index), &ticket);
        async move {
            sleep(Duration::from_millis(milliseconds)).await;
            Ok::<_, Infallible>(piece)
        }
    });
    Response::from_parts(head, Body::from_stream(pieces))
}

async fn truncate(response: Response, keep: usize) -> Response {
    let (mut head, bytes) = take_apart(response).await;
    // Where nothing would be cut off, the length is made to lie.
    let claimed = bytes.len().max(keep + 1);
    head.headers
        .insert(header::CONTENT_LENGTH, HeaderValue::from(claimed));
    let kept = bytes.slice(..keep.min(bytes.len()));
    let pieces =
        stream::iter([Ok(kept), Err(io::Error::other("cut on purpose"))]).then(|piece| async {
            // Two pieces at once would be dropped together: the client shall see the beginning.
            sleep(Duration::from_millis(20)).await;
            piece
        });
    Response::from_parts(head, Body::from_stream(pieces))
}

fn packed(response: Response, bytes: u64) -> Response {
    let (mut head, _) = response.into_parts();
    head.headers.remove(header::CONTENT_LENGTH);
    let gzip = HeaderValue::from_static("gzip");
    head.headers.insert(header::CONTENT_ENCODING, gzip);
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    // Writing into memory cannot fail; if it did, the answer would be short, which tests notice.
    let _ = io::copy(&mut io::repeat(b'#').take(bytes), &mut packer);
    let body = packer.finish().unwrap_or_default();
    Response::from_parts(head, Body::from(body))
}

fn oversized(response: Response, bytes: u64, ticket: Ticket) -> Response {
    const PIECE: &[u8] = &[b'#'; 16 * 1024];
    let (mut head, _) = response.into_parts();
    head.headers.remove(header::CONTENT_LENGTH);
    let full = bytes / PIECE.len() as u64;
    let rest = usize::try_from(bytes % PIECE.len() as u64).unwrap_or(0);
    let pieces = stream::iter(0..full)
        .map(|_| PIECE.len())
        .chain(stream::iter(Some(rest).filter(|rest| *rest > 0)))
        .map(move |length| {
            let _ticket = &ticket;
            Ok::<_, Infallible>(Bytes::from_static(&PIECE[..length]))
        });
    Response::from_parts(head, Body::from_stream(pieces))
}
