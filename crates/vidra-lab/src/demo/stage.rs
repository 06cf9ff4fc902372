//! Raising everything that the story needs.

use std::time::{Duration, Instant};

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

use super::show::{Show, detail, say};
use crate::{controlplane::ControlPlane, standin::StandIn};

/// Everything that is running.
pub(super) struct Stage {
    pub(super) plane: ControlPlane,
    pub(super) standin: StandIn,
    pub(super) client: Client,
    cancel: CancellationToken,
    operator: JoinHandle<()>,
}

impl Stage {
    /// Raises everything, with a line for each part.
    pub(super) async fn set(show: &mut Show) -> anyhow::Result<Self> {
        let plane = raise_control_plane(show).await?;
        let client = plane.client()?;
        show.step("Raise an Infrahub stand-in");
        let standin = StandIn::start()?;
        detail(format_args!(
            "{} behaves like Infrahub 1.4.13",
            standin.url()
        ));
        show.step("Install the two kinds");
        install(&client).await?;
        show.step("Start the operator");
        let cancel = CancellationToken::new();
        let operator = start_operator(&plane, cancel.clone())?;
        detail("it watches VidraResources and, by metadata only, every kind that they contain");
        Ok(Self {
            plane,
            standin,
            client,
            cancel,
            operator,
        })
    }

    /// Says how to look around.
    pub(super) fn invite(&self) {
        say("\nEverything stays up until Ctrl-C. Look around:");
        say(&format!(
            "    export KUBECONFIG={}",
            self.plane.kubeconfig().display()
        ));
        say("    kubectl get vidra          # both kinds");
        say("    kubectl -n demo get all    # what they made; edit or delete something");
        say(&format!("    API server  {}", self.plane.url()));
        say(&format!("    Infrahub    {}", self.standin.url()));
    }

    /// Ends the operator in order; the servers end with what is dropped.
    pub(super) async fn strike(self) {
        self.cancel.cancel();
        let _ = self.operator.await;
    }
}

async fn raise_control_plane(show: &mut Show) -> anyhow::Result<ControlPlane> {
    show.step("Raise a real control plane");
    detail("etcd, kube-apiserver and kube-controller-manager (the first time: fetched or built)");
    let start = Instant::now();
    let plane = ControlPlane::builder()
        .controllers(&["garbage-collector-controller", "namespace-controller"])
        .start()
        .await?;
    let version = plane.client()?.apiserver_version().await?.git_version;
    let seconds = start.elapsed().as_secs_f64();
    detail(format_args!(
        "Kubernetes {version} at {} after {seconds:.1} s",
        plane.url()
    ));
    Ok(plane)
}

async fn install(client: &Client) -> anyhow::Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in vidra_api::crds() {
        let name = definition.metadata.name.clone().unwrap_or_default();
        let params = PatchParams::apply("vidra-demo").force();
        api.patch(&name, &params, &Patch::Apply(&definition))
            .await?;
        let established = await_condition(api.clone(), &name, is_crd_established());
        tokio::time::timeout(Duration::from_secs(30), established)
            .await
            .with_context(|| format!("{name} was not established"))??;
        detail(name);
    }
    Ok(())
}

fn start_operator(
    plane: &ControlPlane,
    cancel: CancellationToken,
) -> anyhow::Result<JoinHandle<()>> {
    let settings = Settings::default();
    let cluster = Cluster::connect(ClusterId::local(), plane.config(), settings.call_timeout)?;
    Ok(tokio::spawn(vidra_operator::run_on(
        cluster, settings, cancel,
    )))
}
