//! Changes of artifacts, with the rules by which the real renderer makes them.

use super::{
    events::Event,
    world::{Artifact, ArtifactState, Branch, Status, Version, World, md5_hex},
};

/// What shall happen to one artifact.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// A rendering that worked.
    Rendered(Vec<u8>),
    /// The status alone; content of an earlier rendering stays.
    Status(Status),
    /// The artifact goes away; its stored content does not.
    Deleted,
}

/// Which artifact a change is about.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) name: String,
    pub(super) target: String,
    pub(super) kind: String,
    pub(super) branch: String,
    pub(super) content_type: String,
}

/// An artifact as it is after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// Id of the artifact.
    pub id: String,
    /// Where its content is stored, if it was ever rendered.
    pub storage_id: Option<String>,
    /// MD5 of its content, if it was ever rendered.
    pub checksum: Option<String>,
    /// Its status.
    pub status: Status,
}

/// One artifact on one branch, and how it is there before the change.
struct Place {
    index: usize,
    branch: Branch,
    before: Option<ArtifactState>,
}

impl World {
    /// Performs a change; the event is `None` where the real server emits none.
    pub(super) fn change(
        &mut self,
        subject: &Subject,
        change: &Change,
    ) -> (Option<Rendered>, Option<Event>) {
        let branch = self.add_branch(&subject.branch);
        let index = match (self.find(subject, &branch), change) {
            (Some(index), _) => index,
            (None, Change::Deleted) => return (None, None),
            (None, _) => self.create(subject),
        };
        let before = self.artifacts[index].state_at(&branch, self.now()).cloned();
        let place = Place {
            index,
            branch,
            before,
        };
        match change {
            Change::Rendered(content) => self.rendered(&place, content, &subject.content_type),
            Change::Status(status) => self.status(&place, *status, &subject.content_type),
            Change::Deleted => {
                self.push(&place, None);
                let artifact = self.artifacts[index].clone();
                (
                    None,
                    Some(self.emit_node(&artifact, &place.branch.name, "deleted")),
                )
            }
        }
    }

    fn find(&mut self, subject: &Subject, branch: &Branch) -> Option<usize> {
        let target = self.target(&subject.kind, &subject.target).id;
        let now = self.now();
        self.artifacts.iter().position(|artifact| {
            artifact.name == subject.name
                && artifact.target == target
                && artifact.state_at(branch, now).is_some()
        })
    }

    fn create(&mut self, subject: &Subject) -> usize {
        let target = self.target(&subject.kind, &subject.target).id;
        let definition = self.definition(&subject.name, &subject.content_type).id;
        let (id, storage_attribute) = (self.next_id(), self.next_id());
        let name = subject.name.clone();
        let history = std::collections::BTreeMap::new();
        self.artifacts.push(Artifact {
            id,
            name,
            definition,
            target,
            storage_attribute,
            history,
        });
        self.artifacts.len() - 1
    }

    /// Content equal to the stored one changes nothing at all: a status of `Error` stays,
    /// and no event tells of the rendering.
    fn rendered(
        &mut self,
        place: &Place,
        content: &[u8],
        content_type: &str,
    ) -> (Option<Rendered>, Option<Event>) {
        let before = place.before.as_ref();
        let checksum = md5_hex(content);
        if let Some(state) = before.filter(|state| state.checksum.as_ref() == Some(&checksum)) {
            return (Some(self.outcome(place.index, state)), None);
        }
        let (storage_id, _) = self.store(content);
        let state = ArtifactState {
            status: Status::Ready,
            checksum: Some(checksum),
            storage_id: Some(storage_id),
            content_type: content_type.to_owned(),
        };
        self.push(place, Some(state.clone()));
        let artifact = self.artifacts[place.index].clone();
        let event = self.emit_rendered(&artifact, &place.branch.name, before, &state);
        (Some(self.outcome(place.index, &state)), Some(event))
    }

    fn status(
        &mut self,
        place: &Place,
        status: Status,
        content_type: &str,
    ) -> (Option<Rendered>, Option<Event>) {
        let mut state = place.before.clone().unwrap_or_else(|| ArtifactState {
            status,
            checksum: None,
            storage_id: None,
            content_type: content_type.to_owned(),
        });
        state.status = status;
        self.push(place, Some(state.clone()));
        let artifact = self.artifacts[place.index].clone();
        let action = if place.before.is_none() {
            "created"
        } else {
            "updated"
        };
        let event = self.emit_node(&artifact, &place.branch.name, action);
        (Some(self.outcome(place.index, &state)), Some(event))
    }

    fn push(&mut self, place: &Place, state: Option<ArtifactState>) {
        let since = self.now();
        let history = &mut self.artifacts[place.index].history;
        history
            .entry(place.branch.name.clone())
            .or_default()
            .push(Version { since, state });
    }

    fn outcome(&self, index: usize, state: &ArtifactState) -> Rendered {
        Rendered {
            id: self.artifacts[index].id.clone(),
            storage_id: state.storage_id.clone(),
            checksum: state.checksum.clone(),
            status: state.status,
        }
    }
}
