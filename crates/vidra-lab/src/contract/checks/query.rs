//! Stored queries.

use serde_json::{Value, json};

use super::{Check, check};
use crate::contract::{
    ask::Ask,
    expect::{Expect, demand},
    facts::Facts,
};

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    let (query, name) = (&facts.target.query, &facts.target.artifact_name);
    let path = format!("/api/query/{query}");
    let post = |suffix: &str, variables: Value| {
        Ask::post(format!("{path}{suffix}"))
            .json(&json!({ "variables": variables }))
            .with(facts.bearer())
    };
    let named = || json!({ "artifactname": name });
    let branch = facts.target.branch.replace('/', "%2F");
    let get = || Ask::get(format!("{path}?artifactname={name}"));
    let bare = || Ask::post(path.clone()).with(facts.bearer());
    let no_query = |name: &str| {
        Expect::envelope(
            404,
            &format!(
                "Unable to find the node {name} / <class 'infrahub.core.protocols.CoreGraphQLQuery'> in the database."
            ),
        )
    };
    let missing = || missing_variable(query);
    vec![
        check(
            "a stored query answers data and nothing else",
            post("", named()),
            found(),
        ),
        check(
            "a stored query knows branches",
            post(&format!("?branch={branch}"), named()),
            found(),
        ),
        check(
            "an empty branch is the default branch",
            post("?branch=&update_group=false", named()),
            found(),
        ),
        check(
            "a stored query that finds nothing answers an empty list",
            post("", json!({ "artifactname": "no-such-name" })),
            Expect::exactly(200, json!({ "data": { "CoreArtifact": { "edges": [] } } })),
        ),
        check(
            "an unknown stored query is 404",
            Ask::post("/api/query/NoSuchQuery")
                .json(&json!({}))
                .with(facts.bearer()),
            no_query("NoSuchQuery"),
        ),
        check(
            "an unknown branch of a stored query is 400",
            post("?branch=nope", named()),
            Expect::envelope(400, "Branch: nope not found."),
        ),
        check(
            "a missing variable is 502 with an object for a message",
            post("", json!({})),
            missing(),
        ),
        check(
            "an empty object is a missing variable",
            bare().json(&json!({})),
            missing(),
        ),
        check("no body is a missing variable", bare(), missing()),
        check(
            "a stored query that is younger than the time is 404",
            post("?at=2020-01-01T00:00:00Z", named()),
            no_query(query),
        ),
        check(
            "a stored query by GET takes variables from the URL",
            get().with(facts.bearer()),
            found(),
        ),
        check("a stored query by GET is open", get(), found()),
        check(
            "a stored query by POST is not open",
            Ask::post(path.clone()).json(&json!({ "variables": named() })),
            Expect::envelope(401, "Authentication is required"),
        ),
        check(
            "an unknown stored query is not told to anybody",
            Ask::post("/api/query/NoSuchQuery").json(&json!({})),
            Expect::envelope(401, "Authentication is required"),
        ),
    ]
}

fn found() -> Expect {
    Expect::json(200).body(|body| {
        let members = body.as_object().map_or(0, serde_json::Map::len);
        let node = &body["data"]["CoreArtifact"]["edges"][0]["node"];
        let is_right =
            members == 1 && node["id"].is_string() && node["status"]["value"].is_string();
        demand(is_right, || format!("body is {body}"))
    })
}

fn missing_variable(query: &str) -> Expect {
    let expected = format!(
        "GraphQLQuery {query}: Variable '$artifactname' of required type 'String!' was not provided."
    );
    Expect::json(502).body(move |body| {
        let error = &body["errors"][0];
        let is_right = error["message"]["message"] == expected.as_str()
            && error["message"]["path"].is_null()
            && error["message"]["locations"][0]["line"].is_u64()
            && error["extensions"]["code"] == 502;
        demand(is_right && body["data"].is_null(), || {
            format!("body is {body}")
        })
    })
}
