//! What the API server says to an `InfrahubSync`.

use serde_json::{Value, json};
use vidra_api::InfrahubSync;

use crate::support::{
    assert_accepted, assert_refused, assert_refused_by_schema, client, create, object, verdict,
};

/// A sync with a valid source in which one field is replaced, or removed by `null`.
fn with_source(field: &str, value: Value) -> Value {
    let mut source = json!({ "infrahubAPIURL": "https://infrahub", "artefactName": "a" });
    match value {
        Value::Null => source.as_object_mut().unwrap().remove(field),
        value => source.as_object_mut().unwrap().insert(field.into(), value),
    };
    object::<InfrahubSync>(json!({ "source": source }))
}

fn with_destination(destination: Value) -> Value {
    let source = json!({ "infrahubAPIURL": "https://infrahub", "artefactName": "a" });
    object::<InfrahubSync>(json!({ "source": source, "destination": destination }))
}

#[tokio::test]
async fn every_field_at_once_is_accepted_and_read_back() {
    let client = client().await;
    let sync = object::<InfrahubSync>(json!({
        "source": {
            "infrahubAPIURL": "https://infrahub.example.com/base",
            "targetBranch": "feature/one",
            "targetDate": "now-2h",
            "artifactName": "Webserver Manifest",
            "interval": "30s",
            "allowEmpty": true,
            "credentialsRef": { "name": "infrahub-credentials" },
            "caBundleRef": { "name": "infrahub-ca", "key": "tls.crt" }
        },
        "destination": {
            "server": "https://cluster.example.com:6443",
            "namespace": "default",
            "reconcileOnEvents": false
        },
        "suspend": true
    }));
    let accepted = verdict(&client, &sync).await.unwrap();
    let read: InfrahubSync = serde_json::from_value(accepted).unwrap();
    assert_eq!(serde_json::to_value(&read.spec).unwrap(), sync["spec"]);
}

#[tokio::test]
async fn nothing_is_added_to_a_short_sync() {
    assert_accepted(&client().await, &with_source("targetBranch", Value::Null)).await;
    assert_accepted(&client().await, &with_destination(json!({}))).await;
}

/// As `kubectl create` and `kubectl apply` send it; server-side apply refuses a `null` by itself.
#[tokio::test]
async fn a_null_counts_as_absent() {
    let mut sync = with_source("targetDate", Value::Null);
    sync["spec"]["source"]["targetDate"] = Value::Null;
    let created = create(&client().await, &sync).await.unwrap();
    assert_eq!(created["spec"]["source"].get("targetDate"), None);
}

#[tokio::test]
async fn urls_of_servers_are_accepted() {
    let client = client().await;
    for url in [
        "https://infrahub.example.com",
        "http://172.20.41.1:8000",
        "http://[2001:db8::1]:8000/",
        "http://infrahub_server.internal/base/path",
        "http://localhost/odd@path",
    ] {
        assert_accepted(&client, &with_source("infrahubAPIURL", json!(url))).await;
    }
}

#[tokio::test]
async fn what_is_no_url_is_refused_with_an_example() {
    let client = client().await;
    for url in [
        "",
        "infrahub.example.com",
        "ftp://infrahub.example.com",
        "https://",
        "https:///path",
        "https://two words",
        "https://host:port",
        "user@host",
    ] {
        let sync = with_source("infrahubAPIURL", json!(url));
        assert_refused(&client, &sync, "such as https://infrahub.example.com").await;
    }
}

#[tokio::test]
async fn credentials_in_the_url_are_refused_and_pointed_to_a_secret() {
    let client = client().await;
    for url in [
        "https://user:pass@infrahub",
        "http://token@infrahub:8000/x",
        "ftp://a@b",
    ] {
        let sync = with_source("infrahubAPIURL", json!(url));
        assert_refused(&client, &sync, "into a Secret that credentialsRef names").await;
    }
}

#[tokio::test]
async fn a_query_or_fragment_in_the_url_is_refused() {
    let client = client().await;
    for url in ["https://infrahub?branch=main", "https://infrahub/#top"] {
        let sync = with_source("infrahubAPIURL", json!(url));
        assert_refused(&client, &sync, "remove that part").await;
    }
}

#[tokio::test]
async fn a_sync_without_a_url_is_refused() {
    let sync = with_source("infrahubAPIURL", Value::Null);
    let words = "spec.source.infrahubAPIURL: Required value";
    assert_refused_by_schema(&client().await, &sync, words).await;
}

#[tokio::test]
async fn exactly_one_spelling_of_the_name_is_needed() {
    let client = client().await;
    let words = "set exactly one of artefactName and artifactName";
    assert_refused(&client, &with_source("artefactName", Value::Null), words).await;
    assert_refused(&client, &with_source("artifactName", json!("a")), words).await;
    let mut other_spelling = with_source("artefactName", Value::Null);
    other_spelling["spec"]["source"]["artifactName"] = json!("a");
    assert_accepted(&client, &other_spelling).await;
}

#[tokio::test]
async fn an_empty_name_or_branch_is_refused() {
    let client = client().await;
    for field in ["artefactName", "targetBranch"] {
        let words = format!("spec.source.{field} in body should be at least 1 chars long");
        assert_refused_by_schema(&client, &with_source(field, json!("")), &words).await;
    }
}

