//! Answers in the shapes that the real server gives them.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};

use super::json::{Json, Style};

/// A request that is answered with an error, in one of the server's many envelopes.
#[derive(Clone, Debug)]
pub(super) enum Refusal {
    /// `{"data":null,"errors":[{"message":…,"extensions":{"code":…}}]}`
    Envelope {
        status: StatusCode,
        messages: Vec<Json>,
    },
    /// `{"errors":["…"]}`: what the GraphQL endpoint says before it executes anything.
    Strings { status: StatusCode, message: String },
    /// `{"detail":[{…}]}`: a body that does not fit its model.
    Detail(Json),
    /// An unhandled exception: plain text, and none of the headers that other answers have.
    Crash,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self::Envelope {
            status,
            messages: vec![Json::text(message)],
        }
    }

    pub(super) fn unauthorized(message: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, message)
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(super) fn no_node(id: &str, kind: &str) -> Self {
        let message = format!("Unable to find the node {id} / {kind} in the database.");
        Self::new(StatusCode::NOT_FOUND, message)
    }

    /// A field that the body must have and has not.
    pub(super) fn missing(location: &[&str], input: Json) -> Json {
        Json::object([
            ("type", Json::text("missing")),
            (
                "loc",
                Json::List(location.iter().copied().map(Json::text).collect()),
            ),
            ("msg", Json::text("Field required")),
            ("input", input),
        ])
    }

    pub(super) fn into_response(self) -> Response {
        match self {
            Self::Envelope { status, messages } => json(status, &envelope(status, messages)),
            Self::Strings { status, message } => json(
                status,
                &Json::object([("errors", Json::List(vec![Json::text(message)]))]),
            ),
            Self::Detail(items) => json(
                StatusCode::UNPROCESSABLE_ENTITY,
                &Json::object([("detail", items)]),
            ),
            Self::Crash => crash(),
        }
    }
}

fn envelope(status: StatusCode, messages: Vec<Json>) -> Json {
    let error = |message| {
        let code = Json::Number(status.as_u16().into());
        Json::object([
            ("message", message),
            ("extensions", Json::object([("code", code)])),
        ])
    };
    let errors = messages.into_iter().map(error).collect();
    Json::object([("data", Json::Null), ("errors", Json::List(errors))])
}

pub(super) fn json(status: StatusCode, body: &Json) -> Response {
    with_type(status, "application/json", body.write(Style::CompactRaw))
}

pub(super) fn with_type(status: StatusCode, kind: &str, body: impl Into<Body>) -> Response {
    let mut response = bare(status, body);
    if let Ok(value) = HeaderValue::from_str(kind) {
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    response
}

/// An answer without a content type, as stored objects have it.
pub(super) fn bare(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response
}

pub(super) fn crash() -> Response {
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    with_type(status, "text/plain; charset=utf-8", "Internal Server Error")
}
