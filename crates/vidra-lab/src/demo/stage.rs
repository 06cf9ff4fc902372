//! Raising everything that the story needs.

use super::show::{Show, detail, patiently, say};
use crate::{
    controlplane::ControlPlane,
    rehearsal::{
        kubectl::{Kubectl, OWN},
        operator::{Operator, install},
    },
    standin::StandIn,
};

/// Where everything goes.
pub(super) const NAMESPACE: &str = "demo";

/// Everything that is running.
pub(super) struct Stage {
    pub(super) plane: ControlPlane,
    pub(super) standin: StandIn,
    pub(super) kubectl: Kubectl,
    pub(super) operator: Operator,
}

impl Stage {
    /// Raises everything, with a line for each part.
    pub(super) async fn set(show: &mut Show) -> anyhow::Result<Self> {
        show.step("Raise a real control plane, and an Infrahub");
        let plane = raise_control_plane().await?;
        let standin = StandIn::start()?;
        detail(format_args!(
            "a stand-in that behaves like Infrahub 1.4.13 at {}",
            standin.url()
        ));
        show.step("Install the two kinds and start the operator");
        let kubectl = Kubectl::new(plane.client()?);
        let kinds = patiently("installing", Box::pin(install(&kubectl.client))).await?;
        detail(kinds.join(", "));
        for namespace in [OWN, NAMESPACE] {
            kubectl.namespace(namespace).await?;
        }
        let operator = Operator::start(&plane)?;
        detail(format_args!(
            "it takes webhooks at {}/webhooks/infrahub",
            operator.url()
        ));
        Ok(Self {
            plane,
            standin,
            kubectl,
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
        say("    kubectl get vidra                # both kinds");
        say("    kubectl describe ihs web         # what a sync says about itself");
        say("    kubectl -n demo get deploy,cm    # what it made; edit or delete something");
        say(&format!("    API server  {}", self.plane.url()));
        say(&format!("    Infrahub    {}", self.standin.url()));
        say(&format!("    metrics     {}/metrics", self.operator.url()));
    }

    /// Ends the operator in order; the servers end with what is dropped.
    pub(super) async fn strike(self) {
        self.operator.stop().await;
    }
}

async fn raise_control_plane() -> anyhow::Result<ControlPlane> {
    detail("etcd, kube-apiserver and kube-controller-manager (the first time: fetched or built)");
    let controllers = ["garbage-collector-controller", "namespace-controller"];
    let raising = ControlPlane::builder().controllers(&controllers).start();
    let plane = patiently("raising", Box::pin(raising)).await?;
    let version = plane.client()?.apiserver_version().await?.git_version;
    detail(format_args!("Kubernetes {version} at {}", plane.url()));
    Ok(plane)
}
