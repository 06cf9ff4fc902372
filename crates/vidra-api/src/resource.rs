//! `VidraResource`: one manifest and its destination.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    common::{Destination, State, is_default, lenient},
    duration::GoDuration,
    rules,
};

/// One manifest, where it goes, and how it is kept there.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "infrahub.operators.com",
    version = "v1alpha1",
    kind = "VidraResource",
    plural = "vidraresources",
    shortname = "vr",
    category = "vidra",
    status = "VidraResourceStatus",
    derive = "PartialEq",
    doc = "VidraResource is one manifest and its destination. Vidra keeps the objects in that cluster equal to the manifest."
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rules::one_manifest())]
pub struct VidraResourceSpec {
    /// Where the objects go. Absent: the cluster that Vidra runs in.
    #[serde(default, skip_serializing_if = "is_default")]
    pub destination: Destination,
    /// The manifest: Kubernetes objects as YAML documents or JSON. Exactly one of manifest and
    /// manifestFrom is needed. Put no Secrets in here: everybody who can read this object would
    /// read them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
    /// Names content in Vidra's own store, for manifests that are large or contain Secrets.
    /// Written by Vidra.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest_from: Option<ManifestReference>,
    /// When the manifest was last compared with its source. Written by Vidra.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "lenient"
    )]
    pub reconciled_at: Option<Time>,
    /// Pauses everything: nothing is applied, put right or deleted while it is true. Absent:
    /// false.
    #[serde(default, skip_serializing_if = "is_default")]
    pub suspend: bool,
    /// How often the objects are checked in addition to events, as a Go duration such as 10m; 0
    /// turns the timer off. Absent: as configured for all by requeueResourcesAfter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<GoDuration>,
    /// What happens when another manager owns a field of the manifest. Force: the field is taken
    /// over. Report: the object is left alone and the condition names the manager. Absent: Force.
    #[serde(default, skip_serializing_if = "is_default")]
    pub field_conflicts: FieldConflicts,
    /// Whether objects that exist already are managed. Never: only objects that Vidra created.
    /// IfUnowned: also those that nobody claims. Always: also those that others claim. Adopted
    /// objects are never deleted. Absent: IfUnowned.
    #[serde(default, skip_serializing_if = "is_default")]
    pub adoption: Adoption,
    /// What becomes of the objects when this VidraResource is deleted. Delete: those that Vidra
    /// created are deleted. Orphan: all stay, without Vidra's marks. Absent: Delete.
    #[serde(default, skip_serializing_if = "is_default")]
    pub deletion_policy: DeletionPolicy,
    /// What happens when a change touches a field that cannot be changed. Report: the object stays
    /// as it is. Recreate: it is deleted and created again. Absent: Report.
    #[serde(default, skip_serializing_if = "is_default")]
    pub immutable_fields: ImmutableFields,
    /// How objects that left the manifest are deleted. Absent: they are, within the default
    /// budget.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prune: PrunePolicy,
    /// Who decides when two VidraResources want different content for one object: the higher
    /// number. Absent: 0.
    #[serde(default, skip_serializing_if = "is_default")]
    pub precedence: i32,
}

/// Content in Vidra's own store, named by what it is.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub struct ManifestReference {
    /// Digest of the content: sha256: and 64 hexadecimal digits.
    #[schemars(length(max = 71))]
    #[x_kube(validation = rules::digest())]
    pub digest: String,
    /// Number of chunks that the compressed content is stored in.
    #[schemars(range(min = 1, max = 4096))]
    pub chunks: i32,
    /// Size of the content in bytes, before compression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub size: Option<i64>,
}

/// What happens when another manager owns a field of the manifest.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FieldConflicts {
    /// The field is taken over.
    #[default]
    Force,
    /// The object is left alone and the manager is named.
    Report,
}

/// Whether objects that exist already are managed.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Adoption {
    /// Only objects that Vidra created.
    Never,
    /// Also objects that nobody claims.
    #[default]
    IfUnowned,
    /// Also objects that others claim.
    Always,
}

/// What becomes of the objects when the `VidraResource` is deleted.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DeletionPolicy {
    /// Those that Vidra created are deleted.
    #[default]
    Delete,
    /// All stay.
    Orphan,
}

/// What happens when a change touches a field that cannot be changed.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ImmutableFields {
    /// The object stays as it is and the refusal is reported.
    #[default]
    Report,
    /// The object is deleted and created again.
    Recreate,
}

/// How objects that left the manifest are deleted.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PrunePolicy {
    /// Whether objects that left the manifest are deleted. Absent: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Largest share of the managed objects, in percent, that one reconcile may delete without a
    /// release. Absent: 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub max_percent: Option<i32>,
    /// Largest number of objects that one reconcile may delete without a release. Absent: 25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_count: Option<i32>,
    /// Protected kinds that may be deleted without a release: Namespace,
    /// CustomResourceDefinition, PersistentVolume, PersistentVolumeClaim. Absent: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub allow_kinds: Vec<ProtectedKind>,
}

