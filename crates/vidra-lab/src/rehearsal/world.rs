//! Everything that the scenes act on, and waiting with a reason.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::{Api, ResourceExt, runtime::wait::await_condition};
use serde_json::{Value, json};
use vidra_api::{InfrahubSync, names::credential_keys};

use super::{
    Limits,
    hub::Hub,
    kubectl::{Kubectl, OWN, in_short, is_ready},
    operator::{Operator, install},
    relay::{Passed, Relay},
};
use crate::controlplane::{ControlPlane, unique};

/// The sync, and the Secret with its credentials.
pub(super) const SYNC: &str = "rehearsal";
/// The namespace that the lab's manifests name.
const NAMESPACE: &str = "default";
/// How often something is looked at that is waited for.
const PACE: Duration = Duration::from_millis(50);

/// A control plane, the operator, and an Infrahub, with relays on both ways between the last two.
pub(super) struct World<H> {
    pub(super) hub: H,
    pub(super) plane: ControlPlane,
    pub(super) kubectl: Kubectl,
    /// From the operator to Infrahub.
    pub(super) infrahub: Relay,
    /// From Infrahub to the operator.
    pub(super) calls: Relay,
    operator: Operator,
    limits: Limits,
    key: String,
}

impl<H: Hub> World<H> {
    /// Raises what is missing. Infrahub's calls are not passed on yet.
    pub(super) async fn raise(hub: H, limits: Limits) -> anyhow::Result<Self> {
        let progress = &limits.progress;
        let raising = Box::pin(ControlPlane::start());
        let plane = progress
            .during("raising a control plane", raising)
            .await
            .context("no control plane")?;
        let kubectl = Kubectl::new(plane.client()?);
        install(&kubectl.client).await?;
        kubectl.namespace(OWN).await?;
        let operator = Operator::start(&plane)?;
        let infrahub = Relay::start(&hub.url()).await?;
        let calls = Relay::start(&operator.url()).await?;
        calls.open(false);
        let key = unique("key");
        let url = format!("{}/webhooks/infrahub", calls.url());
        let making = hub.call(&url, &key);
        progress.during("making the webhooks", making).await?;
        Ok(Self {
            hub,
            plane,
            kubectl,
            infrahub,
            calls,
            operator,
            limits,
            key,
        })
    }

    /// Ends the operator, and leaves Infrahub as it was.
    pub(super) async fn end(self) -> anyhow::Result<()> {
        self.operator.stop().await;
        self.hub.leave().await
    }

    /// Writes the credentials: user and password.
    pub(super) async fn password(&self, password: &str) -> anyhow::Result<()> {
        let (user, _) = self.hub.account();
        let keys = [
            (credential_keys::USERNAME, user.as_str()),
            (credential_keys::PASSWORD, password),
        ];
        self.credentials(&keys).await
    }

    /// Writes the credentials, and the key of the webhooks beside them.
    pub(super) async fn credentials(&self, keys: &[(&str, &str)]) -> anyhow::Result<()> {
        let key = (credential_keys::WEBHOOK_KEY, self.key.as_str());
        let keys = [keys, &[key]].concat();
        let origin = self.infrahub.url();
        self.kubectl.credentials(SYNC, &origin, &keys).await
    }

    /// Makes a sync of artifacts of a name.
    pub(super) async fn sync(&self, name: &str, artifact: &str) -> anyhow::Result<()> {
        let source = json!({
            "infrahubAPIURL": self.infrahub.url(), "artifactName": artifact, "interval": "2s",
        });
        let spec = json!({"source": source, "destination": {}});
        self.kubectl.sync(name, spec).await
    }

