//! Checks that take several requests.

use std::time::Duration;

use reqwest::Url;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::contract::{
    ask::{Ask, Asker, Credentials},
    expect::{Expect, demand},
    facts::Facts,
};

/// Runs them all; each has a name and a verdict.
pub(in crate::contract) async fn stories(
    asker: &Asker,
    facts: &Facts,
) -> Vec<(&'static str, Result<(), String>)> {
    vec![
        (
            "after a crash the connection is closed without a word",
            silent_end(facts).await,
        ),
        (
            "uploaded content is readable and has its checksum",
            upload(asker, facts).await,
        ),
        (
            "after a logout the access token still works, the refresh token does not",
            logout(asker, facts).await,
        ),
        (
            "an API token works until it is deleted",
            api_token(asker, facts).await,
        ),
        (
            "an API token stops working when it expires",
            expired_token(asker, facts).await,
        ),
    ]
}

/// Less than any server's patience with an idle connection.
const PATIENCE: Duration = Duration::from_secs(4);

/// Sees the end of the connection, which the answer does not announce.
async fn silent_end(facts: &Facts) -> Result<(), String> {
    let url: Url = facts
        .target
        .base_url
        .parse()
        .map_err(|error| format!("no URL: {error}"))?;
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default().unwrap_or(80);
    let failed = |error: std::io::Error| format!("no plain HTTP at {host}:{port}: {error}");
    let mut stream = TcpStream::connect((host, port)).await.map_err(failed)?;
    let path = format!("/api/artifact/{}", facts.object);
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(failed)?;
    let mut answer = String::new();
    let end = timeout(PATIENCE, stream.read_to_string(&mut answer)).await;
    demand(answer.starts_with("HTTP/1.1 500"), || {
        format!("answer is {answer}")
    })?;
    demand(!answer.to_lowercase().contains("connection: close"), || {
        format!("answer is {answer}")
    })?;
    demand(end.is_ok(), || "the connection is still open".to_owned())
}

async fn upload(asker: &Asker, facts: &Facts) -> Result<(), String> {
    let body = json!({ "content": "kind: ConfigMap\n" });
    let ask = Ask::post("/api/storage/upload/content")
        .json(&body)
        .with(facts.key());
    let stored = asker.send(&ask).await?.json()?;
    demand(
        stored["checksum"] == "d1914d66057385818643c3dce30f14b7",
        || format!("body is {stored}"),
    )?;
    let id = stored["identifier"].as_str().unwrap_or_default();
    let answer = asker
        .send(&Ask::get(format!("/api/storage/object/{id}")))
        .await?;
    Expect::content(None, |text| text == "kind: ConfigMap\n").verdict(&answer)
}

async fn logout(asker: &Asker, facts: &Facts) -> Result<(), String> {
    let body = json!({ "username": facts.target.username, "password": facts.target.password });
    let session = asker
        .send(&Ask::post("/api/auth/login").json(&body))
        .await?
        .json()?;
    let token = |name: &str| Credentials::bearer(session[name].as_str().unwrap_or_default());
    let left = asker
        .send(&Ask::post("/api/auth/logout").with(token("access_token")))
        .await?;
    Expect::exactly(200, Value::Null).verdict(&left)?;
    let still = asker
        .send(&query(facts).with(token("access_token")))
        .await?;
    Expect::json(200).verdict(&still)?;
    let ask = Ask::post("/api/auth/refresh").with(token("refresh_token"));
    Expect::envelope(
        401,
        "The provided refresh token has been invalidated in the database",
    )
    .verdict(&asker.send(&ask).await?)
}

async fn api_token(asker: &Asker, facts: &Facts) -> Result<(), String> {
    let (id, value) = make_token(asker, facts, None).await?;
    Expect::json(200).verdict(
        &asker
            .send(&query(facts).with(Credentials::key(&value)))
            .await?,
    )?;
    delete_token(asker, facts, &id).await?;
    Expect::envelope(401, "Invalid token").verdict(
        &asker
            .send(&query(facts).with(Credentials::key(&value)))
            .await?,
    )
}

/// A token whose end has passed when it is made; nothing has to be waited for.
async fn expired_token(asker: &Asker, facts: &Facts) -> Result<(), String> {
    let (id, value) = make_token(asker, facts, Some("2020-01-01T00:00:00Z")).await?;
    let answer = asker
        .send(&query(facts).with(Credentials::key(&value)))
        .await?;
    delete_token(asker, facts, &id).await?;
    Expect::envelope(401, "Invalid token").verdict(&answer)
}

fn query(facts: &Facts) -> Ask {
    let variables = json!({ "artifactname": facts.target.artifact_name });
    Ask::post(format!("/api/query/{}", facts.target.query)).json(&json!({ "variables": variables }))
}

async fn make_token(
    asker: &Asker,
    facts: &Facts,
    expiration: Option<&str>,
) -> Result<(String, String), String> {
    let mutation = "mutation($e:String){ InfrahubAccountTokenCreate(\
        data:{name:\"contract\", expiration:$e}){ ok object{ id token{value} } } }";
    let ask = Ask::graphql("/graphql", mutation, &json!({ "e": expiration })).with(facts.bearer());
    let made = asker.send(&ask).await?.json()?;
    let object = &made["data"]["InfrahubAccountTokenCreate"]["object"];
    let (id, value) = (object["id"].as_str(), object["token"]["value"].as_str());
    match (id, value) {
        (Some(id), Some(value)) => Ok((id.to_owned(), value.to_owned())),
        _ => Err(format!("no token in {made}")),
    }
}

async fn delete_token(asker: &Asker, facts: &Facts, id: &str) -> Result<(), String> {
    let mutation = "mutation($i:String!){ InfrahubAccountTokenDelete(data:{id:$i}){ ok } }";
    let ask = Ask::graphql("/graphql", mutation, &json!({ "i": id })).with(facts.bearer());
    let expected = json!({ "data": { "InfrahubAccountTokenDelete": { "ok": true } } });
    Expect::exactly(200, expected).verdict(&asker.send(&ask).await?)
}
