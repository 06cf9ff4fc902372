//! Start and end of the operator.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::core::v1::Namespace,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::Api;
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{info, warn};
use vidra_cluster::{
    connect::{Cluster, ConnectError},
    hub::Hub,
};
use vidra_core::owner::installation_from_uid;

use crate::{
    http::{Awaited, Controllers},
    resource::Controller,
    settings::{Live, Settings, follow},
    shared::Shared,
    staff::staff,
    sync,
};

/// Sightings that wait to be looked at. Looking takes microseconds, so a full channel means that
/// the process is busy, and then the watches may well wait.
const SIGHTINGS: usize = 1_024;
/// Syncs that are worked on at once. They mostly wait, for an Infrahub that may be slow; others
/// should not wait for that. What costs something is bounded where it is done.
const SYNC_WORKERS: usize = 128;
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
pub async fn run(settings: Settings, cancel: CancellationToken) -> Result<(), StartError> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cluster = Cluster::local(settings.call_timeout)
        .await
        .map_err(StartError::Connect)?;
    run_on(cluster, settings, cancel).await;
    Ok(())
}

/// Runs the operator on a cluster until it is cancelled.
pub async fn run_on(cluster: Cluster, settings: Settings, cancel: CancellationToken) {
    let tasks = TaskTracker::new();
    let awaited = Awaited::default();
    if let Some(address) = settings.http_address {
        let serving = crate::http::serve(address, awaited.clone());
        spawn(&tasks, &cancel, serving);
    }
    let prepared = async {
        let installation = prepare(&cluster).await;
        let settings = configure(&cluster, settings, &tasks, &cancel).await;
        (installation, settings)
    };
    let Some((installation, live)) = cancel.run_until_cancelled(prepared).await else {
        info!("Vidra has ended");
        return;
    };
    let settings = live.get();
    info!(
        version = env!("CARGO_PKG_VERSION"),
        installation,
        cluster = %cluster.id,
        pass = ?settings.requeue_resources_after,
        events = settings.event_based_reconcile,
        poll = ?settings.requeue_sync_after,
        "Vidra watches InfrahubSyncs and VidraResources"
    );
    let shared = Shared::new(cluster, installation, live);
    let resources = control(&shared, &tasks, &cancel);
    let syncs = synchronise(&shared, &tasks, &cancel);
    let _ = awaited.set(Controllers { resources, syncs });
    tasks.close();
    cancel.cancelled().await;
    if tokio::time::timeout(GRACE, tasks.wait()).await.is_err() {
        warn!("work was still under way at the end; it is taken up at the next start");
    }
    info!("Vidra has ended");
}

/// Starts everything that the controller consists of.
fn control(shared: &Shared, tasks: &TaskTracker, cancel: &CancellationToken) -> Arc<Controller> {
    let cluster = &shared.cluster;
    let (sink, sightings) = mpsc::channel(SIGHTINGS);
    let hub = Hub::new(cluster.id.clone(), cluster.client.clone(), sink, cancel);
    let controller = Arc::new(Controller::new(shared.clone(), hub));
    let it = controller.clone();
    spawn(tasks, cancel, async move { it.follow_resources().await });
    let it = controller.clone();
    spawn(tasks, cancel, async move { it.follow_definitions().await });
    let it = controller.clone();
    spawn(tasks, cancel, async move { it.watch(sightings).await });
    spawn(tasks, cancel, crate::collect::collect(shared.clone()));
    let it = controller.clone();
    let changes = shared.settings.changes();
    spawn(tasks, cancel, async move {
        it.follow_settings(changes).await;
    });
    let it = controller.clone();
    let work = move |token: CancellationToken| {
        let it = it.clone();
        async move { it.work(&token).await }
    };
    let team = (tasks.clone(), cancel.clone());
    tasks.spawn(staff(
        shared.settings.changes(),
        |it| it.workers,
        work,
        team,
    ));
    controller
}

/// Starts everything that the controller of syncs consists of.
fn synchronise(
    shared: &Shared,
    tasks: &TaskTracker,
    cancel: &CancellationToken,
) -> Arc<sync::Controller> {
    let controller = Arc::new(sync::Controller::new(shared.clone()));
    let it = controller.clone();
    spawn(tasks, cancel, async move { it.follow_syncs().await });
    let it = controller.clone();
    spawn(tasks, cancel, async move { it.follow_secrets().await });
    let it = controller.clone();
    spawn(tasks, cancel, async move { it.follow_settings().await });
    for _ in 0..SYNC_WORKERS {
        let (it, cancel) = (controller.clone(), cancel.clone());
        // Not cut off: a turn that is under way comes to its end.
        tasks.spawn(async move { it.work(&cancel).await });
    }
    controller
}

/// Reads the configuration and follows it from here on.
async fn configure(
    cluster: &Cluster,
    base: Settings,
    tasks: &TaskTracker,
    cancel: &CancellationToken,
) -> Live {
    let (live, first, following) = follow(cluster, base);
    spawn(tasks, cancel, following);
    first.known().await;
    live
}

fn spawn(
    tasks: &TaskTracker,
    cancel: &CancellationToken,
    task: impl Future<Output = ()> + Send + 'static,
) {
    let cancel = cancel.clone();
    tasks.spawn(async move {
        cancel.run_until_cancelled(task).await;
    });
}

/// Waits for what Vidra cannot do without, and says what it is waiting for.
async fn prepare(cluster: &Cluster) -> String {
    await_definitions(cluster).await;
    loop {
        let api = Api::<Namespace>::all(cluster.client.clone());
        match tokio::time::timeout(cluster.timeout, api.get("kube-system")).await {
            Ok(Ok(namespace)) => {
                return installation_from_uid(&namespace.metadata.uid.unwrap_or_default());
            }
            Ok(Err(error)) => warn!(%error, "cannot read the Namespace kube-system; trying again"),
            Err(_) => warn!("no answer about the Namespace kube-system; trying again"),
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

async fn await_definitions(cluster: &Cluster) {
    let mut told = String::new();
    loop {
        let problem = match missing_definitions(cluster).await {
            Ok(missing) if missing.is_empty() => return,
            Ok(missing) => format!(
                "waiting for the CRDs; apply deploy/crds to the cluster; missing: {}",
                missing.join(", ")
            ),
            Err(error) => format!("the API server does not answer; trying again: {error}"),
        };
        if problem != told {
            warn!("{problem}");
            told = problem;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// The definitions that are not served, or why that cannot be known.
async fn missing_definitions(cluster: &Cluster) -> Result<Vec<String>, String> {
    let api: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let mut missing = Vec::new();
    for definition in vidra_api::crds() {
        let name = definition.metadata.name.unwrap_or_default();
        let found = match tokio::time::timeout(cluster.timeout, api.get_opt(&name)).await {
            Ok(found) => found.map_err(|error| error.to_string())?,
            Err(_) => return Err("no answer in time".to_owned()),
        };
        if !found.is_some_and(|found| is_established(&found)) {
            missing.push(name);
        }
    }
    Ok(missing)
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
