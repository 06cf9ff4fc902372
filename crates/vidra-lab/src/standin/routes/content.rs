//! Content of artifacts and of the object store.

use axum::{http::StatusCode, response::Response};

use super::{Asked, required};
use crate::standin::{
    json::Json,
    respond::{self, Refusal},
    world::World,
};

/// The content of an artifact as it is on a branch at a time.
///
/// Nothing is said about its status: a failed rendering serves the last good content. An artifact
/// that was never rendered, or a node of another kind, makes the server crash.
pub(super) fn artifact(world: &World, asked: &Asked<'_>, id: &str) -> Result<Response, Refusal> {
    let (branch, at) = asked.moment(world)?;
    asked.identity(world)?;
    if world.targets.iter().any(|target| target.id == id) {
        return Err(Refusal::Crash);
    }
    let artifact = world.artifacts.iter().find(|artifact| artifact.id == id);
    let state = artifact.and_then(|artifact| artifact.state_at(&branch, at));
    let state = state.ok_or_else(|| Refusal::no_node(id, "CoreArtifact"))?;
    let storage_id = state.storage_id.as_ref().ok_or(Refusal::Crash)?;
    let content = stored(world, storage_id)?;
    Ok(respond::with_type(
        StatusCode::OK,
        &state.content_type,
        content,
    ))
}

/// Stored content; it never changes, and it outlives its artifact.
pub(super) fn object(world: &World, asked: &Asked<'_>, id: &str) -> Result<Response, Refusal> {
    asked.identity(world)?;
    Ok(respond::bare(StatusCode::OK, stored(world, id)?))
}

fn stored(world: &World, id: &str) -> Result<Vec<u8>, Refusal> {
    world
        .objects
        .get(id)
        .cloned()
        .ok_or_else(|| Refusal::no_node(id, "StorageObject"))
}

pub(super) fn upload(world: &mut World, asked: &Asked<'_>) -> Result<Response, Refusal> {
    let body = asked.json()?;
    asked.identity(world)?;
    let [content] = required(&body, ["content"])?;
    let (identifier, checksum) = world.store(content.as_bytes());
    let body = Json::object([
        ("identifier", Json::text(identifier)),
        ("checksum", Json::text(checksum)),
    ]);
    Ok(respond::json(StatusCode::OK, &body))
}

/// Accepted and nothing more: the stand-in has no transformations, scripts render for it.
pub(super) fn generate(
    world: &World,
    asked: &Asked<'_>,
    definition: &str,
) -> Result<Response, Refusal> {
    asked.moment(world)?;
    asked.identity(world)?;
    let is_known = world
        .definitions
        .iter()
        .any(|one| one.id == definition || one.name == definition);
    if !is_known {
        return Err(Refusal::no_node(definition, "CoreArtifactDefinition"));
    }
    Ok(respond::json(StatusCode::OK, &Json::Null))
}
