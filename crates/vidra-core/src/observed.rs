//! What is seen of a live object: its metadata, nothing else.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{fields::FieldsEntry, identity::ObjectKey};

/// The metadata of a live object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// The object.
    pub key: ObjectKey,
    /// Its uid; a new one under the same name is another object.
    pub uid: String,
    /// Its resource version, for preconditions.
    pub resource_version: String,
    /// When it was made, in full seconds.
    pub created: Option<Timestamp>,
    /// Whether it is being deleted.
    pub is_terminating: bool,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its owner references.
    pub owner_references: Vec<OwnerReference>,
    /// Who owns which field.
    pub managed_fields: Vec<FieldsEntry>,
}

/// An owner reference, as far as we care.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerReference {
    /// The API version of the owner.
    pub api_version: String,
    /// The kind of the owner.
    pub kind: String,
    /// The name of the owner.
    pub name: String,
    /// Whether the owner is the managing controller.
    pub is_controller: bool,
}

impl OwnerReference {
    /// Whether the Go operator set it.
    pub fn is_of_go_operator(&self) -> bool {
        self.kind == "VidraResource" && self.api_version.starts_with("infrahub.operators.com/")
    }
}

impl Observed {
    /// The entry of our server-side apply.
    pub fn entry_of(&self, manager: &str) -> Option<&FieldsEntry> {
        self.managed_fields
            .iter()
            .find(|entry| entry.is_apply_of(manager))
    }

    /// The controller, other than the Go operator, that this object belongs to.
    pub fn foreign_controller(&self) -> Option<&OwnerReference> {
        self.owner_references
            .iter()
            .find(|reference| reference.is_controller && !reference.is_of_go_operator())
    }

    /// Whether the object provably came into being by an apply of this manager.
    ///
    /// The API server answers a creation with 201, but a crash can swallow that answer. Then our
    /// entry must be as old as the object, and nobody else may have written before us. Times are
    /// full seconds of the API server's clock; in doubt the answer is no.
    pub fn was_born_of(&self, manager: &str) -> bool {
        let Some(ours) = self.entry_of(manager).and_then(|entry| entry.time) else {
            return false;
        };
        let Some(created) = self.created else {
            return false;
        };
        let is_earlier = |entry: &FieldsEntry| {
            let is_content = entry.subresource.as_deref().unwrap_or_default().is_empty();
            is_content && entry.time.is_none_or(|time| time <= ours)
        };
        let mut others = self
            .managed_fields
            .iter()
            .filter(|entry| !entry.is_apply_of(manager));
        ours.as_second() - created.as_second() <= 1 && !others.any(is_earlier)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) const MANAGER: &str = "vidra/0123abcd/one";

    pub(crate) fn entry(manager: &str, operation: &str, time: &str) -> FieldsEntry {
        serde_json::from_value(json!({
            "manager": manager, "operation": operation, "apiVersion": "v1", "time": time,
            "fieldsV1": {"f:data": {"f:a": {}}},
        }))
        .expect("a managed fields entry")
    }

    pub(crate) fn observed(managed_fields: Vec<FieldsEntry>) -> Observed {
        Observed {
            key: ObjectKey::new("", "ConfigMap", Some("shop"), "settings"),
            uid: "uid-1".to_owned(),
            resource_version: "10".to_owned(),
            created: "2026-11-16T02:00:00Z".parse().ok(),
            is_terminating: false,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            owner_references: Vec::new(),
            managed_fields,
        }
    }

    #[test]
    fn an_object_whose_first_writer_we_are_was_born_of_our_apply() {
        let ours = entry(MANAGER, "Apply", "2026-11-16T02:00:00Z");
        let later = entry("kubectl-edit", "Update", "2026-11-16T02:00:09Z");
        assert!(observed(vec![ours, later]).was_born_of(MANAGER));
    }

    #[test]
    fn an_object_that_somebody_wrote_in_the_same_second_is_in_doubt_and_so_not_ours() {
        let ours = entry(MANAGER, "Apply", "2026-11-16T02:00:00Z");
        let theirs = entry("kubectl-create", "Update", "2026-11-16T02:00:00Z");
        assert!(!observed(vec![theirs, ours]).was_born_of(MANAGER));
    }

    #[test]
    fn an_object_older_than_our_first_apply_was_not_born_of_it() {
        let ours = entry(MANAGER, "Apply", "2026-11-16T02:00:05Z");
        assert!(!observed(vec![ours]).was_born_of(MANAGER));
    }
}
