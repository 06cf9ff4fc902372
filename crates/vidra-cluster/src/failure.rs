//! What an API server's refusal means, decided by code and reason in this one place.
//!
//! The server's own words can contain the values of a Secret, so they are shown only for objects
//! of other kinds.

use std::time::Duration;

use bytes::Bytes;
use kube::core::{Status, response::StatusCause};
use vidra_core::{change::Cause, class::Class, identity::ObjectKey};

/// A successful answer.
#[derive(Debug, Clone)]
pub struct Reply {
    /// Whether the call made a new object.
    pub is_created: bool,
    /// The body.
    pub body: Bytes,
}

/// A call that did not succeed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{reason}: {text}")]
pub struct Failure {
    /// Decides about the retry.
    pub class: Class,
    /// Stable, for conditions, Events and metrics.
    pub reason: &'static str,
    /// The HTTP status; 0 if there was no answer.
    pub code: u16,
    /// What the server wants us to wait.
    pub retry_after: Option<Duration>,
    /// The server's causes, field by field.
    pub causes: Vec<FieldCause>,
    /// The server's words; may contain values of the object.
    text: String,
}

/// One cause that names a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldCause {
    /// The field, as the server writes it.
    pub field: String,
    /// The server's reason.
    pub reason: String,
    /// The server's words; may contain values of the object.
    message: String,
}

impl Failure {
    /// No answer came in time.
    pub(crate) fn timeout(limit: Duration) -> Self {
        let text = format!("no answer within {} s", limit.as_secs());
        Self::without_answer(Class::Transient, "Timeout", text)
    }

    /// The server could not be reached.
    pub(crate) fn unreachable(error: &kube::Error) -> Self {
        Self::without_answer(Class::Transient, "Unreachable", chain(error))
    }

    /// The answer broke off.
    pub(crate) fn cut_off(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::without_answer(Class::Transient, "Unreachable", chain(error))
    }

    /// The answer was not what the API promises.
    pub(crate) fn undecodable(error: &dyn std::error::Error) -> Self {
        Self::without_answer(Class::Transient, "UnexpectedAnswer", error.to_string())
    }

    /// A call that we could not even build.
    pub(crate) fn unbuildable(error: &dyn std::error::Error) -> Self {
        Self::without_answer(Class::Invalid, "InvalidName", error.to_string())
    }

    /// The object changed under our eyes every time that we looked.
    pub fn contended() -> Self {
        let text = "the object changed every time before it could be written".to_owned();
        Self::without_answer(Class::Conflict, "Conflict", text)
    }

    fn without_answer(class: Class, reason: &'static str, text: String) -> Self {
        Self {
            class,
            reason,
            code: 0,
            retry_after: None,
            causes: Vec::new(),
            text,
        }
    }

    /// The server said no. Bodies are often plain text, so the code decides first.
    pub(crate) fn refused(code: u16, body: &[u8], retry_after: Option<Duration>) -> Self {
        let status: Status = serde_json::from_slice(body).unwrap_or_else(|_| Status {
            message: String::from_utf8_lossy(body).chars().take(500).collect(),
            ..Status::default()
        });
        let causes: Vec<FieldCause> = status
            .details
            .iter()
            .flat_map(|details| &details.causes)
            .map(field_cause)
            .collect();
        let (class, reason) = classify(code, &status, &causes);
        Self {
            class,
            reason,
            code,
            retry_after,
            causes,
            text: status.message,
        }
    }

    /// Whether the object (or its kind) is not there.
    pub fn is_not_found(&self) -> bool {
        self.code == 404
    }

    /// Whether a precondition did not hold or somebody else wrote in between.
    pub fn is_conflict(&self) -> bool {
        self.code == 409
    }

    /// Whether an immutable field is the recognised cause.
    pub fn is_immutable(&self) -> bool {
        self.reason == "ImmutableField"
    }

    /// Whether the object may not be what was asked for, by its kind's rules or by a policy:
    /// asking again would be refused again.
    pub fn is_content_refused(&self) -> bool {
        matches!(
            self.reason,
            "Rejected" | "ImmutableField" | "AdmissionDenied"
        )
    }

    /// The managers that hold fields which we wanted, with the fields.
    pub fn conflicting(&self) -> Vec<(String, String)> {
        let causes = self
            .causes
            .iter()
            .filter(|cause| cause.reason == "FieldManagerConflict");
        causes
            .map(|cause| (manager_in(&cause.message), cause.field.clone()))
            .collect()
    }

    /// The cause to be shown for an object. Values of Secrets are never in it.
    pub fn cause(&self, key: &ObjectKey) -> Cause {
        let is_secret = key.group.is_empty() && key.kind == "Secret";
        let message = if is_secret {
            self.redacted()
        } else {
            shorten(&self.text)
        };
        Cause {
            class: self.class,
            reason: self.reason,
            message,
        }
    }

    fn redacted(&self) -> String {
        let fields: Vec<&str> = self
            .causes
            .iter()
            .map(|cause| cause.field.as_str())
            .collect();
        let fields = if fields.is_empty() {
            String::new()
        } else {
            format!(" at {}", fields.join(", "))
        };
        format!(
            "the API server answered {}{fields}; its words are hidden for a Secret",
            self.code
        )
    }
}

fn field_cause(cause: &StatusCause) -> FieldCause {
    FieldCause {
        field: cause.field.clone(),
        reason: cause.reason.clone(),
        message: cause.message.clone(),
    }
}

