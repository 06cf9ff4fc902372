//! What the demo shows, step by step. Every claim is checked on the API server.

use anyhow::Context;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Event, Namespace},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use vidra_api::{InfrahubSync, VidraResource};

use super::{
    show::{Show, detail, see},
    stage::Stage,
};

/// The artifact that Infrahub renders for every web server.
const ARTIFACT: &str = "webserver-manifest";
/// Where everything goes.
const NAMESPACE: &str = "demo";

/// Tells the story.
pub(super) async fn tell(stage: &Stage, show: &mut Show) -> anyhow::Result<()> {
    let story = Story { stage };
    story.artifacts_appear(show).await?;
    story.edits_are_undone(show).await?;
    story.deletions_are_undone(show).await?;
    story.a_change_is_rolled_out(show).await?;
    story.what_disappears_is_pruned(show).await?;
    story.nothing_is_deleted_by_mistake(show).await
}

struct Story<'a> {
    stage: &'a Stage,
}

impl Story<'_> {
    async fn artifacts_appear(&self, show: &mut Show) -> anyhow::Result<()> {
        show.step("Infrahub renders two artifacts; they become objects");
        self.create_namespace_and_sync().await?;
        for (target, replicas) in [("web-a", 2), ("web-b", 1)] {
            self.render(target, &manifest(target, replicas, "hello"))
                .await?;
        }
        for target in ["web-a", "web-b"] {
            see(&format!("VidraResource {target} is Ready"), || {
                self.is_ready(target)
            })
            .await?;
        }
        see(
            "Deployment, Service and ConfigMap of each are there",
            || self.has_maps(2),
        )
        .await?;
        Ok(())
    }

    async fn edits_are_undone(&self, show: &mut Show) -> anyhow::Result<()> {
        show.step("Somebody edits an object behind its back");
        let scale = json!({"spec": {"replicas": 9}});
        let params = PatchParams {
            field_manager: Some("kubectl-edit".into()),
            ..PatchParams::default()
        };
        self.deployments()
            .patch("web-a", &params, &Patch::Merge(&scale))
            .await?;
        detail("kubectl-edit sets spec.replicas of web-a to 9");
        see("spec.replicas is 2 again", || self.has_replicas("web-a", 2)).await?;
        let note = see("the Event says what happened", || {
            self.event("Healed", "replicas")
        })
        .await?;
        detail(note);
        Ok(())
    }

    async fn deletions_are_undone(&self, show: &mut Show) -> anyhow::Result<()> {
        show.step("Somebody deletes an object");
        self.maps()
            .delete("web-a", &DeleteParams::default())
            .await?;
        see("ConfigMap web-a is back", || self.greets("web-a", "hello")).await?;
        Ok(())
    }

    async fn a_change_is_rolled_out(&self, show: &mut Show) -> anyhow::Result<()> {
        show.step("The artifact of web-a changes in Infrahub");
        self.render("web-a", &manifest("web-a", 3, "good morning"))
            .await?;
        see("ConfigMap web-a has the new text", || {
            self.greets("web-a", "good morning")
        })
        .await?;
        see("Deployment web-a has 3 replicas", || {
            self.has_replicas("web-a", 3)
        })
        .await?;
        Ok(())
    }

    async fn what_disappears_is_pruned(&self, show: &mut Show) -> anyhow::Result<()> {
        show.step("The artifact of web-b disappears");
        self.resources()
            .delete("web-b", &DeleteParams::default())
            .await?;
        see("its objects are pruned", || self.has_maps(1)).await?;
        see("those of web-a are untouched", || {
            self.greets("web-a", "good morning")
        })
        .await?;
        Ok(())
    }

    async fn nothing_is_deleted_by_mistake(&self, show: &mut Show) -> anyhow::Result<()> {
        show.step("A broken artifact deletes nothing");
        self.render("web-a", "kind: Deployment\n").await?;
        let why = see("the condition says why", || {
            self.ready_says("web-a", "False")
        })
        .await?;
        detail(why.lines().next().unwrap_or_default());
        see("ConfigMap web-a is still there", || {
            self.greets("web-a", "good morning")
        })
        .await?;
        self.render("web-a", &manifest("web-a", 3, "good morning"))
            .await?;
        see("a good one makes it Ready again", || self.is_ready("web-a")).await?;
        Ok(())
    }

    async fn create_namespace_and_sync(&self) -> anyhow::Result<()> {
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
        let namespaces: Api<Namespace> = Api::all(self.stage.client.clone());
        namespaces
            .create(&PostParams::default(), &namespace)
            .await?;
        let sync: InfrahubSync = serde_json::from_value(json!({
            "apiVersion": "infrahub.operators.com/v1alpha1", "kind": "InfrahubSync",
            "metadata": {"name": "web"},
            "spec": {
                "source": {"infrahubAPIURL": self.stage.standin.url(), "artifactName": ARTIFACT},
                "destination": {"namespace": NAMESPACE},
            },
        }))?;
        let syncs: Api<InfrahubSync> = Api::all(self.stage.client.clone());
        syncs.create(&PostParams::default(), &sync).await?;
        Ok(())
    }

    /// Renders in Infrahub and hands the artifact to the operator. There is no controller of
    /// `InfrahubSync` yet, so the demo does that part itself.
    async fn render(&self, target: &str, content: &str) -> anyhow::Result<()> {
        let rendered = self
            .stage
            .standin
            .artifact(ARTIFACT)
            .target(target)
            .content(content)
            .ready();
        let storage = rendered
            .storage_id
            .context("a ready artifact has content")?;
        let url = format!("{}/api/storage/object/{storage}", self.stage.standin.url());
        let manifest = reqwest::get(url).await?.error_for_status()?.text().await?;
        let resource = json!({
            "apiVersion": "infrahub.operators.com/v1alpha1", "kind": "VidraResource",
            "metadata": {"name": target},
            "spec": {"destination": {"namespace": NAMESPACE}, "manifest": manifest},
        });
        let params = PatchParams::apply("vidra-demo").force();
        self.resources()
            .patch(target, &params, &Patch::Apply(&resource))
            .await?;
        Ok(())
    }

    fn resources(&self) -> Api<VidraResource> {
        Api::all(self.stage.client.clone())
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.stage.client.clone(), NAMESPACE)
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.stage.client.clone(), NAMESPACE)
    }

    async fn is_ready(&self, name: &str) -> anyhow::Result<Option<()>> {
        Ok(self.ready_says(name, "True").await?.map(|_| ()))
    }

    /// The message of the condition Ready, once it has this status for the newest generation.
    async fn ready_says(&self, name: &str, status: &str) -> anyhow::Result<Option<String>> {
        let resource = self.resources().get(name).await?;
        let generation = resource.metadata.generation;
        let conditions = resource
            .status
            .map(|status| status.conditions)
            .unwrap_or_default();
        let ready = conditions.into_iter().find(|known| {
            known.type_ == "Ready"
                && known.status == status
                && known.observed_generation == generation
        });
        Ok(ready.map(|condition| condition.message))
    }

    async fn has_maps(&self, count: usize) -> anyhow::Result<Option<()>> {
        let found = self
            .maps()
            .list(&ListParams::default().labels("managed-by=vidra"))
            .await?;
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
        let events: Api<Event> = Api::all(self.stage.client.clone());
        let found = events.list(&ListParams::default()).await?;
        let mut told = found
            .items
            .into_iter()
            .filter(|event| event.reason.as_deref() == Some(reason));
        let note = told.find_map(|event| event.message.filter(|note| note.contains(word)));
        Ok(note)
    }
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
