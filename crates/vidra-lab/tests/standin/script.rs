//! The scripting interface over HTTP.

use serde_json::{Value, json};
use vidra_lab::standin::StandIn;

use crate::client::Client;

async fn scripted(client: &Client, what: &str, body: Value) -> Value {
    let answer = client.post(&format!("/_standin/{what}"), body).await;
    assert_eq!(answer.status, 200, "{what}: {}", answer.text);
    answer.json()
}

#[tokio::test]
async fn a_world_can_be_made_over_http() {
    let standin = StandIn::start().unwrap();
    let client = Client::of(&standin);
    scripted(&client, "clock", json!({ "now": "2026-01-01T00:00:00Z" })).await;
    let made = scripted(
        &client,
        "artifacts",
        json!({ "name": "a", "content": "first" }),
    )
    .await;
    scripted(&client, "branches", json!({ "name": "feature/x" })).await;
    scripted(
        &client,
        "queries",
        json!({ "name": "Count", "query": "{ CoreArtifact { count } }" }),
    )
    .await;
    let moved = scripted(&client, "clock", json!({ "advance_seconds": 3600 })).await;
    assert_eq!(moved["now"], "2026-01-01T01:00:00Z");
    scripted(
        &client,
        "artifacts",
        json!({ "name": "a", "status": "Error" }),
    )
    .await;

    let path = format!("/api/artifact/{}", made["id"].as_str().unwrap());
    assert_eq!(client.get(&path).await.text, "first");
    let query = "{ CoreArtifact { edges { node { status { value } } } } }";
    let on_main = client.graphql("/graphql", query).await.json();
    let on_branch = client.graphql("/graphql/feature/x", query).await.json();
    let status = "/data/CoreArtifact/edges/0/node/status/value";
    assert_eq!(on_main.pointer(status), Some(&json!("Error")));
    assert_eq!(on_branch.pointer(status), Some(&json!("Ready")));
    assert_eq!(
        client.get("/api/query/Count").await.json()["data"]["CoreArtifact"]["count"],
        1
    );

    let gone = client.request(reqwest::Method::DELETE, "/_standin/artifacts");
    client.send(gone.json(&json!({ "name": "a" }))).await;
    assert_eq!(client.get(&path).await.status, 404);
}

#[tokio::test]
async fn accounts_settings_and_faults_can_be_set_over_http() {
    let standin = StandIn::start().unwrap();
    let client = Client::of(&standin);
    let account = json!({ "name": "robot", "password": "x", "group": "users", "token": "key" });
    scripted(&client, "accounts", account).await;
    scripted(
        &client,
        "settings",
        json!({ "anonymous": false, "version": "1.7.5" }),
    )
    .await;
    assert_eq!(client.get("/api/info").await.status, 401);
    let by_key = client
        .request(reqwest::Method::GET, "/api/info")
        .header("X-INFRAHUB-KEY", "key");
    assert_eq!(client.send(by_key).await.json()["version"], "1.7.5");

    let effect = json!({ "kind": "answer", "status": 503 });
    let fault = json!({ "path": "/api/config", "when": { "first": 1 }, "effect": effect });
    scripted(&client, "faults", fault).await;
    assert_eq!(client.get("/api/config").await.status, 503);
    assert_eq!(client.get("/api/config").await.status, 200);
}

#[tokio::test]
async fn scripts_that_do_not_fit_are_refused_with_a_reason() {
    let standin = StandIn::start().unwrap();
    let client = Client::of(&standin);
    for (what, body, reason) in [
        (
            "artifacts",
            json!({ "content": "x" }),
            "missing field `name`",
        ),
        (
            "artifacts",
            json!({ "name": "a" }),
            "a ready artifact needs 'content'",
        ),
        (
            "artifacts",
            json!({ "name": "a", "status": "Done" }),
            "unknown variant `Done`",
        ),
        (
            "artifacts",
            json!({ "name": "a", "status": "Error", "content": "x" }),
            "only a ready artifact",
        ),
        (
            "artifacts",
            json!({ "name": "a", "contents": "x" }),
            "unknown field `contents`",
        ),
        (
            "faults",
            json!({ "path": "/", "effect": { "kind": "explode" } }),
            "unknown variant `explode`",
        ),
        (
            "faults",
            json!({ "path": "/", "when": "sometimes", "effect": { "kind": "hang" } }),
            "sometimes",
        ),
        ("clock", json!({ "now": "soon" }), "does not fit"),
        (
            "accounts",
            json!({ "name": "a", "password": "b", "group": "kings" }),
            "unknown variant `kings`",
        ),
    ] {
        let answer = client
            .post(&format!("/_standin/{what}"), body.clone())
            .await;
        let error = answer.json()["error"].as_str().unwrap().to_owned();
        assert_eq!(answer.status, 400, "{what} {body}");
        assert!(error.contains(reason), "{what} {body}: {error}");
    }
}

#[tokio::test]
async fn an_unknown_script_is_refused_with_the_place_of_the_list() {
    let standin = StandIn::start().unwrap();
    let client = Client::of(&standin);
    let answer = client.get("/_standin/nope").await;
    assert_eq!(answer.status, 404);
    assert!(
        answer.text.contains("GET /_standin lists them"),
        "{}",
        answer.text
    );
    let listed = client.get("/_standin").await.json();
    assert!(
        listed["routes"]
            .as_array()
            .unwrap()
            .contains(&json!("POST /_standin/faults"))
    );
}
