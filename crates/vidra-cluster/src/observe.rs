//! From the API server's metadata to what the domain sees.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use vidra_core::{
    fields::FieldsEntry,
    identity::{GroupKind, ObjectKey},
    observed::{Observed, OwnerReference},
};

/// Takes over the metadata of a live object of a known kind.
pub fn observe(kind: &GroupKind, metadata: &meta::ObjectMeta) -> Observed {
    let name = metadata.name.as_deref().unwrap_or_default();
    Observed {
        key: ObjectKey::new(&kind.group, &kind.kind, metadata.namespace.as_deref(), name),
        uid: metadata.uid.clone().unwrap_or_default(),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
        created: metadata.creation_timestamp.as_ref().map(timestamp),
        is_terminating: metadata.deletion_timestamp.is_some(),
        labels: metadata.labels.clone().unwrap_or_default(),
        annotations: metadata.annotations.clone().unwrap_or_default(),
        owner_references: metadata
            .owner_references
            .iter()
            .flatten()
            .map(owner)
            .collect(),
        managed_fields: metadata
            .managed_fields
            .iter()
            .flatten()
            .map(entry)
            .collect(),
    }
}

fn timestamp(time: &meta::Time) -> Timestamp {
    time.0
}

fn owner(reference: &meta::OwnerReference) -> OwnerReference {
    OwnerReference {
        api_version: reference.api_version.clone(),
        kind: reference.kind.clone(),
        name: reference.name.clone(),
        is_controller: reference.controller.unwrap_or_default(),
    }
}

fn entry(entry: &meta::ManagedFieldsEntry) -> FieldsEntry {
    FieldsEntry {
        manager: entry.manager.clone().unwrap_or_default(),
        operation: entry.operation.clone().unwrap_or_default(),
        api_version: entry.api_version.clone().unwrap_or_default(),
        time: entry.time.as_ref().map(timestamp),
        subresource: entry.subresource.clone(),
        fields: entry
            .fields_v1
            .as_ref()
            .map(|fields| fields.0.clone())
            .unwrap_or_default(),
    }
}
