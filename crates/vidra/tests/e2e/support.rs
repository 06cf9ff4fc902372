//! What all tests need: the shared operator, resources to create, and waiting with a reason.

use std::{
    fmt::Debug,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::OnceLock,
    time::{Duration, Instant},
};

use k8s_openapi::{
    api::core::v1::ConfigMap,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Config,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
    runtime::{conditions::is_crd_established, wait::await_condition},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use vidra_api::VidraResource;
use vidra_cluster::connect::Cluster;
use vidra_core::identity::ClusterId;
use vidra_lab::controlplane::{ControlPlane, shared};
use vidra_operator::settings::Settings;

/// How long anything may take before a test gives up. Generous: the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A control plane with our CRDs and one running operator.
pub(crate) struct World {
    pub(crate) plane: &'static ControlPlane,
    pub(crate) client: Client,
}

/// The shared control plane and operator, with a client for this test's runtime.
pub(crate) async fn world() -> World {
    static OPERATOR: OnceLock<()> = OnceLock::new();
    let plane = shared().await;
    let client = plane.client().unwrap();
    install_definitions(&client).await;
    OPERATOR.get_or_init(|| {
        let settings = Settings {
            http_address: Some(http_address()),
            ..quick_settings()
        };
        std::mem::forget(Operator::start(plane.config(), settings));
    });
    World { plane, client }
}

/// Where the shared operator serves webhooks.
pub(crate) fn http_address() -> SocketAddr {
    static ADDRESS: OnceLock<SocketAddr> = OnceLock::new();
    *ADDRESS.get_or_init(free_address)
}

/// An address that nobody listens on.
pub(crate) fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap()
}

pub(crate) fn quick_settings() -> Settings {
    Settings {
        requeue_resources_after: Duration::ZERO,
        ..Settings::default()
    }
}

/// An operator in this process, on a thread and runtime of its own.
pub(crate) struct Operator {
    cancel: CancellationToken,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Operator {
    pub(crate) fn start(config: Config, settings: Settings) -> Self {
        let cancel = CancellationToken::new();
        let token = cancel.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async move {
                let cluster =
                    Cluster::connect(ClusterId::local(), config, settings.call_timeout).unwrap();
                vidra_operator::run_on(cluster, settings, token).await;
            });
        });
        Self {
            cancel,
            thread: Some(thread),
        }
    }

    pub(crate) fn stop(mut self) {
        self.cancel.cancel();
        self.thread.take().unwrap().join().unwrap();
    }
}

pub(crate) async fn install_definitions(client: &Client) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in vidra_api::crds() {
        let name = definition.metadata.name.clone().unwrap();
        api.patch(
            &name,
            &PatchParams::apply("e2e").force(),
            &Patch::Apply(&definition),
        )
        .await
        .unwrap();
        let established = await_condition(api.clone(), &name, is_crd_established());
        tokio::time::timeout(PATIENCE, established)
            .await
            .expect("the definition is served in time")
            .unwrap();
    }
}

pub(crate) fn resources(client: &Client) -> Api<VidraResource> {
    Api::all(client.clone())
}

pub(crate) fn config_maps(client: &Client, namespace: &str) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), namespace)
}

pub(crate) fn dynamic(
    client: &Client,
    (group, version, kind): (&str, &str, &str),
    namespace: Option<&str>,
) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// A ConfigMap as a manifest document.
pub(crate) fn config_map(namespace: &str, name: &str, value: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}}}\ndata: {{key: \"{value}\"}}\n"
    )
}

/// Creates a resource from a manifest and further spec fields.
pub(crate) async fn create(client: &Client, name: &str, manifest: &str, spec: Value) {
    let mut object = json!({
        "apiVersion": "infrahub.operators.com/v1alpha1", "kind": "VidraResource",
        "metadata": {"name": name}, "spec": {"destination": {}, "manifest": manifest},
    });
    merge(&mut object["spec"], &spec);
    let resource: VidraResource = serde_json::from_value(object).unwrap();
    resources(client)
        .create(&PostParams::default(), &resource)
        .await
        .unwrap();
}

/// Changes the spec of a resource.
pub(crate) async fn change(client: &Client, name: &str, spec: Value) {
    let patch = json!({"spec": spec});
    resources(client)
        .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
}

pub(crate) async fn annotate(client: &Client, name: &str, key: &str, value: &str) {
    let patch = json!({"metadata": {"annotations": {key: value}}});
    resources(client)
        .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
}

pub(crate) async fn delete(client: &Client, name: &str) {
    resources(client)
        .delete(name, &DeleteParams::default())
        .await
        .unwrap();
    eventually("the resource is gone", || async {
        resources(client)
            .get_opt(name)
            .await
            .unwrap()
            .is_none()
            .then_some(())
    })
    .await;
}

/// Waits until a resource is ready for its newest generation.
pub(crate) async fn ready(client: &Client, name: &str) -> VidraResource {
    condition(client, name, "Ready", "True").await
}

