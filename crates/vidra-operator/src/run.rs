//! Start and end of the operator.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use k8s_openapi::{
    api::core::v1::Namespace,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, Client};
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{info, warn};
use vidra_cluster::{
    connect::{Cluster, ConnectError},
    hub::Hub,
};
use vidra_core::owner::installation_from_uid;

use crate::{resource::Controller, settings::Settings};

/// Sightings that wait to be looked at. Looking takes microseconds, so a full channel means that
/// the process is busy, and then the watches may well wait.
const SIGHTINGS: usize = 1_024;
/// How long a turn that is under way may take after the operator was told to end.
const GRACE: Duration = Duration::from_secs(10);

/// Why the operator could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no cluster to connect to.
    #[error("cannot connect to the cluster")]
    Connect(#[source] ConnectError),
}

/// Runs the operator until it is cancelled.
pub async fn run(
    settings: Settings,
    http_address: Option<SocketAddr>,
    cancel: CancellationToken,
) -> Result<(), StartError> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cluster = Cluster::local(settings.call_timeout)
        .await
        .map_err(StartError::Connect)?;
    operate(cluster, settings, http_address, cancel).await;
    Ok(())
}

/// Runs the operator on a cluster until it is cancelled, without probes and metrics over HTTP.
pub async fn run_on(cluster: Cluster, settings: Settings, cancel: CancellationToken) {
    operate(cluster, settings, None, cancel).await;
}

async fn operate(
    cluster: Cluster,
    settings: Settings,
    http_address: Option<SocketAddr>,
    cancel: CancellationToken,
) {
    let Some(installation) = cancel.run_until_cancelled(prepare(&cluster)).await else {
        return;
    };
    info!(
        version = env!("CARGO_PKG_VERSION"),
        installation,
        cluster = %cluster.id,
        pass = ?settings.requeue_resources_after,
        events = settings.event_based_reconcile,
        "Vidra watches VidraResources"
    );
    let (sink, sightings) = mpsc::channel(SIGHTINGS);
    let hub = Hub::new(cluster.id.clone(), cluster.client.clone(), sink, &cancel);
    let workers = settings.workers;
    let controller = Arc::new(Controller::new(cluster, hub, installation, settings));
    let tasks = TaskTracker::new();
    spawn(&tasks, &cancel, &controller, |it| async move {
        it.follow_resources().await
    });
    spawn(&tasks, &cancel, &controller, |it| async move {
        it.follow_definitions().await
    });
    spawn(&tasks, &cancel, &controller, |it| async move {
        it.watch(sightings).await
    });
    for _ in 0..workers {
        spawn(
            &tasks,
            &cancel,
            &controller,
            |it| async move { it.work().await },
        );
    }
    if let Some(address) = http_address {
        spawn(&tasks, &cancel, &controller, |it| {
            crate::http::serve(address, it)
        });
    }
    tasks.close();
    cancel.cancelled().await;
    if tokio::time::timeout(GRACE, tasks.wait()).await.is_err() {
        warn!("work was still under way at the end; it is taken up at the next start");
    }
    info!("Vidra has ended");
}

fn spawn<F, T>(
    tasks: &TaskTracker,
    cancel: &CancellationToken,
    controller: &Arc<Controller>,
    task: T,
) where
    T: FnOnce(Arc<Controller>) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let future = task(controller.clone());
    let cancel = cancel.clone();
    tasks.spawn(async move {
        cancel.run_until_cancelled(future).await;
    });
}

/// Waits for what Vidra cannot do without, and says what it is waiting for.
async fn prepare(cluster: &Cluster) -> String {
    await_definitions(&cluster.client).await;
    loop {
        match Api::<Namespace>::all(cluster.client.clone())
            .get("kube-system")
            .await
        {
            Ok(namespace) => {
                return installation_from_uid(&namespace.metadata.uid.unwrap_or_default());
            }
            Err(error) => warn!(%error, "cannot read the Namespace kube-system; trying again"),
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

async fn await_definitions(client: &Client) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut said = false;
    loop {
        let mut missing = Vec::new();
        for definition in vidra_api::crds() {
            let name = definition.metadata.name.unwrap_or_default();
            match api.get(&name).await {
                Ok(found) if is_established(&found) => {}
                _ => missing.push(name),
            }
        }
        if missing.is_empty() {
            return;
        }
        if !said {
            warn!(
                missing = missing.join(", "),
                "waiting for the CRDs; apply deploy/crds to the cluster"
            );
            said = true;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn is_established(definition: &CustomResourceDefinition) -> bool {
    let conditions = definition
        .status
        .iter()
        .filter_map(|status| status.conditions.as_ref());
    conditions
        .flatten()
        .any(|known| known.type_ == "Established" && known.status == "True")
}
