//! How long we wait and how much we take.

use std::time::Duration;

/// Limits for everything that is asked of an Infrahub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// For a connection, TLS included.
    pub connect: Duration,
    /// From the beginning of a request to the header of its answer, the connection included.
    pub header: Duration,
    /// Between two pieces of a body.
    pub idle: Duration,
    /// For one request in all.
    pub whole: Duration,
    /// The largest content of an artifact, in bytes, after decompression.
    pub content_limit: usize,
    /// The largest other answer, in bytes, after decompression.
    pub list_limit: usize,
    /// How many artifacts are asked for at once.
    pub page_size: u32,
    /// How many contents are downloaded at the same time.
    pub downloads: usize,
    /// How many bytes of content are kept for the next time.
    pub cache: usize,
    /// How long refused credentials are not tried again: each login costs the server a lot.
    pub rejection_memory: Duration,
    /// The longest that a server may tell us to stay away.
    pub longest_retreat: Duration,
    /// How long a session may be idle before it is forgotten.
    pub session_idle: Duration,
    /// Whether proxies named in the environment are used.
    pub has_environment_proxy: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            // Infrahub is slow while it renders after a merge, and that is no failure.
            header: Duration::from_secs(30),
            idle: Duration::from_secs(15),
            whole: Duration::from_mins(2),
            content_limit: 64 << 20,
            list_limit: 16 << 20,
            page_size: 500,
            downloads: 8,
            cache: 64 << 20,
            rejection_memory: Duration::from_secs(10),
            longest_retreat: Duration::from_mins(5),
            session_idle: Duration::from_hours(1),
            has_environment_proxy: false,
        }
    }
}
