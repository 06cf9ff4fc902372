//! What a webhook is about.

use serde::Deserialize;

/// Longer words are not Infrahub's.
const LONGEST: usize = 1024;

/// What changed, as far as it tells which syncs to look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    /// `infrahub.artifact.updated` and its like.
    pub event: Option<String>,
    /// The branch; some events belong to none.
    pub branch: Option<String>,
    /// The artifact, if it is about one.
    pub artifact_id: Option<String>,
    /// The artifact's definition.
    pub definition_id: Option<String>,
    /// The definition's name, from 1.4.7 on.
    pub definition_name: Option<String>,
    /// What the artifact was rendered for.
    pub target_id: Option<String>,
}

impl Hint {
    /// Whether an artifact came, changed or went.
    pub fn is_about_an_artifact(&self) -> bool {
        self.artifact_id.is_some()
    }

    /// The id of the event and the hint; `None` if this is no event of Infrahub.
    pub(super) fn read(body: &[u8]) -> Option<(Option<String>, Self)> {
        let body: Body = serde_json::from_slice(body).ok()?;
        let data = body.data.unwrap_or_default();
        let event = bounded(body.event);
        let is_artifact = event
            .as_ref()
            .is_some_and(|event| event.starts_with("infrahub.artifact."))
            || data.kind.as_deref() == Some("CoreArtifact");
        let hint = Self {
            artifact_id: bounded(data.node_id).filter(|_| is_artifact),
            branch: bounded(body.branch),
            definition_id: bounded(data.artifact_definition_id),
            definition_name: bounded(data.artifact_definition_name),
            target_id: bounded(data.target_id),
            event,
        };
        Some((bounded(body.id), hint))
    }
}

fn bounded(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty() && text.len() <= LONGEST)
}

#[derive(Deserialize)]
struct Body {
    id: Option<String>,
    event: Option<String>,
    branch: Option<String>,
    data: Option<Data>,
}

#[derive(Default, Deserialize)]
struct Data {
    kind: Option<String>,
    node_id: Option<String>,
    artifact_definition_id: Option<String>,
    artifact_definition_name: Option<String>,
    target_id: Option<String>,
}
