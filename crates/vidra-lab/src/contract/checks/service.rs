//! What the server says about itself, and about paths that it does not have.

use serde_json::json;

use super::{Check, check};
use crate::contract::{
    ask::Ask,
    expect::{Expect, demand},
    facts::Facts,
};

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    vec![
        check(
            "info tells the version",
            Ask::get("/api/info"),
            Expect::json(200).body(|body| {
                let is_told = body["version"].is_string() && body["deployment_id"].is_string();
                demand(is_told, || format!("body is {body}"))
            }),
        ),
        check(
            "config is open and tells anonymous access",
            Ask::get("/api/config"),
            Expect::json(200).body(|body| {
                let allowed = &body["main"]["allow_anonymous_access"];
                demand(*allowed == json!(true), || {
                    format!("allow_anonymous_access is {allowed}")
                })
            }),
        ),
        check(
            "an unknown API path is a JSON 404",
            Ask::get("/api/nope").with(facts.bearer()),
            Expect::envelope(404, "The requested endpoint /api/nope does not exist"),
        ),
        check(
            "an unknown other path is the web UI, never JSON",
            Ask::get("/nope"),
            web_ui(),
        ),
        check(
            "the root is the web UI, never JSON",
            Ask::get("/"),
            web_ui(),
        ),
        check(
            "GraphQL by GET is the web UI",
            Ask::get("/graphql?query=%7BCoreArtifact%7Bcount%7D%7D").with(facts.bearer()),
            web_ui(),
        ),
        check(
            "login by GET does not exist",
            Ask::get("/api/auth/login"),
            Expect::envelope(404, "The requested endpoint /api/auth/login does not exist"),
        ),
    ]
}

/// With the UI's bundle an HTML page with status 200, without it a crash.
fn web_ui() -> Expect {
    Expect::any(|answer| {
        let kind = answer.header("content-type").unwrap_or_default();
        let is_page = answer.status == 200 && kind.starts_with("text/html");
        let is_crash = answer.status == 500 && kind.starts_with("text/plain");
        demand(is_page || is_crash, || {
            format!("{} {kind}: {}", answer.status, answer.excerpt())
        })
    })
}
