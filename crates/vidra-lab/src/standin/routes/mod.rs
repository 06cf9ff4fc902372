//! The routes of the real server that a client of artifacts uses.

mod auth;
mod content;
mod graphql;
mod query;
mod service;

use axum::{
    body::Bytes,
    extract::Query,
    http::{HeaderValue, StatusCode, header, request::Parts},
    response::Response,
};
use jiff::Timestamp;

use super::{
    at,
    identity::{Identity, Presented},
    json::Json,
    lock,
    respond::{self, Refusal},
    shared::Shared,
    text::percent_decode,
    world::{Branch, World},
};

/// A request with everything that routes look at.
pub(super) struct Asked<'a> {
    parts: &'a Parts,
    parameters: Vec<(String, String)>,
    body: &'a Bytes,
}

impl Asked<'_> {
    fn parameter(&self, name: &str) -> Option<&str> {
        // Of a parameter given twice the last one counts.
        self.parameters
            .iter()
            .rev()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    fn is_get(&self) -> bool {
        self.parts.method == "GET"
    }

    fn is_json(&self) -> bool {
        let kind = self.parts.headers.get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        kind.split(';').next().unwrap_or_default().trim() == "application/json"
    }

    /// The branch and the time that a REST call asks for.
    fn moment(&self, world: &World) -> Result<(Branch, Timestamp), Refusal> {
        let name = self.parameter("branch").unwrap_or_default();
        let missing = || Refusal::bad_request(format!("Branch: {name} not found."));
        let branch = world.branch(name).cloned().ok_or_else(missing)?;
        Ok((branch, self.time(world)?))
    }

    fn time(&self, world: &World) -> Result<Timestamp, Refusal> {
        let Some(text) = self.parameter("at") else {
            return Ok(world.now());
        };
        let refused = || Refusal::bad_request(format!("Invalid time format for {text}"));
        at::parse(text, world.now()).ok_or_else(refused)
    }

    /// Who calls. Reading may be open to everybody; posting never is.
    fn identity(&self, world: &World) -> Result<Identity, Refusal> {
        let identity = world.identify(&Presented::of(&self.parts.headers))?;
        let is_open = self.is_get() && world.settings.is_anonymous_allowed;
        if identity == Identity::Anonymous && !is_open {
            return Err(Refusal::unauthorized("Authentication is required"));
        }
        Ok(identity)
    }

    /// The body as JSON; a body of another type is taken for a string, an absent one for null.
    fn json(&self) -> Result<Json, Refusal> {
        if self.body.is_empty() {
            return Ok(Json::Null);
        }
        if !self.is_json() {
            return Ok(Json::text(String::from_utf8_lossy(self.body)));
        }
        serde_json::from_slice(self.body).map_err(|error| {
            let detail = Json::object([
                ("type", Json::text("json_invalid")),
                (
                    "loc",
                    Json::List(vec![Json::text("body"), Json::count(error.column())]),
                ),
                ("msg", Json::text("JSON decode error")),
                ("input", Json::Object(Vec::new())),
                (
                    "ctx",
                    Json::object([("error", Json::text("Expecting value"))]),
                ),
            ]);
            Refusal::Detail(Json::List(vec![detail]))
        })
    }
}

/// The members of a body that must be strings, or the complaint about those that are not there.
fn required<const N: usize>(body: &Json, names: [&str; N]) -> Result<[String; N], Refusal> {
    match body {
        Json::Object(_) => {}
        Json::Null => {
            let missing = Refusal::missing(&["body"], Json::Null);
            return Err(Refusal::Detail(Json::List(vec![missing])));
        }
        other => return Err(no_object(other)),
    }
    let absent: Vec<Json> = names
        .iter()
        .filter(|name| body.get(name).and_then(Json::as_str).is_none())
        .map(|name| Refusal::missing(&["body", name], body.clone()))
        .collect();
    if !absent.is_empty() {
        return Err(Refusal::Detail(Json::List(absent)));
    }
    Ok(names.map(|name| {
        body.get(name)
            .and_then(Json::as_str)
            .unwrap_or_default()
            .to_owned()
    }))
}

fn no_object(input: &Json) -> Refusal {
    let message = "Input should be a valid dictionary or object to extract fields from";
    Refusal::Detail(Json::List(vec![Json::object([
        ("type", Json::text("model_attributes_type")),
        ("loc", Json::List(vec![Json::text("body")])),
        ("msg", Json::text(message)),
        ("input", input.clone()),
    ])]))
}

/// The answer to a request. Paths are decoded before they are matched, as the real server does.
pub(super) fn answer(shared: &Shared, parts: &Parts, body: &Bytes) -> Response {
    let path = percent_decode(parts.uri.path());
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let parameters = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
    let parameters = parameters.map_or_else(|_| Vec::new(), |Query(pairs)| pairs);
    let asked = Asked {
        parts,
        parameters,
        body,
    };
    let world = &mut *lock(&shared.world);
    let answer = match (parts.method.as_str(), segments.as_slice()) {
        ("POST", ["api", "auth", "login"]) => auth::login(world, &asked),
        ("POST", ["api", "auth", "refresh"]) => auth::refresh(world, &asked),
        ("POST", ["api", "auth", "logout"]) => auth::logout(world, &asked),
        ("GET" | "POST", ["api", "query", name]) => query::run(world, &asked, name),
        ("GET", ["api", "artifact", id]) => content::artifact(world, &asked, id),
        ("POST", ["api", "artifact", "generate", definition]) => {
            content::generate(world, &asked, definition)
        }
        ("GET", ["api", "storage", "object", id]) => content::object(world, &asked, id),
        ("POST", ["api", "storage", "upload", "content"]) => content::upload(world, &asked),
        ("GET", ["api", "info"]) => service::info(world, &asked),
        ("GET", ["api", "config"]) => Ok(service::config(world)),
        ("POST", ["graphql", branch @ ..]) => graphql::run(world, &asked, &branch.join("/")),
        ("GET", ["api", ..]) => Err(Refusal::new(
            StatusCode::NOT_FOUND,
            format!("The requested endpoint {path} does not exist"),
        )),
        ("GET", _) => service::web_ui(world),
        _ => Ok(not_allowed(&segments)),
    };
    answer.unwrap_or_else(Refusal::into_response)
}

fn not_allowed(segments: &[&str]) -> Response {
    let allowed = match segments {
        ["api", "auth", "login" | "refresh" | "logout"]
        | ["api", "artifact", "generate", _]
        | ["api", "storage", "upload", "content"] => "POST",
        _ => "GET",
    };
    let detail = Json::object([("detail", Json::text("Method Not Allowed"))]);
    let mut response = respond::json(StatusCode::METHOD_NOT_ALLOWED, &detail);
    response
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}
