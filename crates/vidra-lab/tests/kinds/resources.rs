//! What the API server says to a `VidraResource`.

use serde_json::{Value, json};
use vidra_api::VidraResource;

use crate::support::{
    assert_accepted, assert_refused, assert_refused_by_schema, client, create, object, verdict,
};

/// A resource with a manifest and one more field.
fn with(field: &str, value: Value) -> Value {
    object::<VidraResource>(json!({ "manifest": "", field: value }))
}

fn reference(field: &str, value: Value) -> Value {
    let digest = format!("sha256:{}", "0".repeat(64));
    let mut reference = json!({ "digest": digest, "chunks": 1 });
    reference[field] = value;
    object::<VidraResource>(json!({ "manifestFrom": reference }))
}

#[tokio::test]
async fn every_field_at_once_is_accepted_and_read_back() {
    let client = client().await;
    let resource = object::<VidraResource>(json!({
        "destination": { "server": "https://a", "namespace": "b", "reconcileOnEvents": true },
        "manifest": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: example\n",
        "reconciledAt": "2025-06-01T10:00:00Z",
        "suspend": true,
        "interval": "10m",
        "fieldConflicts": "Report",
        "adoption": "Always",
        "deletionPolicy": "Orphan",
        "immutableFields": "Recreate",
        "prune": {
            "enabled": false,
            "maxPercent": 10,
            "maxCount": 5,
            "allowKinds": [
                "Namespace", "CustomResourceDefinition", "PersistentVolume", "PersistentVolumeClaim"
            ]
        },
        "precedence": -3
    }));
    let accepted = verdict(&client, &resource).await.unwrap();
    let read: VidraResource = serde_json::from_value(accepted).unwrap();
    assert_eq!(serde_json::to_value(&read.spec).unwrap(), resource["spec"]);
}

#[tokio::test]
async fn nothing_is_added_to_a_short_resource() {
    let client = client().await;
    assert_accepted(&client, &object::<VidraResource>(json!({ "manifest": "" }))).await;
    assert_accepted(&client, &with("destination", json!({}))).await;
    assert_accepted(&client, &with("prune", json!({}))).await;
}

#[tokio::test]
async fn exactly_one_source_of_the_manifest_is_needed() {
    let client = client().await;
    let words = "set exactly one of manifest and manifestFrom";
    assert_refused(&client, &object::<VidraResource>(json!({})), words).await;
    let mut both = reference("size", json!(5));
    assert_accepted(&client, &both).await;
    both["spec"]["manifest"] = json!("");
    assert_refused(&client, &both, words).await;
}

#[tokio::test]
async fn a_resource_without_a_spec_is_refused() {
    let mut resource = object::<VidraResource>(json!({}));
    resource.as_object_mut().unwrap().remove("spec");
    assert_refused_by_schema(&client().await, &resource, "spec: Required value").await;
}

#[tokio::test]
async fn a_reference_to_content_needs_a_whole_digest() {
    let client = client().await;
    let upper = format!("sha256:{}", "A".repeat(64));
    for digest in [
        "",
        "sha256:12ab",
        "md5:0cc175b9c0f1b6a831c399e269772661",
        &upper,
    ] {
        let resource = reference("digest", json!(digest));
        assert_refused(&client, &resource, "64 lower-case hexadecimal digits").await;
    }
}

#[tokio::test]
async fn a_reference_to_content_has_sensible_numbers() {
    let client = client().await;
    for chunks in [1, 4096] {
        assert_accepted(&client, &reference("chunks", json!(chunks))).await;
    }
    for (field, value, words) in [
        ("chunks", 0, "greater than or equal to 1"),
        ("chunks", 4097, "less than or equal to 4096"),
        ("size", -1, "greater than or equal to 0"),
    ] {
        assert_refused_by_schema(&client, &reference(field, json!(value)), words).await;
    }
}

#[tokio::test]
async fn policies_accept_their_words_and_refuse_others_naming_them() {
    let client = client().await;
    for (field, words) in [
        ("fieldConflicts", &["Force", "Report"][..]),
        ("adoption", &["Never", "IfUnowned", "Always"]),
        ("deletionPolicy", &["Delete", "Orphan"]),
        ("immutableFields", &["Report", "Recreate"]),
    ] {
        for word in words {
            assert_accepted(&client, &with(field, json!(word))).await;
        }
        let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
        let supported = format!("supported values: {}", quoted.join(", "));
        assert_refused_by_schema(&client, &with(field, json!("Other")), &supported).await;
        assert_refused_by_schema(&client, &with(field, json!("force")), &supported).await;
    }
}

#[tokio::test]
async fn the_deletion_budget_has_sensible_numbers() {
    let client = client().await;
    for percent in [0, 100] {
        assert_accepted(&client, &with("prune", json!({ "maxPercent": percent }))).await;
    }
    assert_accepted(&client, &with("prune", json!({ "maxCount": 0 }))).await;
    for (budget, words) in [
        (json!({ "maxPercent": -1 }), "greater than or equal to 0"),
        (json!({ "maxPercent": 101 }), "less than or equal to 100"),
        (json!({ "maxCount": -1 }), "greater than or equal to 0"),
    ] {
        assert_refused_by_schema(&client, &with("prune", budget), words).await;
    }
}

#[tokio::test]
async fn only_protected_kinds_can_be_allowed_and_each_once() {
    let client = client().await;
    let prune = |kinds: Value| with("prune", json!({ "allowKinds": kinds }));
    assert_accepted(&client, &prune(json!(["Namespace"]))).await;
    let words = "supported values: \"Namespace\", \"CustomResourceDefinition\"";
    assert_refused_by_schema(&client, &prune(json!(["Pod"])), words).await;
    // Server-side apply refuses duplicates before the definition is asked.
    let twice = prune(json!(["Namespace", "Namespace"]));
    let message = create(&client, &twice).await.unwrap_err();
    assert!(
        message.contains("Duplicate value: \"Namespace\""),
        "{message}"
    );
}

#[tokio::test]
async fn what_is_no_interval_is_refused_with_an_example() {
    let client = client().await;
    assert_accepted(&client, &with("interval", json!("0"))).await;
    let words = "must be a duration such as 30s, 10m or 1h30m; 0 turns the timer off";
    assert_refused(&client, &with("interval", json!("10 minutes")), words).await;
}

#[tokio::test]
async fn the_destination_has_the_rules_of_a_sync() {
    let client = client().await;
    let server = with(
        "destination",
        json!({ "server": "https://admin:pw@cluster" }),
    );
    assert_refused(&client, &server, "such as https://cluster.example.com:6443").await;
    let namespace = with("destination", json!({ "namespace": "Team" }));
    assert_refused(&client, &namespace, "must be the name of a namespace").await;
}

#[tokio::test]
async fn a_time_must_be_one() {
    let resource = with("reconciledAt", json!("yesterday"));
    assert_refused_by_schema(&client().await, &resource, "spec.reconciledAt").await;
}
