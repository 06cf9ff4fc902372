//! What must not lead to any request, what must not be told, and that nothing gets lost.

use std::{
    io::Write,
    sync::{Mutex, OnceLock},
    time::Duration,
};

use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tracing_subscriber::fmt::MakeWriter;
use vidra_lab::controlplane::{Entry, Mark, unique};

use crate::{
    drift::{essence, events_about, heal_events, manager, told},
    support::*,
};

/// Two objects of one kind: what happens to `quiet` must not matter, `probe` shows that the
/// operator has seen all that came before.
struct Pair {
    world: World,
    namespace: String,
    name: String,
    api: Api<DynamicObject>,
}

async fn pair() -> Pair {
    let world = world().await;
    let namespace = world.plane.namespace("quiet").await.unwrap();
    let name = unique("quiet");
    let manifest = service("quiet") + &service("probe");
    let spec = json!({"destination": {"namespace": namespace}});
    create(&world.client, &name, &manifest, spec).await;
    ready(&world.client, &name).await;
    let api = dynamic(&world.client, ("", "v1", "Service"), Some(&namespace));
    Pair {
        world,
        namespace,
        name,
        api,
    }
}

fn service(name: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, labels: {{tier: good}}}}\n\
         spec: {{type: LoadBalancer, selector: {{app: web}}, ports: [{{port: 80}}]}}\n"
    )
}

impl Pair {
    /// Where the log is once everything that creating the pair led to is over.
    async fn settled(&self) -> Mark {
        loop {
            self.world.plane.audit_fence().await.unwrap();
            let mark = self.world.plane.audit().mark().unwrap();
            tokio::time::sleep(Duration::from_millis(500)).await;
            if self.requests(mark).await.is_empty() {
                return mark;
            }
        }
    }

    /// What the operator asked for because of this pair.
    async fn requests(&self, mark: Mark) -> Vec<Entry> {
        self.world.plane.audit_fence().await.unwrap();
        let mut found = self.world.plane.audit().since(mark).unwrap();
        found.retain(|entry| entry.user_agent.starts_with("vidra/") && entry.is_complete());
        found.retain(|entry| {
            entry.namespace == self.namespace || entry.name.starts_with(&self.name)
        });
        found
    }

    /// Drifts the other object. The watch has one order: once that is healed, everything that
    /// happened before has been seen.
    async fn probe(&self) {
        self.merge("probe", json!({"spec": {"selector": {"app": "bad"}}}))
            .await;
        eventually("the probe is healed", || async {
            let live = fetch(&self.api, "probe").await?;
            (live["spec"]["selector"]["app"] == "web").then_some(())
        })
        .await;
    }

