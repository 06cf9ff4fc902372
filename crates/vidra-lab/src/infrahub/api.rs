//! The calls that prepare and disturb an Infrahub: what a person would do in its user interface.

use std::time::Duration;

use reqwest::RequestBuilder;
use serde_json::{Value, json};

use super::error::Error;

/// Some mutations wait for the task worker.
const TIMEOUT: Duration = Duration::from_mins(10);

/// The first account of a server.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// Name to log in with.
    pub username: String,
    /// Password to log in with.
    pub password: String,
    /// API token of the same account.
    pub token: String,
}

/// One artifact as Infrahub lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// Infrahub's id.
    pub id: String,
    /// Name of the target it was rendered for.
    pub target: String,
    /// `Pending`, `Ready` or `Error`.
    pub status: String,
    /// MD5 of the content, once there is one.
    pub checksum: Option<String>,
    /// Where the content is stored, once there is one.
    pub storage_id: Option<String>,
}

/// Calls to one Infrahub as its administrator.
#[derive(Debug, Clone)]
pub struct Api {
    url: String,
    credentials: Credentials,
    http: reqwest::Client,
}

impl Api {
    /// For the server at `url`, without a slash at its end.
    pub fn new(url: impl Into<String>, credentials: Credentials) -> Result<Self, Error> {
        Ok(Self {
            url: url.into(),
            credentials,
            http: http_client()?,
        })
    }

    /// Runs a GraphQL document on the default branch and gives back its `data`.
    pub async fn graphql(&self, document: &str, variables: Value) -> Result<Value, Error> {
        self.graphql_on("main", document, variables).await
    }

    /// Runs a GraphQL document on `branch` and gives back its `data`.
    pub async fn graphql_on(
        &self,
        branch: &str,
        document: &str,
        variables: Value,
    ) -> Result<Value, Error> {
        let request = self
            .http
            .post(format!("{}/graphql/{branch}", self.url))
            .header("X-INFRAHUB-KEY", &self.credentials.token);
        execute(request, document, variables).await
    }

    /// Posts JSON to a path of the REST API.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, Error> {
        let request = self
            .http
            .post(format!("{}{path}", self.url))
            .header("X-INFRAHUB-KEY", &self.credentials.token)
            .json(body);
        send(&format!("POST {path}"), request).await
    }

    /// The artifacts with the name `name` on `branch`.
    pub async fn artifacts(&self, branch: &str, name: &str) -> Result<Vec<Artifact>, Error> {
        let document = "query($name: String!) { CoreArtifact(name__value: $name) { edges { node {
            id status { value } checksum { value } storage_id { value }
            object { node { display_label } } } } } }";
        let data = self
            .graphql_on(branch, document, json!({ "name": name }))
            .await?;
        Ok(nodes(&data, "CoreArtifact").map(artifact).collect())
    }

    /// Sets one attribute of a node, found by its human-friendly id.
    pub async fn set_attribute(
        &self,
        branch: &str,
        (kind, name): (&str, &str),
        attribute: &str,
        value: &Value,
    ) -> Result<(), Error> {
        // Names of kinds and attributes cannot be variables of a document.
        let document = format!(
            "mutation {{ {kind}Update(data: {{ hfid: [{}], {attribute}: {{ value: {value} }} }}) \
             {{ ok }} }}",
            Value::from(name)
        );
        self.graphql_on(branch, &document, json!({})).await?;
        Ok(())
    }

    /// Asks the worker to render artifacts of a definition again; returns before it does.
    pub async fn generate(
        &self,
        branch: &str,
        definition: &str,
        artifacts: &[&str],
    ) -> Result<(), Error> {
        let branch = branch.replace('/', "%2F");
        let path = format!("/api/artifact/generate/{definition}?branch={branch}");
        self.post(&path, &json!({ "nodes": artifacts })).await?;
        Ok(())
    }

    /// Deletes an artifact; its stored content stays readable.
    pub async fn delete_artifact(&self, id: &str) -> Result<(), Error> {
        let document = "mutation($id: String!) { CoreArtifactDelete(data: { id: $id }) { ok } }";
        self.graphql(document, json!({ "id": id })).await?;
        Ok(())
    }

    /// Makes a signed webhook for all branches and gives back its id. It takes about ten seconds
    /// until Infrahub acts on it.
    pub async fn create_webhook(
        &self,
        url: &str,
        key: &str,
        event_type: &str,
    ) -> Result<String, Error> {
        let document = "mutation($name: String!, $url: String!, $key: String!, $event: String!) {
            CoreStandardWebhookCreate(data: {
                name: { value: $name } url: { value: $url } shared_key: { value: $key }
                event_type: { value: $event } branch_scope: { value: \"all_branches\" }
            }) { ok object { id } } }";
        // The name must be unique, and one receiver may want several event types.
        let name = format!("{event_type} to {url}");
        let variables = json!({ "name": name, "url": url, "key": key, "event": event_type });
        let data = self.graphql(document, variables).await?;
        text(&data, "/CoreStandardWebhookCreate/object/id", "the webhook")
    }

    /// Makes an API token of the administrator. Infrahub wants a session for this, no API token.
    pub async fn create_api_token(&self, name: &str) -> Result<String, Error> {
        let login = json!({
            "username": self.credentials.username,
            "password": self.credentials.password,
        });
        let session = self.post("/api/auth/login", &login).await?;
        let access = text(&session, "/access_token", "the login")?;
        let document = "mutation($name: String!) { InfrahubAccountTokenCreate(
            data: { name: $name }) { object { token { value } } } }";
        let url = format!("{}/graphql", self.url);
        let request = self.http.post(url).bearer_auth(access);
        let data = execute(request, document, json!({ "name": name })).await?;
        let pointer = "/InfrahubAccountTokenCreate/object/token/value";
        text(&data, pointer, "the API token")
    }
}

