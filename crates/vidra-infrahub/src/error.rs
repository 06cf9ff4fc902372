//! What can go wrong between Infrahub and us, and what to do about it.

use std::{fmt, sync::Arc, time::Duration};

use vidra_core::class::Class;

use crate::date::DateError;

/// What we were waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A connection or the header of the answer.
    Header,
    /// The next piece of the body.
    Idle,
    /// The end of the body.
    Whole,
}

impl fmt::Display for Phase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Header => "did not begin to answer",
            Self::Idle => "stopped in the middle of an answer",
            Self::Whole => "did not finish an answer",
        })
    }
}

/// An HTTP client's error, shared: one failed login is told to every call that waited for it.
pub(crate) type HttpError = Arc<reqwest::Error>;

/// Why Infrahub could not be asked or its answer not be used.
///
/// None of these says anything about which artifacts exist.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The address of the sync.
    #[error(
        "infrahubAPIURL is not usable: {problem}; write the server's address such as \
         https://infrahub.example.com"
    )]
    InvalidAddress {
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The date of the sync.
    #[error("the date is not usable")]
    InvalidDate(#[source] DateError),
    /// A name that cannot be part of an address.
    #[error("the {what} is empty or has a part that is '.' or '..'; correct it")]
    InvalidName {
        /// Of what.
        what: &'static str,
    },
    /// Credentials that are empty or cannot be sent.
    #[error(
        "the {what} in the credentials Secret is empty or has characters that cannot be sent; \
         fill it in"
    )]
    BlankCredentials {
        /// The key in the Secret.
        what: &'static str,
    },
    /// The CA bundle.
    #[error("the CA bundle is not usable; it must hold certificates in PEM form")]
    InvalidAuthority {
        /// What the HTTP client says; nothing if there is no certificate at all.
        #[source]
        source: Option<HttpError>,
    },
    /// No HTTP client could be made, which means no trusted certificates.
    #[error(
        "TLS cannot be set up; install the system's CA certificates or give a CA bundle for this \
         Infrahub"
    )]
    Setup {
        /// What the HTTP client says.
        #[source]
        source: HttpError,
    },
    /// Nobody may ask without credentials.
    #[error(
        "Infrahub wants credentials; make a Secret with username and password, or a token, for \
         this origin"
    )]
    AuthenticationRequired,
    /// A login or an API token was refused.
    #[error("Infrahub refused the credentials{}; correct the Secret", told(.message.as_ref()))]
    CredentialsRejected {
        /// What Infrahub said.
        message: Option<String>,
    },
    /// A login worked, and what it gave was refused all the same.
    #[error(
        "Infrahub refuses the token that it has just given out{}; if it runs with several \
         processes, set INFRAHUB_SECURITY_SECRET_KEY to the same value for all", told(.message.as_ref())
    )]
    SessionRejected {
        /// What Infrahub said.
        message: Option<String>,
    },
    /// The account lacks a permission.
    #[error(
        "the account is not allowed to read artifacts{}; give it a role that may view them, such \
         as that of the group Infrahub Users", told(.message.as_ref())
    )]
    Forbidden {
        /// What Infrahub said.
        message: Option<String>,
    },
    /// There is no such branch.
    #[error("Infrahub has no branch '{branch}'; create it or correct targetBranch")]
    BranchNotFound {
        /// The branch that was asked for.
        branch: String,
    },
    /// There is no such query.
    #[error("Infrahub has no query '{query}'; register it, or leave queryName empty")]
    QueryNotFound {
        /// The query that was asked for.
        query: String,
    },
    /// A registered query fails.
    #[error(
        "the registered query '{query}' fails{}; correct it in Infrahub, or leave queryName \
         empty", told(.message.as_ref())
    )]
    QueryFailed {
        /// The query.
        query: String,
        /// What Infrahub said.
        message: Option<String>,
    },
    /// Infrahub does not like the date.
    #[error("Infrahub does not understand targetDate{}; correct it", told(.message.as_ref()))]
    DateRejected {
        /// What Infrahub said.
        message: Option<String>,
    },
    /// Our own query fails, as a whole or in part.
    #[error("Infrahub cannot answer the query{}; see its log", told(.message.as_ref()))]
    GraphqlFailed {
        /// What Infrahub said.
        message: Option<String>,
    },
    /// Some other refusal.
    #[error(
        "Infrahub refused the request with HTTP {status}{}; check infrahubAPIURL and Infrahub's \
         version", told(.message.as_ref())
    )]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What Infrahub said.
        message: Option<String>,
    },
    /// An exception inside of Infrahub.
    #[error("Infrahub failed with HTTP {status}; see its log")]
    Crashed {
        /// The HTTP status.
        status: u16,
    },
    /// Something before Infrahub says that Infrahub is away.
    #[error("Infrahub is not available, HTTP {status}; check that it runs")]
    Unavailable {
        /// The HTTP status.
        status: u16,
    },
    /// Too many requests.
    #[error("Infrahub is busy and wants to be left alone for a while; it is asked again then")]
    Overloaded {
        /// How long it wants to be left alone.
        retry_after: Duration,
    },
    /// Redirects are not followed.
    #[error(
        "the server redirects with HTTP {status}{}; set infrahubAPIURL to the final address",
        towards(.origin.as_ref())
    )]
    Redirected {
        /// The HTTP status.
        status: u16,
        /// The origin it points to.
        origin: Option<String>,
    },
    /// A page for people instead of an answer.
    #[error(
        "the server answers with a web page, HTTP {status}; check that infrahubAPIURL is the \
         address of Infrahub and that no login page or proxy stands before it"
    )]
    WebPage {
        /// The HTTP status.
        status: u16,
    },
    /// No JSON at all.
    #[error("the answer is no JSON; check that infrahubAPIURL is the address of Infrahub")]
    Malformed,
    /// JSON, but not what was asked for.
    #[error("the answer has another form than expected: {what}; check Infrahub's version")]
    Unexpected {
        /// What was not as expected.
        what: &'static str,
    },
    /// Fewer or more artifacts than the answer itself says that there are.
    #[error("the list is not complete: {received} of {expected} artifacts; it is asked for again")]
    Incomplete {
        /// How many there are.
        expected: u64,
        /// How many came.
        received: u64,
    },
    /// The list was changed while it was read.
    #[error(
        "the artifacts changed while they were listed; they are asked for again; if this stays, \
         Infrahub contradicts itself: see its log"
    )]
    ListChanged,
    /// No connection.
    #[error("Infrahub cannot be reached; check infrahubAPIURL, DNS, network policies and Infrahub")]
    Unreachable {
        /// What the HTTP client says.
        #[source]
        source: HttpError,
    },
    /// The server's certificate is not trusted, or it does not speak TLS.
    #[error(
        "no trusted connection; check the server's certificate, give a CA bundle for it, or use \
         http if the server speaks no TLS"
    )]
    Tls {
        /// What the HTTP client says.
        #[source]
        source: HttpError,
    },
    /// The server took too long.
    #[error("Infrahub {phase} in time; check its load")]
    TimedOut {
        /// What was waited for.
        phase: Phase,
    },
    /// An answer ended before its end, or was damaged on the way.
    #[error("the connection broke in the middle of an answer; check what is between")]
    Interrupted {
        /// What the HTTP client says.
        #[source]
        source: HttpError,
    },
    /// An answer larger than the limit.
    #[error("the answer is larger than the limit of {limit} bytes; split it or raise the limit")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The object store has lost the content, or cannot read it.
    #[error("Infrahub's object store does not have the content; check the store or render again")]
    ContentMissing,
    /// The content is not what Infrahub rendered.
    #[error(
        "the content has the checksum {actual}, not {expected}; check what is between, or \
         Infrahub's object store"
    )]
    ChecksumMismatch {
        /// What Infrahub says.
        expected: String,
        /// What was computed.
        actual: String,
    },
    /// Content without anything in it.
    #[error("the artifact is empty; correct its transformation")]
    EmptyContent,
    /// Content that is no text.
    #[error("the artifact is no UTF-8 text; correct its transformation")]
    NotText,
}

