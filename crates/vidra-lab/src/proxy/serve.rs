//! The way of one request through the proxy.

use std::{
    net::TcpListener,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::{
    body::{Body, Bytes, to_bytes},
    http::{HeaderMap, Request, Response, StatusCode, header, request::Parts},
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use kube::client::ConfigExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tower::util::BoxCloneSyncService;

use super::{
    effect::{Cut, Effect},
    rules::{Rules, Seen},
};

/// The API server refuses larger requests long before.
const LARGEST_REQUEST: usize = 16 << 20;

/// The way to the API server; boxed, because the connector's type is kube's secret.
type Upstream = BoxCloneSyncService<Request<Body>, Response<Body>, Cut>;

/// What all connections share.
pub(super) struct Shared {
    rules: Mutex<Rules>,
    upstream: Upstream,
    origin: String,
    authorization: String,
}

impl Shared {
    pub(super) fn new(config: &kube::Config, token: &str) -> Result<Self, kube::Error> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        let connector = config.rustls_https_connector_with_connector(connector)?;
        let client: Client<_, Body> = Client::builder(TokioExecutor::new()).build(connector);
        let upstream = tower::service_fn(move |request| {
            let answer = client.request(request);
            async move { Ok(answer.await.map_err(|_| Cut)?.map(Body::new)) }
        });
        Ok(Self {
            rules: Mutex::default(),
            upstream: BoxCloneSyncService::new(upstream),
            origin: config
                .cluster_url
                .to_string()
                .trim_end_matches('/')
                .to_owned(),
            authorization: format!("Bearer {token}"),
        })
    }

    pub(super) fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn handle(&self, request: Request<Incoming>) -> Result<Response<Body>, Cut> {
        let (parts, body) = request.into_parts();
        let body = to_bytes(Body::new(body), LARGEST_REQUEST).await;
        let body = body.map_err(|_| Cut)?;
        if !self.is_admitted(&parts.headers) {
            return refuse();
        }
        let fault = self.rules().judge(Seen::of(&parts, &body));
        let Some(fault) = fault else {
            return self.forward(parts, body).await;
        };
        if let Some(answer) = happen(fault.at_request()).await? {
            return Ok(answer);
        }
        let response = self.forward(parts, body).await?;
        if let Some(answer) = happen(fault.at_reply()).await? {
            return Ok(answer);
        }
        Ok(response.map(|body| fault.spoil(body)))
    }

    async fn forward(&self, mut parts: Parts, body: Bytes) -> Result<Response<Body>, Cut> {
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        parts.uri = format!("{}{path}", self.origin).parse().map_err(|_| Cut)?;
        // These are about the connection to us, not about the request.
        for name in [header::HOST, header::AUTHORIZATION, header::CONNECTION] {
            parts.headers.remove(name);
        }
        let request = Request::from_parts(parts, Body::from(body));
        let mut response = tower::ServiceExt::oneshot(self.upstream.clone(), request).await?;
        response.headers_mut().remove(header::CONNECTION);
        response.headers_mut().remove(header::TRANSFER_ENCODING);
        Ok(response)
    }

    fn is_admitted(&self, headers: &HeaderMap) -> bool {
        let shown = headers.get(header::AUTHORIZATION);
        shown.is_some_and(|shown| shown.as_bytes() == self.authorization.as_bytes())
    }
}

/// Accepts connections until it is dropped.
pub(super) async fn run(listener: TcpListener, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(connection(stream, acceptor.clone(), shared.clone()));
    }
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move { shared.handle(request).await }
    });
    // An error of the service ends the connection without an answer: that is how it is cut.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn happen(effect: Option<&Effect>) -> Result<Option<Response<Body>>, Cut> {
    match effect {
        Some(effect) => effect.happen().await,
        None => Ok(None),
    }
}

fn refuse() -> Result<Response<Body>, Cut> {
    Response::builder()
        .status(StatusCode::UNAUTHORIZED)
        .body(Body::from("use the proxy's own kubeconfig\n"))
        .map_err(|_| Cut)
}
