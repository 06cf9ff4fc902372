//! What can happen to a request, and when.

use std::{fmt, sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, Response, StatusCode},
};
use futures::TryStreamExt;
use tokio::sync::watch;

/// Called on a thread where blocking is fine; the request waits for its end.
pub type Callback = Arc<dyn Fn() + Send + Sync>;

/// When something happens to a request.
#[derive(Clone)]
pub enum Fault {
    /// Before it is forwarded.
    Request(Effect),
    /// When the API server has done it, before the client hears of it.
    Reply(Effect),
    /// Before each piece of the reply's body, that is before each event of a watch. The head of
    /// the reply passes.
    Piece(Effect),
    /// A moment after the last byte of the reply went to the client.
    Afterwards(Callback),
}

/// What happens to a request.
#[derive(Clone)]
pub enum Effect {
    /// The callback is called, then the connection is cut. For killing the client.
    Call(Callback),
    /// The connection is cut.
    Cut,
    /// It takes longer.
    Delay(Duration),
    /// It waits while the gate is closed.
    Hold(Gate),
    /// The client gets this answer instead. In the midst of a reply it is too late for that, and
    /// the connection is cut.
    Answer {
        /// HTTP status.
        status: u16,
        /// Headers, for example `retry-after`.
        headers: Vec<(String, String)>,
        /// Body.
        body: String,
    },
}

/// A gate that tests open and close; all clones are one gate.
#[derive(Clone, Debug)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    /// A gate that is open.
    pub fn opened() -> Self {
        Self(Arc::new(watch::Sender::new(true)))
    }

    /// A gate that is closed.
    pub fn closed() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Lets pass what waits and what comes.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// Holds what comes.
    pub fn close(&self) {
        self.0.send_replace(false);
    }

    async fn pass(&self) {
        // The sender lives as long as `self`.
        let _ = self.0.subscribe().wait_for(|is_open| *is_open).await;
    }
}

/// The end of a connection, on purpose or because the API server is away.
#[derive(Debug)]
pub(super) struct Cut;

impl fmt::Display for Cut {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the fault proxy cuts the connection")
    }
}

impl std::error::Error for Cut {}

impl Fault {
    pub(super) fn at_request(&self) -> Option<&Effect> {
        match self {
            Self::Request(effect) => Some(effect),
            _ => None,
        }
    }

    pub(super) fn at_reply(&self) -> Option<&Effect> {
        match self {
            Self::Reply(effect) => Some(effect),
            _ => None,
        }
    }

    /// The body with what happens to it on its way.
    pub(super) fn spoil(self, body: Body) -> Body {
        match self {
            Self::Request(_) | Self::Reply(_) => body,
            Self::Piece(effect) => {
                let pieces = body.into_data_stream().map_err(|_| Cut);
                Body::from_stream(pieces.and_then(move |piece| {
                    let effect = effect.clone();
                    async move {
                        match effect.happen().await? {
                            None => Ok(piece),
                            Some(_) => Err(Cut),
                        }
                    }
                }))
            }
            Self::Afterwards(callback) => {
                let end = AtEnd(callback);
                let pieces = body.into_data_stream();
                Body::from_stream(pieces.inspect_ok(move |_| {
                    let _ = &end;
                }))
            }
        }
    }
}

impl Effect {
    /// Lets it happen; answers what the client gets instead, if anything.
    pub(super) async fn happen(&self) -> Result<Option<Response<Body>>, Cut> {
        match self {
            Self::Call(callback) => {
                call(callback.clone()).await;
                Err(Cut)
            }
            Self::Cut => Err(Cut),
            Self::Delay(duration) => {
                tokio::time::sleep(*duration).await;
                Ok(None)
            }
            Self::Hold(gate) => {
                gate.pass().await;
                Ok(None)
            }
            Self::Answer {
                status,
                headers,
                body,
            } => answer(*status, headers, body).map(Some),
        }
    }
}

async fn call(callback: Callback) {
    // A panic in a callback has been told on stderr; the connection is cut either way.
    let _ = tokio::task::spawn_blocking(move || callback()).await;
}

fn answer(status: u16, headers: &[(String, String)], body: &str) -> Result<Response<Body>, Cut> {
    let mut response = Response::new(Body::from(body.to_owned()));
    *response.status_mut() = StatusCode::from_u16(status).map_err(|_| Cut)?;
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| Cut)?;
        let value = HeaderValue::from_str(value).map_err(|_| Cut)?;
        response.headers_mut().insert(name, value);
    }
    Ok(response)
}

/// The server drops a body when its last byte is in the output buffer, which it then flushes.
struct AtEnd(Callback);

impl Drop for AtEnd {
    fn drop(&mut self) {
        const FLUSHED: Duration = Duration::from_millis(3);
        let callback = self.0.clone();
        tokio::spawn(async move {
            tokio::time::sleep(FLUSHED).await;
            call(callback).await;
        });
    }
}