#[tokio::test]
async fn dates_that_infrahub_understands_are_accepted() {
    let client = client().await;
    for date in [
        "",
        "2025-01-31T00:00:00Z",
        "2025-01-31T23:59:59.123456+02:00",
        "now-2h",
        "now-90s",
        "now-15m",
    ] {
        assert_accepted(&client, &with_source("targetDate", json!(date))).await;
    }
}

#[tokio::test]
async fn a_date_in_the_future_is_refused_with_the_reason() {
    let client = client().await;
    for date in ["now+2h", "+2h", "now+2d"] {
        let words = "Infrahub ignores the sign";
        assert_refused(&client, &with_source("targetDate", json!(date)), words).await;
    }
}

#[tokio::test]
async fn other_dates_are_refused_with_an_example() {
    let client = client().await;
    for date in [
        "now",
        "-2d",
        "now-2d",
        "now-2",
        "now-10 minutes",
        "yesterday",
        "2025-01-31",
        "2025-01-31 00:00:00Z",
        "2025-01-31T00:00:00",
        "2025-01-31T00:00:00z",
        "2025-13-31T00:00:00Z",
        "2025-01-32T00:00:00Z",
        "2025-01-31T24:00:00Z",
        "2025-01-31T00:00:00+0200",
        "1735689600",
    ] {
        let words = "must be a time such as 2025-01-31T00:00:00Z";
        assert_refused(&client, &with_source("targetDate", json!(date)), words).await;
    }
}

#[tokio::test]
async fn every_accepted_interval_can_be_read() {
    let client = client().await;
    for interval in [
        "0",
        "0s",
        "30s",
        "10m",
        "1h30m",
        "1.5h",
        "250ms",
        "7us",
        "7\u{b5}s",
        "7\u{3bc}s",
        "7ns",
        "999999999h999999999h",
    ] {
        let sync = with_source("interval", json!(interval));
        let accepted = verdict(&client, &sync).await.unwrap();
        let read: InfrahubSync = serde_json::from_value(accepted).unwrap();
        let zero = interval.trim_end_matches('s') == "0";
        assert_eq!(
            read.spec.source.interval.unwrap().is_zero(),
            zero,
            "{interval}"
        );
    }
}

#[tokio::test]
async fn what_is_no_interval_is_refused_with_an_example() {
    let client = client().await;
    for interval in [
        "",
        "5",
        "-1m",
        "+1m",
        "1d",
        "1 m",
        "m",
        "1.h",
        "ten minutes",
        "9999999999h",
    ] {
        let words = "must be a duration such as 30s, 10m or 1h30m; 0 turns the timer off";
        assert_refused(&client, &with_source("interval", json!(interval)), words).await;
    }
}

#[tokio::test]
async fn a_reference_must_be_able_to_name_a_secret() {
    let client = client().await;
    for field in ["credentialsRef", "caBundleRef"] {
        assert_accepted(&client, &with_source(field, json!({ "name": "a.b-c1" }))).await;
        for name in ["", "Upper", "a/b", "-a"] {
            let words = "must be the name of a Secret in Vidra's own namespace";
            assert_refused(&client, &with_source(field, json!({ "name": name })), words).await;
        }
        let words = format!("spec.source.{field}.name: Required value");
        assert_refused_by_schema(&client, &with_source(field, json!({})), &words).await;
    }
}

#[tokio::test]
async fn the_key_of_a_ca_bundle_must_be_able_to_be_one() {
    let client = client().await;
    for (key, accepted) in [
        ("ca.crt", true),
        ("CA_bundle-1", true),
        ("", false),
        ("a b", false),
    ] {
        let sync = with_source("caBundleRef", json!({ "name": "a", "key": key }));
        if accepted {
            assert_accepted(&client, &sync).await;
        } else {
            assert_refused(&client, &sync, "must be a key of the Secret").await;
        }
    }
}

#[tokio::test]
async fn a_server_that_can_be_looked_up_is_accepted() {
    let client = client().await;
    for server in [
        "",
        "https://kubernetes.default.svc",
        "https://10.0.0.1:6443",
        "cluster:6443",
    ] {
        assert_accepted(&client, &with_destination(json!({ "server": server }))).await;
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_looked_up_is_refused_with_an_example() {
    let client = client().await;
    for server in [
        "<your server>",
        "https://admin:pw@cluster",
        "https://a?b",
        "https://a#b",
    ] {
        let sync = with_destination(json!({ "server": server }));
        assert_refused(&client, &sync, "such as https://cluster.example.com:6443").await;
    }
}

#[tokio::test]
async fn a_namespace_must_be_able_to_be_one() {
    let client = client().await;
    for (namespace, accepted) in [
        ("", true),
        ("team-1", true),
        ("Team", false),
        ("a.b", false),
        ("a-", false),
    ] {
        let sync = with_destination(json!({ "namespace": namespace }));
        if accepted {
            assert_accepted(&client, &sync).await;
        } else {
            assert_refused(&client, &sync, "must be the name of a namespace").await;
        }
    }
}

#[tokio::test]
async fn too_long_texts_are_refused() {
    let client = client().await;
    let long = |length| json!("a".repeat(length));
    for (field, length) in [
        ("targetBranch", 256),
        ("targetDate", 65),
        ("artefactName", 1025),
    ] {
        let sync = with_source(field, long(length));
        assert_refused_by_schema(&client, &sync, "Too long").await;
    }
    let sync = with_destination(json!({ "namespace": long(64) }));
    assert_refused_by_schema(&client, &sync, "Too long").await;
}
