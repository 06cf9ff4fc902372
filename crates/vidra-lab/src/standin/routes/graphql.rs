//! `POST /graphql` and `POST /graphql/{branch}`.

use axum::{http::StatusCode, response::Response};
use serde_json::{Map, Value as Plain};

use super::Asked;
use crate::standin::{
    graphql::{Answer, Context, Failure, Prepared},
    identity::{Identity, Presented},
    json::Json,
    respond::{self, Refusal},
    world::{Group, World},
};

pub(super) fn run(world: &mut World, asked: &Asked<'_>, branch: &str) -> Result<Response, Refusal> {
    let identity = world.identify(&Presented::of(&asked.parts.headers))?;
    let no_branch = || {
        strings(
            StatusCode::NOT_FOUND,
            format!("Branch: {branch} not found."),
        )
    };
    let branch = world.branch(branch).cloned().ok_or_else(no_branch)?;
    let operation = operation(asked)?;
    let at = asked.time(world)?;
    // Without a query, and with one that is none, the real server crashes.
    let source = operation
        .get("query")
        .and_then(Plain::as_str)
        .ok_or(Refusal::Crash)?;
    let name = operation.get("operationName").and_then(Plain::as_str);
    let prepared = Prepared::new(source, name).map_err(|_| Refusal::Crash)?;
    permit(world, &identity, &prepared)?;
    let at = if prepared.is_mutation() {
        world.now()
    } else {
        at
    };
    let variables = operation
        .get("variables")
        .and_then(Plain::as_object)
        .cloned();
    let mut context = Context {
        world,
        identity: &identity,
        branch,
        at,
    };
    let answer = prepared.run(&mut context, &variables.unwrap_or_default());
    Ok(respond::json(StatusCode::OK, &body(answer)))
}

fn operation(asked: &Asked<'_>) -> Result<Map<String, Plain>, Refusal> {
    let refused = |message: &str| strings(StatusCode::BAD_REQUEST, message.to_owned());
    if !asked.is_json() {
        return Err(refused(
            "Content-type must be application/json or multipart/form-data",
        ));
    }
    match serde_json::from_slice(asked.body) {
        Ok(Plain::Object(operation)) => Ok(operation),
        Ok(Plain::Array(_)) => Err(refused("This server does not support batching")),
        Ok(_) => Err(Refusal::Crash),
        Err(_) => Err(refused("Request body is not a valid JSON")),
    }
}

fn strings(status: StatusCode, message: String) -> Refusal {
    Refusal::Strings { status, message }
}

/// Errors of GraphQL are no errors of HTTP.
fn body(answer: Answer) -> Json {
    let mut members = vec![("data".to_owned(), answer.data)];
    if !answer.failures.is_empty() {
        let errors = answer.failures.iter().map(failure).collect();
        members.push(("errors".to_owned(), Json::List(errors)));
    }
    Json::Object(members)
}

fn failure(failure: &Failure) -> Json {
    let mut members = vec![
        ("message".to_owned(), Json::text(&failure.message)),
        ("locations".to_owned(), failure.locations()),
    ];
    if failure.path.is_some() {
        members.push(("path".to_owned(), failure.path()));
    }
    Json::Object(members)
}

/// Whether an identity may run an operation. Judged before anything is executed or validated.
pub(super) fn permit(
    world: &World,
    identity: &Identity,
    prepared: &Prepared,
) -> Result<(), Refusal> {
    let is_mutation = prepared.is_mutation();
    match identity {
        Identity::Anonymous if is_mutation || !world.settings.is_anonymous_allowed => Err(
            Refusal::unauthorized("Authentication is required to perform this operation"),
        ),
        Identity::Anonymous
        | Identity::Account {
            group: Group::Administrators,
            ..
        } => Ok(()),
        Identity::Account { group, .. } => {
            let missing = prepared
                .roots()
                .find_map(|root| needed(root, is_mutation, *group));
            missing.map_or(Ok(()), |permission| {
                let message =
                    format!("You do not have one of the following permissions: {permission}");
                Err(Refusal::new(StatusCode::FORBIDDEN, message))
            })
        }
    }
}

/// The permission that a group lacks for a root field, if it lacks one.
fn needed(root: &str, is_mutation: bool, group: Group) -> Option<String> {
    if is_mutation {
        let actions = ["Create", "Update", "Upsert", "Delete"];
        let (kind, action) = actions
            .iter()
            .find_map(|action| Some((root.strip_suffix(action)?, action)))?;
        let is_own = kind == "InfrahubAccountToken";
        return (!is_own).then(|| permission(kind, &action.to_lowercase()));
    }
    (group == Group::Nobody && root.starts_with("Core")).then(|| permission(root, "view"))
}

/// `CoreArtifact` is `Artifact` in the namespace `Core`.
fn permission(kind: &str, action: &str) -> String {
    let split = kind
        .char_indices()
        .skip(1)
        .find(|(_, c)| c.is_uppercase())
        .map_or(0, |(at, _)| at);
    let (namespace, name) = kind.split_at(split);
    format!("object:{namespace}:{name}:{action}:allow_default")
}
