//! Artifacts: status, history, branches, times.

use std::time::Duration;

use serde_json::{Value, json};
use vidra_lab::standin::{Rendered, StandIn, Status};

use crate::client::Client;

const HOUR: Duration = Duration::from_hours(1);

/// What GraphQL shows of the artifacts on a path: status and checksum, in its order.
async fn shown(client: &Client, path: &str) -> Vec<(String, Value)> {
    let query = "{ CoreArtifact { edges { node { status { value } checksum { value } } } } }";
    let answer = client.graphql(path, query).await.json();
    let edges = answer["data"]["CoreArtifact"]["edges"]
        .as_array()
        .unwrap()
        .clone();
    let status = |edge: &Value| edge["node"]["status"]["value"].as_str().unwrap().to_owned();
    edges
        .iter()
        .map(|edge| (status(edge), edge["node"]["checksum"]["value"].clone()))
        .collect()
}

async fn content(client: &Client, rendered: &Rendered, suffix: &str) -> String {
    client
        .get(&format!("/api/artifact/{}{suffix}", rendered.id))
        .await
        .text
}

#[tokio::test]
async fn a_failed_rendering_keeps_the_last_good_content() {
    let standin = StandIn::start().unwrap();
    let client = Client::of(&standin);
    let good = standin.artifact("a").content("good").ready();
    let failed = standin.artifact("a").failed();

    assert_eq!(
        (failed.status, &failed.storage_id),
        (Status::Error, &good.storage_id)
    );
    assert_eq!(
        shown(&client, "/graphql").await,
        [("Error".into(), json!(good.checksum))]
    );
    assert_eq!(content(&client, &good, "").await, "good");
}

#[tokio::test]
async fn rendering_the_same_content_again_leaves_an_error_stuck() {
    let standin = StandIn::start().unwrap();
    standin.artifact("a").content("one").ready();
    standin.artifact("a").failed();
    let events = standin.events().len();

    assert_eq!(
        standin.artifact("a").content("one").ready().status,
        Status::Error
    );
    assert_eq!(
        standin.events().len(),
        events,
        "nothing changed, nothing is told"
    );
    assert_eq!(
        standin.artifact("a").content("two").ready().status,
        Status::Ready
    );
}

#[tokio::test]
async fn an_artifact_that_was_never_rendered_crashes_its_content_route() {
    let standin = StandIn::start().unwrap();
    let client = Client::of(&standin);
    let pending = standin.artifact("a").pending();
    assert_eq!(
        shown(&client, "/graphql").await,
        [("Pending".into(), Value::Null)]
    );
    let answer = client.get(&format!("/api/artifact/{}", pending.id)).await;
    assert_eq!(
        (answer.status, answer.text.as_str()),
        (500, "Internal Server Error")
    );
    assert!(answer.headers.get("x-request-id").is_none());
}

#[tokio::test]
async fn superseded_and_deleted_content_stays_readable_by_storage_id() {
    let standin = StandIn::start().unwrap();
    let client = Client::of(&standin);
    let old = standin.artifact("a").content("old").ready();
    let new = standin.artifact("a").content("new").ready();
    standin.artifact("a").delete();

    assert_eq!(
        client
            .get(&format!("/api/artifact/{}", new.id))
            .await
            .status,
        404
    );
    for (rendered, text) in [(old, "old"), (new, "new")] {
        let path = format!("/api/storage/object/{}", rendered.storage_id.unwrap());
        assert_eq!(client.get(&path).await.text, text);
    }
}

#[tokio::test]
async fn a_deleted_artifact_comes_back_with_another_id() {
    let standin = StandIn::start().unwrap();
    let first = standin.artifact("a").content("x").ready();
    standin.artifact("a").delete();
    assert_ne!(standin.artifact("a").content("x").ready().id, first.id);
}

