//! The rules that the API server enforces by CEL, each with a message that says what to write.
//!
//! They are functions, so that a rule is written once, however many fields use it. A rule about
//! one field is attached to that field: validation ratcheting then keeps an object with an old,
//! now refused value writable as long as that value itself stays as it is.

use kube::core::Rule;

/// One host, an optional port and an optional path; no user, no query, no fragment.
const HTTP_URL: &str =
    r"^https?://([a-zA-Z0-9_-][a-zA-Z0-9._-]*|[[][0-9a-fA-F:.]+[]])(:[0-9]{1,5})?(/[^?# ]*)?$";

/// A time as RFC 3339 writes it, in upper case, which is what Infrahub accepts.
const RFC_3339: &str = concat!(
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])",
    r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]+)?",
    r"(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$",
);

/// The form of a relative date.
const RELATIVE_DATE: &str = "^[a-zA-Z]+-[0-9]+[smh]$";

/// How a relative date in the future begins.
const FUTURE_DATE: &str = "^[a-zA-Z]*[+]";

/// What stands before the host as `user:password@`.
const CREDENTIALS: &str = "^[^/]*//[^/?#]*@";

fn rule(expression: impl Into<String>, message: &str) -> Rule {
    Rule::new(expression).message(message)
}

/// `infrahubAPIURL` has the form of a URL, apart from what has a rule of its own.
pub fn api_url_form() -> Rule {
    rule(
        format!(
            "self.matches('{HTTP_URL}') || self.matches('{CREDENTIALS}') || self.matches('[?#]')"
        ),
        "must be the http or https URL of the Infrahub server with a host, \
         such as https://infrahub.example.com or http://10.0.0.1:8000",
    )
}

/// `infrahubAPIURL` carries no credentials.
pub fn api_url_without_credentials() -> Rule {
    rule(
        format!("!self.matches('{CREDENTIALS}')"),
        "must not contain credentials: remove the part before the @ and put user name and \
         password, or a token, into a Secret that credentialsRef names",
    )
}

/// `infrahubAPIURL` has no query and no fragment.
pub fn api_url_without_query() -> Rule {
    rule(
        "!self.matches('[?#]')",
        "must not contain a query (?) or a fragment (#): remove that part, \
         branch and date have fields of their own",
    )
}

/// `targetDate` does not point to the future.
pub fn target_date_not_in_future() -> Rule {
    rule(
        format!("!self.matches('{FUTURE_DATE}')"),
        "must not use the sign +: Infrahub ignores the sign, so now+2h would be answered with \
         the state of two hours ago; write now-2h for that, or leave targetDate out for now",
    )
}

/// `targetDate` has one of the two forms that Infrahub understands.
pub fn target_date_form() -> Rule {
    rule(
        format!(
            "self == '' || self.matches('{FUTURE_DATE}') || self.matches('{RELATIVE_DATE}') \
             || self.matches('{RFC_3339}')"
        ),
        "must be a time such as 2025-01-31T00:00:00Z, or relative such as now-2h with the unit \
         s, m or h (days are not supported, write now-48h)",
    )
}

/// Exactly one of the two spellings of the artifact's name.
pub fn one_artifact_name() -> Rule {
    rule(
        "has(self.artefactName) != has(self.artifactName)",
        "set exactly one of artefactName and artifactName: they are two spellings of one field",
    )
}

/// Exactly one place that the manifest comes from.
pub fn one_manifest() -> Rule {
    rule(
        "has(self.manifest) != has(self.manifestFrom)",
        "set exactly one of manifest and manifestFrom",
    )
}

/// `destination.server` is something that can be looked up.
pub fn server_form() -> Rule {
    rule(
        "self.matches('^[^ @?#]*$')",
        "must be the URL of an API server such as https://cluster.example.com:6443, without \
         credentials, query or spaces; leave it out for the cluster that Vidra runs in",
    )
}

/// `destination.namespace` is a name of a namespace.
pub fn namespace_form() -> Rule {
    rule(
        "self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
        "must be the name of a namespace: lower-case letters, digits and dashes; \
         leave it out if every object names its own",
    )
}

/// A name of an object such as a Secret.
pub fn object_name() -> Rule {
    rule(
        "self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",
        "must be the name of a Secret in Vidra's own namespace: lower-case letters, digits, \
         dashes and dots",
    )
}

/// A key in a Secret.
pub fn secret_key() -> Rule {
    rule(
        "self.matches('^[-._a-zA-Z0-9]+$')",
        "must be a key of the Secret: letters, digits, dashes, dots and underscores",
    )
}

/// A duration in the part of Go's syntax that makes sense for an interval.
///
/// Nine digits keep every accepted value within what [`crate::GoDuration`] can hold.
pub fn duration() -> Rule {
    rule(
        "self == '0' || self.matches('^([0-9]{1,9}([.][0-9]+)?(ns|us|\u{b5}s|\u{3bc}s|ms|s|m|h))+$')",
        "must be a duration such as 30s, 10m or 1h30m; 0 turns the timer off",
    )
}

/// A digest with its algorithm.
pub fn digest() -> Rule {
    rule(
        "self.matches('^sha256:[0-9a-f]{64}$')",
        "must be sha256: followed by 64 lower-case hexadecimal digits",
    )
}
