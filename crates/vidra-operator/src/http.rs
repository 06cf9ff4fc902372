//! Probes, metrics and webhooks over HTTP.

use std::{
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::State,
    http::{HeaderMap, StatusCode, header::CONTENT_LENGTH},
    routing::{get, post},
};
use tokio::{net::TcpListener, sync::Semaphore};
use tracing::{debug, info, warn};
use vidra_infrahub::webhook::{Delivery, Refusal};

use crate::{metrics::Asked, resource, sync};

/// How long the body of a webhook may take to arrive.
const LONGEST_ARRIVAL: Duration = Duration::from_secs(10);
/// How many webhooks are read at once; more are told to come back.
const WEBHOOKS: usize = 16;

/// The controllers.
pub(crate) struct Controllers {
    pub(crate) resources: Arc<resource::Controller>,
    pub(crate) syncs: Arc<sync::Controller>,
}

/// The controllers, as soon as there are any. Probes are answered before that: an operator that
/// waits for something must not be taken for a dead one.
pub(crate) type Awaited = Arc<OnceLock<Controllers>>;

#[derive(Clone)]
struct Site {
    controllers: Awaited,
    webhooks: Arc<Semaphore>,
}

/// Serves for ever. An address that cannot be used is said and done without: no cluster should go
/// unkept because of a port.
pub(crate) async fn serve(address: SocketAddr, controllers: Awaited) {
    let listener = match TcpListener::bind(address).await {
        Ok(listener) => listener,
        Err(error) => {
            warn!(%address, %error, "no probes, metrics and webhooks: the address cannot be used; set --http-address");
            return std::future::pending().await;
        }
    };
    // The port may have been chosen by the operating system.
    let address = listener.local_addr().unwrap_or(address);
    info!(%address, "serving /healthz, /readyz, /metrics and /webhooks/infrahub");
    let site = Site {
        controllers,
        webhooks: Arc::new(Semaphore::new(WEBHOOKS)),
    };
    let routes = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/webhooks/infrahub", post(webhook))
        .with_state(site);
    if let Err(error) = axum::serve(listener, routes).await {
        warn!(%error, "probes, metrics and webhooks ended");
    }
}

async fn ready(State(site): State<Site>) -> (StatusCode, &'static str) {
    let is_ready = |it: &Controllers| it.resources.is_ready() && it.syncs.is_ready();
    if site.controllers.get().is_some_and(is_ready) {
        (StatusCode::OK, "ok\n")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "waiting for the first list of VidraResources and InfrahubSyncs\n",
        )
    }
}

async fn metrics(State(site): State<Site>) -> String {
    let Some(controllers) = site.controllers.get() else {
        return String::new();
    };
    controllers.syncs.gauge();
    controllers.resources.metrics()
}

async fn webhook(State(site): State<Site>, headers: HeaderMap, body: Body) -> (StatusCode, String) {
    let Some(controllers) = site.controllers.get() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "starting\n".to_owned());
    };
    let syncs = &controllers.syncs;
    let (outcome, answer) = match take(&site, syncs, &headers, body).await {
        Ok(count) => {
            let text = format!("accepted; {count} syncs look\n");
            ("Accepted", (StatusCode::ACCEPTED, text))
        }
        Err(refusal) => {
            debug!(reason = refusal.reason(), "a webhook was refused");
            let status = StatusCode::from_u16(refusal.status());
            let status = status.unwrap_or(StatusCode::BAD_REQUEST);
            (refusal.reason(), (status, format!("{refusal}\n")))
        }
    };
    syncs.count_webhook(&Asked { outcome });
    answer
}

/// Takes a webhook. What can be refused by its headers is refused before its body is read.
async fn take(
    site: &Site,
    syncs: &sync::Controller,
    headers: &HeaderMap,
    body: Body,
) -> Result<usize, Refusal> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let limit = syncs.hints.body_limit();
    let length = headers.get(CONTENT_LENGTH);
    let length = length.and_then(|it| it.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > limit) {
        return Err(Refusal::TooLarge);
    }
    let mut delivery = Delivery {
        id: text("webhook-id"),
        timestamp: text("webhook-timestamp"),
        signature: text("webhook-signature"),
        body: &[],
    };
    syncs.hints.precheck(&delivery)?;
    let _place = site.webhooks.try_acquire().map_err(|_| Refusal::Busy)?;
    let body = tokio::time::timeout(LONGEST_ARRIVAL, to_bytes(body, limit)).await;
    let body = body.map_err(|_| Refusal::Unreadable)?;
    let body = body.map_err(|_| Refusal::TooLarge)?;
    delivery.body = &body;
    syncs.take_call(&delivery)
}
