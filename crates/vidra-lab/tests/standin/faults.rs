//! Faults do what they say.

use std::{collections::BTreeMap, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use vidra_lab::standin::{Effect, Fault, StandIn, When};

use crate::client::Client;

/// Long enough that a server which is not hanging has answered, on any machine.
const PATIENCE: Duration = Duration::from_secs(2);

fn standin_with(effect: Effect) -> (StandIn, Client, String) {
    let standin = StandIn::start().unwrap();
    let rendered = standin.artifact("a").content("0123456789").ready();
    standin.fault(Fault::on("/api/storage/object/", effect));
    let client = Client::of(&standin);
    let path = format!("/api/storage/object/{}", rendered.storage_id.unwrap());
    (standin, client, path)
}

#[tokio::test]
async fn an_answer_replaces_status_body_and_headers() {
    let headers = BTreeMap::from([("retry-after".to_owned(), "7".to_owned())]);
    let body = "slow down".to_owned();
    let (_standin, client, path) = standin_with(Effect::Answer {
        status: 429,
        body,
        headers,
    });
    let answer = client.get(&path).await;
    assert_eq!((answer.status, answer.text.as_str()), (429, "slow down"));
    assert_eq!(answer.headers["retry-after"], "7");
}

#[tokio::test]
async fn faults_hit_the_calls_that_they_are_meant_for() {
    let standin = StandIn::start().unwrap();
    let client = Client::of(&standin);
    for (when, expected) in [
        (When::Every, [503, 503, 503]),
        (When::First(2), [503, 503, 200]),
        (When::Nth(2), [200, 503, 200]),
        (When::After(1), [200, 503, 503]),
    ] {
        standin.fault(Fault::status("/api/info", 503, "").when(when));
        let mut seen = Vec::new();
        for _ in 0..3 {
            seen.push(client.get("/api/info").await.status);
        }
        standin.clear_faults();
        assert_eq!(seen, expected, "{when:?}");
    }
}

#[tokio::test]
async fn a_fault_heeds_method_and_path_and_can_be_disarmed() {
    let standin = StandIn::start().unwrap();
    let client = Client::of(&standin);
    let id = standin.fault(Fault::status("/api/", 503, "").method("POST"));
    assert_eq!(client.get("/api/info").await.status, 200);
    assert_eq!(
        client
            .post("/api/auth/refresh", serde_json::json!({}))
            .await
            .status,
        503
    );
    assert_eq!(
        client
            .graphql("/graphql", "{ CoreArtifact { count } }")
            .await
            .status,
        200
    );
    standin.disarm(id);
    assert_eq!(
        client
            .post("/api/auth/refresh", serde_json::json!({}))
            .await
            .status,
        401
    );
}

#[tokio::test]
async fn a_hanging_call_is_in_work_until_the_client_gives_up() {
    let (standin, client, path) = standin_with(Effect::Hang);
    let call = tokio::time::timeout(PATIENCE, client.get(&path)).await;
    assert!(call.is_err(), "there was an answer");
    let journal = standin.journal();
    assert_eq!((journal.len(), journal[0].status), (1, None));
}

#[tokio::test]
async fn a_delayed_call_is_the_real_one() {
    let (_standin, client, path) = standin_with(Effect::Delay { milliseconds: 20 });
    assert_eq!(client.get(&path).await.text, "0123456789");
}

#[tokio::test]
async fn a_dripping_body_comes_byte_by_byte() {
    let (_standin, client, path) = standin_with(Effect::Drip { milliseconds: 5 });
    let mut response = client
        .request(reqwest::Method::GET, &path)
        .send()
        .await
        .unwrap();
    assert_eq!(response.content_length(), Some(10));
    let mut pieces = Vec::new();
    while let Some(piece) = response.chunk().await.unwrap() {
        pieces.push(piece.to_vec());
    }
    assert_eq!(pieces.concat(), b"0123456789");
    assert!(pieces.len() > 1, "it came in one piece");
}

#[tokio::test]
async fn a_truncated_body_begins_right_and_ends_in_an_error() {
    let (_standin, client, path) = standin_with(Effect::Truncate { bytes: 4 });
    let mut response = client
        .request(reqwest::Method::GET, &path)
        .send()
        .await
        .unwrap();
    assert_eq!(
        (response.status().as_u16(), response.content_length()),
        (200, Some(10))
    );
    let mut seen = Vec::new();
    let end = loop {
        match response.chunk().await {
            Ok(Some(piece)) => seen.extend_from_slice(&piece),
            end => break end,
        }
    };
    assert_eq!(seen, b"0123");
    assert!(end.is_err(), "the body ended as if it were whole");
}

#[tokio::test]
async fn other_content_comes_with_the_real_headers() {
    let (_standin, client, path) = standin_with(Effect::Content {
        body: "another".to_owned(),
    });
    let answer = client.get(&path).await;
    assert_eq!((answer.status, answer.text.as_str()), (200, "another"));
    assert!(answer.headers.contains_key("x-request-id"));
}

#[tokio::test]
async fn an_oversized_body_has_its_size_and_no_warning() {
    let (_standin, client, path) = standin_with(Effect::Oversized { bytes: 100_001 });
    let response = client
        .request(reqwest::Method::GET, &path)
        .send()
        .await
        .unwrap();
    assert_eq!(response.content_length(), None);
    assert_eq!(response.bytes().await.unwrap().len(), 100_001);
}

#[tokio::test]
async fn a_redirect_tells_where_to() {
    let location = "http://elsewhere.example/object".to_owned();
    let effect = Effect::Redirect {
        status: 307,
        location: location.clone(),
    };
    let (_standin, client, path) = standin_with(effect);
    let answer = client.get(&path).await;
    assert_eq!(answer.status, 307);
    assert_eq!(answer.headers["location"], location.as_str());
}

#[tokio::test]
async fn a_halted_server_refuses_connections_and_comes_back_at_the_same_address() {
    let standin = StandIn::start_seeded().unwrap();
    let client = Client::of(&standin);
    standin.halt();
    let refused = client
        .request(reqwest::Method::GET, "/api/info")
        .send()
        .await;
    assert!(refused.unwrap_err().is_connect());
    standin.resume().unwrap();
    let answer = client
        .graphql("/graphql", "{ CoreArtifact { count } }")
        .await;
    assert_eq!(
        answer.json()["data"]["CoreArtifact"]["count"],
        2,
        "the world has stayed"
    );
}

/// Sends requests over one connection and tells the status lines until it ends or goes quiet.
async fn over_one_connection(standin: &StandIn, paths: &[&str]) -> (Vec<String>, bool) {
    let mut stream = TcpStream::connect(standin.address()).await.unwrap();
    let (mut seen, mut is_closed) = (String::new(), false);
    for path in paths {
        let request = format!("GET {path} HTTP/1.1\r\nHost: standin\r\n\r\n");
        // Writing to a closed connection may fail or not; reading tells.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut bytes = [0; 4096];
        match tokio::time::timeout(PATIENCE, stream.read(&mut bytes))
            .await
            .unwrap()
        {
            Ok(0) | Err(_) => is_closed = true,
            Ok(count) => {
                seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
                seen.push('\n');
            }
        }
    }
    let statuses = seen.lines().filter(|line| line.starts_with("HTTP/1.1"));
    (statuses.map(str::to_owned).collect(), is_closed)
}

#[tokio::test]
async fn a_connection_outlives_answers_but_no_crash() {
    let standin = StandIn::start().unwrap();
    let pending = format!("/api/artifact/{}", standin.artifact("a").pending().id);
    let (seen, is_closed) = over_one_connection(&standin, &["/api/info", "/api/nope"]).await;
    assert_eq!(seen, ["HTTP/1.1 200 OK", "HTTP/1.1 404 Not Found"]);
    assert!(!is_closed);
    let (seen, is_closed) = over_one_connection(&standin, &[&pending, "/api/info"]).await;
    assert_eq!(seen, ["HTTP/1.1 500 Internal Server Error"]);
    assert!(is_closed);
}

#[tokio::test]
async fn without_a_web_ui_other_paths_crash() {
    let standin = StandIn::start().unwrap();
    let client = Client::of(&standin);
    let page = client.get("/artifacts").await;
    assert_eq!(page.status, 200);
    assert!(page.text.starts_with("<!doctype html>"), "{}", page.text);
    standin.web_ui(false);
    assert_eq!(client.get("/artifacts").await.status, 500);
}
