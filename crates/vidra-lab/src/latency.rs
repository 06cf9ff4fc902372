//! From a webhook to the applied object, many times over, on a real control plane.
//!
//! ```text
//!   stand-in --webhook--> operator --query, content--> stand-in
//!      ^                     +------apply------> API server --watch--> the clock stops
//!      +-- the clock starts
//! ```
//!
//! In the same run the two requests to Infrahub are timed alone: what the operator adds to them
//! is what can be improved here.

use std::{
    io::Write,
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use clap::Args;
use futures::{Stream, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    runtime::{WatchStreamExt, watcher},
};
use serde_json::json;
use vidra_api::names::credential_keys;

use crate::{
    controlplane::ControlPlane,
    infrahub::Progress,
    rehearsal::{
        kubectl::{Kubectl, OWN, is_ready},
        operator::{Operator, install},
    },
    standin::{ADMIN, Generation, Rendered, StandIn},
};

const NAME: &str = "latency";
const NAMESPACE: &str = "default";
const KEY: &str = "a shared key";
/// How long one object may take before the measurement is given up.
const PATIENCE: Duration = Duration::from_mins(1);
/// Hints in quick succession are followed together; a measurement wants each followed alone.
const PAUSE: Duration = Duration::from_millis(600);

/// How much is measured.
#[derive(Debug, Clone, Copy, Args)]
pub struct Options {
    /// How many webhooks are sent.
    #[arg(long, default_value_t = 100)]
    rounds: u32,
}

/// Raises everything, sends webhooks and prints how long each took to have its effect.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let progress = Progress::stderr();
    let raising = Box::pin(ControlPlane::start());
    let plane = progress.during("raising a control plane", raising).await?;
    let bench = Bench::set(plane).await?;
    let maps: Api<ConfigMap> = Api::namespaced(bench.kubectl.client.clone(), NAMESPACE);
    let config = watcher::Config::default().fields(&format!("metadata.name={NAME}"));
    let mut values = pin!(values(maps, config));
    let mut took = Vec::new();
    let mut alone = Vec::new();
    // The first rounds open connections and caches.
    for round in 0..options.rounds + 3 {
        let rendered = bench.render(&format!("round-{round}"));
        let time = bench.call(&format!("round-{round}"), &mut values).await?;
        let two = bench.ask(&rendered).await?;
        if round >= 3 {
            took.push(time);
            alone.push(two);
        }
        if round % 10 == 0 {
            progress.say(format!("{round} of {} webhooks", options.rounds + 3));
        }
        tokio::time::sleep(PAUSE).await;
    }
    let calls = bench.infrahub.journal().len();
    bench.operator.stop().await;
    tell(&summary(took, alone, calls))
}

/// The operator, the stand-in and a sync that looks only when it is told to.
struct Bench {
    /// Ends when the measurement does.
    _plane: ControlPlane,
    kubectl: Kubectl,
    infrahub: StandIn,
    operator: Operator,
}

impl Bench {
    async fn set(plane: ControlPlane) -> anyhow::Result<Self> {
        let kubectl = Kubectl::new(plane.client()?);
        install(&kubectl.client).await?;
        kubectl.namespace(OWN).await?;
        let bench = Self {
            operator: Operator::start(&plane)?,
            infrahub: StandIn::start()?,
            kubectl,
            _plane: plane,
        };
        bench.render("first");
        let keys = [
            (credential_keys::USERNAME, ADMIN.0),
            (credential_keys::PASSWORD, ADMIN.1),
            (credential_keys::WEBHOOK_KEY, KEY),
        ];
        let url = bench.infrahub.url();
        bench.kubectl.credentials(NAME, &url, &keys).await?;
        let source = json!({"infrahubAPIURL": url, "artifactName": NAME, "interval": "0s"});
        let spec = json!({"source": source, "destination": {}});
        bench.kubectl.sync(NAME, spec).await?;
        bench.await_ready().await?;
        Ok(bench)
    }

