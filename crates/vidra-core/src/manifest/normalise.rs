//! Removes what only the API server may write.

use serde_json::{Map, Value};

/// Fields of `metadata` that a server sets and an author only copies.
const SERVER_FIELDS: [&str; 6] = [
    "managedFields",
    "uid",
    "resourceVersion",
    "generation",
    "selfLink",
    "creationTimestamp",
];

/// Drops `status` and the server's metadata from an object, and the `creationTimestamp: null` that
/// Go programs write into every embedded template. Everything else stays. Idempotent.
pub fn normalise(body: &mut Value) {
    let Some(fields) = body.as_object_mut() else {
        return;
    };
    fields.remove("status");
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in SERVER_FIELDS {
            metadata.remove(field);
        }
    }
    drop_null_timestamps(body);
}

fn drop_null_timestamps(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
                drop_null_timestamp(metadata);
            }
            fields.values_mut().for_each(drop_null_timestamps);
        }
        Value::Array(members) => members.iter_mut().for_each(drop_null_timestamps),
        _ => {}
    }
}

fn drop_null_timestamp(metadata: &mut Map<String, Value>) {
    if metadata
        .get("creationTimestamp")
        .is_some_and(Value::is_null)
    {
        metadata.remove("creationTimestamp");
    }
}
