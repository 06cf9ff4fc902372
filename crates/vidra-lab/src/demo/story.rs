//! What the demo shows, step by step, from Infrahub's side. Every claim is checked on the API
//! server.

use anyhow::Context;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Event},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use vidra_api::{InfrahubSync, State, names};

use super::{
    show::{Show, detail, get, see},
    stage::{NAMESPACE, Stage},
};
use crate::{
    rehearsal::kubectl::{in_short, is_ready, said},
    standin::{ADMIN, Generation, Subscription},
};

/// The artifact that Infrahub renders for every web server.
const ARTIFACT: &str = "webserver-manifest";
/// The sync, and the Secret with its credentials.
const SYNC: &str = "web";
/// What Infrahub signs its webhooks with.
const KEY: &str = "demo-webhook-key";

/// Tells the story.
pub(super) async fn tell(stage: &Stage, show: &mut Show) -> anyhow::Result<()> {
    let story = Story { stage };
    story.artifacts_are_delivered(show).await?;
    story.a_change_calls(show).await?;
    story.edits_are_undone(show).await?;
    story.what_is_deleted_is_pruned(show).await?;
    story.an_outage_leaves_everything(show).await?;
    story.a_misspelt_name_is_told(show).await
}

struct Story<'a> {
    stage: &'a Stage,
}

