//! Removes what only the API server may write, and writes the rest as the server keeps it.

use base64::{Engine, prelude::BASE64_STANDARD};
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
/// Go programs write into every embedded template. The `stringData` of a Secret becomes `data`.
/// Everything else stays. Idempotent.
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
    if is_secret(fields) {
        encode_string_data(fields);
    }
    drop_null_timestamps(body);
}

fn is_secret(fields: &Map<String, Value>) -> bool {
    let is = |field: &str, text: &str| fields.get(field).and_then(Value::as_str) == Some(text);
    is("apiVersion", "v1") && is("kind", "Secret")
}

/// The server keeps only `data`. An apply of `stringData` would not own what it became, so nobody
/// would see that it was changed, and a key that left the manifest would stay for ever.
///
/// What is not as it should be is left as it is, for the server to refuse.
fn encode_string_data(fields: &mut Map<String, Value>) {
    let Some(texts) = fields.get("stringData").and_then(Value::as_object) else {
        return;
    };
    let encoded: Option<Map<String, Value>> = texts
        .iter()
        .map(|(key, text)| {
            let code = BASE64_STANDARD.encode(text.as_str()?);
            Some((key.clone(), Value::String(code)))
        })
        .collect();
    let Some(encoded) = encoded else { return };
    let data = fields.entry("data").or_insert_with(|| Map::new().into());
    if data.is_null() {
        *data = Map::new().into();
    }
    let Some(data) = data.as_object_mut() else {
        return;
    };
    data.extend(encoded);
    fields.remove("stringData");
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn normalised(mut body: Value) -> Value {
        normalise(&mut body);
        body
    }

    #[test]
    fn string_data_of_a_secret_becomes_data_and_goes_before_it() {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "data": {"a": "b2xk", "b": "a2VwdA=="}, "stringData": {"a": "new"},
        });
        let expected = json!({
            "apiVersion": "v1", "kind": "Secret", "data": {"a": "bmV3", "b": "a2VwdA=="},
        });
        assert_eq!(normalised(secret), expected);
        assert_eq!(normalised(expected.clone()), expected);
    }

    #[test]
    fn string_data_that_the_server_would_refuse_is_left_for_it_to_refuse() {
        for string_data in [json!([1]), json!({"a": 1}), json!("text")] {
            let secret = json!({"apiVersion": "v1", "kind": "Secret", "stringData": string_data});
            assert_eq!(normalised(secret.clone()), secret);
        }
    }

    #[test]
    fn string_data_of_other_kinds_is_theirs() {
        let other = json!({
            "apiVersion": "example.com/v1", "kind": "Secret", "stringData": {"a": "b"},
        });
        assert_eq!(normalised(other.clone()), other);
    }
}
