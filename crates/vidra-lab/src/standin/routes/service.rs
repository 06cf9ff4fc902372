//! What the server says about itself.

use axum::{http::StatusCode, response::Response};

use super::Asked;
use crate::standin::{
    json::Json,
    respond::{self, Refusal},
    world::World,
};

pub(super) fn info(world: &World, asked: &Asked<'_>) -> Result<Response, Refusal> {
    asked.identity(world)?;
    let body = Json::object([
        ("deployment_id", Json::text(&world.deployment)),
        ("version", Json::text(&world.settings.version)),
    ]);
    Ok(respond::json(StatusCode::OK, &body))
}

/// Open to everybody, whatever the settings: health checks use it.
pub(super) fn config(world: &World) -> Response {
    let main = Json::object([
        (
            "allow_anonymous_access",
            Json::Bool(world.settings.is_anonymous_allowed),
        ),
        ("anonymous_access_role", Json::text("Anonymous User")),
        ("telemetry_optout", Json::Bool(true)),
        ("public_url", Json::Null),
        ("schema_strict_mode", Json::Bool(true)),
    ]);
    let analytics = Json::object([
        ("enable", Json::Bool(false)),
        ("address", Json::Null),
        ("api_key", Json::Null),
    ]);
    let features = Json::object([
        ("graphql_enums", Json::Bool(false)),
        ("value_db_index", Json::Bool(false)),
    ]);
    let sign_on = Json::object([
        ("providers", Json::List(Vec::new())),
        ("enabled", Json::Bool(false)),
    ]);
    let body = Json::object([
        ("main", main),
        ("analytics", analytics),
        ("experimental_features", features),
        ("sso", sign_on),
        ("installation_type", Json::text("community")),
    ]);
    respond::json(StatusCode::OK, &body)
}

/// Every path that is not the API's is the web UI, so a wrong base URL looks like success.
pub(super) fn web_ui(world: &World) -> Result<Response, Refusal> {
    if !world.settings.has_web_ui {
        return Err(Refusal::Crash);
    }
    let page = "<!doctype html>\n<html lang=\"en\"><head><title>Infrahub</title></head>\
                <body><div id=\"root\"></div></body></html>\n";
    Ok(respond::with_type(
        StatusCode::OK,
        "text/html; charset=utf-8",
        page,
    ))
}
