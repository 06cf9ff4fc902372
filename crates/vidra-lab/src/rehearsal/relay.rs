//! A relay in front of an HTTP server: passes everything on unchanged, and remembers it.

use std::{
    fmt::Write,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context;
use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderName, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use tokio::task::JoinHandle;

/// Bigger than anything that is asked here.
const LARGEST: usize = 64 << 20;

/// What belongs to a connection and not to a message.
const OF_THE_CONNECTION: [HeaderName; 4] = [
    header::HOST,
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::CONTENT_LENGTH,
];

/// One request that passed.
#[derive(Debug, Clone)]
pub(super) struct Passed {
    /// When it came.
    pub(super) at: Instant,
    /// How long the answer took.
    pub(super) took: Duration,
    /// Where to.
    pub(super) path: String,
    /// What was in it.
    pub(super) body: Bytes,
    /// Whether it brought an API token.
    pub(super) is_token: bool,
    /// How it was answered.
    pub(super) status: u16,
}

/// A running relay; ends when it is dropped.
pub(super) struct Relay {
    address: SocketAddr,
    inner: Arc<Inner>,
    task: JoinHandle<()>,
}

struct Inner {
    upstream: String,
    http: reqwest::Client,
    is_open: AtomicBool,
    passed: Mutex<Vec<Passed>>,
}

impl Relay {
    /// Starts a relay to the server at a URL without a slash at its end.
    pub(super) async fn start(upstream: &str) -> anyhow::Result<Self> {
        // Fails if one is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .no_proxy()
            .no_gzip()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .context("cannot make an HTTP client")?;
        let inner = Arc::new(Inner {
            upstream: upstream.to_owned(),
            http,
            is_open: AtomicBool::new(true),
            passed: Mutex::default(),
        });
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let routes = Router::new().fallback(pass).with_state(Arc::clone(&inner));
        let task = tokio::spawn(async move {
            // Ends with the relay.
            let _ = axum::serve(listener, routes).await;
        });
        Ok(Self {
            address,
            inner,
            task,
        })
    }

    /// Where it listens, without a slash at the end.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A closed relay accepts and remembers everything, but passes nothing on.
    pub(super) fn open(&self, is_open: bool) {
        self.inner.is_open.store(is_open, Ordering::SeqCst);
    }

    /// The present end of what has passed.
    pub(super) fn mark(&self) -> usize {
        self.inner.passed().len()
    }

    /// Everything that has been answered after a mark.
    pub(super) fn since(&self, mark: usize) -> Vec<Passed> {
        self.inner.passed().iter().skip(mark).cloned().collect()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Inner {
    fn passed(&self) -> std::sync::MutexGuard<'_, Vec<Passed>> {
        self.passed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn forward(&self, parts: &Parts, body: Bytes) -> reqwest::Result<Response> {
        let path = parts.uri.path_and_query();
        let path = path.map_or("/", |path| path.as_str());
        let answer = self
            .http
            .request(parts.method.clone(), format!("{}{path}", self.upstream))
            .headers(of_the_message(&parts.headers))
            .body(body)
            .send()
            .await?;
        let (status, headers) = (answer.status(), of_the_message(answer.headers()));
        let content = Body::from(answer.bytes().await?);
        Ok((status, headers, content).into_response())
    }
}

async fn pass(State(inner): State<Arc<Inner>>, request: Request) -> Response {
    let at = Instant::now();
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, LARGEST).await.unwrap_or_default();
    let answer = if inner.is_open.load(Ordering::SeqCst) {
        let forwarded = inner.forward(&parts, body.clone()).await;
        forwarded.unwrap_or_else(|_| StatusCode::BAD_GATEWAY.into_response())
    } else {
        StatusCode::NO_CONTENT.into_response()
    };
    inner.passed().push(Passed {
        at,
        took: at.elapsed(),
        path: parts.uri.path().to_owned(),
        body,
        is_token: parts.headers.contains_key("x-infrahub-key"),
        status: answer.status().as_u16(),
    });
    answer
}

fn of_the_message(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in OF_THE_CONNECTION {
        headers.remove(name);
    }
    headers
}

/// What requests to Infrahub are called in reports, by the beginning of their path.
const CALLED: [(&str, &str, &str); 6] = [
    ("/api/auth/login", "login", "logins"),
    ("/api/auth/refresh", "refresh", "refreshes"),
    ("/graphql", "query", "queries"),
    ("/api/query/", "registered query", "registered queries"),
    ("/api/storage/object/", "content", "contents"),
    ("", "other", "others"),
];

/// How many requests were for what.
pub(super) fn counted(passed: &[Passed]) -> String {
    let mut counts = [0_usize; CALLED.len()];
    for one in passed {
        let kind = CALLED.iter().position(|it| one.path.starts_with(it.0));
        counts[kind.unwrap_or(CALLED.len() - 1)] += 1;
    }
    let mut text = String::new();
    let seen = counts.iter().zip(CALLED).filter(|(count, _)| **count > 0);
    for (count, (_, one, several)) in seen {
        let separator = if text.is_empty() { "" } else { ", " };
        let word = if *count == 1 { one } else { several };
        // Writing to a String cannot fail.
        let _ = write!(text, "{separator}{count} {word}");
    }
    if text.is_empty() {
        "nothing".to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_what_they_are_for() {
        let passed = |path: &str| Passed {
            at: Instant::now(),
            took: Duration::ZERO,
            path: path.to_owned(),
            body: Bytes::new(),
            is_token: false,
            status: 200,
        };
        let paths = [
            "/graphql/main",
            "/api/storage/object/1",
            "/api/auth/login",
            "/graphql",
        ];
        let all: Vec<Passed> = paths.into_iter().map(passed).collect();
        assert_eq!(counted(&all), "1 login, 2 queries, 1 content");
        assert_eq!(counted(&[]), "nothing");
    }
}