impl Story<'_> {
    async fn artifacts_are_delivered(&self, show: &mut Show) -> anyhow::Result<()> {
        show.step("Infrahub has rendered two artifacts; an InfrahubSync asks for them");
        for (target, replicas) in [("web-a", 2), ("web-b", 1)] {
            self.render(target, &manifest(target, replicas, "hello"));
        }
        let url = self.stage.standin.url();
        let keys = [
            (names::credential_keys::USERNAME, ADMIN.0),
            (names::credential_keys::PASSWORD, ADMIN.1),
            (names::credential_keys::WEBHOOK_KEY, KEY),
        ];
        let kubectl = &self.stage.kubectl;
        kubectl.credentials(SYNC, &url, &keys).await?;
        detail("Secret web in vidra-system: username, password and webhookKey");
        kubectl.sync(SYNC, self.spec(ARTIFACT)).await?;
        detail(format_args!(
            "InfrahubSync web: every {ARTIFACT:?} goes to namespace {NAMESPACE}"
        ));
        let what = "both are delivered and applied";
        self.see_sync(SYNC, what, is_ready).await?;
        self.get_syncs().await?;
        get(kubectl, "vr", &collection("vidraresources")).await?;
        self.get_deployments().await?;
        detail("(no pod is ever ready here: this control plane has no nodes)");
        Ok(())
    }

    async fn a_change_calls(&self, show: &mut Show) -> anyhow::Result<()> {
        show.step("An artifact changes in Infrahub, which calls by a signed webhook");
        let calls = format!("{}/webhooks/infrahub", self.stage.operator.url());
        self.stage.standin.subscribe(Subscription {
            url: calls,
            key: Some(KEY.to_owned()),
            generation: Generation::default(),
            event: "all".to_owned(),
        });
        self.render("web-a", &manifest("web-a", 3, "good morning"));
        detail("web-a is rendered anew: 3 replicas, another greeting");
        let what = "from the rendering to the object: 3 replicas";
        see(what, async || self.has_replicas("web-a", 3).await).await?;
        let what = "and the ConfigMap has the new text";
        see(what, async || self.greets("web-a", "good morning").await).await?;
        Ok(())
    }

    async fn edits_are_undone(&self, show: &mut Show) -> anyhow::Result<()> {
        show.step("Somebody edits one object and deletes another");
        self.scale("web-a", 9).await?;
        detail("kubectl-edit sets spec.replicas of web-a to 9");
        let what = "spec.replicas is 3 again";
        see(what, async || self.has_replicas("web-a", 3).await).await?;
        let what = "the Event says what happened";
        let note = see(what, async || self.event("Healed", "replicas").await).await?;
        detail(format_args!("\"{note}\""));
        let gone = DeleteParams::default();
        self.maps().delete("web-a", &gone).await?;
        let what = "the deleted ConfigMap is back";
        see(what, async || self.greets("web-a", "good morning").await).await?;
        Ok(())
    }

    async fn what_is_deleted_is_pruned(&self, show: &mut Show) -> anyhow::Result<()> {
        show.step("The artifact of web-b is deleted in Infrahub");
        let artifact = self.stage.standin.artifact(ARTIFACT);
        artifact.target("web-b").delete();
        let what = "Infrahub calls, and the objects of web-b are pruned";
        see(what, async || self.has_maps(1).await).await?;
        let what = "those of web-a are untouched";
        see(what, async || self.has_replicas("web-a", 3).await).await?;
        self.get_deployments().await
    }

    async fn an_outage_leaves_everything(&self, show: &mut Show) -> anyhow::Result<()> {
        show.step("Infrahub is down");
        self.stage.standin.halt();
        self.stage.kubectl.request(SYNC).await?;
        let is_stale = |sync: &InfrahubSync| state(sync) == Some(State::Stale);
        let what = "the sync notices when it looks: Stale";
        let sync = self.see_sync(SYNC, what, is_stale).await?;
        self.get_syncs().await?;
        detail(format_args!("\"{}\"", said(&sync, "Ready").1));
        self.scale("web-a", 0).await?;
        detail("kubectl-edit sets spec.replicas of web-a to 0");
        let what = "what was delivered is still kept: 3 again";
        see(what, async || self.has_replicas("web-a", 3).await).await?;
        self.stage.standin.resume()?;
        let what = "Infrahub is up; the sync is ready again by itself";
        self.see_sync(SYNC, what, is_ready).await?;
        Ok(())
    }

    async fn a_misspelt_name_is_told(&self, show: &mut Show) -> anyhow::Result<()> {
        show.step("Another sync misspells the name of the artifact");
        let kubectl = &self.stage.kubectl;
        kubectl
            .sync("typo", self.spec("webserver-manifset"))
            .await?;
        let is_told = |sync: &InfrahubSync| said(sync, "Ready").0 == "ArtifactUnknown";
        let what = "it is not taken for an empty answer";
        let sync = self.see_sync("typo", what, is_told).await?;
        self.get_syncs().await?;
        detail(format_args!("\"{}\"", said(&sync, "Ready").1));
        let gone = DeleteParams::default();
        kubectl.syncs().delete("typo", &gone).await?;
        Ok(())
    }

    fn spec(&self, artifact: &str) -> Value {
        json!({
            "source": {"infrahubAPIURL": self.stage.standin.url(), "artifactName": artifact},
            "destination": {"namespace": NAMESPACE},
        })
    }

    fn render(&self, target: &str, content: &str) {
        let artifact = self.stage.standin.artifact(ARTIFACT).target(target);
        artifact.content(content).ready();
    }

    async fn see_sync(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&InfrahubSync) -> bool,
    ) -> anyhow::Result<InfrahubSync> {
        let syncs = self.stage.kubectl.syncs();
        let seen = see(what, async || {
            Ok(Some(syncs.get(name).await?).filter(&is_so))
        });
        match seen.await {
            Ok(sync) => Ok(sync),
            Err(error) => Err(error.context(in_short(&syncs.get(name).await?))),
        }
    }

    async fn get_syncs(&self) -> anyhow::Result<()> {
        get(&self.stage.kubectl, "ihs", &collection("infrahubsyncs")).await
    }

    async fn get_deployments(&self) -> anyhow::Result<()> {
        let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments");
        get(&self.stage.kubectl, "deploy -n demo", &path).await
    }

    async fn scale(&self, name: &str, replicas: i32) -> anyhow::Result<()> {
        let change = json!({"spec": {"replicas": replicas}});
        let params = PatchParams {
            field_manager: Some("kubectl-edit".into()),
            ..PatchParams::default()
        };
        let change = Patch::Merge(&change);
        self.deployments().patch(name, &params, &change).await?;
        Ok(())
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.stage.kubectl.client.clone(), NAMESPACE)
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.stage.kubectl.client.clone(), NAMESPACE)
    }

    async fn has_maps(&self, count: usize) -> anyhow::Result<Option<()>> {
        let ours = ListParams::default().labels("managed-by=vidra");
        let found = self.maps().list(&ours).await?;
        Ok((found.items.len() == count).then_some(()))
    }

    async fn has_replicas(&self, name: &str, count: i32) -> anyhow::Result<Option<()>> {
        let found = self.deployments().get(name).await?;
        let replicas = found.spec.and_then(|spec| spec.replicas);
        Ok((replicas == Some(count)).then_some(()))
    }

    async fn greets(&self, name: &str, text: &str) -> anyhow::Result<Option<()>> {
        let found = self.maps().get_opt(name).await?;
        let greeting = found.and_then(|map| map.data?.remove("greeting"));
        Ok((greeting.as_deref() == Some(text)).then_some(()))
    }

    async fn event(&self, reason: &str, word: &str) -> anyhow::Result<Option<String>> {
        let events: Api<Event> = Api::all(self.stage.kubectl.client.clone());
        let found = events.list(&ListParams::default()).await;
        let found = found.context("cannot list Events")?;
        let mut told = found
            .items
            .into_iter()
            .filter(|event| event.reason.as_deref() == Some(reason));
        Ok(told.find_map(|event| event.message.filter(|note| note.contains(word))))
    }
}

fn state(sync: &InfrahubSync) -> Option<State> {
    sync.status.as_ref().and_then(|status| status.sync_state)
}

/// Where the API server lists one of the two kinds.
fn collection(plural: &str) -> String {
    format!("/apis/{}/{plural}", names::API_VERSION)
}

fn manifest(name: &str, replicas: u32, greeting: &str) -> String {
    format!(
        "---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers: [{{name: web, image: 'nginx:1.27', envFrom: [{{configMapRef: {{name: {name}}}}}]}}]
---
apiVersion: v1
kind: Service
metadata: {{name: {name}}}
spec: {{selector: {{app: {name}}}, ports: [{{port: 80}}]}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: {name}}}
data: {{greeting: {greeting}}}
"
    )
}
