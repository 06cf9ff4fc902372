//! What a user does in the cluster: write Secrets and syncs, look at them, edit what they made.

use k8s_openapi::{
    ByteString,
    api::core::v1::{Namespace, Secret},
};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams},
    core::Request,
};
use serde_json::{Value, json};
use vidra_api::{
    InfrahubSync, VidraResource,
    names::{API_VERSION, ORIGIN_ANNOTATION, RECONCILE_REQUESTED_AT_ANNOTATION},
};

use crate::controlplane::unique;

/// The field manager of the user.
pub(crate) const MANAGER: &str = "vidra-lab";
/// Vidra's own namespace.
pub(crate) const OWN: &str = "vidra-system";

/// A user of the cluster.
#[derive(Clone)]
pub(crate) struct Kubectl {
    pub(crate) client: Client,
}

impl Kubectl {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Makes a namespace, if it is not there.
    pub(crate) async fn namespace(&self, name: &str) -> anyhow::Result<()> {
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let api: Api<Namespace> = Api::all(self.client.clone());
        let params = PatchParams::apply(MANAGER).force();
        api.patch(name, &params, &Patch::Apply(&namespace)).await?;
        Ok(())
    }

    /// Writes the credentials for an Infrahub, bound to its origin; other keys go away.
    pub(crate) async fn credentials(
        &self,
        name: &str,
        origin: &str,
        keys: &[(&str, &str)],
    ) -> anyhow::Result<()> {
        let data = keys.iter();
        let data = data.map(|(key, text)| ((*key).to_owned(), ByteString(text.as_bytes().into())));
        let annotations = [(ORIGIN_ANNOTATION.to_owned(), origin.to_owned())];
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                annotations: Some(annotations.into()),
                ..ObjectMeta::default()
            },
            data: Some(data.collect()),
            ..Secret::default()
        };
        let api: Api<Secret> = Api::namespaced(self.client.clone(), OWN);
        let params = PatchParams::apply(MANAGER).force();
        api.patch(name, &params, &Patch::Apply(&secret)).await?;
        Ok(())
    }

    pub(crate) fn syncs(&self) -> Api<InfrahubSync> {
        Api::all(self.client.clone())
    }

    /// Makes a sync.
    pub(crate) async fn sync(&self, name: &str, spec: Value) -> anyhow::Result<()> {
        let sync: InfrahubSync = serde_json::from_value(json!({
            "apiVersion": API_VERSION, "kind": "InfrahubSync",
            "metadata": {"name": name}, "spec": spec,
        }))?;
        self.syncs().create(&PostParams::default(), &sync).await?;
        Ok(())
    }

    /// Changes a sync by a merge patch.
    pub(crate) async fn change_sync(&self, name: &str, patch: &Value) -> anyhow::Result<()> {
        let params = PatchParams::default();
        let patch = Patch::Merge(patch);
        self.syncs().patch(name, &params, &patch).await?;
        Ok(())
    }

    /// Asks a sync to look now; answers the wish, which its status repeats when it is fulfilled.
    pub(crate) async fn request(&self, name: &str) -> anyhow::Result<String> {
        let wish = unique("now");
        let annotations = json!({RECONCILE_REQUESTED_AT_ANNOTATION: wish});
        let patch = json!({"metadata": {"annotations": annotations}});
        self.change_sync(name, &patch).await?;
        Ok(wish)
    }

    /// The resources that a sync owns.
    pub(crate) async fn resources(&self, sync: &str) -> anyhow::Result<Vec<VidraResource>> {
        let api: Api<VidraResource> = Api::all(self.client.clone());
        let listed = api.list(&ListParams::default()).await?;
        let is_owned = |resource: &VidraResource| {
            let mut owners = resource.owner_references().iter();
            owners.any(|owner| owner.kind == "InfrahubSync" && owner.name == sync)
        };
        Ok(listed.into_iter().filter(is_owned).collect())
    }

    /// What `kubectl get` prints for a collection: the API server makes the table.
    pub(crate) async fn get(&self, collection: &str) -> anyhow::Result<Vec<String>> {
        let mut request = Request::new(collection).list(&ListParams::default())?;
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        request.headers_mut().insert("accept", accept.parse()?);
        let table: Value = self.client.request(request).await?;
        Ok(lines(&table))
    }
}

/// What a sync says about itself in one line.
pub(crate) fn in_short(sync: &InfrahubSync) -> String {
    let (reason, message) = said(sync, "Ready");
    format!("the sync says {reason:?}: {message}")
}

/// The reason and the message of a condition.
pub(crate) fn said(sync: &InfrahubSync, kind: &str) -> (String, String) {
    let mut conditions = sync.status.iter().flat_map(|status| &status.conditions);
    let found = conditions.find(|it| it.type_ == kind);
    found.map_or_else(Default::default, |it| {
        (it.reason.clone(), it.message.clone())
    })
}

/// Whether a sync is ready, for its newest generation.
pub(crate) fn is_ready(sync: &InfrahubSync) -> bool {
    let Some(status) = &sync.status else {
        return false;
    };
    let mut conditions = status.conditions.iter();
    let is_said = conditions.any(|it| it.type_ == "Ready" && it.status == "True");
    is_said && status.observed_generation == sync.metadata.generation
}

/// A table as text: the columns that are shown without `-o wide`.
fn lines(table: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let columns = list(&table["columnDefinitions"]);
    let shown: Vec<usize> = (0..columns.len())
        .filter(|at| columns[*at]["priority"] == 0)
        .collect();
    let head = |at: &usize| columns[*at]["name"].as_str().unwrap_or("").to_uppercase();
    let mut rows = vec![shown.iter().map(head).collect::<Vec<String>>()];
    for row in list(&table["rows"]) {
        rows.push(shown.iter().map(|at| cell(&row["cells"][*at])).collect());
    }
    let width = |at: usize| rows.iter().map(|row| row[at].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..shown.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths);
        let padded = cells.map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("   ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

fn cell(value: &Value) -> String {
    match value {
        // As kubectl shows what is not there.
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_shows_the_narrow_columns_side_by_side() {
        let table = json!({
            "columnDefinitions": [
                {"name": "Name", "priority": 0}, {"name": "Message", "priority": 1},
                {"name": "Objects", "priority": 0}, {"name": "Age", "priority": 0},
            ],
            "rows": [{"cells": ["web-front", "long", 3, null]}],
        });
        let expected = ["NAME        OBJECTS   AGE", "web-front   3"];
        assert_eq!(lines(&table), expected);
    }
}
