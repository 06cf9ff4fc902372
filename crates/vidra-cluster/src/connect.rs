//! A connection to one cluster.

use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Limited, StreamBody};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{Client as HttpClient, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt},
};
use tower::{BoxError, ServiceBuilder};
use vidra_core::identity::ClusterId;

use crate::failure::{Failure, Reply};

/// How Vidra names itself to API servers; audit logs show it.
pub const USER_AGENT: &str = concat!("vidra/", env!("CARGO_PKG_VERSION"));

/// No answer that we ask for is larger than a page of metadata.
const LARGEST_ANSWER: usize = 64 << 20;

/// An answer that says nothing for this long is dead, unless the configuration says otherwise.
/// Only watches are ever quiet, and the API server sends them a bookmark every minute.
const LONGEST_SILENCE: Duration = Duration::from_mins(4);

/// Something that kept us from building a client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Neither a kubeconfig nor a service account was usable.
    #[error("found no usable cluster configuration; set KUBECONFIG or run inside a cluster")]
    Infer(#[source] Box<kube::config::InferConfigError>),
    /// The configuration does not make a client.
    #[error("the cluster configuration for {server:?} does not make a client")]
    Build {
        /// The API server.
        server: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
}

/// One cluster: its identity, its client, and how long a call may take.
#[derive(Clone)]
pub struct Cluster {
    /// Which cluster this is.
    pub id: ClusterId,
    /// The client under everything.
    pub client: Client,
    /// The deadline of one call.
    pub timeout: Duration,
}

impl Cluster {
    /// Connects to the cluster that the environment names.
    pub async fn local(timeout: Duration) -> Result<Self, ConnectError> {
        let config = Config::infer()
            .await
            .map_err(|source| ConnectError::Infer(Box::new(source)))?;
        Self::connect(ClusterId::local(), config, timeout)
    }

    /// Connects to a cluster by a configuration.
    pub fn connect(id: ClusterId, config: Config, timeout: Duration) -> Result<Self, ConnectError> {
        let server = config.cluster_url.to_string();
        let client = client(config).map_err(|source| ConnectError::Build {
            server,
            source: Box::new(source),
        })?;
        Ok(Self {
            id,
            client,
            timeout,
        })
    }

    /// Makes one call and reads its whole answer, within the deadline.
    pub async fn call(&self, request: Request<Vec<u8>>) -> Result<Reply, Failure> {
        let exchange = async {
            let response = self.client.send(request.map(Body::from)).await?;
            let (parts, body) = response.into_parts();
            let bytes = Limited::new(body, LARGEST_ANSWER).collect().await;
            Ok::<_, kube::Error>((parts, bytes.map(http_body_util::Collected::to_bytes)))
        };
        match tokio::time::timeout(self.timeout, exchange).await {
            Err(_) => Err(Failure::timeout(self.timeout)),
            Ok(Err(error)) => Err(Failure::unreachable(&error)),
            Ok(Ok((_, Err(error)))) => Err(Failure::cut_off(&*error)),
            Ok(Ok((parts, Ok(bytes)))) => answer(&parts, &bytes),
        }
    }
}

fn answer(parts: &http::response::Parts, bytes: &Bytes) -> Result<Reply, Failure> {
    if parts.status.is_success() {
        return Ok(Reply {
            is_created: parts.status == http::StatusCode::CREATED,
            body: bytes.clone(),
        });
    }
    let retry_after = parts
        .headers
        .get(header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .map(Duration::from_secs);
    Err(Failure::refused(parts.status.as_u16(), bytes, retry_after))
}

/// A client like kube's own, with three differences: Nagle's algorithm is off (it costs tens of
/// milliseconds per heal), nothing is retried underneath us (the queue retries), and an answer
/// that falls silent ends (a connection into a black hole would be listened to for ever).
fn client(mut config: Config) -> Result<Client, kube::Error> {
    config
        .headers
        .push((header::USER_AGENT, HeaderValue::from_static(USER_AGENT)));
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(config.connect_timeout);
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let silence = config.read_timeout.unwrap_or(LONGEST_SILENCE);
    let http = HttpClient::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .map_response(move |response: Response<Incoming>| {
            response.map(|body| until_silent(body, silence))
        })
        .service(http);
    Ok(Client::new(service, config.default_namespace))
}

/// A body that fails when no part of it came for so long.
fn until_silent(
    body: Incoming,
    silence: Duration,
) -> impl hyper::body::Body<Data = Bytes, Error = BoxError> + Send {
    let frames = stream::unfold(Some(body), move |body| async move {
        let mut body = body?;
        match tokio::time::timeout(silence, body.frame()).await {
            Ok(None) => None,
            Ok(Some(Ok(frame))) => Some((Ok(frame), Some(body))),
            Ok(Some(Err(error))) => Some((Err(BoxError::from(error)), None)),
            Err(silent) => Some((Err(BoxError::from(silent)), None)),
        }
    });
    StreamBody::new(frames)
}