fn classify(code: u16, status: &Status, causes: &[FieldCause]) -> (Class, &'static str) {
    let says = |text: &str| status.message.contains(text);
    match code {
        _ if says("denied request") || says("denied the request") => {
            (Class::Denied, "AdmissionDenied")
        }
        400 | 422 if !is_immutable(status, causes) => (Class::Invalid, "Rejected"),
        500 if is_schema_refusal(status) => (Class::Invalid, "Rejected"),
        401 => (Class::Denied, "Unauthorized"),
        403 | 409 if is_terminating(status, causes) => (Class::Waiting, "NamespaceTerminating"),
        403 if says("exceeded quota") => (Class::Denied, "QuotaExceeded"),
        403 => (Class::Denied, "Forbidden"),
        404 if names_namespace(status) => (Class::Waiting, "NamespaceMissing"),
        404 => (Class::Waiting, "NotFound"),
        405 => (Class::Invalid, "MethodNotAllowed"),
        409 if causes
            .iter()
            .any(|cause| cause.reason == "FieldManagerConflict") =>
        {
            (Class::Conflict, "FieldConflict")
        }
        409 => (Class::Conflict, "Conflict"),
        410 => (Class::Transient, "Expired"),
        _ if is_too_large(code, status) => (Class::Invalid, "TooLarge"),
        400 | 422 => (Class::Invalid, "ImmutableField"),
        429 => (Class::Transient, "Throttled"),
        _ => (Class::Transient, "ServerError"),
    }
}

/// Above about 1.45 MB the server answers 500 because etcd refuses; above 3 MiB it answers 413.
fn is_too_large(code: u16, status: &Status) -> bool {
    let words = ["request is too large", "larger than max"];
    code == 413 || (code == 500 && words.iter().any(|word| status.message.contains(word)))
}

/// For an apply with a field that the kind does not have the server answers 500 as well.
fn is_schema_refusal(status: &Status) -> bool {
    status
        .message
        .contains("failed to create typed patch object")
}

fn is_terminating(status: &Status, causes: &[FieldCause]) -> bool {
    causes
        .iter()
        .any(|cause| cause.reason == "NamespaceTerminating")
        || status.message.contains("because it is being terminated")
}

fn names_namespace(status: &Status) -> bool {
    status
        .details
        .as_ref()
        .is_some_and(|details| details.kind == "namespaces")
}

fn is_immutable(status: &Status, causes: &[FieldCause]) -> bool {
    let words = [
        "field is immutable",
        "may not change once set",
        "updates to statefulset spec",
    ];
    let known = |text: &str| words.iter().any(|word| text.contains(word));
    causes.iter().any(|cause| known(&cause.message))
        || (causes.is_empty() && known(&status.message))
}

/// A conflict's message reads `conflict with "manager" using apps/v1` or similar.
fn manager_in(message: &str) -> String {
    message
        .split('"')
        .nth(1)
        .unwrap_or("another manager")
        .to_owned()
}

fn shorten(text: &str) -> String {
    const LONGEST: usize = 600;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let words = source.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        next = source.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(code: u16, body: &serde_json::Value) -> Failure {
        Failure::refused(code, body.to_string().as_bytes(), None)
    }

    #[test]
    fn plain_text_bodies_are_classified_by_their_code() {
        let gone = Failure::refused(404, b"404 page not found\n", None);
        assert!(gone.is_not_found());
        assert_eq!((gone.class, gone.reason), (Class::Waiting, "NotFound"));
        let throttled = Failure::refused(429, b"Too many requests", Some(Duration::from_secs(1)));
        assert_eq!(
            (throttled.class, throttled.reason),
            (Class::Transient, "Throttled")
        );
    }

    #[test]
    fn a_too_large_object_is_not_retried_although_the_server_says_500() {
        let body = json!({"message": "etcdserver: request is too large"});
        assert_eq!(refused(500, &body).class, Class::Invalid);
        assert_eq!(
            refused(500, &json!({"message": "boom"})).class,
            Class::Transient
        );
    }

    #[test]
    fn an_unknown_field_is_not_retried_although_the_server_says_500() {
        let body = json!({"message": "failed to create typed patch object (shop/web; /v1, \
            Kind=ConfigMap): .datta: field not declared in schema"});
        let failure = refused(500, &body);
        assert_eq!(
            (failure.class, failure.reason),
            (Class::Invalid, "Rejected")
        );
    }

    #[test]
    fn a_conflict_names_the_managers_and_their_fields() {
        let body = json!({"reason": "Conflict", "message": "Apply failed", "details": {"causes": [
            {"reason": "FieldManagerConflict", "field": ".spec.replicas",
             "message": "conflict with \"kubectl-edit\" using apps/v1"}]}});
        let failure = refused(409, &body);
        assert_eq!(failure.reason, "FieldConflict");
        assert_eq!(
            failure.conflicting(),
            [("kubectl-edit".to_owned(), ".spec.replicas".to_owned())]
        );
    }

    #[test]
    fn the_words_about_a_secret_are_hidden_and_those_about_others_shown() {
        let failure = refused(500, &json!({"message": "cannot use hunter2"}));
        let secret = ObjectKey::new("", "Secret", Some("shop"), "login");
        let settings = ObjectKey::new("", "ConfigMap", Some("shop"), "settings");
        assert!(!failure.cause(&secret).message.contains("hunter2"));
        assert!(failure.cause(&settings).message.contains("hunter2"));
    }

    #[test]
    fn only_a_recognised_cause_counts_as_immutable() {
        let immutable = json!({"details": {"causes": [{"reason": "FieldValueInvalid",
            "field": "spec.clusterIP", "message": "Invalid value: \"x\": field is immutable"}]}});
        let other = json!({"details": {"causes": [{"reason": "FieldValueInvalid",
            "field": "spec.replicas", "message": "must be greater than or equal to 0"}]}});
        assert!(refused(422, &immutable).is_immutable());
        assert!(!refused(422, &other).is_immutable());
    }
}
