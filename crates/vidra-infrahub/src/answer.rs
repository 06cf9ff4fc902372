//! What an answer means. Pure; the only place where HTTP statuses are interpreted.

use std::time::Duration;

use jiff::{Timestamp, fmt::rfc2822};
use reqwest::{StatusCode, Url};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value;

use crate::{address::Origin, error::Error, redact, transport::Reply};

/// For a server that says "too many" and not for how long.
const DEFAULT_RETREAT: Duration = Duration::from_secs(5);

/// What was asked, as far as it matters for the meaning of the answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call<'a> {
    /// A login or a refresh.
    Login,
    /// GraphQL on a branch.
    Graphql { branch: &'a str },
    /// A registered query on a branch.
    Query { query: &'a str, branch: &'a str },
    /// Content by its storage id.
    Content,
}

impl Call<'_> {
    fn branch(&self) -> Option<&str> {
        match self {
            Self::Graphql { branch } | Self::Query { branch, .. } => Some(branch),
            Self::Login | Self::Content => None,
        }
    }
}

/// What an answer is judged with.
#[derive(Clone, Copy)]
pub(crate) struct Judge<'a> {
    pub(crate) call: Call<'a>,
    pub(crate) secret: Option<&'a SecretString>,
    pub(crate) now: Timestamp,
}

impl Judge<'_> {
    /// The body of a good answer.
    pub(crate) fn accept(&self, reply: Reply) -> Result<Reply, Error> {
        if reply.status == StatusCode::OK {
            return Ok(reply);
        }
        Err(self.refusal(&reply))
    }

    fn refusal(&self, reply: &Reply) -> Error {
        let status = reply.status.as_u16();
        let complaints = complaints(&reply.body);
        let message = self.message(&complaints);
        match status {
            201..=299 => Error::Unexpected {
                what: "a success other than HTTP 200",
            },
            300..=399 => redirected(status, reply.location()),
            401 => Error::CredentialsRejected { message },
            429 => self.overloaded(reply),
            503 if reply.retry_after().is_some() => self.overloaded(reply),
            502 => self.bad_gateway(&complaints, message),
            500 => Error::Crashed { status },
            501..=599 => Error::Unavailable { status },
            _ if reply.is_web_page() => Error::WebPage { status },
            403 => Error::Forbidden { message },
            _ => self
                .by_text(&complaints)
                .unwrap_or(Error::Refused { status, message }),
        }
    }

    /// What is only told by the words of a 400 or 404.
    fn by_text(&self, complaints: &[Complaint]) -> Option<Error> {
        let text = complaints.first()?.text.as_str();
        if let Some(branch) = self.call.branch()
            && is_missing_branch(text)
        {
            let branch = branch.to_owned();
            return Some(Error::BranchNotFound { branch });
        }
        let message = self.message(complaints);
        match self.call {
            Call::Login if text.contains("login user doesn't exist") => {
                Some(Error::CredentialsRejected { message })
            }
            Call::Query { query, .. } if text.contains("CoreGraphQLQuery") => {
                let query = query.to_owned();
                Some(Error::QueryNotFound { query })
            }
            Call::Content if text.contains("StorageObject") => Some(Error::ContentMissing),
            _ if text.starts_with("Invalid time format") => Some(Error::DateRejected { message }),
            _ => None,
        }
    }

    /// A registered query that fails looks like a gateway that fails, but for its message.
    fn bad_gateway(&self, complaints: &[Complaint], message: Option<String>) -> Error {
        match self.call {
            Call::Query { query, .. } if complaints.iter().any(|one| one.is_nested) => {
                let query = query.to_owned();
                Error::QueryFailed { query, message }
            }
            _ => Error::Unavailable { status: 502 },
        }
    }

    fn overloaded(&self, reply: &Reply) -> Error {
        let wait = reply.retry_after().and_then(|text| wait(text, self.now));
        Error::Overloaded {
            retry_after: wait.unwrap_or(DEFAULT_RETREAT),
        }
    }

    /// What `errors` in an answer with HTTP 200 mean.
    pub(crate) fn graphql_errors(&self, errors: &[Value]) -> Error {
        let complaints: Vec<_> = errors.iter().filter_map(complaint).collect();
        let message = self.message(&complaints);
        let has = |number: u64, word: &str| {
            let is_it = |code: &Value| code.as_u64() == Some(number) || code.as_str() == Some(word);
            complaints.iter().any(|one| one.codes.iter().any(is_it))
        };
        if has(401, "AUTHENTICATION_REQUIRED") {
            return Error::CredentialsRejected { message };
        }
        if has(403, "PERMISSION_DENIED") {
            return Error::Forbidden { message };
        }
        let by_text = self.by_text(&complaints);
        by_text.unwrap_or(Error::GraphqlFailed { message })
    }

    fn message(&self, complaints: &[Complaint]) -> Option<String> {
        redact::message(&complaints.first()?.text, self.secret)
    }
}

fn is_missing_branch(text: &str) -> bool {
    text.starts_with("Branch: ") && text.trim_end().ends_with("not found.")
}

/// Where a redirect points to, as far as people need it: a path could carry anything.
fn redirected(status: u16, location: Option<&str>) -> Error {
    let url = location.and_then(|location| Url::parse(location).ok());
    let origin = url.and_then(|url| Origin::of(&url));
    let origin = origin.map(|origin| origin.to_string());
    Error::Redirected { status, origin }
}

/// `Retry-After`: seconds or a date.
fn wait(text: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = rfc2822::DateTimeParser::new()
        .parse_timestamp(text.trim())
        .ok()?;
    Some(Duration::try_from(until.duration_since(now)).unwrap_or_default())
}

/// One error of one of Infrahub's four envelopes.
#[derive(Debug, PartialEq)]
struct Complaint {
    text: String,
    /// The message is an object with a message in it: a registered query failed.
    is_nested: bool,
    /// Numbers up to 1.9, words from 1.10 on.
    codes: Vec<Value>,
}

#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    errors: Vec<Value>,
    #[serde(default)]
    detail: Value,
}

fn complaints(body: &[u8]) -> Vec<Complaint> {
    let Ok(envelope) = serde_json::from_slice::<Envelope>(body) else {
        return Vec::new();
    };
    let details = envelope.detail.as_array().into_iter().flatten();
    let errors = envelope.errors.iter().filter_map(complaint);
    errors.chain(details.filter_map(detail)).collect()
}

fn complaint(error: &Value) -> Option<Complaint> {
    let message = error.get("message").unwrap_or(error);
    let nested = message.get("message");
    let text = nested.unwrap_or(message).as_str()?.to_owned();
    let extensions = error.get("extensions");
    let code = |key| extensions.and_then(|one| one.get(key)).cloned();
    let codes = ["code", "http_status"]
        .into_iter()
        .filter_map(code)
        .collect();
    Some(Complaint {
        text,
        is_nested: nested.is_some(),
        codes,
    })
}

/// An entry of a validation error. It also repeats the input, passwords included: not taken.
fn detail(entry: &Value) -> Option<Complaint> {
    let text = entry.get("msg")?.as_str()?.to_owned();
    Some(Complaint {
        text,
        is_nested: false,
        codes: Vec::new(),
    })
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
