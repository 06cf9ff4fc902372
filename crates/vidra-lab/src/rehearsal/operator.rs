//! The two kinds and the operator, on a control plane of the lab.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    time::Duration,
};

use anyhow::Context;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    runtime::{conditions::is_crd_established, wait::await_condition},
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use vidra_cluster::connect::Cluster;
use vidra_core::identity::ClusterId;
use vidra_operator::settings::Settings;

use super::kubectl::MANAGER;
use crate::controlplane::ControlPlane;

/// How long the API server may take until it serves a new kind.
const PATIENCE: Duration = Duration::from_secs(30);

/// Installs the two kinds; answers their names.
pub(crate) async fn install(client: &Client) -> anyhow::Result<Vec<String>> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut names = Vec::new();
    for definition in vidra_api::crds() {
        let name = definition.metadata.name.clone().unwrap_or_default();
        let params = PatchParams::apply(MANAGER).force();
        api.patch(&name, &params, &Patch::Apply(&definition))
            .await?;
        let established = await_condition(api.clone(), &name, is_crd_established());
        tokio::time::timeout(PATIENCE, established)
            .await
            .with_context(|| format!("{name} was not established"))??;
        names.push(name);
    }
    Ok(names)
}

/// The operator, in this process.
pub(crate) struct Operator {
    address: SocketAddr,
    cancel: CancellationToken,
    task: JoinHandle<()>,
}

impl Operator {
    /// Starts it with the settings that users have, and with HTTP on a free loopback port.
    pub(crate) fn start(plane: &ControlPlane) -> anyhow::Result<Self> {
        let address = free_address()?;
        let settings = Settings {
            http_address: Some(address),
            ..Settings::default()
        };
        let cluster = Cluster::connect(ClusterId::local(), plane.config(), settings.call_timeout)?;
        let cancel = CancellationToken::new();
        let running = vidra_operator::run_on(cluster, settings, cancel.clone());
        Ok(Self {
            address,
            cancel,
            task: tokio::spawn(running),
        })
    }

    /// Where it serves probes, metrics and webhooks.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends it in order.
    pub(crate) async fn stop(self) {
        self.cancel.cancel();
        // A defect has been logged already.
        let _ = self.task.await;
    }
}

/// An address that was free a moment ago.
fn free_address() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free loopback port")?;
    Ok(listener.local_addr()?)
}
