//! Writing the `VidraResource`s of a sync: made once, and patched only where something changed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::{Resource, ResourceExt, core::ObjectMeta};
use serde_json::{Value, json};
use vidra_api::{
    Destination, InfrahubSync, VidraResource, VidraResourceSpec,
    names::{API_VERSION, ARTIFACT_CONTENT_ANNOTATION, ARTIFACT_ID_LABEL, SELECTED_FOR_ANNOTATION},
};
use vidra_cluster::failure::Failure;
use vidra_infrahub::Artifact;

use super::{
    failure::SyncError,
    fetch::{Content, Place},
    turn::Turn,
};
use crate::{conditions::now, known::sync_owners};

/// Where `VidraResource`s are.
pub(crate) fn path() -> String {
    format!("/apis/{API_VERSION}/{}", VidraResource::plural(&()))
}

impl Turn<'_> {
    /// Makes a resource. A name that is taken meanwhile is a conflict, and the next turn sees who
    /// has it.
    pub(crate) async fn create(
        &self,
        name: &str,
        artifact: &Artifact,
        content: &Content,
    ) -> Result<VidraResource, SyncError> {
        let (manifest, manifest_from) = match &content.place {
            Place::Inline(text) => (Some(text.to_string()), None),
            Place::Stored { reference, .. } => (None, Some(reference.clone())),
        };
        let mut resource = VidraResource::new(
            name,
            VidraResourceSpec {
                destination: self.sync.spec.destination.clone(),
                manifest,
                manifest_from,
                reconciled_at: Some(Time(now())),
                ..VidraResourceSpec::default()
            },
        );
        let mark = (ARTIFACT_CONTENT_ANNOTATION.to_owned(), content.mark.clone());
        let selected = self.selected_for(artifact);
        let selected = selected.map(|name| (SELECTED_FOR_ANNOTATION.to_owned(), name.to_owned()));
        resource.metadata = ObjectMeta {
            labels: Some([(ARTIFACT_ID_LABEL.to_owned(), artifact.id.clone())].into()),
            annotations: Some([mark].into_iter().chain(selected).collect()),
            owner_references: Some(vec![self.owner_reference()]),
            ..resource.metadata
        };
        let cluster = &self.controller.cluster;
        let written = cluster.create(&path(), &json!(resource)).await;
        written.map_err(|source| SyncError::Write {
            name: name.to_owned(),
            source,
        })
    }

    /// Whether the sync is gone or about to go. The end of its resources may be seen before its
    /// own, and what is being cleared away must not be made again.
    pub(crate) async fn has_ended(&self) -> bool {
        let plural = InfrahubSync::plural(&());
        let path = format!("/apis/{API_VERSION}/{plural}/{}", self.name);
        let now: Result<Option<InfrahubSync>, _> = self.controller.cluster.read(&path).await;
        match now {
            Ok(None) => true,
            Ok(Some(now)) => {
                now.metadata.uid != self.sync.metadata.uid
                    || now.metadata.deletion_timestamp.is_some()
            }
            // Nothing is known; if the API server is away, nothing is made either.
            Err(_) => false,
        }
    }

    /// The name that the sync asked for, if a registered query gave it an artifact of another.
    fn selected_for(&self, artifact: &Artifact) -> Option<&str> {
        let wanted = self.sync.spec.source.artifact_name();
        (artifact.name != wanted).then_some(wanted)
    }

    /// Changes a resource, if it is still as it was seen, but for its status. Without content only
    /// what else the sync decides is written.
    pub(crate) async fn update(
        &self,
        resource: &VidraResource,
        artifact: &Artifact,
        content: Option<&Content>,
    ) -> Result<VidraResource, SyncError> {
        let mut change = json!({
            "metadata": {
                "uid": resource.metadata.uid,
                "resourceVersion": resource.metadata.resource_version,
                "labels": {ARTIFACT_ID_LABEL: artifact.id},
                "annotations": {SELECTED_FOR_ANNOTATION: self.selected_for(artifact)},
                "ownerReferences": self.owners_of(resource),
            },
            "spec": {
                "destination": replacement(&self.sync.spec.destination),
                "reconciledAt": Time(now()),
            },
        });
        if let Some(content) = content {
            put_content(&mut change, content);
        }
        let name = resource.name_any();
        let path = format!("{}/{name}", path());
        let cluster = &self.controller.cluster;
        let mut written = cluster.merge(&path, &change).await;
        if written.as_ref().is_err_and(Failure::is_conflict)
            && let Some(again) = self.read_again(resource).await
        {
            change["metadata"]["resourceVersion"] = json!(again.metadata.resource_version);
            written = cluster.merge(&path, &change).await;
        }
        written.map_err(|source| SyncError::Write { name, source })
    }

    /// A resource as it is now, if nothing but its status has changed since it was seen.
    pub(crate) async fn read_again(&self, seen: &VidraResource) -> Option<VidraResource> {
        let path = format!("{}/{}", path(), seen.name_any());
        let now: Option<VidraResource> = self.controller.cluster.read(&path).await.ok()?;
        let now = now?;
        let (one, other) = (&seen.metadata, &now.metadata);
        let is_same = one.uid == other.uid
            && one.generation == other.generation
            && one.labels == other.labels
            && one.annotations == other.annotations
            && one.owner_references == other.owner_references
            && one.deletion_timestamp == other.deletion_timestamp;
        is_same.then_some(now)
    }

    fn owner_reference(&self) -> OwnerReference {
        self.sync.controller_owner_ref(&()).unwrap_or_default()
    }

    /// All owners of a resource: other kinds of owners stay, and of syncs there is only one.
    fn owners_of(&self, resource: &VidraResource) -> Vec<OwnerReference> {
        let syncs: Vec<&OwnerReference> = sync_owners(resource).collect();
        let others = resource.owner_references().iter();
        let others = others.filter(|owner| !syncs.contains(owner)).cloned();
        others.chain([self.owner_reference()]).collect()
    }
}

fn put_content(change: &mut Value, content: &Content) {
    let (manifest, manifest_from) = match &content.place {
        Place::Inline(text) => (json!(&**text), Value::Null),
        Place::Stored { reference, .. } => (Value::Null, json!(reference)),
    };
    change["spec"]["manifest"] = manifest;
    change["spec"]["manifestFrom"] = manifest_from;
    change["metadata"]["annotations"][ARTIFACT_CONTENT_ANNOTATION] = json!(content.mark);
}

/// A destination as a merge patch that leaves nothing of another one.
fn replacement(destination: &Destination) -> Value {
    json!({
        "server": destination.server,
        "namespace": destination.namespace,
        "reconcileOnEvents": destination.reconcile_on_events,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_replaces_another_one_completely() {
        let full = Destination {
            server: Some("https://cluster.example.com".to_owned()),
            namespace: Some("apps".to_owned()),
            reconcile_on_events: Some(false),
        };
        let fields = json!(full);
        let patch = replacement(&Destination::default());
        for field in fields.as_object().unwrap().keys() {
            assert_eq!(patch.get(field), Some(&Value::Null), "{field}");
        }
        assert_eq!(replacement(&full), fields);
    }
}
