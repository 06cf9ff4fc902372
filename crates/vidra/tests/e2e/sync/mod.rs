//! From Infrahub to objects: an `InfrahubSync`, the stand-in, and what becomes of its artifacts.

mod budget;
mod credentials;
mod delivery;
mod fights;
mod healing;
mod hostile;
mod moves;
mod removal;
mod scale;
mod settings;
mod sharing;
mod tokens;
mod webhook;

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    api::core::v1::{Namespace, Secret},
};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use vidra_api::{
    InfrahubSync, VidraResource,
    names::{INFRAHUB_API_URL_LABEL, ORIGIN_ANNOTATION},
};
use vidra_lab::{
    controlplane::{Entry, Mark, unique},
    standin::{ADMIN, Rendered, StandIn},
};

use crate::support::{PATIENCE, World, eventually, resources, world};

/// Vidra's own namespace in all these tests.
pub(crate) const OWN: &str = "vidra-system";

/// The name of the artifacts.
pub(crate) const ARTIFACT: &str = "manifests";

/// A stand-in with credentials for it, a namespace to deliver to, and the shared operator.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) infrahub: StandIn,
    /// The namespace of the objects; also the name of the sync and of the Secret.
    pub(crate) name: String,
}

impl Stage {
    /// A stage on the shared control plane. The Secret is bound to the exact origin, because all
    /// stand-ins share a host.
    pub(crate) async fn new() -> Self {
        Self::on(world().await).await
    }

    /// A stage on a control plane of its own.
    pub(crate) async fn on(world: World) -> Self {
        let stage = Self {
            infrahub: StandIn::start().unwrap(),
            name: unique("sync"),
            world,
        };
        ensure_namespace(&stage.world.client, OWN).await;
        ensure_namespace(&stage.world.client, &stage.name).await;
        stage.password(&stage.name, ADMIN.0, ADMIN.1).await;
        stage
    }

    pub(crate) fn client(&self) -> &Client {
        &self.world.client
    }

    /// Writes a Secret with user and password, bound to this stand-in.
    pub(crate) async fn password(&self, secret: &str, user: &str, password: &str) {
        let data = [("username", user), ("password", password)];
        self.secret(secret, &data).await;
    }

    /// Writes a Secret, bound to this stand-in.
    pub(crate) async fn secret(&self, name: &str, data: &[(&str, &str)]) {
        let annotations = [(ORIGIN_ANNOTATION.to_owned(), self.infrahub.url())];
        put_secret(self.client(), name, data, annotations.into()).await;
    }

    /// Renders an artifact for a target: one ConfigMap with a value.
    pub(crate) fn render(&self, target: &str, value: &str) -> Rendered {
        let text = crate::support::config_map(&self.name, target, value);
        self.render_text(target, &text)
    }

    /// Renders an artifact for a target.
    pub(crate) fn render_text(&self, target: &str, text: &str) -> Rendered {
        let artifact = self.infrahub.artifact(ARTIFACT).target(target);
        artifact.content(text.as_bytes().to_vec()).ready()
    }

    /// Creates the sync of this stage, with further fields of its source.
    pub(crate) async fn sync(&self, source: Value) {
        self.sync_as(&self.name, source, json!({})).await;
    }

    /// Creates a sync.
    pub(crate) async fn sync_as(&self, name: &str, source: Value, destination: Value) {
        let mut sync = json!({
            "apiVersion": "infrahub.operators.com/v1alpha1", "kind": "InfrahubSync",
            "metadata": {"name": name},
            "spec": {
                "source": {"infrahubAPIURL": self.infrahub.url(), "artifactName": ARTIFACT},
                "destination": destination,
            },
        });
        for (key, value) in source.as_object().unwrap() {
            sync["spec"]["source"][key] = value.clone();
        }
        let sync: InfrahubSync = serde_json::from_value(sync).unwrap();
        let api = syncs(self.client());
        api.create(&PostParams::default(), &sync).await.unwrap();
    }

