//! Why a list or a watch ended, by what has to follow from it.

use std::{error::Error, time::Duration};

use kube::core::Status;

/// Why a list or a watch ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// The API server no longer has, or does not yet have, the history that we asked for.
    Expired,
    /// The API server does not serve the kind.
    KindGone,
    /// We may not.
    Forbidden,
    /// The API server asks us to come back later.
    Busy {
        /// How much later, at least.
        retry_after: Duration,
    },
    /// The API server ended the stream in good order.
    Ended,
    /// The stream said nothing for too long.
    Silent {
        /// Whether it had said anything before.
        had_spoken: bool,
    },
    /// Anything else.
    Broken {
        /// For people; no content of objects.
        message: String,
    },
}

impl Failure {
    /// The one place where errors of the client become failures.
    pub(super) fn of(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(status),
            other => Self::Broken {
                message: chain(other),
            },
        }
    }

    /// By the code, not by the reason: what stands between us and an API server, and the API
    /// server itself for a kind that it does not serve, answer with plain text and no reason.
    pub(super) fn of_status(status: &Status) -> Self {
        match (status.code, status.reason.as_str()) {
            (410, _) | (0, "Expired" | "Gone") => Self::Expired,
            _ if is_from_the_future(status) => Self::Expired,
            (404, _) => Self::KindGone,
            (403, _) => Self::Forbidden,
            (429 | 503, _) => Self::Busy {
                retry_after: retry_after(status),
            },
            (code, reason) => Self::Broken {
                message: describe(code, reason),
            },
        }
    }

    /// Whether the resource version that the stream began at may be one that never was.
    pub(super) fn is_doubtful(&self) -> bool {
        matches!(self, Self::Silent { had_spoken: false })
    }

    /// The call took too long.
    pub(super) fn late(limit: Duration) -> Self {
        let seconds = limit.as_secs_f64();
        Self::Broken {
            message: format!("the API server did not answer within {seconds} s"),
        }
    }
}

/// After a restore of etcd, our resource version may be one that the API server has yet to reach.
fn is_from_the_future(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes
        .into_iter()
        .any(|cause| cause.reason == "ResourceVersionTooLarge")
}

/// What the body says; the client does not hand out the header of the same name. Flow control
/// answers in plain text and always means one second.
fn retry_after(status: &Status) -> Duration {
    let seconds = status
        .details
        .as_ref()
        .map_or(0, |details| details.retry_after_seconds);
    Duration::from_secs(u64::from(seconds.max(1)))
}

/// Code and reason only: messages of the API server can contain values of objects.
fn describe(code: u16, reason: &str) -> String {
    if reason.is_empty() || reason.contains(' ') {
        format!("the API server answered with status {code}")
    } else {
        format!("the API server answered with status {code} ({reason})")
    }
}

fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Many errors of the client already contain the text of their source.
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn failure(status: serde_json::Value) -> Failure {
        let status: Status = serde_json::from_value(status).expect("a status");
        Failure::of(&kube::Error::Api(Box::new(status)))
    }

    /// What the client makes of an answer whose body is no JSON.
    fn plain_text(code: u16, text: &str) -> Failure {
        let status = Status::failure(text, "Failed to parse error data").with_code(code);
        Failure::of(&kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn codes_decide_even_when_the_body_is_plain_text() {
        assert_eq!(plain_text(404, "404 page not found"), Failure::KindGone);
        assert_eq!(plain_text(403, "denied by the proxy"), Failure::Forbidden);
        assert_eq!(plain_text(410, "gone"), Failure::Expired);
        let busy = Failure::Busy {
            retry_after: Duration::from_secs(1),
        };
        assert_eq!(plain_text(429, "Too many requests"), busy);
    }

    #[test]
    fn a_busy_server_says_how_long_to_stay_away() {
        let status = json!({"code": 429, "details": {"retryAfterSeconds": 7}});
        assert_eq!(
            failure(status),
            Failure::Busy {
                retry_after: Duration::from_secs(7)
            }
        );
    }

    #[test]
    fn a_resource_version_from_the_future_is_as_useless_as_an_expired_one() {
        let causes = json!([{"reason": "ResourceVersionTooLarge"}]);
        let status = json!({"code": 504, "reason": "Timeout", "details": {"causes": causes}});
        assert_eq!(failure(status), Failure::Expired);
    }

    #[test]
    fn a_message_of_the_api_server_is_not_repeated() {
        let status = json!({"code": 500, "reason": "InternalError", "message": "password hunter2"});
        let Failure::Broken { message } = failure(status) else {
            panic!("not broken")
        };
        assert_eq!(
            message,
            "the API server answered with status 500 (InternalError)"
        );
    }
}
