//! Expecting: status, headers and shape of an answer.

use serde_json::{Value, json};

use super::ask::Answer;

type Rule = Box<dyn Fn(&Answer) -> Result<(), String> + Send + Sync>;

/// What an answer must be like.
pub(super) struct Expect {
    status: u16,
    rules: Vec<Rule>,
}

impl Expect {
    fn new(status: u16) -> Self {
        Self {
            status,
            rules: Vec::new(),
        }
    }

    /// Adds a rule.
    pub(super) fn and(
        mut self,
        rule: impl Fn(&Answer) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.rules.push(Box::new(rule));
        self
    }

    /// A header that must have this value.
    pub(super) fn header(self, name: &'static str, value: &'static str) -> Self {
        self.and(move |answer| {
            let seen = answer.header(name);
            demand(seen == Some(value), || {
                format!("header {name} is {seen:?}, not {value:?}")
            })
        })
    }

    /// A header that must not be there.
    pub(super) fn no_header(self, name: &'static str) -> Self {
        self.and(move |answer| {
            let seen = answer.header(name);
            demand(seen.is_none(), || {
                format!("header {name} is there: {seen:?}")
            })
        })
    }

    /// The headers that tell one request from another; a crash has none of them.
    fn traced(self) -> Self {
        self.and(|answer| {
            let missing = ["x-request-id", "x-process-time"]
                .into_iter()
                .find(|name| answer.header(name).is_none());
            demand(missing.is_none(), || {
                format!("header {missing:?} is missing")
            })
        })
    }

    /// JSON with this status.
    pub(super) fn json(status: u16) -> Self {
        Self::new(status)
            .header("content-type", "application/json")
            .traced()
    }

    /// A body that satisfies a rule about its JSON.
    pub(super) fn body(
        self,
        rule: impl Fn(&Value) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.and(move |answer| rule(&answer.json()?))
    }

    /// JSON that is exactly this.
    pub(super) fn exactly(status: u16, expected: Value) -> Self {
        Self::json(status).body(move |body| {
            demand(*body == expected, || {
                format!("body is {body}, not {expected}")
            })
        })
    }

    /// The error envelope of the REST routes.
    pub(super) fn envelope(status: u16, message: &str) -> Self {
        Self::exactly(
            status,
            json!({
                "data": null,
                "errors": [{ "message": message, "extensions": { "code": status } }],
            }),
        )
    }

    /// The error envelope of GraphQL before it executes anything: a list of strings.
    pub(super) fn strings(status: u16, message: &str) -> Self {
        Self::exactly(status, json!({ "errors": [message] }))
    }

    /// A body that does not fit its model: the first complaint's type and place.
    pub(super) fn detail(kind: &'static str, place: Value) -> Self {
        Self::json(422).body(move |body| {
            let first = &body["detail"][0];
            demand(first["type"] == kind && first["loc"] == place, || {
                format!("body is {body}")
            })
        })
    }

    /// A GraphQL answer without errors.
    pub(super) fn data(
        rule: impl Fn(&Value) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self::json(200).body(move |body| {
            demand(body.get("errors").is_none(), || format!("errors in {body}"))?;
            rule(&body["data"])
        })
    }

    /// A GraphQL answer with one error, told by the beginning of its message.
    pub(super) fn refused(message: &'static str) -> Self {
        Self::json(200).body(move |body| {
            let error = &body["errors"][0];
            let text = error["message"].as_str().unwrap_or_default();
            demand(text.starts_with(message), || format!("message is '{text}'"))?;
            demand(error["locations"].is_array(), || {
                format!("no locations in {error}")
            })
        })
    }

    /// An unhandled exception.
    pub(super) fn crash() -> Self {
        Self::new(500)
            .header("content-type", "text/plain; charset=utf-8")
            .no_header("x-request-id")
            .and(|answer| demand(answer.text == "Internal Server Error", || answer.excerpt()))
    }

    /// Content, with or without a type.
    pub(super) fn content(
        kind: Option<&'static str>,
        rule: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        let expect = Self::new(200)
            .traced()
            .no_header("etag")
            .no_header("last-modified");
        let expect = match kind {
            Some(kind) => expect.header("content-type", kind),
            None => expect.no_header("content-type"),
        };
        expect.no_header("content-encoding").and(move |answer| {
            demand(rule(&answer.text), || {
                format!("content is {}", answer.excerpt())
            })
        })
    }

    /// Any status and type, judged by rules alone.
    pub(super) fn any(
        rule: impl Fn(&Answer) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            status: 0,
            rules: Vec::new(),
        }
        .and(rule)
    }

    pub(super) fn verdict(&self, answer: &Answer) -> Result<(), String> {
        if self.status != 0 && self.status != answer.status {
            return Err(format!(
                "status is {}, not {}: {}",
                answer.status,
                self.status,
                answer.excerpt()
            ));
        }
        self.rules.iter().try_for_each(|rule| rule(answer))
    }
}

/// An error unless it holds.
pub(super) fn demand(holds: bool, detail: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(detail()) }
}
