//! `GET` and `POST /api/query/{name}`: queries that are stored in Infrahub.

use axum::{http::StatusCode, response::Response};
use serde_json::{Map, Value as Plain};

use super::{Asked, graphql::permit, no_object};
use crate::standin::{
    graphql::{Context, Failure, Prepared},
    json::{Json, Style},
    respond::{self, Refusal},
    world::World,
};

/// Parameters that are not variables of the query.
const RESERVED: [&str; 4] = ["branch", "at", "update_group", "subscribers"];

pub(super) fn run(world: &mut World, asked: &Asked<'_>, name: &str) -> Result<Response, Refusal> {
    let body = if asked.is_get() {
        Json::Null
    } else {
        asked.json()?
    };
    let (branch, at) = asked.moment(world)?;
    let identity = asked.identity(world)?;
    let variables = if asked.is_get() {
        from_parameters(asked)
    } else {
        from_body(&body)?
    };
    let kind = "<class 'infrahub.core.protocols.CoreGraphQLQuery'>";
    let no_query = || Refusal::no_node(name, kind);
    let query = world.query_at(name, &branch, at).ok_or_else(no_query)?;
    let (title, source) = (query.name.clone(), query.text.clone());
    let prepared = Prepared::new(&source, None).map_err(|_| Refusal::Crash)?;
    permit(world, &identity, &prepared)?;
    let mut context = Context {
        world,
        identity: &identity,
        branch,
        at,
    };
    let answer = prepared.run(&mut context, &variables);
    if answer.failures.is_empty() {
        return Ok(respond::json(
            StatusCode::OK,
            &Json::object([("data", answer.data)]),
        ));
    }
    let messages = answer
        .failures
        .iter()
        .map(|failure| message(&title, failure))
        .collect();
    Err(Refusal::Envelope {
        status: StatusCode::BAD_GATEWAY,
        messages,
    })
}

/// A message that is an object where all others are strings.
fn message(title: &str, failure: &Failure) -> Json {
    Json::object([
        (
            "message",
            Json::text(format!("GraphQLQuery {title}: {}", failure.message)),
        ),
        ("path", failure.path()),
        ("locations", failure.locations()),
    ])
}

/// In a URL every variable is a string.
fn from_parameters(asked: &Asked<'_>) -> Map<String, Plain> {
    asked
        .parameters
        .iter()
        .filter(|(name, _)| !RESERVED.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), Plain::String(value.clone())))
        .collect()
}

fn from_body(body: &Json) -> Result<Map<String, Plain>, Refusal> {
    match body {
        Json::Null => return Ok(Map::new()),
        Json::Object(_) => {}
        other => return Err(no_object(other)),
    }
    let Some(variables) = body.get("variables") else {
        return Ok(Map::new());
    };
    // Through text: the order of variables carries no meaning.
    serde_json::from_str(&variables.write(Style::CompactRaw)).map_err(|_| {
        Refusal::Detail(Json::List(vec![Json::object([
            ("type", Json::text("dict_type")),
            (
                "loc",
                Json::List(vec![Json::text("body"), Json::text("variables")]),
            ),
            ("msg", Json::text("Input should be a valid dictionary")),
            ("input", variables.clone()),
        ])]))
    })
}
