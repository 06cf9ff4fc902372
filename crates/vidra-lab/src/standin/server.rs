//! The server: a thread with a runtime of its own, so that it outlives the test that started it.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    thread::JoinHandle,
    time::Instant,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{ConnectInfo, Request, State},
    http::{HeaderValue, StatusCode, header, request::Parts},
    response::Response,
};
use tokio::{runtime::Handle, sync::oneshot};

use super::{
    admin,
    connection::{Endable, Ending},
    events::uuid,
    faults::{self, Effect},
    journal::Call,
    lock, routes,
    shared::Shared,
    text::percent_decode,
    tls,
};

/// Larger bodies than this nobody sends to a stand-in.
const MAX_BODY: usize = 64 * 1024 * 1024;

/// A running server; it ends when this is dropped.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(super) fn start(
        address: SocketAddr,
        shared: Arc<Shared>,
        identity: Option<tls::Identity>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("standin")
            .enable_all()
            .build()?;
        *lock(&shared.runtime) = Some(runtime.handle().clone());
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("standin".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        _ = run(listener, shared, identity) => {}
                        _ = stopped => {}
                    }
                });
                // Connections that are still open, hanging ones above all, end with the runtime.
                runtime.shutdown_background();
            })?;
        Ok(Self {
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the server has shown itself in the answers already.
            let _ = thread.join();
        }
    }
}

/// Serves until dropped.
pub(super) async fn run(
    listener: TcpListener,
    shared: Arc<Shared>,
    identity: Option<tls::Identity>,
) -> io::Result<()> {
    *lock(&shared.runtime) = Some(Handle::current());
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let router = Router::new().fallback(handle).with_state(shared);
    let service = router.into_make_service_with_connect_info::<Ending>();
    match identity {
        None => axum::serve(Endable(listener), service).await,
        Some(identity) => {
            let listener = tls::TlsListener::new(listener, &identity)?;
            axum::serve(Endable(listener), service).await
        }
    }
}

async fn handle(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(ending): ConnectInfo<Ending>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let path = percent_decode(parts.uri.path());
    if path == admin::ROOT || path.starts_with(&format!("{}/", admin::ROOT)) {
        let body = read(body).await;
        return admin::answer(&shared, parts.method.as_str(), &path, &body);
    }
    let ticket = shared.begin(Call::of(&parts.method, &parts.uri, &parts.headers));
    let mark = ticket.mark;
    let body = read(body).await;
    let effect = faults::strike(&mut lock(&shared.faults), parts.method.as_str(), &path);
    if effect == Some(Effect::Expire) {
        lock(&shared.world).change_secret();
    }
    let real = async { real(&shared, &parts, &body, &ending) };
    let (response, ticket) = match effect {
        Some(effect) => faults::apply(effect, real, ticket).await,
        None => (real.await, Some(ticket)),
    };
    shared.note_status(mark, response.status().as_u16());
    drop(ticket);
    response
}

async fn read(body: Body) -> Bytes {
    axum::body::to_bytes(body, MAX_BODY)
        .await
        .unwrap_or_default()
}

/// The answer with the headers that all answers have, except those of a crash.
fn real(shared: &Shared, parts: &Parts, body: &Bytes, ending: &Ending) -> Response {
    let started = Instant::now();
    let mut response = routes::answer(shared, parts, body);
    let is_crash = response.status() == StatusCode::INTERNAL_SERVER_ERROR;
    let headers = response.headers_mut();
    headers.insert(header::SERVER, HeaderValue::from_static("uvicorn"));
    if is_crash {
        ending.after_this_answer();
    } else {
        let took = started.elapsed().as_secs_f64().to_string();
        for (name, value) in [
            ("x-process-time", took),
            ("x-request-id", uuid().replace('-', "")),
        ] {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        }
    }
    response
}
