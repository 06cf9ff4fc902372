//! `InfrahubSync`: which artifacts go to which destination.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    common::{Destination, KeyReference, NameReference, State, is_default, lenient},
    duration::GoDuration,
    names, rules,
};

/// What to deliver and where to.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "infrahub.operators.com",
    version = "v1alpha1",
    kind = "InfrahubSync",
    plural = "infrahubsyncs",
    shortname = "ihs",
    category = "vidra",
    status = "InfrahubSyncStatus",
    derive = "PartialEq",
    doc = "InfrahubSync says which artifacts of an Infrahub server are delivered to which cluster. For every artifact it keeps one VidraResource."
)]
#[serde(rename_all = "camelCase")]
pub struct InfrahubSyncSpec {
    /// Which artifacts.
    pub source: InfrahubSyncSource,
    /// Where the objects in them go. Absent: the cluster that Vidra runs in.
    #[serde(default, skip_serializing_if = "is_default")]
    pub destination: Destination,
    /// Pauses the sync: nothing is fetched, changed or deleted while it is true. Absent: false.
    #[serde(default, skip_serializing_if = "is_default")]
    pub suspend: bool,
}

/// Which artifacts of which Infrahub server.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rules::one_artifact_name())]
pub struct InfrahubSyncSource {
    /// URL of the Infrahub server, for example https://infrahub.example.com. Without
    /// credentials, query and fragment.
    #[serde(rename = "infrahubAPIURL")]
    #[schemars(length(max = 2048))]
    #[x_kube(
        validation = rules::api_url_form(),
        validation = rules::api_url_without_credentials(),
        validation = rules::api_url_without_query()
    )]
    pub infrahub_api_url: String,
    /// Branch in Infrahub. Absent: main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub target_branch: Option<String>,
    /// Point in time in Infrahub: RFC 3339 such as 2025-01-31T00:00:00Z, or relative such as
    /// now-2h (unit s, m or h). Absent or empty: now. The sign + is refused, because Infrahub
    /// ignores it and would answer from the past.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(
        validation = rules::target_date_not_in_future(),
        validation = rules::target_date_form()
    )]
    pub target_date: Option<String>,
    /// Name of the artifact in Infrahub. Exactly one of artefactName and artifactName is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub artefact_name: Option<String>,
    /// The same as artefactName, in the spelling that Infrahub uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub artifact_name: Option<String>,
    /// How often Infrahub is asked, as a Go duration such as 30s or 5m; 0 turns the timer off.
    /// Absent: as configured for all by requeueSyncAfter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<GoDuration>,
    /// Whether an answer without any artifact is believed, so that everything delivered before is
    /// deleted. Absent: false, such an answer is reported and nothing is deleted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_empty: bool,
    /// Secret in Vidra's own namespace with the keys username and password, or token. Absent: the
    /// Secret whose label infrahub-api-url is the host of infrahubAPIURL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_ref: Option<NameReference>,
    /// Secret in Vidra's own namespace with the certificates (PEM) that the Infrahub server is
    /// checked against. Absent: those of the operating system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle_ref: Option<KeyReference>,
}

impl InfrahubSyncSource {
    /// The artifact's name in whichever spelling it was given; empty only in an object that
    /// predates the validation.
    pub fn artifact_name(&self) -> &str {
        let name = self.artefact_name.as_deref();
        name.or(self.artifact_name.as_deref()).unwrap_or_default()
    }

    /// The branch, by default `main`.
    pub fn branch(&self) -> &str {
        let branch = self.target_branch.as_deref();
        branch
            .filter(|name| !name.is_empty())
            .unwrap_or(names::DEFAULT_BRANCH)
    }

    /// The point in time, or `None` for now.
    pub fn date(&self) -> Option<&str> {
        self.target_date.as_deref().filter(|date| !date.is_empty())
    }
}

/// What Vidra knows about the sync.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct InfrahubSyncStatus {
    /// Checksums of the delivered artifacts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checksums: Vec<String>,
    /// State of the last sync in one word.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "lenient"
    )]
    #[schemars(with = "Option<String>", extend("enum" = State::NAMES))]
    pub sync_state: Option<State>,
    /// What went wrong last; absent after a success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When the last sync that changed something ended.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "lenient"
    )]
    pub last_sync_time: Option<Time>,
    /// Conditions: Ready, Reconciling, Stalled and others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The artifacts that Infrahub named, each with what became of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<SyncedArtifact>,
    /// What caused the last sync that changed something: Event, Timer, Daemon, Webhook, Request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_trigger: Vec<String>,
    /// Value of the annotation vidra.infrahub.operators.com/reconcile-requested-at that was
    /// handled last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
}

/// One artifact of a sync.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SyncedArtifact {
    /// Id of the artifact in Infrahub.
    pub id: String,
    /// Name of the artifact in Infrahub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The Infrahub object that the artifact was rendered for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Checksum of the content that was delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// State of the artifact in Infrahub, for example Ready, Pending or Error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Name of the VidraResource that carries the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// State of that VidraResource.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "lenient"
    )]
    #[schemars(with = "Option<String>", extend("enum" = State::NAMES))]
    pub resource_state: Option<State>,
}