    async fn merge(&self, name: &str, patch: Value) {
        self.api
            .patch(name, &manager("stranger"), &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    /// Fails if what happened since the mark led to any request about the quiet object.
    async fn stayed_quiet(&self, mark: Mark) {
        self.probe().await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let mut requests = self.requests(mark).await;
        let heals = |entry: &Entry| entry.resource == "services" && entry.name == "probe";
        assert_eq!(requests.iter().filter(|it| heals(it)).count(), 1);
        requests.retain(|entry| !heals(entry) && entry.resource != "events");
        let statuses = |entry: &Entry| entry.subresource == "status";
        assert!(requests.iter().filter(|it| statuses(it)).count() <= 1);
        requests.retain(|entry| !statuses(entry));
        assert!(requests.is_empty(), "{}", show(&requests));
        let heals = heal_events(&self.world.client, &self.name).await;
        assert_eq!(heals.len(), 1, "{}", show(&heals));
    }
}

#[tokio::test]
async fn a_status_write_leads_to_no_request() {
    let pair = pair().await;
    let mark = pair.settled().await;
    let patch = json!({"status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}});
    for address in ["10.0.0.1", "10.0.0.2", "10.0.0.3"] {
        let mut patch = patch.clone();
        patch["status"]["loadBalancer"]["ingress"][0]["ip"] = json!(address);
        let changed = pair
            .api
            .patch_status("quiet", &manager("controller"), &Patch::Merge(&patch))
            .await
            .unwrap();
        assert_eq!(
            changed.data["status"]["loadBalancer"]["ingress"][0]["ip"],
            address
        );
    }
    pair.stayed_quiet(mark).await;
}

#[tokio::test]
async fn foreign_labels_annotations_and_fields_lead_to_no_request_and_stay() {
    let pair = pair().await;
    let mark = pair.settled().await;
    pair.merge("quiet", json!({"metadata": {"labels": {"theirs": "1"}}}))
        .await;
    pair.merge(
        "quiet",
        json!({"metadata": {"annotations": {"theirs": "1"}}}),
    )
    .await;
    pair.merge("quiet", json!({"spec": {"sessionAffinity": "ClientIP"}}))
        .await;
    pair.stayed_quiet(mark).await;
    let live = fetch(&pair.api, "quiet").await.unwrap();
    assert_eq!(live["metadata"]["labels"]["theirs"], "1");
    assert_eq!(live["metadata"]["annotations"]["theirs"], "1");
    assert_eq!(live["spec"]["sessionAffinity"], "ClientIP");
}

#[tokio::test]
async fn a_replace_with_identical_content_leads_to_no_request() {
    let pair = pair().await;
    let mark = pair.settled().await;
    let live = fetch(&pair.api, "quiet").await.unwrap();
    let before = essence(&live);
    let object: DynamicObject = serde_json::from_value(live).unwrap();
    let params = PostParams {
        field_manager: Some("kubectl-replace".to_owned()),
        ..PostParams::default()
    };
    pair.api.replace("quiet", &params, &object).await.unwrap();
    pair.stayed_quiet(mark).await;
    assert_eq!(essence(&fetch(&pair.api, "quiet").await.unwrap()), before);
}

#[tokio::test]
async fn our_own_writes_that_come_back_lead_to_no_further_request() {
    let world = world().await;
    let start = world.plane.audit().mark().unwrap();
    let pair = pair().await;
    pair.settled().await;
    let requests = pair.requests(start).await;
    let applies = requests
        .iter()
        .filter(|entry| entry.resource == "services" && entry.verb == "patch");
    assert_eq!(applies.count(), 2, "{}", show(&requests));
    let looks = requests
        .iter()
        .filter(|entry| entry.resource == "services" && entry.verb == "get");
    assert_eq!(looks.count(), 2, "{}", show(&requests));
    let statuses = requests.iter().filter(|it| it.subresource == "status");
    assert_eq!(statuses.count(), 2, "written ahead, and the end");
    pair.stayed_quiet(pair.settled().await).await;
}

#[tokio::test]
async fn three_drifts_within_a_second_and_then_silence_end_in_the_desired_state() {
    let pair = pair().await;
    let good = essence(&fetch(&pair.api, "quiet").await.unwrap());
    for round in 0..3 {
        let patch = json!({
            "metadata": {"labels": {"tier": format!("bad{round}")}},
            "spec": {"selector": {"app": format!("bad{round}")}},
        });
        pair.merge("quiet", patch).await;
    }
    eventually("the service is healed", || async {
        let live = fetch(&pair.api, "quiet").await?;
        (essence(&live) == good).then_some(())
    })
    .await;
}

#[tokio::test]
async fn one_drift_within_a_storm_of_harmless_events_is_healed_by_one_apply() {
    let pair = pair().await;
    let mark = pair.settled().await;
    for round in 0..200 {
        let mut patch = json!({"metadata": {"annotations": {"count": round.to_string()}}});
        if round == 100 {
            patch["spec"]["selector"]["app"] = json!("bad");
        }
        pair.merge("quiet", patch).await;
    }
    eventually("the service is healed", || async {
        let live = fetch(&pair.api, "quiet").await?;
        (live["spec"]["selector"]["app"] == "web").then_some(())
    })
    .await;
    told(
        &pair.world.client,
        &pair.name,
        &["spec.selector", "stranger"],
    )
    .await;
    let requests = pair.requests(mark).await;
    let applies = requests.iter().filter(|it| it.resource == "services");
    assert_eq!(applies.count(), 1, "{}", show(&requests));
}

#[tokio::test]
async fn values_of_secrets_are_nowhere_in_status_events_and_logs() {
    listen();
    let world = world().await;
    let namespace = world.plane.namespace("quiet").await.unwrap();
    let name = unique("secret");
    let secret = |value: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: s, namespace: {namespace}}}\n\
             stringData: {{password: {value}}}\n"
        )
    };
    create(&world.client, &name, &secret(CANARY), json!({})).await;
    ready(&world.client, &name).await;
    let api = dynamic(&world.client, ("", "v1", "Secret"), Some(&namespace));
    let good = fetch(&api, "s").await.unwrap();
    let edit = json!({"stringData": {"password": format!("{CANARY}-of-theirs")}});
    api.patch("s", &manager("kubectl-edit"), &Patch::Merge(&edit))
        .await
        .unwrap();
    eventually("the secret is healed", || async {
        let live = fetch(&api, "s").await?;
        (live["data"] == good["data"]).then_some(())
    })
    .await;
    told(&world.client, &name, &["password", "kubectl-edit"]).await;
    no_canary(&world, &name).await;
    nothing_was_heard();
}

