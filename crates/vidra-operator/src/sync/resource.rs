//! The `VidraResource`s of a sync: what they carry and how they stand. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Resource, ResourceExt};
use vidra_api::{
    DeletionPolicy, InfrahubSync, ManagedResource, State, VidraResource,
    names::{ARTIFACT_CONTENT_ANNOTATION, ARTIFACT_ID_LABEL, SELECTED_FOR_ANNOTATION},
};
use vidra_core::{
    delivery::Own,
    guard::{PROTECTED_KINDS, is_protected},
    identity::ObjectKey,
};

use crate::known::sync_owners;

/// How the digest of stored content begins.
const SHA256: &str = "sha256:";

/// What a sync has to know of one of its resources, which is the one of an artifact. The digest is
/// that of the manifest in it.
pub(crate) fn own(
    sync: &InfrahubSync,
    resource: &VidraResource,
    artifact: &str,
    digest: Option<String>,
) -> Own {
    let label = resource.labels().get(ARTIFACT_ID_LABEL);
    Own {
        name: resource.name_any(),
        checksum: content_of(resource, digest),
        is_current: is_owned(sync, resource)
            && label.is_some_and(|label| label == artifact)
            && resource.spec.destination == sync.spec.destination,
        is_ending: resource.metadata.deletion_timestamp.is_some(),
        artifact: artifact.to_owned(),
    }
}

/// The artifact that a resource was made from. The Go operator had no label: its name was the id.
pub(crate) fn artifact_of(resource: &VidraResource) -> String {
    let label = resource.labels().get(ARTIFACT_ID_LABEL).cloned();
    label.unwrap_or_else(|| resource.name_any())
}

/// Whether a resource belongs to a sync.
pub(crate) fn is_owned(sync: &InfrahubSync, resource: &VidraResource) -> bool {
    let uid = sync.metadata.uid.as_deref();
    sync_owners(resource).any(|owner| Some(owner.uid.as_str()) == uid)
}

/// Whether a resource belongs to no sync at all: the Go operator's, or left by a sync that was
/// deleted without its resources.
pub(crate) fn is_free(resource: &VidraResource) -> bool {
    sync_owners(resource).next().is_none()
}

/// The value of the annotation: the checksum in Infrahub, and the digest of what was written.
pub(crate) fn content_mark(checksum: &str, digest: &str) -> String {
    let digest = digest.trim_start_matches(SHA256);
    format!("{checksum} {digest}")
}

/// The checksum of what a resource carries, if that is what was written and can be read.
fn content_of(resource: &VidraResource, digest: Option<String>) -> Option<String> {
    let mark = resource.annotations().get(ARTIFACT_CONTENT_ANNOTATION)?;
    let (checksum, written) = mark.split_once(' ')?;
    let carried = match (&resource.spec.manifest, &resource.spec.manifest_from) {
        (Some(_), None) => digest?,
        (None, Some(reference)) => reference.digest.trim_start_matches(SHA256).to_owned(),
        _ => return None,
    };
    let is_lost = ready(resource).is_some_and(|it| it.reason == "ContentMissing");
    let is_lost = is_lost && is_observed(resource);
    (carried == written && !is_lost).then(|| checksum.to_owned())
}

fn ready(resource: &VidraResource) -> Option<&Condition> {
    let status = resource.status.as_ref()?;
    let mut conditions = status.conditions.iter();
    conditions.find(|condition| condition.type_ == "Ready")
}

/// Whether the status is about the resource as it is now.
fn is_observed(resource: &VidraResource) -> bool {
    let observed = resource
        .status
        .as_ref()
        .and_then(|it| it.observed_generation);
    observed == resource.metadata.generation
}

/// Whether everything that a resource wants is in the cluster.
pub(crate) fn is_ready(resource: &VidraResource) -> bool {
    resource.metadata.deletion_timestamp.is_none()
        && is_observed(resource)
        && ready(resource).is_some_and(|it| it.status == "True")
}

/// The state of a resource in one word.
pub(crate) fn state_of(resource: Option<&VidraResource>) -> State {
    let Some(resource) = resource else {
        return State::Pending;
    };
    let state = resource.status.as_ref().and_then(|it| it.deploy_state);
    match state {
        None => State::Pending,
        Some(_) if !is_observed(resource) => State::Running,
        Some(State::Succeeded) if !is_ready(resource) => State::Running,
        Some(state) => state,
    }
}

/// Why a resource is not ready, as it says itself.
pub(crate) fn complaint(resource: &VidraResource) -> Option<String> {
    let ready = ready(resource).filter(|_| is_observed(resource))?;
    (ready.status != "True").then(|| format!("{}: {}", ready.reason, ready.message))
}

/// Why a resource is not removed unasked, whatever the budget says.
pub(crate) fn is_dear(resource: &VidraResource) -> Option<&'static str> {
    let status = resource.status.as_ref()?;
    if keeps_objects(resource) {
        return None;
    }
    let listed = &status.managed_resources;
    if listed.iter().any(|object| is_held_kind(resource, object)) {
        return Some(PROTECTED_KINDS);
    }
    let inventory = status.inventory.as_ref();
    let is_stored = inventory.is_some_and(|it| it.stored_in.is_some());
    let known = inventory.map_or(0, |it| it.entries.len());
    (is_stored || known > listed.len())
        .then_some("a VidraResource has more objects than its status shows")
}

fn is_held_kind(resource: &VidraResource, object: &ManagedResource) -> bool {
    let group = object.api_version.split_once('/').map_or("", |(it, _)| it);
    let mut allowed = resource.spec.prune.allow_kinds.iter();
    is_protected(&ObjectKey::new(group, &object.kind, None, &object.name))
        && !allowed.any(|kind| kind.as_str() == object.kind)
}