/// Waits until a condition has a status for the newest generation.
pub(crate) async fn condition(
    client: &Client,
    name: &str,
    kind: &str,
    status: &str,
) -> VidraResource {
    let what = format!("{kind}={status} on {name}");
    let last = std::sync::Mutex::new(None);
    let found = within(PATIENCE, || async {
        let resource = resources(client).get(name).await.unwrap();
        let said = resource.status.as_ref().is_some_and(|current| {
            current.observed_generation == resource.metadata.generation
                && current
                    .conditions
                    .iter()
                    .any(|it| it.type_ == kind && it.status == status)
        });
        last.lock().unwrap().clone_from(&resource.status);
        said.then_some(resource)
    })
    .await;
    found.unwrap_or_else(|| panic!("never saw {what}; last status: {:#?}", last.lock().unwrap()))
}

/// The reason and message of a condition.
pub(crate) fn said(resource: &VidraResource, kind: &str) -> (String, String) {
    let status = resource.status.as_ref().unwrap();
    let found = status.conditions.iter().find(|it| it.type_ == kind);
    found
        .map(|it| (it.reason.clone(), it.message.clone()))
        .unwrap_or_default()
}

/// Waits until a probe answers something.
pub(crate) async fn eventually<T, F>(what: &str, probe: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    within(PATIENCE, probe)
        .await
        .unwrap_or_else(|| panic!("gave up waiting until {what}"))
}

async fn within<T, F>(limit: Duration, mut probe: impl FnMut() -> F) -> Option<T>
where
    F: Future<Output = Option<T>>,
{
    let start = Instant::now();
    loop {
        if let Some(found) = probe().await {
            return Some(found);
        }
        if start.elapsed() > limit {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until the value in a ConfigMap made by [`config_map`] is as given.
pub(crate) async fn value_is(client: &Client, namespace: &str, name: &str, value: &str) {
    eventually(&format!("{namespace}/{name} has {value}"), || async {
        let found = config_maps(client, namespace)
            .get_opt(name)
            .await
            .unwrap()?;
        let data = found.data?;
        (data.get("key").map(String::as_str) == Some(value)).then_some(())
    })
    .await;
}

pub(crate) async fn is_gone(client: &Client, namespace: &str, name: &str) {
    eventually(&format!("{namespace}/{name} is gone"), || async {
        config_maps(client, namespace)
            .get_opt(name)
            .await
            .unwrap()
            .is_none()
            .then_some(())
    })
    .await;
}

pub(crate) async fn names(client: &Client, namespace: &str) -> Vec<String> {
    let found = config_maps(client, namespace)
        .list(&ListParams::default())
        .await
        .unwrap();
    let mut names: Vec<String> = found
        .items
        .into_iter()
        .filter_map(|it| it.metadata.name)
        .collect();
    names.retain(|name| name != "kube-root-ca.crt");
    names.sort();
    names
}

fn merge(into: &mut Value, from: &Value) {
    let Some(from) = from.as_object() else { return };
    for (key, value) in from {
        into[key] = value.clone();
    }
}

/// For failing assertions.
pub(crate) fn show<T: Debug>(value: &T) -> String {
    format!("{value:#?}")
}

/// Asks for a reconcile and waits until it has been done.
pub(crate) async fn request(client: &Client, name: &str) -> VidraResource {
    let wish = vidra_lab::controlplane::unique("now");
    annotate(
        client,
        name,
        "vidra.infrahub.operators.com/reconcile-requested-at",
        &wish,
    )
    .await;
    eventually(&format!("the request for {name} is handled"), || async {
        let resource = resources(client).get(name).await.unwrap();
        let status = resource.status.as_ref()?;
        (status.last_handled_reconcile_at.as_deref() == Some(&wish)).then_some(resource)
    })
    .await
}

/// What Vidra asked the API server to change in a namespace after a mark.
pub(crate) async fn writes_in(
    plane: &ControlPlane,
    mark: vidra_lab::controlplane::Mark,
    namespace: &str,
) -> Vec<vidra_lab::controlplane::Entry> {
    plane.audit_fence().await.unwrap();
    let mut writes = plane.audit().mutations(mark, "vidra/").unwrap();
    writes.retain(|entry| entry.namespace == namespace && entry.resource != "events");
    writes
}

/// A live object as JSON, if it is there.
pub(crate) async fn fetch(api: &Api<DynamicObject>, name: &str) -> Option<Value> {
    let found = api.get_opt(name).await.unwrap()?;
    Some(serde_json::to_value(found).unwrap())
}

/// A control plane with our CRDs that no other test uses.
pub(crate) async fn own_plane() -> (ControlPlane, Client) {
    let plane = ControlPlane::start().await.unwrap();
    let client = plane.client().unwrap();
    install_definitions(&client).await;
    (plane, client)
}

/// A definition of a namespaced kind with one text field `spec.size`, as a manifest document.
pub(crate) fn definition(group: &str, plural: &str, kind: &str) -> String {
    let singular = kind.to_lowercase();
    format!(
        "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
         metadata: {{name: {plural}.{group}}}\nspec:\n  group: {group}\n  scope: Namespaced\n  \
         names: {{plural: {plural}, singular: {singular}, kind: {kind}, listKind: {kind}List}}\n  \
         versions:\n  - name: v1\n    served: true\n    storage: true\n    schema:\n      \
         openAPIV3Schema:\n        type: object\n        properties:\n          spec:\n            \
         type: object\n            properties: {{size: {{type: string}}}}\n"
    )
}