    async fn await_ready(&self) -> anyhow::Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if is_ready(&self.kubectl.syncs().get(NAME).await?) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!("the sync did not become ready")
    }

    fn render(&self, value: &str) -> Rendered {
        let text = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {NAME}, namespace: {NAMESPACE}}}\n\
             data: {{key: {value}}}\n"
        );
        let artifact = self.infrahub.artifact(NAME).target(NAME);
        artifact.content(text.into_bytes()).ready()
    }

    /// Sends the webhook of the last change, and waits until the watch shows its value.
    async fn call(
        &self,
        value: &str,
        values: &mut (impl Stream<Item = Result<String, watcher::Error>> + Unpin),
    ) -> anyhow::Result<Duration> {
        let events = self.infrahub.events();
        let event = events.last().context("rendering is an event")?;
        let url = format!("{}/webhooks/infrahub", self.operator.url());
        let begin = Instant::now();
        let sent = self
            .infrahub
            .send_webhook(&url, KEY, Generation::Dumps, event);
        let status = sent.await?;
        if status != 202 {
            bail!("the operator answered the webhook with {status}");
        }
        let seen = async {
            while let Some(seen) = values.try_next().await? {
                if seen == value {
                    return Ok(begin.elapsed());
                }
            }
            bail!("the watch ended")
        };
        tokio::time::timeout(PATIENCE, seen)
            .await
            .context("the object did not follow")?
    }

    /// The two requests that a change costs, timed alone: one GraphQL query and one content.
    async fn ask(&self, rendered: &Rendered) -> anyhow::Result<Duration> {
        let client = reqwest::Client::builder().tcp_nodelay(true).build()?;
        let url = self.infrahub.url();
        let storage_id = rendered.storage_id.as_deref().unwrap_or_default();
        let query = json!({"query": "query{ CoreArtifact{ count } }"});
        let warm = client.get(format!("{url}/api/config")).send().await?;
        warm.bytes().await?;
        let begin = Instant::now();
        let list = client.post(format!("{url}/graphql/main")).json(&query);
        list.send().await?.bytes().await?;
        let content = client.get(format!("{url}/api/storage/object/{storage_id}"));
        content.send().await?.bytes().await?;
        Ok(begin.elapsed())
    }
}

/// The values that the object takes, as a watch shows them.
fn values(
    maps: Api<ConfigMap>,
    config: watcher::Config,
) -> impl Stream<Item = Result<String, watcher::Error>> {
    let changes = watcher(maps, config).applied_objects();
    changes.map_ok(|map| {
        let data = map.data.unwrap_or_default();
        data.get("key").cloned().unwrap_or_default()
    })
}

fn summary(mut took: Vec<Duration>, mut alone: Vec<Duration>, calls: usize) -> String {
    took.sort();
    alone.sort();
    let shares = [("p50", 50), ("p90", 90), ("p99", 99), ("max", 100)];
    let shown: Vec<String> = shares
        .into_iter()
        .map(|(name, percent)| format!("{name} {}", milliseconds(at(&took, percent))))
        .collect();
    let ratio = at(&took, 50).as_secs_f64() / at(&alone, 50).as_secs_f64().max(f64::EPSILON);
    format!(
        "webhook to applied object, {} rounds: {}\n\
         the two requests to Infrahub alone: p50 {}; all of it takes {ratio:.1} times as long\n\
         requests to Infrahub in all, those timed alone included: {calls}\n",
        took.len(),
        shown.join(", "),
        milliseconds(at(&alone, 50)),
    )
}

/// The value that so many percent do not exceed.
fn at(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1_000.0)
}

fn tell(text: &str) -> anyhow::Result<()> {
    std::io::stdout()
        .write_all(text.as_bytes())
        .context("standard output is closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_value_that_was_measured() {
        let sorted: Vec<Duration> = (1..=100).map(Duration::from_millis).collect();
        assert_eq!(at(&sorted, 50), Duration::from_millis(50));
        assert_eq!(at(&sorted, 99), Duration::from_millis(99));
        assert_eq!(at(&sorted, 100), Duration::from_millis(100));
        assert_eq!(at(&sorted[..1], 99), Duration::from_millis(1));
        assert_eq!(at(&[], 50), Duration::ZERO);
    }
}
