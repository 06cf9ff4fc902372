//! Checks that take several requests.

use serde_json::{Value, json};

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
