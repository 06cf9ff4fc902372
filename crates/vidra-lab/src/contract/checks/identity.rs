//! Every kind of credential on every route: who wins, what counts as none, what is refused.

use serde_json::json;

use super::{Check, check};
use crate::contract::{
    ask::{Ask, Credentials},
    expect::{Expect, demand},
    facts::{ARTIFACTS, Facts},
};

/// What a kind of credential leads to.
#[derive(Clone, Copy)]
enum Verdict {
    Accepted,
    /// Reading works, posting to the REST routes does not.
    Anonymous,
    Refused(&'static str),
}

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    let mut checks = Vec::new();
    for (kind, credentials, verdict) in kinds(facts) {
        for (route, ask) in routes(facts) {
            let name = format!("{kind} on {route} is {}", word(verdict, route));
            checks.push(check(
                name,
                ask.with(credentials.clone()),
                expected(verdict, route),
            ));
        }
    }
    checks
}

fn kinds(facts: &Facts) -> Vec<(&'static str, Credentials, Verdict)> {
    let basic = Some("Basic YWRtaW46aW5mcmFodWI=".to_owned());
    let invalid = Verdict::Refused("Invalid token");
    let wrong = Verdict::Refused("Invalid token, current token is not an access token");
    let cookie = Some(format!("access_token={}", facts.access));
    vec![
        ("no credential", Credentials::none(), Verdict::Anonymous),
        ("a bearer token", facts.bearer(), Verdict::Accepted),
        ("an API token", facts.key(), Verdict::Accepted),
        (
            "a cookie",
            Credentials {
                cookie,
                ..Credentials::none()
            },
            Verdict::Accepted,
        ),
        (
            "an empty bearer token",
            Credentials::bearer(""),
            Verdict::Anonymous,
        ),
        (
            "basic authentication",
            Credentials {
                authorization: basic,
                ..Credentials::none()
            },
            Verdict::Anonymous,
        ),
        (
            "a garbage bearer token",
            Credentials::bearer("not.a.jwt"),
            invalid,
        ),
        ("a forged bearer token", facts.forged(), invalid),
        (
            "a refresh token",
            Credentials::bearer(&facts.refresh),
            wrong,
        ),
        (
            "an unknown API token",
            Credentials::key("00000000-0000-0000-0000-000000000000"),
            invalid,
        ),
        (
            "a good API token with a bad bearer token",
            Credentials::bearer("not.a.jwt").and_key(&facts.target.api_token),
            Verdict::Accepted,
        ),
        (
            "a bad API token with a good bearer token",
            facts.bearer().and_key("nope"),
            invalid,
        ),
    ]
}

fn routes(facts: &Facts) -> Vec<(&'static str, Ask)> {
    let name = &facts.target.artifact_name;
    let query = format!("/api/query/{}", facts.target.query);
    vec![
        (
            "graphql",
            Ask::graphql("/graphql", ARTIFACTS, &json!({ "n": name })),
        ),
        (
            "query",
            Ask::post(query).json(&json!({ "variables": { "artifactname": name } })),
        ),
        (
            "artifact",
            Ask::get(format!("/api/artifact/{}", facts.artifact)),
        ),
        (
            "storage",
            Ask::get(format!("/api/storage/object/{}", facts.storage_id)),
        ),
        ("info", Ask::get("/api/info")),
    ]
}

fn expected(verdict: Verdict, route: &str) -> Expect {
    match verdict {
        Verdict::Refused(message) => Expect::envelope(401, message),
        Verdict::Anonymous if route == "query" => {
            Expect::envelope(401, "Authentication is required")
        }
        Verdict::Accepted | Verdict::Anonymous => Expect::any(|answer| {
            let is_good = answer.status == 200 && !answer.text.contains("\"errors\"");
            demand(is_good, || {
                format!("status {}: {}", answer.status, answer.excerpt())
            })
        }),
    }
}

fn word(verdict: Verdict, route: &str) -> &'static str {
    match verdict {
        Verdict::Refused(_) => "refused",
        Verdict::Anonymous if route == "query" => "not enough",
        Verdict::Accepted | Verdict::Anonymous => "accepted",
    }
}