    /// Waits until a probe finds something.
    pub(super) async fn until<T>(
        &self,
        what: &str,
        probe: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<T> {
        let waiting = Box::pin(look_again(probe));
        let waiting = self.limits.progress.patiently(what, waiting);
        match tokio::time::timeout(self.limits.patience, waiting).await {
            Ok(found) => found,
            Err(_) => self.give_up(what).await,
        }
    }

    async fn give_up<T>(&self, what: &str) -> anyhow::Result<T> {
        let seconds = self.limits.patience.as_secs();
        let sync = self.kubectl.syncs().get_opt(SYNC).await?;
        let said = sync.as_ref().map(in_short).unwrap_or_default();
        bail!("waited {seconds} s in vain: {what}; {said}")
    }

    /// Waits until the sync satisfies a condition.
    pub(super) async fn until_sync(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&InfrahubSync) -> bool,
    ) -> anyhow::Result<InfrahubSync> {
        self.until(what, async || {
            let sync = self.kubectl.syncs().get(name).await?;
            Ok(Some(sync).filter(&is_so))
        })
        .await
    }

    /// Waits until the sync is ready.
    pub(super) async fn ready(&self) -> anyhow::Result<InfrahubSync> {
        self.until_sync(SYNC, "the sync is ready", is_ready).await
    }

    /// Asks the sync to look now, and waits until it has.
    pub(super) async fn look(&self) -> anyhow::Result<InfrahubSync> {
        let wish = self.kubectl.request(SYNC).await?;
        let is_handled = |sync: &InfrahubSync| {
            let status = sync.status.as_ref();
            let handled = status.and_then(|it| it.last_handled_reconcile_at.as_ref());
            handled == Some(&wish)
        };
        self.until_sync(SYNC, "the sync has looked", is_handled)
            .await
    }

    pub(super) fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.kubectl.client.clone(), NAMESPACE)
    }

    pub(super) fn services(&self) -> Api<Service> {
        Api::namespaced(self.kubectl.client.clone(), NAMESPACE)
    }

    /// How many replicas a target has in the cluster.
    pub(super) async fn replicas(&self, target: &str) -> anyhow::Result<i32> {
        let deployment = self.deployments().get(target).await?;
        let replicas = deployment.spec.and_then(|spec| spec.replicas);
        replicas.context("a Deployment without replicas")
    }

    /// The uid of a target's Deployment.
    pub(super) async fn uid(&self, target: &str) -> anyhow::Result<String> {
        let deployment = self.deployments().get(target).await?;
        deployment
            .uid()
            .context("an object of the cluster has a uid")
    }

    /// When a target's Deployment came to have so many replicas; `None`: when it was gone.
    pub(super) async fn applied(
        &self,
        target: &str,
        replicas: Option<i32>,
    ) -> anyhow::Result<Instant> {
        let has = move |deployment: Option<&Deployment>| {
            let spec = deployment.and_then(|it| it.spec.as_ref());
            spec.and_then(|spec| spec.replicas) == replicas
        };
        let what = replicas.map_or_else(
            || format!("{target} is gone from the cluster"),
            |replicas| format!("{target} has {replicas} replicas in the cluster"),
        );
        let seen = Box::pin(await_condition(self.deployments(), target, has));
        let seen = self.limits.progress.patiently(&what, seen);
        match tokio::time::timeout(self.limits.patience, seen).await {
            Ok(seen) => seen.map(|_| Instant::now()).context("the watch ended"),
            Err(_) => self.give_up(&what).await,
        }
    }

    /// Waits for a call of Infrahub about an artifact.
    pub(super) async fn call(
        &self,
        mark: usize,
        event: &str,
        artifact: &str,
    ) -> anyhow::Result<Passed> {
        let what = format!("Infrahub calls about {event}");
        let is_it = |call: &Passed| {
            let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
            body["event"] == event && body["data"]["node_id"] == artifact
        };
        self.until(&what, async || {
            Ok(self.calls.since(mark).into_iter().find(is_it))
        })
        .await
    }
}

async fn look_again<T>(
    mut probe: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    loop {
        if let Some(found) = probe().await? {
            return Ok(found);
        }
        tokio::time::sleep(PACE).await;
    }
}

/// The id of a target's artifact, as the sync knows it.
pub(super) fn artifact_of(sync: &InfrahubSync, target: &str) -> anyhow::Result<String> {
    let mut artifacts = sync.status.iter().flat_map(|status| &status.artifacts);
    let found = artifacts.find(|it| it.target.as_deref() == Some(target));
    let found = found.with_context(|| format!("the sync knows no artifact of {target}"))?;
    Ok(found.id.clone())
}