    /// Changes the spec of the sync of this stage.
    pub(crate) async fn change(&self, spec: Value) {
        let patch = json!({"spec": spec});
        let api = syncs(self.client());
        api.patch(&self.name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    /// Asks the sync to look at once, and waits until it has.
    pub(crate) async fn look(&self) -> InfrahubSync {
        request(self.client(), &self.name).await
    }

    /// Waits until the sync is ready for its newest generation.
    pub(crate) async fn ready(&self) -> InfrahubSync {
        self.condition("Ready", "True").await
    }

    /// Waits until a condition of the sync has a status.
    pub(crate) async fn condition(&self, kind: &str, status: &str) -> InfrahubSync {
        sync_condition(self.client(), &self.name, kind, status).await
    }

    /// Waits until `Ready` has a reason.
    pub(crate) async fn reason(&self, reason: &str) -> InfrahubSync {
        let what = format!("Ready of {} says {reason}", self.name);
        eventually(&what, || async {
            let sync = syncs(self.client()).get(&self.name).await.unwrap();
            (said(&sync, "Ready").0 == reason).then_some(sync)
        })
        .await
    }

    /// The artifact of a target disappears.
    pub(crate) fn remove(&self, target: &str) {
        self.infrahub.artifact(ARTIFACT).target(target).delete();
    }

    /// The end of the audit log as of now.
    pub(crate) async fn mark(&self) -> Mark {
        self.world.plane.audit_fence().await.unwrap();
        self.world.plane.audit().mark().unwrap()
    }

    /// What Vidra asked to change after a mark, of what is in the namespace of this stage, of its
    /// sync, and of these VidraResources.
    pub(crate) async fn writes(&self, mark: Mark, resources: &[&str]) -> Vec<Entry> {
        self.world.plane.audit_fence().await.unwrap();
        let mut writes = self.world.plane.audit().mutations(mark, "vidra/").unwrap();
        writes.retain(|entry| {
            let is_ours = entry.namespace == self.name
                || entry.name == self.name
                || resources.contains(&entry.name.as_str());
            is_ours && entry.resource != "events"
        });
        writes
    }

    /// Those of [`Stage::writes`] that are deletions, as `configmaps/web`. What the API server
    /// refused because something changed meanwhile is none.
    pub(crate) async fn deletions(&self, mark: Mark, resources: &[&str]) -> Vec<String> {
        let writes = self.writes(mark, resources).await.into_iter();
        let deletions =
            writes.filter(|entry| entry.verb.starts_with("delete") && entry.code != 409);
        deletions
            .map(|entry| format!("{}/{}", entry.resource, entry.name))
            .collect()
    }

    /// The resources of the sync of this stage, by name.
    pub(crate) async fn resources(&self) -> BTreeMap<String, VidraResource> {
        resources_of(self.client(), &self.name).await
    }
}

pub(crate) fn syncs(client: &Client) -> Api<InfrahubSync> {
    Api::all(client.clone())
}

/// The resources that a sync owns, by name.
pub(crate) async fn resources_of(client: &Client, sync: &str) -> BTreeMap<String, VidraResource> {
    let listed = resources(client)
        .list(&ListParams::default())
        .await
        .unwrap();
    listed
        .into_iter()
        .filter(|resource| {
            let mut owners = resource.owner_references().iter();
            owners.any(|owner| owner.kind == "InfrahubSync" && owner.name == sync)
        })
        .map(|resource| (resource.name_any(), resource))
        .collect()
}

/// Asks a sync to look at once, and waits until it has.
pub(crate) async fn request(client: &Client, name: &str) -> InfrahubSync {
    let wish = unique("now");
    let patch = json!({"metadata": {"annotations": {
        "vidra.infrahub.operators.com/reconcile-requested-at": wish,
    }}});
    syncs(client)
        .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    eventually(&format!("the request for {name} is handled"), || async {
        let sync = syncs(client).get(name).await.unwrap();
        let handled = sync.status.as_ref()?.last_handled_reconcile_at.as_deref();
        (handled == Some(&wish)).then_some(sync)
    })
    .await
}

/// Waits until a condition of a sync has a status for the newest generation.
pub(crate) async fn sync_condition(
    client: &Client,
    name: &str,
    kind: &str,
    status: &str,
) -> InfrahubSync {
    let start = std::time::Instant::now();
    loop {
        let sync = syncs(client).get(name).await.unwrap();
        let current = sync.status.clone().unwrap_or_default();
        let mut conditions = current.conditions.iter();
        let is_said = conditions.any(|it| it.type_ == kind && it.status == status);
        if is_said && current.observed_generation == sync.metadata.generation {
            return sync;
        }
        assert!(
            start.elapsed() < PATIENCE,
            "never saw {kind}={status} on {name}; last status: {current:#?}"
        );
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// The reason and message of a condition.
pub(crate) fn said(sync: &InfrahubSync, kind: &str) -> (String, String) {
    let status = sync.status.clone().unwrap_or_default();
    let found = status.conditions.into_iter().find(|it| it.type_ == kind);
    found.map(|it| (it.reason, it.message)).unwrap_or_default()
}

pub(crate) async fn ensure_namespace(client: &Client, name: &str) {
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let api: Api<Namespace> = Api::all(client.clone());
    let params = PatchParams::apply("e2e").force();
    api.patch(name, &params, &Patch::Apply(&namespace))
        .await
        .unwrap();
}

/// Writes a Secret in Vidra's namespace, labelled for the host of all stand-ins.
pub(crate) async fn put_secret(
    client: &Client,
    name: &str,
    data: &[(&str, &str)],
    annotations: BTreeMap<String, String>,
) {
    let data = data.iter();
    let data = data.map(|(key, text)| ((*key).to_owned(), ByteString(text.as_bytes().to_vec())));
    let labels = [(INFRAHUB_API_URL_LABEL.to_owned(), "127.0.0.1".to_owned())];
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels.into()),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        data: Some(data.collect()),
        ..Secret::default()
    };
    let api: Api<Secret> = Api::namespaced(client.clone(), OWN);
    let params = PatchParams::apply("e2e").force();
    api.patch(name, &params, &Patch::Apply(&secret))
        .await
        .unwrap();
}
