//! Scripting from Rust: what tests do to the world behind the server.

use jiff::Timestamp;

use super::{
    StandIn, lock,
    render::{Change, Rendered, Subject},
    world::{DEFAULT_BRANCH, Group, Status, random},
};

/// One artifact to be changed; nothing happens before the last word
/// ([`ready`](Self::ready), [`pending`](Self::pending), …) is said.
#[must_use = "say what shall happen to the artifact: ready(), pending(), failed(), delete()"]
pub struct ArtifactScript<'a> {
    standin: &'a StandIn,
    subject: Subject,
    content: Option<Vec<u8>>,
}

impl<'a> ArtifactScript<'a> {
    pub(super) fn new(standin: &'a StandIn, name: &str) -> Self {
        let subject = Subject {
            name: name.to_owned(),
            target: "web-a".to_owned(),
            kind: "KubernetesWebserver".to_owned(),
            branch: DEFAULT_BRANCH.to_owned(),
            content_type: "application/yaml".to_owned(),
        };
        Self {
            standin,
            subject,
            content: None,
        }
    }

    /// The object it is rendered for; `web-a` unless said otherwise.
    pub fn target(mut self, label: &str) -> Self {
        label.clone_into(&mut self.subject.target);
        self
    }

    /// The kind of that object; `KubernetesWebserver` unless said otherwise.
    pub fn kind(mut self, kind: &str) -> Self {
        kind.clone_into(&mut self.subject.kind);
        self
    }

    /// The branch it is rendered on; made if it does not exist.
    pub fn branch(mut self, branch: &str) -> Self {
        branch.clone_into(&mut self.subject.branch);
        self
    }

    /// The content type; `application/yaml` unless said otherwise.
    pub fn content_type(mut self, content_type: &str) -> Self {
        content_type.clone_into(&mut self.subject.content_type);
        self
    }

    /// What the rendering yields.
    pub fn content(mut self, content: impl Into<Vec<u8>>) -> Self {
        self.content = Some(content.into());
        self
    }

    /// A rendering that works. With the content it already has, nothing changes: no event, and an
    /// artifact whose status is `Error` keeps it, as on the real server.
    pub fn ready(self) -> Rendered {
        let content = self.content.clone().unwrap_or_default();
        self.become_rendered(&Change::Rendered(content))
    }

    /// Not rendered yet.
    pub fn pending(self) -> Rendered {
        self.become_rendered(&Change::Status(Status::Pending))
    }

    /// Being rendered; the content of the last rendering stays.
    pub fn processing(self) -> Rendered {
        self.become_rendered(&Change::Status(Status::Processing))
    }

    /// A rendering that fails; the content of the last good one stays.
    pub fn failed(self) -> Rendered {
        self.become_rendered(&Change::Status(Status::Error))
    }

    /// The artifact goes away; its stored content stays readable.
    pub fn delete(self) {
        self.standin.shared.change(&self.subject, &Change::Deleted);
    }

    fn become_rendered(self, change: &Change) -> Rendered {
        let rendered = self.standin.shared.change(&self.subject, change);
        // Only a deletion leaves nothing behind.
        rendered.unwrap_or(Rendered {
            id: String::new(),
            storage_id: None,
            checksum: None,
            status: Status::Pending,
        })
    }
}

/// An account, made at once; tokens can be added.
pub struct AccountScript<'a> {
    standin: &'a StandIn,
    id: String,
}

impl<'a> AccountScript<'a> {
    pub(super) fn new(standin: &'a StandIn, name: &str, password: &str, group: Group) -> Self {
        let id = lock(&standin.shared.world).put_account(name, password, group);
        Self { standin, id }
    }

    /// A new API token.
    pub fn token(&self) -> String {
        self.expiring_token(None)
    }

    /// A new API token that ends at a time.
    pub fn expiring_token(&self, expires: Option<Timestamp>) -> String {
        let value = format!("{:016x}{:016x}", random(), random());
        lock(&self.standin.shared.world).put_token(&self.id, &value, expires);
        value
    }
}