impl PrunePolicy {
    /// The share in percent that needs no release, where the spec names none.
    pub const DEFAULT_MAX_PERCENT: u8 = 50;
    /// The number that needs no release, where the spec names none.
    pub const DEFAULT_MAX_COUNT: u32 = 25;

    /// Whether objects that left the manifest are deleted.
    pub fn is_enabled(&self) -> bool {
        self.enabled.unwrap_or(true)
    }

    /// The share in percent that needs no release.
    pub fn max_percent(&self) -> u8 {
        let percent = self.max_percent.and_then(|value| u8::try_from(value).ok());
        percent.unwrap_or(Self::DEFAULT_MAX_PERCENT).min(100)
    }

    /// The number that needs no release.
    pub fn max_count(&self) -> u32 {
        let count = self.max_count.and_then(|value| u32::try_from(value).ok());
        count.unwrap_or(Self::DEFAULT_MAX_COUNT)
    }
}

/// Kinds whose deletion destroys more than the object.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProtectedKind {
    /// Takes everything in it along.
    Namespace,
    /// Takes every object of its kind along.
    CustomResourceDefinition,
    /// May take data along.
    PersistentVolume,
    /// May take data along.
    PersistentVolumeClaim,
}

impl ProtectedKind {
    /// The kind as manifests write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Namespace => "Namespace",
            Self::CustomResourceDefinition => "CustomResourceDefinition",
            Self::PersistentVolume => "PersistentVolume",
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
        }
    }
}

/// What Vidra knows about the objects of one manifest.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct VidraResourceStatus {
    /// The objects in the target cluster that belong to this VidraResource.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managed_resources: Vec<ManagedResource>,
    /// State of the last reconcile in one word.
    #[serde(
        rename = "DeployState",
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "lenient"
    )]
    #[schemars(with = "Option<String>", extend("enum" = State::NAMES))]
    pub deploy_state: Option<State>,
    /// What went wrong last; absent after a success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When the last reconcile that changed something ended.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "lenient"
    )]
    pub last_sync_time: Option<Time>,
    /// Conditions: Ready, Reconciling, Stalled, PruneHeld and others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Vidra's own record of every object, written before the first change. Not for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inventory: Option<StoredInventory>,
    /// How many objects there are and what became of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// The first objects that could not be applied or deleted; counts.failed has the number of
    /// all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub failures: Vec<Failure>,
    /// What caused the last reconcile that changed something: Event, Timer, Daemon, Webhook,
    /// Request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_trigger: Vec<String>,
    /// A deletion that is over its budget and waits for a release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldPrune>,
    /// Value of the annotation vidra.infrahub.operators.com/reconcile-requested-at that was
    /// handled last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// Digest of the manifest that was applied last without a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_applied_digest: Option<String>,
}

impl VidraResourceStatus {
    /// The number of failures that are listed one by one.
    pub const MAX_FAILURES: usize = 20;
}

/// One object in the target cluster.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub struct ManagedResource {
    /// Kind of the object, for example Deployment.
    pub kind: String,
    /// Group and version of the object, for example apps/v1.
    pub api_version: String,
    /// Name of the object.
    pub name: String,
    /// Namespace of the object; absent for objects without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Vidra's record of every object that is or may be in the target cluster.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct StoredInventory {
    /// One compact line per object; together with storedIn only those that changed since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<String>,
    /// Digest of the lines that are stored elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Where the lines are when there are too many for this status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_in: Option<StoredContent>,
}

/// A place in Vidra's own store.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct StoredContent {
    /// Name that the Secrets of the chunks share.
    pub name: String,
    /// Number of chunks.
    pub chunks: i32,
}

/// Numbers of objects.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Counts {
    /// Objects in the manifest.
    pub desired: i32,
    /// Of those, objects that are in the cluster as desired.
    pub applied: i32,
    /// Objects that could not be applied or deleted.
    pub failed: i32,
    /// Objects that the last reconcile deleted.
    pub pruned: i32,
    /// Objects that existed before and were adopted; they are never deleted.
    pub adopted: i32,
    /// Objects whose deletion is held.
    pub held: i32,
}

/// One object that could not be applied or deleted.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The object: kind, namespace and name.
    pub object: String,
    /// Why, in one word.
    pub reason: String,
    /// What to know or to do; never a value of a Secret.
    pub message: String,
}

/// A deletion that is over its budget.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct HeldPrune {
    /// Hash of exactly this set of objects. To release it, set the annotation
    /// vidra.infrahub.operators.com/release-prune to this value.
    pub hash: String,
    /// The first objects of the set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub objects: Vec<String>,
    /// Number of objects in the set.
    pub total: i32,
}

impl HeldPrune {
    /// The number of objects that are listed one by one.
    pub const MAX_OBJECTS: usize = 20;
}
