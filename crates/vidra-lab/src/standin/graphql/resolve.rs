//! Answers of the root fields, complete; what the client selected is picked out afterwards.

use jiff::Timestamp;
use serde_json::{Map, Value as Plain};

use super::Context;
use crate::standin::{
    events::{Event, python_time, uuid},
    identity::{Credential, Identity},
    json::Json,
    world::{Artifact, ArtifactState, Definition, World, md5_hex},
};

/// A failure while answering; it nulls the field.
pub(super) type Problem = String;

pub(super) fn resolve(
    context: &mut Context<'_>,
    field: &str,
    arguments: &Map<String, Plain>,
) -> Result<Json, Problem> {
    match field {
        "CoreArtifact" => artifacts(context, arguments),
        "CoreArtifactDefinition" => definitions(context, arguments),
        "CoreGraphQLQuery" => queries(context, arguments),
        "Branch" => Ok(branches(context.world, arguments)),
        "InfrahubEvent" => events(context.world, arguments),
        "InfrahubInfo" => Ok(Json::object([
            ("__typename", Json::text("Info")),
            ("deployment_id", Json::text(&context.world.deployment)),
            ("version", Json::text(&context.world.settings.version)),
        ])),
        "InfrahubAccountTokenCreate" => create_token(context, arguments),
        "InfrahubAccountTokenDelete" => delete_token(context, arguments),
        other => Err(format!("the stand-in has no resolver for '{other}'")),
    }
}

fn artifacts(context: &Context<'_>, arguments: &Map<String, Plain>) -> Result<Json, Problem> {
    let world = &*context.world;
    let found: Vec<Json> = world
        .artifacts_at(&context.branch, context.at)
        .into_iter()
        .filter(|(artifact, state)| {
            let definition = world
                .definitions
                .iter()
                .find(|one| one.id == artifact.definition);
            let values = [
                ("ids", Some(artifact.id.as_str())),
                ("name__value", Some(artifact.name.as_str())),
                ("status__value", Some(state.status.name())),
                ("content_type__value", Some(state.content_type.as_str())),
                ("checksum__value", state.checksum.as_deref()),
                ("storage_id__value", state.storage_id.as_deref()),
                ("object__ids", Some(artifact.target.as_str())),
                ("definition__ids", Some(artifact.definition.as_str())),
                (
                    "definition__name__value",
                    definition.map(|one| one.name.as_str()),
                ),
            ];
            values
                .into_iter()
                .all(|(filter, value)| passes(arguments, filter, value))
        })
        .map(|(artifact, state)| artifact_node(world, artifact, state))
        .collect();
    page("CoreArtifact", found, arguments)
}

fn definitions(context: &Context<'_>, arguments: &Map<String, Plain>) -> Result<Json, Problem> {
    let found: Vec<Json> = context
        .world
        .definitions
        .iter()
        .filter(|definition| {
            passes(arguments, "ids", Some(&definition.id))
                && passes(arguments, "name__value", Some(&definition.name))
                && passes(
                    arguments,
                    "artifact_name__value",
                    Some(&definition.artifact_name),
                )
        })
        .map(definition_node)
        .collect();
    page("CoreArtifactDefinition", found, arguments)
}

fn queries(context: &Context<'_>, arguments: &Map<String, Plain>) -> Result<Json, Problem> {
    let world = &*context.world;
    let found: Vec<Json> = world
        .queries
        .iter()
        .filter(|query| {
            world
                .query_at(&query.id, &context.branch, context.at)
                .is_some()
        })
        .filter(|query| passes(arguments, "ids", Some(&query.id)))
        .filter(|query| passes(arguments, "name__value", Some(&query.name)))
        .map(|query| {
            Json::object([
                ("__typename", Json::text("CoreGraphQLQuery")),
                ("id", Json::text(&query.id)),
                ("display_label", Json::text(&query.name)),
                ("name", attribute(&query.id, "name", Some(&query.name))),
                ("query", attribute(&query.id, "query", Some(&query.text))),
            ])
        })
        .collect();
    page("CoreGraphQLQuery", found, arguments)
}

fn branches(world: &World, arguments: &Map<String, Plain>) -> Json {
    let found = world
        .branches
        .iter()
        .filter(|branch| passes_leniently(arguments, "ids", Some(&branch.id)))
        .filter(|branch| passes_leniently(arguments, "name", Some(&branch.name)))
        .map(|branch| {
            let created = python_time(branch.created, 'T');
            Json::object([
                ("__typename", Json::text("Branch")),
                ("id", Json::text(&branch.id)),
                ("name", Json::text(&branch.name)),
                ("is_default", Json::Bool(branch.is_default())),
                ("sync_with_git", Json::Bool(branch.is_default())),
                ("has_schema_changes", Json::Bool(false)),
                ("branched_from", Json::text(&created)),
                ("created_at", Json::text(&created)),
            ])
        });
    Json::List(found.collect())
}