fn told(message: Option<&String>) -> String {
    message.map_or(String::new(), |message| format!(": '{message}'"))
}

fn towards(origin: Option<&String>) -> String {
    origin.map_or(String::new(), |origin| format!(" to '{origin}'"))
}

impl Error {
    /// Whether and how to try again.
    ///
    /// What the server says wrongly today it may say rightly tomorrow: only what is written in
    /// our own input is `Invalid`.
    pub fn class(&self) -> Class {
        match self {
            Self::InvalidAddress { .. }
            | Self::InvalidDate(_)
            | Self::InvalidName { .. }
            | Self::BlankCredentials { .. }
            | Self::InvalidAuthority { .. }
            | Self::DateRejected { .. } => Class::Invalid,
            Self::BranchNotFound { .. }
            | Self::QueryNotFound { .. }
            | Self::EmptyContent
            | Self::NotText => Class::Waiting,
            Self::AuthenticationRequired
            | Self::CredentialsRejected { .. }
            | Self::SessionRejected { .. }
            | Self::Forbidden { .. }
            | Self::QueryFailed { .. }
            | Self::Setup { .. }
            | Self::Tls { .. }
            | Self::TooLarge { .. } => Class::Denied,
            Self::GraphqlFailed { .. }
            | Self::Refused { .. }
            | Self::Crashed { .. }
            | Self::Unavailable { .. }
            | Self::Overloaded { .. }
            | Self::Redirected { .. }
            | Self::WebPage { .. }
            | Self::Malformed
            | Self::Unexpected { .. }
            | Self::Incomplete { .. }
            | Self::ListChanged
            | Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::Interrupted { .. }
            | Self::ContentMissing
            | Self::ChecksumMismatch { .. } => Class::Transient,
        }
    }

