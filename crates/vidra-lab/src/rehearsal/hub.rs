//! The Infrahub that is rehearsed with: what its users do there.

use std::sync::Mutex;

use anyhow::{Context, bail};
use serde_json::json;

use crate::{
    controlplane::unique,
    infrahub::{ARTIFACT_NAME, Api, Credentials, DEFINITION, QUERY, TARGET_KIND, TARGETS},
    standin::{ADMIN, Generation, Group, StandIn, Subscription, manifest},
};

/// The events that Vidra wants to be told of.
const EVENTS: [&str; 3] = [
    "infrahub.artifact.created",
    "infrahub.artifact.updated",
    "infrahub.node.deleted",
];

/// What a rehearsal does to an Infrahub, which is seeded like the lab.
pub(super) trait Hub {
    /// Where it listens, without a slash at its end.
    fn url(&self) -> String;
    /// Name and password of an account that may read.
    fn account(&self) -> (String, String);
    /// Gives a target other replicas and has its artifact rendered; it may not be done at return.
    async fn render(&self, target: &str, replicas: i32) -> anyhow::Result<()>;
    /// Deletes the artifact of a target.
    async fn delete(&self, target: &str) -> anyhow::Result<()>;
    /// Has an artifact rendered for a target that has none.
    async fn restore(&self, target: &str) -> anyhow::Result<()>;
    /// Makes an API token.
    async fn token(&self) -> anyhow::Result<String>;
    /// Makes signed webhooks. It may take a while until they act.
    async fn call(&self, url: &str, key: &str) -> anyhow::Result<()>;
    /// Registers a query, in place of one of the same name; or only removes that one.
    async fn register(&self, text: Option<&str>) -> anyhow::Result<()>;
    /// Removes the webhooks.
    async fn leave(&self) -> anyhow::Result<()>;
}

impl Hub for StandIn {
    fn url(&self) -> String {
        StandIn::url(self)
    }

    fn account(&self) -> (String, String) {
        (ADMIN.0.to_owned(), ADMIN.1.to_owned())
    }

    async fn render(&self, target: &str, replicas: i32) -> anyhow::Result<()> {
        let known = TARGETS.iter().find(|(name, _)| *name == target);
        let (name, image) = known.context("no target of the lab")?;
        let content = manifest(name, image, replicas.unsigned_abs());
        let artifact = self.artifact(ARTIFACT_NAME).target(target);
        artifact.content(content).ready();
        Ok(())
    }

    async fn delete(&self, target: &str) -> anyhow::Result<()> {
        self.artifact(ARTIFACT_NAME).target(target).delete();
        Ok(())
    }

    async fn restore(&self, target: &str) -> anyhow::Result<()> {
        self.render(target, 2).await
    }

    async fn token(&self) -> anyhow::Result<String> {
        let account = StandIn::account(self, ADMIN.0, ADMIN.1, Group::Administrators);
        Ok(account.token())
    }

    async fn call(&self, url: &str, key: &str) -> anyhow::Result<()> {
        for event in EVENTS {
            self.subscribe(Subscription {
                url: url.to_owned(),
                key: Some(key.to_owned()),
                // What the real server of the lab does.
                generation: Generation::Mismatch,
                event: event.to_owned(),
            });
        }
        Ok(())
    }

    async fn register(&self, text: Option<&str>) -> anyhow::Result<()> {
        match text {
            Some(text) => self.query(QUERY, text),
            None => self.delete_query(QUERY),
        }
        Ok(())
    }

    async fn leave(&self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// A real Infrahub.
pub(super) struct Server {
    url: String,
    credentials: Credentials,
    api: Api,
    webhooks: Mutex<Vec<String>>,
}

impl Server {
    pub(super) fn new(url: &str, credentials: Credentials) -> anyhow::Result<Self> {
        Ok(Self {
            url: url.to_owned(),
            api: Api::new(url, credentials.clone())?,
            credentials,
            webhooks: Mutex::default(),
        })
    }

    async fn artifact(&self, target: &str) -> anyhow::Result<String> {
        let artifacts = self.api.artifacts("main", ARTIFACT_NAME).await?;
        let mut artifacts = artifacts.into_iter();
        let found = artifacts.find(|it| it.target == target);
        let found = found.with_context(|| format!("{target} has no artifact; is it seeded?"))?;
        Ok(found.id)
    }

    /// Deletes what has an id, if there is one.
    async fn remove(&self, kind: &str, id: &str) -> anyhow::Result<()> {
        let document = format!("mutation($id:String!){{ {kind}Delete(data:{{id:$id}}){{ ok }} }}");
        self.api.graphql(&document, json!({ "id": id })).await?;
        Ok(())
    }
}

impl Hub for Server {
    fn url(&self) -> String {
        self.url.clone()
    }

    fn account(&self) -> (String, String) {
        let Credentials {
            username, password, ..
        } = &self.credentials;
        (username.clone(), password.clone())
    }

    async fn render(&self, target: &str, replicas: i32) -> anyhow::Result<()> {
        let id = self.artifact(target).await?;
        let (node, value) = ((TARGET_KIND, target), json!(replicas));
        self.api
            .set_attribute("main", node, "replicas", &value)
            .await?;
        Ok(self.api.generate("main", DEFINITION, &[&id]).await?)
    }

    async fn delete(&self, target: &str) -> anyhow::Result<()> {
        let id = self.artifact(target).await?;
        Ok(self.api.delete_artifact(&id).await?)
    }

    async fn restore(&self, _target: &str) -> anyhow::Result<()> {
        // Named ones would be rendered alone, and what is to be made has no id yet.
        Ok(self.api.generate("main", DEFINITION, &[]).await?)
    }

    async fn token(&self) -> anyhow::Result<String> {
        Ok(self.api.create_api_token(&unique("rehearsal")).await?)
    }

    async fn call(&self, url: &str, key: &str) -> anyhow::Result<()> {
        for event in EVENTS {
            let id = self.api.create_webhook(url, key, event).await?;
            match self.webhooks.lock() {
                Ok(mut webhooks) => webhooks.push(id),
                Err(_) => bail!("another thread panicked"),
            }
        }
        Ok(())
    }

    async fn register(&self, text: Option<&str>) -> anyhow::Result<()> {
        let document = "query($name:String!){
            CoreGraphQLQuery(name__value:$name){ edges{ node{ id } } } }";
        let found = self.api.graphql(document, json!({ "name": QUERY })).await?;
        if let Some(id) = found["CoreGraphQLQuery"]["edges"][0]["node"]["id"].as_str() {
            self.remove("CoreGraphQLQuery", id).await?;
        }
        let Some(text) = text else {
            return Ok(());
        };
        let document = "mutation($name:String!,$query:String!){ CoreGraphQLQueryCreate(
            data:{ name:{value:$name} query:{value:$query} }){ ok } }";
        let variables = json!({ "name": QUERY, "query": text });
        self.api.graphql(document, variables).await?;
        Ok(())
    }

    async fn leave(&self) -> anyhow::Result<()> {
        let webhooks = match self.webhooks.lock() {
            Ok(mut webhooks) => std::mem::take(&mut *webhooks),
            Err(_) => bail!("another thread panicked"),
        };
        for id in webhooks {
            self.remove("CoreStandardWebhook", &id).await?;
        }
        Ok(())
    }
}
