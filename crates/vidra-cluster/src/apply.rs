//! Server-side apply of one object.

use http::header;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, Resource};
use serde_json::{Value, json};
use vidra_core::{identity::ObjectKey, observed::Observed, takeover::Takeover};

use crate::{
    connect::Cluster,
    failure::{Failure, Reply},
    read::{address, decode},
};

/// Asks the API server for metadata only.
pub(crate) const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// One object to be applied.
#[derive(Debug, Clone, Copy)]
pub struct Application<'a> {
    /// How its kind is addressed.
    pub resource: &'a ApiResource,
    /// Which object.
    pub key: &'a ObjectKey,
    /// What it should be.
    pub body: &'a Value,
    /// Under whose name.
    pub manager: &'a str,
    /// Whether fields that others hold are taken from them.
    pub is_forced: bool,
}

/// An object as the API server returned it from our apply.
#[derive(Debug, Clone)]
pub struct Applied {
    /// Whether the apply made it.
    pub is_created: bool,
    /// Its metadata after the apply.
    pub live: Observed,
}

impl Cluster {
    /// Applies one object. Unknown and duplicate fields are refused by the server.
    pub async fn apply(&self, application: Application<'_>) -> Result<Applied, Failure> {
        let Application {
            resource,
            key,
            body,
            manager,
            is_forced,
        } = application;
        let mut params = PatchParams::apply(manager).validation_strict();
        params.force = is_forced;
        let request = address(resource, key.namespace.as_deref())
            .patch_metadata(&key.name, &params, &Patch::Apply(body))
            .map_err(|error| Failure::unbuildable(&error))?;
        let reply = self.call(request).await?;
        let live = decode(&reply.body, &key.group_kind())?;
        Ok(Applied {
            is_created: reply.is_created,
            live,
        })
    }

    /// Takes over fields that others wrote by Update, in one patch that fails if the object
    /// changed meanwhile.
    pub async fn take_over(
        &self,
        resource: &ApiResource,
        live: &Observed,
        takeover: &Takeover,
    ) -> Result<Observed, Failure> {
        self.edit_metadata(resource, live, takeover.operations())
            .await
    }

    /// Withdraws all our fields from an object that others keep, if it is still as it was seen.
    ///
    /// Two owners that leave at the same time would otherwise each see the other and leave the
    /// object behind, and an apply to an object that has gone would make an empty one.
    pub async fn withdraw(
        &self,
        resource: &ApiResource,
        live: &Observed,
        manager: &str,
    ) -> Result<(), Failure> {
        let key = &live.key;
        let body = json!({
            "apiVersion": resource.api_version, "kind": resource.kind,
            "metadata": {
                "name": key.name, "namespace": key.namespace,
                "uid": live.uid, "resourceVersion": live.resource_version,
            },
        });
        let application = Application {
            resource,
            key,
            body: &body,
            manager,
            is_forced: true,
        };
        self.apply(application).await.map(|_| ())
    }

    /// Edits metadata with JSON patch operations, if the object is still as it was seen.
    pub(crate) async fn edit_metadata(
        &self,
        resource: &ApiResource,
        live: &Observed,
        mut operations: Vec<Value>,
    ) -> Result<Observed, Failure> {
        // Replacing the resource version by the one we saw makes the server refuse the whole
        // patch with 409 if anybody wrote meanwhile.
        operations.push(json!({
            "op": "replace", "path": "/metadata/resourceVersion", "value": live.resource_version,
        }));
        let path = DynamicObject::url_path(resource, live.key.namespace.as_deref());
        let path = format!("{path}/{}", live.key.name);
        let reply = self.patch(&path, &Value::Array(operations)).await?;
        decode(&reply.body, &live.key.group_kind())
    }
    /// Patches a path with JSON patch operations.
    pub async fn patch_json(&self, path: &str, operations: &Value) -> Result<(), Failure> {
        self.patch(path, operations).await.map(|_| ())
    }

    async fn patch(&self, path: &str, operations: &Value) -> Result<Reply, Failure> {
        let request = http::Request::patch(path)
            .header(header::CONTENT_TYPE, "application/json-patch+json")
            .header(header::ACCEPT, METADATA)
            .body(operations.to_string().into_bytes())
            .map_err(|error| Failure::unbuildable(&error))?;
        self.call(request).await
    }
}
