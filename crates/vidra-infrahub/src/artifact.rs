//! Artifacts, and when their content may be used.

use std::fmt;

use serde::Deserialize;

use crate::{
    error::Error,
    graphql::{Attribute, Edge},
};

/// What Infrahub says about the rendering of an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// Rendered.
    Ready,
    /// The last rendering failed; older content may still be there.
    Error,
    /// Not rendered yet.
    Pending,
    /// Being rendered.
    Processing,
    /// A word that we do not know, or none.
    Other(String),
}

impl Status {
    /// Servers may send the value (`Ready`) or the name of the enumeration (`READY`).
    fn parse(text: &str) -> Self {
        match text.to_ascii_lowercase().as_str() {
            "ready" => Self::Ready,
            "error" => Self::Error,
            "pending" => Self::Pending,
            "processing" => Self::Processing,
            // Bounded, because it is shown to people.
            _ => Self::Other(text.chars().filter(|c| !c.is_control()).take(40).collect()),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Ready => "Ready",
            Self::Error => "Error",
            Self::Pending => "Pending",
            Self::Processing => "Processing",
            Self::Other(word) => word,
        })
    }
}

/// What an artifact was rendered for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its id.
    pub id: String,
    /// Its kind in Infrahub's schema.
    pub kind: String,
    /// How people call it.
    pub display_label: Option<String>,
}

/// The definition that an artifact comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: Option<String>,
}

/// An artifact as Infrahub describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// Its id, the same on all branches that have it from `main`.
    pub id: String,
    /// Its name, which all artifacts of one definition share.
    pub name: String,
    /// How its rendering stands.
    pub status: Status,
    /// What the content claims to be.
    pub content_type: Option<String>,
    /// MD5 of the content, in hexadecimal digits.
    pub checksum: Option<String>,
    /// Where the content is; new content has a new one.
    pub storage_id: Option<String>,
    /// What it was rendered for.
    pub target: Option<Target>,
    /// Where it comes from.
    pub definition: Option<Definition>,
}

/// Whether the content of an artifact may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// It may, if what is fetched has the checksum.
    Trusted {
        /// Where the content is.
        storage_id: String,
        /// Its MD5 in lower-case hexadecimal digits.
        checksum: String,
    },
    /// It may not; what was applied before stays.
    Untrusted(Untrusted),
}

/// Why the content of an artifact may not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Untrusted {
    /// It is not rendered, or rendering failed.
    #[error("{} in Infrahub; see its transformation and render it again", standing(.status))]
    NotReady {
        /// What Infrahub says.
        status: Status,
    },
    /// Ready, but without content.
    #[error("the artifact is Ready, but Infrahub names no {missing} for it; render it again")]
    Incomplete {
        /// What is missing or unusable.
        missing: &'static str,
    },
}

fn standing(status: &Status) -> String {
    match status {
        Status::Other(word) if word.is_empty() => "the artifact has no status".to_owned(),
        status => format!("the artifact is '{status}'"),
    }
}

impl Untrusted {
    /// The reason in conditions and Events.
    pub fn reason(&self) -> &'static str {
        "ArtifactNotReady"
    }
}

/// The rule: `Ready`, stored, with a checksum. Everything else keeps what is applied.
pub fn trust(artifact: &Artifact) -> Trust {
    let untrusted = |missing| Trust::Untrusted(Untrusted::Incomplete { missing });
    if artifact.status != Status::Ready {
        let status = artifact.status.clone();
        return Trust::Untrusted(Untrusted::NotReady { status });
    }
    let Some(storage_id) = artifact.storage_id.clone().filter(|id| !id.is_empty()) else {
        return untrusted("storage_id");
    };
    let checksum = artifact
        .checksum
        .as_ref()
        .filter(|checksum| is_md5(checksum));
    let Some(checksum) = checksum.map(|checksum| checksum.to_ascii_lowercase()) else {
        return untrusted("checksum");
    };
    Trust::Trusted {
        storage_id,
        checksum,
    }
}