/// The feed tells what happened, whatever `at` says.
fn events(world: &World, arguments: &Map<String, Plain>) -> Result<Json, Problem> {
    let limit = number(arguments, "limit")?.unwrap_or(10);
    if limit > 50 {
        return Err("The parameter 'limit' can't be above 50".to_owned());
    }
    let (since, until) = (time(arguments, "since")?, time(arguments, "until")?);
    let mut found: Vec<&Event> = world
        .events
        .iter()
        .filter(|event| since.is_none_or(|since| event.occurred_at >= since))
        .filter(|event| until.is_none_or(|until| event.occurred_at <= until))
        .filter(|event| passes_leniently(arguments, "ids", Some(&event.id)))
        .filter(|event| passes_leniently(arguments, "event_type", Some(&event.name)))
        .filter(|event| passes_leniently(arguments, "branches", event.branch.as_deref()))
        .filter(|event| {
            passes_leniently(arguments, "primary_node__ids", Some(&event.primary_node.0))
        })
        .collect();
    if arguments.get("order").and_then(Plain::as_str) != Some("ASC") {
        found.reverse();
    }
    let offset = number(arguments, "offset")?.unwrap_or(0);
    let count = Json::count(found.len());
    let shown = found.into_iter().skip(offset).take(limit);
    let edges = shown
        .map(|event| Json::object([("node", event_node(event))]))
        .collect();
    Ok(Json::object([
        ("count", count),
        ("edges", Json::List(edges)),
    ]))
}

fn event_node(event: &Event) -> Json {
    let is_artifact = event.name.starts_with("infrahub.artifact.");
    let type_name = if is_artifact {
        "ArtifactEvent"
    } else {
        "NodeMutatedEvent"
    };
    let node = |(id, kind): &(String, String)| {
        Json::object([("id", Json::text(id)), ("kind", Json::text(kind))])
    };
    // Where a webhook says null, the feed says "".
    let data = |key| {
        Json::text(
            event
                .data
                .get(key)
                .and_then(Json::as_str)
                .unwrap_or_default(),
        )
    };
    Json::object([
        ("__typename", Json::text(type_name)),
        ("id", Json::text(&event.id)),
        ("event", Json::text(&event.name)),
        ("branch", Json::optional(event.branch.as_deref())),
        ("account_id", Json::text(&event.account_id)),
        (
            "occurred_at",
            Json::text(python_time(event.occurred_at, 'T')),
        ),
        ("level", Json::count(0)),
        ("has_children", Json::Bool(false)),
        ("parent_id", Json::Null),
        ("primary_node", node(&event.primary_node)),
        (
            "related_nodes",
            Json::List(event.related_nodes.iter().map(node).collect()),
        ),
        ("checksum", data("checksum")),
        ("checksum_previous", data("checksum_previous")),
        ("storage_id", data("storage_id")),
        ("storage_id_previous", data("storage_id_previous")),
        ("artifact_definition_id", data("artifact_definition_id")),
    ])
}

fn artifact_node(world: &World, artifact: &Artifact, state: &ArtifactState) -> Json {
    let id = artifact.id.as_str();
    let definition = world
        .definitions
        .iter()
        .find(|one| one.id == artifact.definition);
    let target = world.targets.iter().find(|one| one.id == artifact.target);
    let target = target.map_or(Json::Null, |target| {
        Json::object([
            ("__typename", Json::text(&target.kind)),
            ("id", Json::text(&target.id)),
            ("display_label", Json::text(&target.label)),
            ("hfid", Json::List(vec![Json::text(&target.label)])),
            ("name", attribute(&target.id, "name", Some(&target.label))),
        ])
    });
    let storage = attribute_with_id(&artifact.storage_attribute, state.storage_id.as_deref());
    Json::object([
        ("__typename", Json::text("CoreArtifact")),
        ("id", Json::text(id)),
        ("display_label", Json::text(&artifact.name)),
        ("name", attribute(id, "name", Some(&artifact.name))),
        ("status", attribute(id, "status", Some(state.status.name()))),
        (
            "content_type",
            attribute(id, "content_type", Some(&state.content_type)),
        ),
        (
            "checksum",
            attribute(id, "checksum", state.checksum.as_deref()),
        ),
        ("storage_id", storage),
        ("parameters", attribute(id, "parameters", None)),
        ("object", Json::object([("node", target)])),
        (
            "definition",
            Json::object([("node", definition.map_or(Json::Null, definition_node))]),
        ),
    ])
}

fn definition_node(definition: &Definition) -> Json {
    let id = definition.id.as_str();
    Json::object([
        ("__typename", Json::text("CoreArtifactDefinition")),
        ("id", Json::text(id)),
        ("display_label", Json::text(&definition.name)),
        ("hfid", Json::List(vec![Json::text(&definition.name)])),
        ("name", attribute(id, "name", Some(&definition.name))),
        (
            "artifact_name",
            attribute(id, "artifact_name", Some(&definition.artifact_name)),
        ),
        (
            "content_type",
            attribute(id, "content_type", Some(&definition.content_type)),
        ),
    ])
}

