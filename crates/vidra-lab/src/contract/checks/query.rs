//! Stored queries.

use serde_json::{Value, json};

use super::{Check, check};
use crate::contract::{
    ask::Ask,
    expect::{Expect, demand},
    facts::Facts,
};

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    answers(facts).into_iter().chain(refusals(facts)).collect()
}

fn path(facts: &Facts) -> String {
    format!("/api/query/{}", facts.target.query)
}

fn named(name: &str) -> Value {
    json!({ "variables": { "artifactname": name } })
}

/// The query for the lab's artifact, with a query string.
fn post(facts: &Facts, suffix: &str) -> Ask {
    let ask = Ask::post(format!("{}{suffix}", path(facts)));
    ask.json(&named(&facts.target.artifact_name))
        .with(facts.bearer())
}

fn answers(facts: &Facts) -> Vec<Check> {
    let branch = facts.target.branch.replace('/', "%2F");
    let get = || {
        Ask::get(format!(
            "{}?artifactname={}",
            path(facts),
            facts.target.artifact_name
        ))
    };
    let nothing = Ask::post(path(facts))
        .json(&named("no-such-name"))
        .with(facts.bearer());
    let empty = json!({ "data": { "CoreArtifact": { "edges": [] } } });
    vec![
        check(
            "a stored query answers data and nothing else",
            post(facts, ""),
            found(),
        ),
        check(
            "a stored query knows branches",
            post(facts, &format!("?branch={branch}")),
            found(),
        ),
        check(
            "an empty branch is the default branch",
            post(facts, "?branch=&update_group=false"),
            found(),
        ),
        check(
            "a stored query that finds nothing answers an empty list",
            nothing,
            Expect::exactly(200, empty),
        ),
        check(
            "a stored query by GET takes variables from the URL",
            get().with(facts.bearer()),
            found(),
        ),
        check("a stored query by GET is open", get(), found()),
    ]
}

fn refusals(facts: &Facts) -> Vec<Check> {
    let query = &facts.target.query;
    let bare = || Ask::post(path(facts)).with(facts.bearer());
    let unknown = || Ask::post("/api/query/NoSuchQuery").json(&json!({}));
    let open = || Ask::post(path(facts)).json(&named(&facts.target.artifact_name));
    let closed = || Expect::envelope(401, "Authentication is required");
    let missing = || missing_variable(query);
    let no_branch = Expect::envelope(400, "Branch: nope not found.");
    vec![
        check(
            "an unknown stored query is 404",
            unknown().with(facts.bearer()),
            no_query("NoSuchQuery"),
        ),
        check(
            "an unknown branch of a stored query is 400",
            post(facts, "?branch=nope"),
            no_branch,
        ),
        check(
            "a missing variable is 502 with an object for a message",
            bare().json(&json!({ "variables": {} })),
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
            post(facts, "?at=2020-01-01T00:00:00Z"),
            no_query(query),
        ),
        check("a stored query by POST is not open", open(), closed()),
        check(
            "an unknown stored query is not told to anybody",
            unknown(),
            closed(),
        ),
    ]
}

fn no_query(name: &str) -> Expect {
    let kind = "<class 'infrahub.core.protocols.CoreGraphQLQuery'>";
    Expect::envelope(
        404,
        &format!("Unable to find the node {name} / {kind} in the database."),
    )
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
