//! Login and refresh.

use serde_json::{Value, json};

use super::{Check, check};
use crate::contract::{
    ask::{Answer, Ask, Credentials},
    expect::{Expect, demand},
    facts::Facts,
};

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    let (name, password) = (&facts.target.username, &facts.target.password);
    let login = |body: Value| Ask::post("/api/auth/login").json(&body);
    let refresh = || Ask::post("/api/auth/refresh");
    vec![
        check(
            "login gives two tokens",
            login(json!({ "username": name, "password": password })),
            Expect::json(200).body(two_tokens).and(cookies),
        ),
        check(
            "a wrong password is 401",
            login(json!({ "username": name, "password": "wrong" })),
            Expect::envelope(401, "Incorrect password"),
        ),
        check(
            "an empty password is 401",
            login(json!({ "username": name, "password": "" })),
            Expect::envelope(401, "Incorrect password"),
        ),
        check(
            "an unknown user is 404",
            login(json!({ "username": "nobody", "password": "x" })),
            Expect::envelope(404, "That login user doesn't exist in the system"),
        ),
        check(
            "a login without password is 422",
            login(json!({ "username": name })),
            Expect::detail("missing", json!(["body", "password"])),
        ),
        check(
            "a login as a form is 422",
            Ask::post("/api/auth/login").body(
                "application/x-www-form-urlencoded",
                format!("username={name}&password={password}"),
            ),
            Expect::detail("model_attributes_type", json!(["body"])),
        ),
        check(
            "refresh gives an access token only",
            refresh().with(Credentials::bearer(&facts.refresh)),
            Expect::json(200).body(|body| {
                let is_right =
                    body["access_token"].is_string() && body.get("refresh_token").is_none();
                demand(is_right, || format!("body is {body}"))
            }),
        ),
        check(
            "refresh with an access token is 401",
            refresh().with(facts.bearer()),
            Expect::envelope(401, "Invalid token, current token is not a refresh token"),
        ),
        check(
            "refresh without a token is 401",
            refresh(),
            Expect::envelope(
                401,
                "A JWT refresh token is required to perform this operation.",
            ),
        ),
        check(
            "refresh with a cookie works",
            refresh().with(Credentials {
                cookie: Some(format!("refresh_token={}", facts.refresh)),
                ..Credentials::none()
            }),
            Expect::json(200).body(|body| {
                demand(body["access_token"].is_string(), || {
                    format!("body is {body}")
                })
            }),
        ),
        check(
            "logout without a token is 401",
            Ask::post("/api/auth/logout"),
            Expect::envelope(
                401,
                "A JWT access token is required to perform this operation.",
            ),
        ),
    ]
}

/// Both are JSON web tokens: three parts.
fn two_tokens(body: &Value) -> Result<(), String> {
    let parts = |name: &str| body[name].as_str().unwrap_or_default().split('.').count();
    let is_right = parts("access_token") == 3 && parts("refresh_token") == 3;
    demand(is_right, || "no two tokens of three parts".to_owned())
}

fn cookies(answer: &Answer) -> Result<(), String> {
    let cookies: Vec<&str> = answer
        .headers
        .get_all("set-cookie")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    let is_set = |name: &str| {
        cookies
            .iter()
            .any(|cookie| cookie.starts_with(name) && cookie.contains("HttpOnly"))
    };
    demand(is_set("access_token=") && is_set("refresh_token="), || {
        format!("cookies: {cookies:?}")
    })
}
