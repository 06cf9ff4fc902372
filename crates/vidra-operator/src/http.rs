//! Probes and metrics over HTTP.

use std::{
    net::SocketAddr,
    sync::{Arc, OnceLock},
};

use axum::{Router, extract::State, http::StatusCode, routing::get};
use tokio::net::TcpListener;
use tracing::{info, warn};

use crate::resource::Controller;

/// The controller, as soon as there is one. Probes are answered before that: an operator that
/// waits for something must not be taken for a dead one.
pub(crate) type Awaited = Arc<OnceLock<Arc<Controller>>>;

/// Serves probes and metrics for ever. An address that cannot be used is said and done without:
/// no cluster should go unkept because of a port.
pub(crate) async fn serve(address: SocketAddr, controller: Awaited) {
    let listener = match TcpListener::bind(address).await {
        Ok(listener) => listener,
        Err(error) => {
            warn!(%address, %error, "no probes and metrics: the address cannot be used; set --http-address");
            return std::future::pending().await;
        }
    };
    // The port may have been chosen by the operating system.
    let address = listener.local_addr().unwrap_or(address);
    info!(%address, "serving /healthz, /readyz and /metrics");
    let routes = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(controller);
    if let Err(error) = axum::serve(listener, routes).await {
        warn!(%error, "probes and metrics ended");
    }
}

async fn ready(State(controller): State<Awaited>) -> (StatusCode, &'static str) {
    if controller.get().is_some_and(|it| it.is_ready()) {
        (StatusCode::OK, "ok\n")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "waiting for the first list of VidraResources\n",
        )
    }
}

async fn metrics(State(controller): State<Awaited>) -> String {
    controller.get().map(|it| it.metrics()).unwrap_or_default()
}
