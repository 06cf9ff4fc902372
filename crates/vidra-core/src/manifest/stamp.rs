//! Our marks on the objects that we manage.

use serde_json::{Map, Value};

use super::{
    error::{ManifestError, Problem, Refusal},
    object::ManifestObject,
};

/// Key of the label and of the annotation that every managed object carries.
pub const MANAGED_BY_KEY: &str = "managed-by";
/// Their value.
pub const MANAGED_BY_VALUE: &str = "vidra";

/// What to add besides `managed-by: vidra`, and which keys the author must not use.
#[derive(Debug, Clone, Copy, Default)]
pub struct Marks<'a> {
    /// Further labels.
    pub labels: &'a [(&'a str, &'a str)],
    /// Further annotations.
    pub annotations: &'a [(&'a str, &'a str)],
    /// Prefixes of keys that only we may write.
    pub reserved: &'a [&'a str],
}

/// Adds our marks beside the author's. An author's own `managed-by` is replaced: the watch finds
/// managed objects by it.
pub fn stamp(object: &mut ManifestObject, marks: &Marks<'_>) -> Result<(), ManifestError> {
    refuse_reserved([&*object], marks.reserved)?;
    if let Some(metadata) = object.metadata_mut() {
        add(metadata, "labels", marks.labels);
        add(metadata, "annotations", marks.annotations);
    }
    Ok(())
}

/// Refuses objects whose author uses keys that are ours; all of them in one error.
pub fn refuse_reserved<'o>(
    objects: impl IntoIterator<Item = &'o ManifestObject>,
    reserved: &[&str],
) -> Result<(), ManifestError> {
    let problems = objects
        .into_iter()
        .flat_map(|object| reserved_keys(object, reserved))
        .collect();
    ManifestError::unless_empty(problems)
}

fn reserved_keys(object: &ManifestObject, reserved: &[&str]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (place, field) in [
        ("label", "/metadata/labels"),
        ("annotation", "/metadata/annotations"),
    ] {
        let entries = object.body().pointer(field).and_then(Value::as_object);
        for key in entries.into_iter().flat_map(Map::keys) {
            if reserved.iter().any(|prefix| key.starts_with(prefix)) {
                problems.push(Problem {
                    refusal: Refusal::ReservedKey {
                        place,
                        key: key.clone(),
                    },
                    position: object.position().clone(),
                    object: Some(object.describe()),
                    snippet: None,
                });
            }
        }
    }
    problems
}

fn add(metadata: &mut Map<String, Value>, field: &str, entries: &[(&str, &str)]) {
    let map = metadata.entry(field).or_insert(Value::Null);
    // Null is what an empty map in a template comes to; other types were refused when parsing.
    if map.is_null() {
        *map = Value::Object(Map::new());
    }
    if let Some(map) = map.as_object_mut() {
        map.insert(MANAGED_BY_KEY.to_owned(), Value::from(MANAGED_BY_VALUE));
        map.extend(
            entries
                .iter()
                .map(|(key, value)| ((*key).to_owned(), Value::from(*value))),
        );
    }
}
