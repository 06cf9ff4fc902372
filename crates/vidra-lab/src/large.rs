//! The largest artifact that Vidra promises to handle, measured on a real control plane.
//!
//! ```text
//!   text --> content store --> VidraResource --> objects     and then a heal, a restart, the end
//! ```

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use clap::Args;
use k8s_openapi::{
    api::core::v1::ConfigMap,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    runtime::{conditions::is_crd_established, wait::await_condition},
};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use vidra_api::{ManifestReference, VidraResource};
use vidra_cluster::{connect::Cluster, store::Store};
use vidra_core::identity::ClusterId;
use vidra_operator::settings::Settings;

use crate::{controlplane::ControlPlane, demo::say};

/// How long one step may take.
const PATIENCE: Duration = Duration::from_mins(15);
/// The resource.
const NAME: &str = "large";

/// How much is measured.
#[derive(Debug, Clone, Copy, Args)]
pub struct Options {
    /// The number of objects.
    #[arg(long, default_value_t = 10_000)]
    objects: u32,
    /// The size of each object in bytes.
    #[arg(long, default_value_t = 4_200)]
    size: usize,
}

/// Raises a control plane and an operator, applies one large artifact and prints what it took.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let plane = ControlPlane::builder()
        .controllers(&["namespace-controller"])
        .start()
        .await?;
    let bench = Bench::set(plane).await?;
    let operator = bench.start()?;
    let text = manifest(&bench.namespace, options);
    let mebibytes = text.len() / (1 << 20);
    say(&format!("{} objects, {mebibytes} MiB", options.objects));
    bench.apply(&text).await?;
    bench.heal().await?;
    operator.stop().await;
    bench.restart().await
}

/// Everything that is running, except for the operator.
struct Bench {
    plane: ControlPlane,
    client: Client,
    namespace: String,
    home: String,
}

impl Bench {
    async fn set(plane: ControlPlane) -> anyhow::Result<Self> {
        let client = plane.client()?;
        install(&client).await?;
        let namespace = plane.namespace("large").await?;
        let home = plane.namespace("home").await?;
        Ok(Self {
            plane,
            client,
            namespace,
            home,
        })
    }

    fn settings(&self) -> Settings {
        Settings {
            namespace: self.home.clone(),
            ..Settings::default()
        }
    }

    fn cluster(&self) -> anyhow::Result<Cluster> {
        let timeout = self.settings().call_timeout;
        Ok(Cluster::connect(
            ClusterId::local(),
            self.plane.config(),
            timeout,
        )?)
    }

    fn start(&self) -> anyhow::Result<Operator> {
        let cancel = CancellationToken::new();
        let running = vidra_operator::run_on(self.cluster()?, self.settings(), cancel.clone());
        Ok(Operator {
            task: tokio::spawn(running),
            cancel,
        })
    }

    fn resources(&self) -> Api<VidraResource> {
        Api::all(self.client.clone())
    }

    fn objects(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Stores the text and waits until all of it is applied.
    async fn apply(&self, text: &str) -> anyhow::Result<()> {
        let start = Instant::now();
        let stored = Store::new(self.cluster()?, self.home.clone())
            .put(text)
            .await?;
        let chunks = stored.reference.chunks;
        told(&format!("stored in {chunks} chunks"), start);
        let start = Instant::now();
        let from = ManifestReference::from(&stored.reference);
        let resource = json!({"metadata": {"name": NAME}, "spec": {"manifestFrom": from},
            "apiVersion": vidra_api::names::API_VERSION, "kind": "VidraResource"});
        let resource = serde_json::from_value(resource)?;
        self.resources()
            .create(&PostParams::default(), &resource)
            .await?;
        let status = until("everything is applied", || async {
            let status = self.resources().get(NAME).await?.status.unwrap_or_default();
            let mut conditions = status.conditions.iter();
            let is_ready = conditions.any(|it| it.type_ == "Ready" && it.status == "True");
            Ok(is_ready.then_some(status))
        })
        .await?;
        told("applied", start);
        let stored = status.inventory.and_then(|inventory| inventory.stored_in);
        match stored {
            Some(place) => say(&format!("  the inventory is in {} chunks", place.chunks)),
            None => say("  the inventory is in the status"),
        }
        say_memory();
        Ok(())
    }

    async fn heal(&self) -> anyhow::Result<()> {
        let edit = json!({"data": {"first": "edited"}});
        let params = PatchParams::default();
        let start = Instant::now();
        self.objects()
            .patch("c00000", &params, &Patch::Merge(&edit))
            .await?;
        until("an edited object is put back", || async {
            let data = self.objects().get("c00000").await?.data.unwrap_or_default();
            Ok((data.get("first").map(String::as_str) != Some("edited")).then_some(()))
        })
        .await?;
        told("an edited object was put back", start);
        Ok(())
    }

    /// Starts anew: one object is missing, and only that one may be written.
    async fn restart(&self) -> anyhow::Result<()> {
        self.objects()
            .delete("c00000", &DeleteParams::default())
            .await?;
        let mark = self.plane.audit().mark()?;
        let start = Instant::now();
        let operator = self.start()?;
        until("a missing object is made after a restart", || async {
            Ok(self.objects().get_opt("c00000").await?)
        })
        .await?;
        told("a missing object was made after a restart", start);
        self.plane.audit_fence().await?;
        let mut writes = self.plane.audit().mutations(mark, "vidra/")?;
        writes.retain(|it| it.namespace == self.namespace);
        operator.stop().await;
        if writes.len() != 1 {
            bail!("a restart wrote {} objects instead of one", writes.len());
        }
        say("  and nothing else was written");
        Ok(())
    }
}

struct Operator {
    task: JoinHandle<()>,
    cancel: CancellationToken,
}

impl Operator {
    async fn stop(self) {
        self.cancel.cancel();
        let _ = self.task.await;
    }
}

/// ConfigMaps that differ in every line.
fn manifest(namespace: &str, options: Options) -> String {
    let mut noise = 1_u64;
    let mut text = String::new();
    for number in 0..options.objects {
        let begin = text.len();
        let _ = write!(
            text,
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c{number:05}\n  namespace: \
             {namespace}\ndata:\n  first: \"1\"\n"
        );
        let mut line = 0;
        while text.len() - begin < options.size {
            noise = noise
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let value = format!("the value of this setting is {noise:020}");
            let _ = writeln!(text, "  setting-{line}: \"{value}\"");
            line += 1;
        }
    }
    text
}

async fn install(client: &Client) -> anyhow::Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in vidra_api::crds() {
        let name = definition.metadata.name.clone().unwrap_or_default();
        let params = PatchParams::apply("vidra-lab").force();
        api.patch(&name, &params, &Patch::Apply(&definition))
            .await?;
        await_condition(api.clone(), &name, is_crd_established())
            .await
            .with_context(|| format!("{name} was not established"))?;
    }
    Ok(())
}

async fn until<T, F>(what: &str, mut probe: impl FnMut() -> F) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<Option<T>>>,
{
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(found) = probe().await? {
            return Ok(found);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bail!("gave up waiting until {what}")
}

fn told(what: &str, start: Instant) {
    say(&format!(
        "  {what:<44} {:>8.2} s",
        start.elapsed().as_secs_f64()
    ));
}

/// Says how much memory this process has used at most; only Linux tells.
fn say_memory() {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else {
        return;
    };
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    if let Some(peak) = peak {
        say(&format!("  most memory used so far {}", peak.trim()));
    }
}
