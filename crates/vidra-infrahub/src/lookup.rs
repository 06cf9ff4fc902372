//! Questions about single things: is it gone, does it exist at all?

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::json;

use crate::{artifact::Artifact, error::Error, list::View, session::Session};

/// How often a name occurs in Infrahub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Artifacts of that name.
    pub artifacts: u64,
    /// Definitions that make artifacts of that name.
    pub definitions: u64,
}

impl Known {
    /// Whether anything has the name. If not, it is probably misspelt; if only definitions have
    /// it, their group is empty or nothing is rendered yet.
    pub fn is_known(&self) -> bool {
        self.artifacts > 0 || self.definitions > 0
    }
}

const NAME_QUERY: &str = "query VidraName($name:String){\
    CoreArtifact(name__value:$name,limit:1){count} \
    CoreArtifactDefinition(artifact_name__value:$name,limit:1){count}}";

#[derive(Deserialize)]
struct Counts {
    #[serde(rename = "CoreArtifact")]
    artifacts: Count,
    #[serde(rename = "CoreArtifactDefinition")]
    definitions: Count,
}

#[derive(Deserialize)]
struct Count {
    count: u64,
}

impl Session {
    /// What is there of some artifacts, by id. What is not in the answer is confirmed gone.
    pub async fn look_up(
        &self,
        view: &View<'_>,
        ids: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, Artifact>, Error> {
        let found = self.by_ids(view, ids).await?;
        Ok(found
            .into_iter()
            .map(|artifact| (artifact.id.clone(), artifact))
            .collect())
    }

    /// Whether any artifact or definition has this name: tells a misspelt name from an empty group.
    pub async fn name_is_known(&self, view: &View<'_>, name: &str) -> Result<Known, Error> {
        let counts: Counts = self
            .graphql(view, NAME_QUERY, json!({ "name": name }))
            .await?;
        Ok(Known {
            artifacts: counts.artifacts.count,
            definitions: counts.definitions.count,
        })
    }
}
