//! Parting with one object: delete, leave or release, each only if it is still as it was seen.

use kube::api::{ApiResource, DeleteParams, Preconditions, PropagationPolicy};
use serde::Deserialize;
use vidra_core::{
    identity::ObjectKey,
    observed::Observed,
    owner::OwnerId,
    takeover::{bequest_operations, release_operations},
};

use crate::{connect::Cluster, failure::Failure, read::address};

/// What became of a DELETE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// The object is gone.
    Gone,
    /// The object is being deleted; finalizers hold it.
    Terminating,
}

/// An answer to DELETE is the object while finalizers hold it, or a status.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: AnswerMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnswerMetadata {
    deletion_timestamp: Option<String>,
    #[serde(default)]
    finalizers: Vec<String>,
}

impl Cluster {
    /// Deletes an object if it is exactly the one that was seen, in exactly that state.
    pub async fn delete(
        &self,
        resource: &ApiResource,
        live: &Observed,
    ) -> Result<Deletion, Failure> {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(live.uid.clone()),
                resource_version: Some(live.resource_version.clone()),
            }),
            // Always explicit: the default differs by kind, and for Jobs it leaves the Pods.
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        let request = address(resource, live.key.namespace.as_deref())
            .delete(&live.key.name, &params)
            .map_err(|error| Failure::unbuildable(&error))?;
        match self.call(request).await {
            Ok(reply) => Ok(outcome(&reply.body)),
            Err(failure) if failure.is_not_found() => Ok(Deletion::Gone),
            Err(failure) => Err(failure),
        }
    }

    /// Takes our marks off an object and leaves its values as they are.
    pub async fn release(
        &self,
        resource: &ApiResource,
        live: &Observed,
        me: &OwnerId,
    ) -> Result<(), Failure> {
        let operations = release_operations(live, me);
        self.edit_metadata(resource, live, operations)
            .await
            .map(|_| ())
    }

    /// Takes our mark off an object that others keep; our fields are the heirs' from then on.
    pub async fn bequeath(
        &self,
        resource: &ApiResource,
        live: &Observed,
        me: &OwnerId,
        heirs: &[OwnerId],
    ) -> Result<(), Failure> {
        let operations = bequest_operations(live, me, heirs);
        self.edit_metadata(resource, live, operations)
            .await
            .map(|_| ())
    }

    /// Whether a kind that discovery does not list is provably gone.
    ///
    /// A group whose aggregated API server is down looks the same in discovery, but its
    /// `APIService` still names a Service. A CRD's group leaves no `APIService` behind.
    pub async fn is_kind_gone(&self, key: &ObjectKey, version: &str) -> Result<bool, Failure> {
        let service = ApiResource {
            group: "apiregistration.k8s.io".to_owned(),
            version: "v1".to_owned(),
            api_version: "apiregistration.k8s.io/v1".to_owned(),
            kind: "APIService".to_owned(),
            plural: "apiservices".to_owned(),
        };
        let request = address(&service, None)
            .get(
                &format!("{version}.{}", key.group),
                &kube::api::GetParams::default(),
            )
            .map_err(|error| Failure::unbuildable(&error))?;
        match self.call(request).await {
            Err(failure) if failure.is_not_found() => Ok(true),
            Err(failure) => Err(failure),
            Ok(reply) => {
                let value: serde_json::Value = serde_json::from_slice(&reply.body)
                    .map_err(|error| Failure::undecodable(&error))?;
                Ok(value["spec"]["service"].is_null())
            }
        }
    }
}

fn outcome(body: &[u8]) -> Deletion {
    let Ok(answer) = serde_json::from_slice::<Answer>(body) else {
        return Deletion::Terminating;
    };
    let is_held = answer.metadata.deletion_timestamp.is_some();
    if answer.kind == "Status" || (!is_held && answer.metadata.finalizers.is_empty()) {
        Deletion::Gone
    } else {
        Deletion::Terminating
    }
}
