//! The journal counts what was asked.

use reqwest::Method;
use vidra_lab::standin::{ADMIN, ADMIN_TOKEN, Authorization, Effect, Fault, StandIn};

use crate::client::Client;

#[tokio::test]
async fn calls_are_kept_with_their_credential_and_status() {
    let standin = StandIn::start().unwrap();
    let client = Client::of(&standin);
    let (access, _) = client.login(ADMIN.0, ADMIN.1).await;
    client.with_bearer("/api/info?x=1", &access).await;
    let key = client
        .request(Method::GET, "/api/info")
        .header("X-INFRAHUB-KEY", ADMIN_TOKEN);
    client.send(key.bearer_auth("both")).await;
    let cookie = client.request(Method::GET, "/api/nope");
    client
        .send(cookie.header("cookie", format!("access_token={access}")))
        .await;

    let seen: Vec<_> = standin
        .journal()
        .into_iter()
        .map(|call| {
            (
                call.method,
                call.path,
                call.query,
                call.authorization,
                call.status,
            )
        })
        .collect();
    let call = |method: &str, path: &str, query: &str, authorization, status| {
        (
            method.to_owned(),
            path.to_owned(),
            query.to_owned(),
            authorization,
            Some(status),
        )
    };
    assert_eq!(
        seen,
        [
            call("POST", "/api/auth/login", "", Authorization::Anonymous, 200),
            call("GET", "/api/info", "x=1", Authorization::Bearer, 200),
            call("GET", "/api/info", "", Authorization::ApiToken, 200),
            call("GET", "/api/nope", "", Authorization::Cookie, 404),
        ]
    );
    assert_eq!(standin.count("GET", "/api/info"), 2);
    assert_eq!(standin.count("GET", "/api/"), 3);
    standin.clear_journal();
    assert_eq!(standin.count("GET", "/api/"), 0);
}

#[tokio::test]
async fn calls_in_work_at_the_same_time_are_counted() {
    let standin = StandIn::start().unwrap();
    let client = Client::of(&standin);
    for _ in 0..3 {
        client.get("/api/info").await;
    }
    assert_eq!(standin.max_in_flight(), 1, "one after the other");

    standin.fault(Fault::on("/api/info", Effect::Delay { milliseconds: 500 }));
    tokio::join!(
        client.get("/api/info"),
        client.get("/api/info"),
        client.get("/api/info")
    );
    assert_eq!(standin.max_in_flight(), 3);
    standin.clear_journal();
    assert_eq!(standin.max_in_flight(), 0);
}

#[tokio::test]
async fn scripting_leaves_no_trace_in_the_journal() {
    let standin = StandIn::start().unwrap();
    let client = Client::of(&standin);
    client.get("/_standin/journal").await;
    client.get("/api/info").await;
    let answer = client.get("/_standin/journal").await.json();
    assert_eq!(answer["calls"].as_array().unwrap().len(), 1);
    assert_eq!(answer["calls"][0]["path"], "/api/info");
}