fn keeps_objects(resource: &VidraResource) -> bool {
    resource.spec.deletion_policy == DeletionPolicy::Orphan
}

/// How many objects go with a resource, itself included where it has none.
pub(crate) fn weight_of(resource: &VidraResource) -> usize {
    let status = resource
        .status
        .as_ref()
        .filter(|_| !keeps_objects(resource));
    let listed = status.map_or(0, |it| it.managed_resources.len());
    let desired = status.and_then(|it| it.counts).map_or(0, |it| it.desired);
    listed
        .max(usize::try_from(desired).unwrap_or_default())
        .max(1)
}

/// The artifact's name that the sync asked for, where a registered query has selected an artifact
/// of another name.
pub(crate) fn selected_for(resource: &VidraResource) -> Option<&str> {
    let annotations = resource.annotations();
    annotations.get(SELECTED_FOR_ANNOTATION).map(String::as_str)
}

/// How a resource is called among objects.
pub(crate) fn key_of(name: &str) -> ObjectKey {
    let group = VidraResource::group(&());
    ObjectKey::new(&group, &VidraResource::kind(&()), None, name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vidra_core::manifest::digest;

    use super::*;

    fn resource(value: serde_json::Value) -> VidraResource {
        let mut whole = json!({
            "apiVersion": "infrahub.operators.com/v1alpha1", "kind": "VidraResource",
            "metadata": {"name": "a", "generation": 2}, "spec": {"manifest": "x"},
        });
        json_patch(&mut whole, value);
        serde_json::from_value(whole).unwrap()
    }

    fn json_patch(whole: &mut serde_json::Value, patch: serde_json::Value) {
        match (whole, patch) {
            (serde_json::Value::Object(whole), serde_json::Value::Object(patch)) => {
                for (key, value) in patch {
                    json_patch(whole.entry(key).or_insert(json!(null)), value);
                }
            }
            (whole, patch) => *whole = patch,
        }
    }

    /// What the sync sees that a resource carries.
    fn carried(resource: &VidraResource) -> Option<String> {
        let digest = resource.spec.manifest.as_deref().map(digest);
        own(&sync(), resource, "a", digest).checksum
    }

    fn sync() -> InfrahubSync {
        let mut sync = InfrahubSync::new("s", vidra_api::InfrahubSyncSpec::default());
        sync.metadata.uid = Some("u".to_owned());
        sync
    }

    fn marked(digest: &str) -> serde_json::Value {
        let mark = content_mark("md5", digest);
        json!({"metadata": {"annotations": {ARTIFACT_CONTENT_ANNOTATION: mark}}})
    }

    #[test]
    fn an_edited_manifest_is_not_what_was_written() {
        let written = resource(marked(&digest("x")));
        assert_eq!(carried(&written).as_deref(), Some("md5"));
        let edited = resource(marked(&digest("before")));
        assert_eq!(carried(&edited), None);
        assert_eq!(carried(&resource(json!({}))), None);
    }

    #[test]
    fn stored_content_that_was_lost_is_written_again() {
        let stored = json!({
            "metadata": {"annotations": {ARTIFACT_CONTENT_ANNOTATION: content_mark("md5", "sha256:ab")}},
            "spec": {"manifest": null, "manifestFrom": {"digest": "sha256:ab", "chunks": 1}},
        });
        assert_eq!(carried(&resource(stored.clone())).as_deref(), Some("md5"));
        let mut lost = stored;
        lost["status"] = json!({"observedGeneration": 2, "conditions": [{
            "type": "Ready", "status": "False", "reason": "ContentMissing", "message": "",
            "lastTransitionTime": "2025-01-01T00:00:00Z",
        }]});
        assert_eq!(carried(&resource(lost)), None);
    }

    #[test]
    fn a_resource_is_ready_only_for_its_own_generation() {
        let status = |generation: i64| {
            json!({"status": {"observedGeneration": generation, "DeployState": "Succeeded",
                "conditions": [{"type": "Ready", "status": "True", "reason": "Succeeded",
                    "message": "", "lastTransitionTime": "2025-01-01T00:00:00Z"}]}})
        };
        assert!(is_ready(&resource(status(2))));
        assert_eq!(state_of(Some(&resource(status(2)))), State::Succeeded);
        assert!(!is_ready(&resource(status(1))));
        assert_eq!(state_of(Some(&resource(status(1)))), State::Running);
        assert_eq!(state_of(None), State::Pending);
    }

    #[test]
    fn a_resource_with_a_namespace_or_with_more_than_it_shows_is_dear() {
        let with = |status: serde_json::Value| resource(json!({"status": status}));
        let object = |kind: &str| json!({"kind": kind, "apiVersion": "v1", "name": "n"});
        let namespace = with(json!({"managedResources": [object("Namespace")]}));
        assert_eq!(is_dear(&namespace), Some(PROTECTED_KINDS));
        let plain = with(json!({"managedResources": [object("ConfigMap")]}));
        assert_eq!(is_dear(&plain), None);
        let spilled = json!({"inventory": {"storedIn": {"name": "x", "chunks": 1}}});
        assert!(is_dear(&with(spilled)).is_some());
        let hidden = json!({"inventory": {"entries": ["a", "b"]}, "managedResources": [object("ConfigMap")]});
        assert!(is_dear(&with(hidden)).is_some());
        let mut allowed = namespace;
        allowed.spec.prune.allow_kinds = vec![vidra_api::ProtectedKind::Namespace];
        assert_eq!(is_dear(&allowed), None);
    }
}