#[tokio::test]
async fn a_time_shows_what_was_there_then() {
    let standin = StandIn::start().unwrap();
    let client = Client::of(&standin);
    standin.set_now("2026-01-01T00:00:00Z".parse().unwrap());
    let rendered = standin.artifact("a").content("first").ready();
    standin.advance(2 * HOUR);
    standin.artifact("a").content("second").ready();

    assert_eq!(content(&client, &rendered, "").await, "second");
    assert_eq!(
        content(&client, &rendered, "?at=2026-01-01T01:00:00Z").await,
        "first"
    );
    assert_eq!(content(&client, &rendered, "?at=now-1h").await, "first");
    assert_eq!(
        content(&client, &rendered, "?at=now%2B1h").await,
        "first",
        "the sign is ignored"
    );
    let before = client
        .get(&format!("/api/artifact/{}?at=2025-12-31", rendered.id))
        .await;
    assert_eq!(before.status, 404);
    assert_eq!(shown(&client, "/graphql?at=2025-12-31").await, []);
}

#[tokio::test]
async fn a_branch_shows_main_as_it_was_until_it_renders_its_own() {
    let standin = StandIn::start().unwrap();
    let client = Client::of(&standin);
    standin.set_now("2026-01-01T00:00:00Z".parse().unwrap());
    let main = standin.artifact("a").content("main 1").ready();
    standin.advance(HOUR);
    standin.branch("feature/x");
    standin.advance(HOUR);
    standin.artifact("a").content("main 2").ready();
    standin.artifact("b").content("only on main").ready();

    let on_branch = "?branch=feature%2Fx";
    assert_eq!(content(&client, &main, on_branch).await, "main 1");
    assert_eq!(shown(&client, "/graphql/feature/x").await.len(), 1);

    standin.advance(HOUR);
    let own = standin
        .artifact("a")
        .branch("feature/x")
        .content("branch")
        .ready();
    assert_eq!(own.id, main.id, "the same artifact, with another content");
    assert_eq!(content(&client, &main, on_branch).await, "branch");
    assert_eq!(content(&client, &main, "").await, "main 2");
    let before_branch = "?branch=feature%2Fx&at=2026-01-01T00:30:00Z";
    assert_eq!(content(&client, &main, before_branch).await, "main 1");

    standin.delete_branch("feature/x");
    assert_eq!(
        client
            .get(&format!("/api/artifact/{}{on_branch}", main.id))
            .await
            .status,
        400
    );
}

#[tokio::test]
async fn a_stored_query_is_unknown_to_branches_older_than_itself() {
    let standin = StandIn::start().unwrap();
    let client = Client::of(&standin);
    standin.branch("old");
    standin.advance(HOUR);
    standin.query("Count", "{ CoreArtifact { count } }");
    standin.branch("new");
    assert_eq!(client.get("/api/query/Count").await.status, 200);
    assert_eq!(client.get("/api/query/Count?branch=new").await.status, 200);
    assert_eq!(client.get("/api/query/Count?branch=old").await.status, 404);
    standin.delete_query("Count");
    assert_eq!(client.get("/api/query/Count").await.status, 404);
}

#[tokio::test]
async fn lost_and_corrupted_objects_are_served_as_they_are() {
    let standin = StandIn::start().unwrap();
    let client = Client::of(&standin);
    let rendered = standin.artifact("a").content("right").ready();
    let id = rendered.storage_id.clone().unwrap();
    standin.corrupt(&id, "wrong");
    assert_eq!(content(&client, &rendered, "").await, "wrong");
    standin.lose(&id);
    let answer = client.get(&format!("/api/artifact/{}", rendered.id)).await;
    let expected = format!("Unable to find the node {id} / StorageObject in the database.");
    assert_eq!((answer.status, answer.message()), (404, expected));
}

#[tokio::test]
async fn two_stand_ins_never_share_an_id() {
    let (left, right) = (StandIn::start().unwrap(), StandIn::start().unwrap());
    let id = |standin: &StandIn| standin.artifact("a").content("x").ready().id;
    assert_ne!(id(&left), id(&right));
}
