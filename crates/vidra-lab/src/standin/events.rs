//! Events: what Infrahub tells webhooks and its event feed about a change.

use jiff::{Timestamp, tz::TimeZone};

use super::{
    json::Json,
    world::{Artifact, ArtifactState, World, random},
};

/// One event, as both the feed and the webhooks see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// A new id per event; the same for every attempt to deliver it.
    pub id: String,
    /// `infrahub.artifact.created` and its like.
    pub name: String,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// The branch, if the event belongs to one.
    pub branch: Option<String>,
    /// Who did it.
    pub account_id: String,
    /// Id and kind of the node it is about.
    pub primary_node: (String, String),
    /// Ids and kinds of further nodes.
    pub related_nodes: Vec<(String, String)>,
    /// The member `data` of a webhook's body.
    pub data: Json,
}

impl Event {
    /// An event made by hand, for webhooks that no change of the stand-in causes.
    pub fn new(name: &str, branch: Option<&str>, data: Json, occurred_at: Timestamp) -> Self {
        Self {
            id: uuid(),
            name: name.to_owned(),
            occurred_at,
            branch: branch.map(str::to_owned),
            account_id: String::new(),
            primary_node: (String::new(), String::new()),
            related_nodes: Vec::new(),
            data,
        }
    }

    /// The body of a webhook. Note `occured_at`, which is spelled like this on the wire.
    pub fn body(&self) -> Json {
        Json::object([
            ("data", self.data.clone()),
            ("id", Json::text(&self.id)),
            ("branch", Json::optional(self.branch.as_deref())),
            ("account_id", Json::text(&self.account_id)),
            ("occured_at", Json::text(python_time(self.occurred_at, ' '))),
            ("event", Json::text(&self.name)),
        ])
    }
}

/// `2026-11-16 00:26:42.951777+00:00`: Python's rendering, with `separator` in the middle.
pub(super) fn python_time(at: Timestamp, separator: char) -> String {
    let civil = at.to_zoned(TimeZone::UTC).datetime();
    let (date, time) = (civil.date(), civil.time());
    let micros = time.subsec_nanosecond() / 1000;
    let (hour, minute, second) = (time.hour(), time.minute(), time.second());
    format!("{date}{separator}{hour:02}:{minute:02}:{second:02}.{micros:06}+00:00")
}

/// A random id in the form of a UUID of version 4.
pub(super) fn uuid() -> String {
    let (high, low) = (random(), random());
    format!(
        "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        low >> 52,
        low & 0xffff_ffff_ffff
    )
}

impl World {
    /// After a rendering that changed something.
    pub(super) fn emit_rendered(
        &mut self,
        artifact: &Artifact,
        branch: &str,
        before: Option<&ArtifactState>,
        after: &ArtifactState,
    ) -> Event {
        let is_first = before.is_none_or(|state| state.status == super::Status::Pending);
        let name = if is_first {
            "infrahub.artifact.created"
        } else {
            "infrahub.artifact.updated"
        };
        let definition = self
            .definitions
            .iter()
            .find(|one| one.id == artifact.definition);
        let definition_name = definition.map_or("", |one| one.name.as_str());
        let target = self.targets.iter().find(|one| one.id == artifact.target);
        let target_kind = target.map_or("", |one| one.kind.as_str());
        // Ordered by length, then alphabet: what a task manager on PostgreSQL makes of it.
        let data = Json::object([
            ("node_id", Json::text(&artifact.id)),
            ("checksum", Json::optional(after.checksum.as_deref())),
            ("target_id", Json::text(&artifact.target)),
            ("storage_id", Json::optional(after.storage_id.as_deref())),
            ("target_kind", Json::text(target_kind)),
            (
                "checksum_previous",
                Json::optional(before.and_then(|s| s.checksum.as_deref())),
            ),
            (
                "storage_id_previous",
                Json::optional(before.and_then(|s| s.storage_id.as_deref())),
            ),
            ("artifact_definition_id", Json::text(&artifact.definition)),
            ("artifact_definition_name", Json::text(definition_name)),
        ]);
        let mut event = Event::new(name, Some(branch), data, self.now());
        event.related_nodes = vec![(artifact.target.clone(), target_kind.to_owned())];
        self.emit(artifact, event)
    }

    /// After a change that only the node's own event tells: a failure, a deletion.
    pub(super) fn emit_node(&mut self, artifact: &Artifact, branch: &str, action: &str) -> Event {
        let fields = if action == "updated" {
            vec![Json::text("status")]
        } else {
            Vec::new()
        };
        let data = Json::object([
            ("kind", Json::text("CoreArtifact")),
            ("action", Json::text(action)),
            ("fields", Json::List(fields)),
            ("node_id", Json::text(&artifact.id)),
            (
                "changelog",
                Json::object([
                    ("node_id", Json::text(&artifact.id)),
                    ("node_kind", Json::text("CoreArtifact")),
                    ("attributes", Json::Object(Vec::new())),
                    ("display_label", Json::text(&artifact.name)),
                    ("relationships", Json::Object(Vec::new())),
                ]),
            ),
        ]);
        let name = format!("infrahub.node.{action}");
        let event = Event::new(&name, Some(branch), data, self.now());
        self.emit(artifact, event)
    }

    fn emit(&mut self, artifact: &Artifact, mut event: Event) -> Event {
        event.account_id = self
            .accounts
            .first()
            .map_or(String::new(), |one| one.id.clone());
        event.primary_node = (artifact.id.clone(), "CoreArtifact".to_owned());
        self.events.push(event.clone());
        event
    }
}