fn is_md5(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// An artifact on the wire.
#[derive(Debug, Deserialize)]
pub(crate) struct Node {
    id: String,
    name: Attribute,
    status: Attribute,
    content_type: Attribute,
    checksum: Attribute,
    storage_id: Attribute,
    #[serde(default)]
    object: Option<Related<TargetNode>>,
    #[serde(default)]
    definition: Option<Related<DefinitionNode>>,
}

/// Older servers sometimes leave the node of a relationship out.
type Related<T> = Edge<Option<T>>;

#[derive(Debug, Deserialize)]
struct TargetNode {
    id: String,
    #[serde(rename = "__typename")]
    kind: String,
    display_label: Option<String>,
}

#[derive(Debug, Deserialize)]
struct DefinitionNode {
    id: String,
    #[serde(default)]
    name: Attribute,
}

/// What is asked about an artifact; [`Node`] is the answer.
pub(crate) const NODE: &str = "id name{value} status{value} content_type{value} checksum{value} \
                               storage_id{value} object{node{id __typename display_label}} \
                               definition{node{id name{value}}}";

impl TryFrom<Node> for Artifact {
    type Error = Error;

    fn try_from(node: Node) -> Result<Self, Error> {
        let name = node.name.value.unwrap_or_default();
        if node.id.is_empty() || name.is_empty() {
            let what = "an artifact without id or name";
            return Err(Error::Unexpected { what });
        }
        let target = node.object.and_then(|related| related.node);
        let definition = node.definition.and_then(|related| related.node);
        Ok(Self {
            id: node.id,
            name,
            status: Status::parse(&node.status.value.unwrap_or_default()),
            content_type: node.content_type.value,
            checksum: node.checksum.value,
            storage_id: node.storage_id.value,
            target: target.map(|target| Target {
                id: target.id,
                kind: target.kind,
                display_label: target.display_label,
            }),
            definition: definition.map(|definition| Definition {
                id: definition.id,
                name: definition.name.value,
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact() -> Artifact {
        Artifact {
            id: "a".to_owned(),
            name: "manifest".to_owned(),
            status: Status::Ready,
            content_type: None,
            checksum: Some("D41D8CD98F00B204E9800998ECF8427E".to_owned()),
            storage_id: Some("s".to_owned()),
            target: None,
            definition: None,
        }
    }

    #[test]
    fn a_ready_artifact_with_content_is_trusted() {
        let expected = Trust::Trusted {
            storage_id: "s".to_owned(),
            checksum: "d41d8cd98f00b204e9800998ecf8427e".to_owned(),
        };
        assert_eq!(trust(&artifact()), expected);
    }

    #[test]
    fn no_other_status_is_trusted_even_with_content() {
        for word in ["Error", "Pending", "Processing", "", "Fine"] {
            let status = Status::parse(word);
            let artifact = Artifact {
                status: status.clone(),
                ..artifact()
            };
            assert_eq!(
                trust(&artifact),
                Trust::Untrusted(Untrusted::NotReady { status })
            );
        }
    }

    #[test]
    fn ready_without_a_place_or_a_usable_checksum_is_not_trusted() {
        let missing = |artifact: Artifact| match trust(&artifact) {
            Trust::Untrusted(Untrusted::Incomplete { missing }) => missing,
            other => panic!("{other:?}"),
        };
        for storage_id in [None, Some(String::new())] {
            assert_eq!(
                missing(Artifact {
                    storage_id,
                    ..artifact()
                }),
                "storage_id"
            );
        }
        for checksum in [
            None,
            Some(String::new()),
            Some("xyz".to_owned()),
            Some("g".repeat(32)),
        ] {
            assert_eq!(
                missing(Artifact {
                    checksum,
                    ..artifact()
                }),
                "checksum"
            );
        }
    }

    #[test]
    fn a_status_is_known_by_value_and_by_name() {
        assert_eq!(Status::parse("READY"), Status::Ready);
        assert_eq!(Status::parse("Ready"), Status::Ready);
    }
}