    /// The reason in conditions and Events.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::InvalidAddress { .. }
            | Self::InvalidDate(_)
            | Self::InvalidName { .. }
            | Self::InvalidAuthority { .. }
            | Self::DateRejected { .. } => "InvalidSpec",
            Self::BlankCredentials { .. } | Self::AuthenticationRequired => "CredentialsMissing",
            Self::CredentialsRejected { .. } | Self::SessionRejected { .. } => {
                "CredentialsRejected"
            }
            Self::Forbidden { .. } => "AccessDenied",
            Self::BranchNotFound { .. } => "BranchNotFound",
            Self::Setup { .. }
            | Self::Unreachable { .. }
            | Self::Tls { .. }
            | Self::TimedOut { .. }
            | Self::Interrupted { .. }
            | Self::Unavailable { .. } => "InfrahubUnreachable",
            Self::QueryNotFound { .. }
            | Self::QueryFailed { .. }
            | Self::GraphqlFailed { .. }
            | Self::Refused { .. }
            | Self::Crashed { .. }
            | Self::Overloaded { .. }
            | Self::Redirected { .. }
            | Self::WebPage { .. }
            | Self::Malformed
            | Self::Unexpected { .. }
            | Self::Incomplete { .. }
            | Self::ListChanged
            | Self::ContentMissing => "InfrahubError",
            Self::TooLarge { .. } => "TooLarge",
            Self::ChecksumMismatch { .. } => "ChecksumMismatch",
            Self::EmptyContent => "EmptyManifest",
            Self::NotText => "ManifestInvalid",
        }
    }

    /// A finer word than [`Self::reason`], one per way to fail, for metrics and logs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidAddress { .. } => "InvalidAddress",
            Self::InvalidDate(_) => "InvalidDate",
            Self::InvalidName { .. } => "InvalidName",
            Self::BlankCredentials { .. } => "BlankCredentials",
            Self::InvalidAuthority { .. } => "InvalidAuthority",
            Self::Setup { .. } => "Setup",
            Self::AuthenticationRequired => "AuthenticationRequired",
            Self::CredentialsRejected { .. } => "CredentialsRejected",
            Self::SessionRejected { .. } => "SessionRejected",
            Self::Forbidden { .. } => "Forbidden",
            Self::BranchNotFound { .. } => "BranchNotFound",
            Self::QueryNotFound { .. } => "QueryNotFound",
            Self::QueryFailed { .. } => "QueryFailed",
            Self::DateRejected { .. } => "DateRejected",
            Self::GraphqlFailed { .. } => "GraphqlFailed",
            Self::Refused { .. } => "Refused",
            Self::Crashed { .. } => "Crashed",
            Self::Unavailable { .. } => "Unavailable",
            Self::Overloaded { .. } => "Overloaded",
            Self::Redirected { .. } => "Redirected",
            Self::WebPage { .. } => "WebPage",
            Self::Malformed => "Malformed",
            Self::Unexpected { .. } => "Unexpected",
            Self::Incomplete { .. } => "Incomplete",
            Self::ListChanged => "ListChanged",
            Self::Unreachable { .. } => "Unreachable",
            Self::Tls { .. } => "Tls",
            Self::TimedOut { .. } => "TimedOut",
            Self::Interrupted { .. } => "Interrupted",
            Self::TooLarge { .. } => "TooLarge",
            Self::ContentMissing => "ContentMissing",
            Self::ChecksumMismatch { .. } => "ChecksumMismatch",
            Self::EmptyContent => "EmptyContent",
            Self::NotText => "NotText",
        }
    }

    /// How long the server wants to be left alone, if it said so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Overloaded { retry_after } => Some(*retry_after),
            _ => None,
        }
    }
}