/// Attributes are nodes with ids of their own.
fn attribute(node: &str, name: &str, value: Option<&str>) -> Json {
    let digest = md5_hex(format!("{node}/{name}").as_bytes());
    let id = format!(
        "18e85cd8-{}-{}-{}-{}",
        &digest[..4],
        &digest[4..8],
        &digest[8..12],
        &digest[12..24]
    );
    attribute_with_id(&id, value)
}

fn attribute_with_id(id: &str, value: Option<&str>) -> Json {
    Json::object([
        ("__typename", Json::text("TextAttribute")),
        ("id", Json::text(id)),
        ("value", Json::optional(value)),
        ("is_default", Json::Bool(value.is_none())),
        ("is_protected", Json::Bool(false)),
        ("updated_at", Json::Null),
    ])
}

/// A filter of nodes. Without an argument everything passes; both `x__value` and `x__values` are
/// heeded. Nothing passes an empty list, nor `ids` that are null.
fn passes(arguments: &Map<String, Plain>, filter: &str, value: Option<&str>) -> bool {
    [filter.to_owned(), format!("{filter}s")]
        .iter()
        .all(|name| match arguments.get(name) {
            None => true,
            Some(Plain::Null) => name != "ids",
            Some(Plain::Array(wanted)) => wanted.iter().any(|one| one.as_str() == value),
            Some(wanted) => wanted.as_str() == value,
        })
}

/// A filter of what is no node, branches and events: an empty list is as good as none.
fn passes_leniently(arguments: &Map<String, Plain>, filter: &str, value: Option<&str>) -> bool {
    match arguments.get(filter) {
        None | Some(Plain::Null) => true,
        Some(Plain::Array(wanted)) => {
            wanted.is_empty() || wanted.iter().any(|one| one.as_str() == value)
        }
        Some(wanted) => wanted.as_str() == value,
    }
}

/// An offset or limit of zero counts as not given.
fn page(kind: &str, found: Vec<Json>, arguments: &Map<String, Plain>) -> Result<Json, Problem> {
    let count = Json::count(found.len());
    let offset = number(arguments, "offset")?.unwrap_or(0);
    let limit = number(arguments, "limit")?
        .filter(|limit| *limit > 0)
        .unwrap_or(usize::MAX);
    let edges = found.into_iter().skip(offset).take(limit);
    let edge = |node| {
        Json::object([
            ("__typename", Json::text(format!("Edged{kind}"))),
            ("node", node),
        ])
    };
    Ok(Json::object([
        ("__typename", Json::text(format!("Paginated{kind}"))),
        ("count", count),
        ("edges", Json::List(edges.map(edge).collect())),
    ]))
}

fn number(arguments: &Map<String, Plain>, name: &str) -> Result<Option<usize>, Problem> {
    let Some(number) = arguments.get(name).and_then(Plain::as_i64) else {
        return Ok(None);
    };
    let refused = |_| {
        format!("Invalid input. '{number}' is not a valid value. Must be a non-negative integer.")
    };
    usize::try_from(number).map(Some).map_err(refused)
}

fn time(arguments: &Map<String, Plain>, name: &str) -> Result<Option<Timestamp>, Problem> {
    let Some(text) = arguments.get(name).and_then(Plain::as_str) else {
        return Ok(None);
    };
    let refused = |_| format!("DateTime cannot represent value: '{text}'");
    text.parse().map(Some).map_err(refused)
}

fn create_token(
    context: &mut Context<'_>,
    arguments: &Map<String, Plain>,
) -> Result<Json, Problem> {
    let Identity::Account {
        id: account,
        credential: Credential::Jwt,
        ..
    } = context.identity
    else {
        return Err("This operation requires authentication with a JWT token".to_owned());
    };
    let data = arguments
        .get("data")
        .and_then(Plain::as_object)
        .cloned()
        .unwrap_or_default();
    let expires = time(&data, "expiration")?;
    let value = uuid();
    let id = context.world.put_token(account, &value, expires);
    let object = Json::object([
        ("__typename", Json::text("InfrahubAccountTokenType")),
        ("id", Json::text(id)),
        ("token", Json::object([("value", Json::text(value))])),
    ]);
    Ok(Json::object([("ok", Json::Bool(true)), ("object", object)]))
}

fn delete_token(
    context: &mut Context<'_>,
    arguments: &Map<String, Plain>,
) -> Result<Json, Problem> {
    let id = arguments
        .get("data")
        .and_then(|data| data.get("id"))
        .and_then(Plain::as_str);
    let before = context.world.tokens.len();
    context
        .world
        .tokens
        .retain(|token| Some(token.id.as_str()) != id);
    if context.world.tokens.len() == before {
        let id = id.unwrap_or_default();
        return Err(format!(
            "Unable to find the node {id} / InternalAccountToken in the database."
        ));
    }
    Ok(Json::object([("ok", Json::Bool(true))]))
}