/// A client that never uses a proxy: everything is on this machine.
pub(super) fn http_client() -> Result<reqwest::Client, Error> {
    // Fails when a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .no_proxy()
        .timeout(TIMEOUT)
        .build()
        .map_err(|source| Error::Client { source })
}

/// The nodes of one kind in the `data` of an answer.
pub(super) fn nodes<'a>(data: &'a Value, kind: &str) -> impl Iterator<Item = &'a Value> {
    let edges = data[kind]["edges"].as_array();
    edges.into_iter().flatten().map(|edge| &edge["node"])
}

/// A text that an answer must have.
pub(super) fn text(answer: &Value, pointer: &'static str, call: &str) -> Result<String, Error> {
    let found = answer.pointer(pointer).and_then(Value::as_str);
    found.map(str::to_owned).ok_or_else(|| Error::Lacking {
        call: call.to_owned(),
        pointer,
        answer: answer.to_string(),
    })
}

fn artifact(node: &Value) -> Artifact {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Artifact {
        id: text(&node["id"]).unwrap_or_default(),
        target: text(&node["object"]["node"]["display_label"]).unwrap_or_default(),
        status: text(&node["status"]["value"]).unwrap_or_default(),
        checksum: text(&node["checksum"]["value"]),
        storage_id: text(&node["storage_id"]["value"]),
    }
}

async fn execute(
    request: RequestBuilder,
    document: &str,
    variables: Value,
) -> Result<Value, Error> {
    let call = format!("GraphQL `{}`", beginning(document));
    let body = json!({ "query": document, "variables": variables });
    let mut answer = send(&call, request.json(&body)).await?;
    match &answer["errors"] {
        Value::Null => Ok(answer["data"].take()),
        errors => Err(Error::GraphQl {
            call,
            errors: errors.to_string(),
        }),
    }
}

async fn send(call: &str, request: RequestBuilder) -> Result<Value, Error> {
    let no_answer = |source| Error::NoAnswer {
        call: call.to_owned(),
        source,
    };
    let response = request.send().await.map_err(no_answer)?;
    let status = response.status();
    let body = response.text().await.map_err(no_answer)?;
    let refused = || Error::Refused {
        call: call.to_owned(),
        status: status.as_u16(),
        body: body.clone(),
    };
    if !status.is_success() {
        return Err(refused());
    }
    serde_json::from_str(&body).map_err(|_| refused())
}

/// Enough of a document to know which one it is, on one line.
fn beginning(document: &str) -> String {
    let line = document.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_artifact_without_content_has_neither_checksum_nor_storage() {
        let node = json!({
            "id": "1", "status": { "value": "Pending" },
            "checksum": { "value": null }, "storage_id": { "value": null },
            "object": { "node": { "display_label": "web-a" } },
        });
        let artifact = artifact(&node);
        assert_eq!(artifact.target, "web-a");
        assert_eq!(artifact.checksum, None);
        assert_eq!(artifact.storage_id, None);
    }

    #[test]
    fn nodes_of_an_absent_kind_are_none() {
        let data = json!({ "CoreArtifact": { "edges": [{ "node": { "id": "1" } }] } });
        assert_eq!(nodes(&data, "CoreArtifact").count(), 1);
        assert_eq!(nodes(&data, "CoreRepository").count(), 0);
    }

    #[test]
    fn an_answer_that_lacks_a_text_is_told_with_the_answer() {
        let error = text(&json!({ "ok": true }), "/object/id", "the webhook").unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"the answer to the webhook has no `/object/id`: {"ok":true}"#
        );
    }

    #[test]
    fn a_document_is_told_by_its_beginning_on_one_line() {
        assert_eq!(beginning("query {\n    a\n}"), "query { a }");
        assert_eq!(beginning(&"x".repeat(500)).len(), 80);
    }
}
