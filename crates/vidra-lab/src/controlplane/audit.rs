//! Who did what: the audit log of the API server, parsed.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde::Deserialize;

/// How long [`AuditLog::wait_for`] waits.
const PATIENCE: Duration = Duration::from_secs(30);
/// No entry without bodies comes near this many bytes.
const LONGEST_LINE: u64 = 256 * 1024;

/// Why the audit log could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// The file could not be read.
    #[error("cannot read {path:?}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// A line is no audit event.
    #[error("cannot parse the line {line:?} of {path:?}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// The line.
        line: String,
        /// What the parser said.
        #[source]
        source: serde_json::Error,
    },
    /// What was waited for did not come.
    #[error("no audit entry matched within {} s; {seen} others were seen", PATIENCE.as_secs())]
    Absent {
        /// How many entries came instead.
        seen: usize,
    },
}

/// A place in the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Mark(u64);

/// One request, as the API server saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection` or, for
    /// what is no resource, the HTTP method in lower case.
    pub verb: String,
    /// The authenticated user.
    pub user: String,
    /// Its groups.
    pub groups: Vec<String>,
    /// The user it acted as, when it impersonated one.
    pub impersonated_user: Option<String>,
    /// What the client calls itself.
    pub user_agent: String,
    /// API group, empty for the core group and for what is no resource.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural resource name, empty for what is no resource.
    pub resource: String,
    /// Subresource such as `status` or `scale`, or empty.
    pub subresource: String,
    /// Namespace, or empty.
    pub namespace: String,
    /// Object name, or empty.
    pub name: String,
    /// HTTP status code of the response.
    pub code: u16,
    /// Path and query.
    pub uri: String,
    /// `ResponseComplete`, for long-running requests also `ResponseStarted`; `Panic`.
    pub stage: String,
    /// The id that is the same for all stages of one request.
    pub id: String,
    /// When the stage was reached, RFC 3339 with microseconds.
    pub time: String,
}

impl Entry {
    /// Whether the request asked for a change (dry runs and refused ones included).
    pub fn is_mutation(&self) -> bool {
        const MUTATIONS: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];
        MUTATIONS.contains(&self.verb.as_str())
    }

    /// Whether the response is complete; counts every request once.
    pub fn is_complete(&self) -> bool {
        self.stage == "ResponseComplete"
    }

    /// Whether a watch began.
    pub fn is_watch_start(&self) -> bool {
        self.verb == "watch" && self.stage == "ResponseStarted"
    }

    /// Whether the request was for this API group and plural resource name.
    pub fn is_about(&self, group: &str, resource: &str) -> bool {
        self.group == group && self.resource == resource
    }
}

/// The audit log of one control plane.
///
/// The API server writes an entry when it has handled the request, which may be a moment after
/// the client has the answer: wait with [`AuditLog::wait_for`] or `ControlPlane::audit_fence`.
#[derive(Debug, Clone)]
pub struct AuditLog {
    path: PathBuf,
}

impl AuditLog {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// The file itself: one JSON document per line.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The present end of the log.
    pub fn mark(&self) -> Result<Mark, AuditError> {
        let length = std::fs::metadata(&self.path)
            .map_err(|source| self.read_error(source))?
            .len();
        // The last line may be half written: the mark is where it begins.
        let near_end = length.saturating_sub(LONGEST_LINE);
        let tail = self
            .read(Mark(near_end))
            .map_err(|source| self.read_error(source))?;
        let complete = tail
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        Ok(Mark(near_end + u64::try_from(complete).unwrap_or(u64::MAX)))
    }

    /// Everything so far.
    pub fn entries(&self) -> Result<Vec<Entry>, AuditError> {
        self.since(Mark::default())
    }

    /// Everything after a mark.
    pub fn since(&self, mark: Mark) -> Result<Vec<Entry>, AuditError> {
        let bytes = self.read(mark).map_err(|source| self.read_error(source))?;
        let text = String::from_utf8_lossy(&bytes);
        // The last line may be half written.
        let complete = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
        complete
            .lines()
            .filter(|line| !line.is_empty())
            .map(|line| self.parse(line))
            .collect()
    }

    /// Finished requests after a mark that asked for a change, of clients whose user agent begins so.
    pub fn mutations(&self, mark: Mark, user_agent: &str) -> Result<Vec<Entry>, AuditError> {
        let is_wanted = |entry: &Entry| {
            entry.is_complete() && entry.is_mutation() && entry.user_agent.starts_with(user_agent)
        };
        Ok(self.since(mark)?.into_iter().filter(is_wanted).collect())
    }

    /// The first entry after a mark that matches, once it is there.
    pub async fn wait_for(
        &self,
        mark: Mark,
        matches: impl Fn(&Entry) -> bool,
    ) -> Result<Entry, AuditError> {
        let begin = Instant::now();
        loop {
            let entries = self.since(mark)?;
            if let Some(entry) = entries.iter().find(|entry| matches(entry)) {
                return Ok(entry.clone());
            }
            if begin.elapsed() > PATIENCE {
                return Err(AuditError::Absent {
                    seen: entries.len(),
                });
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn read(&self, mark: Mark) -> io::Result<Vec<u8>> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(mark.0))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn parse(&self, line: &str) -> Result<Entry, AuditError> {
        let event: Event = serde_json::from_str(line).map_err(|source| AuditError::Parse {
            path: self.path.clone(),
            line: line.to_owned(),
            source,
        })?;
        Ok(event.into())
    }

    fn read_error(&self, source: io::Error) -> AuditError {
        AuditError::Read {
            path: self.path.clone(),
            source,
        }
    }
}

/// `audit.k8s.io/v1` `Event`, as far as we read it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(rename = "auditID")]
    audit_id: String,
    stage: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: String,
    user: User,
    impersonated_user: Option<User>,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: ResponseStatus,
    #[serde(default)]
    stage_timestamp: String,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
    #[serde(default)]
    groups: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
    api_group: String,
    api_version: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}

impl From<Event> for Entry {
    fn from(event: Event) -> Self {
        Self {
            verb: event.verb,
            user: event.user.username,
            groups: event.user.groups,
            impersonated_user: event.impersonated_user.map(|user| user.username),
            user_agent: event.user_agent,
            group: event.object_ref.api_group,
            version: event.object_ref.api_version,
            resource: event.object_ref.resource,
            subresource: event.object_ref.subresource,
            namespace: event.object_ref.namespace,
            name: event.object_ref.name,
            code: event.response_status.code,
            uri: event.request_uri,
            stage: event.stage,
            id: event.audit_id,
            time: event.stage_timestamp,
        }
    }
}