#[tokio::test]
async fn refusals_of_secrets_do_not_repeat_their_values() {
    listen();
    let bodies = [
        format!("data: {{password: {{nested: {CANARY}}}}}"),
        format!("data: {{password: {CANARY}-is-no-base64}}"),
        format!("immutable: {CANARY}"),
        format!("stringData: [{CANARY}]"),
        format!("{CANARY}: {CANARY}"),
        format!("stringData:\n  password: \"{CANARY}"),
        format!("stringData:\n  password: {CANARY}\n bad: indentation"),
        format!("stringData: {{password: {CANARY}, password: {CANARY}}}"),
        format!("stringData: {{password: *{CANARY}}}"),
        format!("stringData: {{password: !!int {CANARY}}}"),
    ];
    let world = world().await;
    for body in bodies {
        let namespace = world.plane.namespace("quiet").await.unwrap();
        let name = unique("secret");
        let manifest = format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: s, namespace: {namespace}}}\n{body}\n"
        );
        create(&world.client, &name, &manifest, json!({})).await;
        let resource = condition(&world.client, &name, "Ready", "False").await;
        let (reason, message) = said(&resource, "Ready");
        assert!(!reason.is_empty() && !message.is_empty(), "{body}");
        eventually(&format!("an Event tells about {body}"), || async {
            let events = events_about(&world.client, &name).await;
            (!events.is_empty()).then_some(())
        })
        .await;
        no_canary(&world, &name).await;
    }
    nothing_was_heard();
}

/// In every value that must not be seen.
pub(crate) const CANARY: &str = "c4n4ry-v4lue";

async fn no_canary(world: &World, name: &str) {
    let resource = resources(&world.client).get(name).await.unwrap();
    let status = serde_json::to_string(&resource.status).unwrap();
    assert!(!shows_canary(&status), "{}", show(&resource.status));
    let events = events_about(&world.client, name).await;
    let text = serde_json::to_string(&events).unwrap();
    assert!(!shows_canary(&text), "{}", show(&events));
}

pub(crate) fn shows_canary(text: &str) -> bool {
    // As text and, by its first characters, in base64.
    text.contains(CANARY) || text.contains("YzRuNHJ5LXY0bHV")
}

/// Everything that the process logs, looked through for the canary.
#[derive(Clone, Copy)]
struct Heard;

static LINES: Mutex<(usize, Vec<String>)> = Mutex::new((0, Vec::new()));

pub(crate) fn listen() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_writer(Heard)
            .finish();
        tracing::subscriber::set_global_default(subscriber).expect("nobody else listens");
    });
}

pub(crate) fn nothing_was_heard() {
    let lines = LINES.lock().unwrap();
    assert!(lines.0 > 0, "nothing was logged at all");
    assert!(lines.1.is_empty(), "{}", show(&lines.1));
}

impl Write for Heard {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = LINES.lock().unwrap();
        lines.0 += 1;
        if shows_canary(&text) {
            lines.1.push(text.into_owned());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Heard {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        *self
    }
}

/// A patch without a name of its own, as most clients send it.
#[tokio::test]
async fn a_writer_without_a_name_is_named_by_what_its_client_calls_itself() {
    let pair = pair().await;
    let patch = json!({"spec": {"selector": {"app": "bad"}}});
    pair.api
        .patch("quiet", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    let live = told(&pair.world.client, &pair.name, &["spec.selector"]).await;
    assert!(!live.contains("by somebody"), "{live}");
}
