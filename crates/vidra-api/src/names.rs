//! Names that are written into clusters. They are a contract: a changed name orphans what was
//! written under the old one.

/// The API group of both kinds.
pub const GROUP: &str = "infrahub.operators.com";
/// The version of both kinds.
pub const VERSION: &str = "v1alpha1";
/// Group and version as written in `apiVersion`.
pub const API_VERSION: &str = "infrahub.operators.com/v1alpha1";

/// The finalizer on every `VidraResource`, shared with the Go operator.
pub const FINALIZER: &str = "vidraresource.infrahub.operators.com/finalizer";

/// Key of the label and of the annotation on every managed object.
pub const MANAGED_BY: &str = "managed-by";
/// Value of [`MANAGED_BY`].
pub const MANAGED_BY_VIDRA: &str = "vidra";
/// Prefix of our field managers; the owner id follows.
pub const FIELD_MANAGER_PREFIX: &str = "vidra/";

/// The Go operator's ownership annotation on managed objects: a comma separated list of owners.
pub const GO_OWNED_BY_ANNOTATION: &str = "vidraresource.infrahub.operators.com/owned-by";

/// Label on a `VidraResource`: the id of the artifact it was made from.
pub const ARTIFACT_ID_LABEL: &str = "vidra.infrahub.operators.com/artifact-id";
/// Annotation on a `VidraResource`: the checksum of the artifact's content in Infrahub, and the
/// digest of what was written, so that an edit is noticed.
pub const ARTIFACT_CONTENT_ANNOTATION: &str = "vidra.infrahub.operators.com/artifact-content";
/// Annotation on a `VidraResource` of an artifact that a registered query has selected although its
/// name is another: the name that the sync asked for.
pub const SELECTED_FOR_ANNOTATION: &str = "vidra.infrahub.operators.com/selected-for";
/// Annotation on either kind that asks for a reconcile now; any new value is a new request.
pub const RECONCILE_REQUESTED_AT_ANNOTATION: &str =
    "vidra.infrahub.operators.com/reconcile-requested-at";
/// Annotation on either kind that releases a held deletion; the value is the hash of exactly that
/// set, as the condition `PruneHeld` shows it.
pub const RELEASE_PRUNE_ANNOTATION: &str = "vidra.infrahub.operators.com/release-prune";

/// Label on a credentials Secret: the bare host of the Infrahub server, without scheme and port.
pub const INFRAHUB_API_URL_LABEL: &str = "infrahub-api-url";
/// Label on a kubeconfig Secret: the bare host of the API server, without scheme and port.
pub const CLUSTER_KUBECONFIG_LABEL: &str = "cluster-kubeconfig";
/// Annotation on a credentials or kubeconfig Secret: the exact origin `scheme://host:port` that
/// its content may be sent to.
pub const ORIGIN_ANNOTATION: &str = "vidra.infrahub.operators.com/origin";

/// Keys in a credentials Secret.
pub mod credential_keys {
    /// User name for a login.
    pub const USERNAME: &str = "username";
    /// Password for a login.
    pub const PASSWORD: &str = "password";
    /// API token, used instead of a login.
    pub const TOKEN: &str = "token";
    /// The key that Infrahub signs its webhooks with; optional.
    pub const WEBHOOK_KEY: &str = "webhookKey";
}
/// Key of the kubeconfig in a kubeconfig Secret.
pub const KUBECONFIG_KEY: &str = "kubeconfig";
/// Key of the certificates in the Secret of a `caBundleRef` that names no key.
pub const CA_BUNDLE_KEY: &str = "ca.crt";

/// Label on every Secret that holds stored content: the beginning of the content's digest.
pub const CONTENT_LABEL: &str = "vidra.infrahub.operators.com/content";
/// Type of every Secret that holds stored content. Unlike a label it cannot be changed.
pub const CONTENT_TYPE: &str = "vidra.infrahub.operators.com/content";
/// Beginning of the name of every Secret that holds stored content; digest and number follow.
pub const CONTENT_PREFIX: &str = "vidra-content-";
/// Annotation on every Secret that holds stored content: in how many Secrets all of it is.
pub const CONTENT_CHUNKS_ANNOTATION: &str = "vidra.infrahub.operators.com/content-chunks";
/// Key of the bytes in a Secret that holds stored content.
pub const CONTENT_KEY: &str = "gzip";

/// Label that marks Vidra's own objects, the configuration ConfigMap above all.
pub const APP_LABEL: &str = "app";
/// Value of [`APP_LABEL`].
pub const APP_VIDRA: &str = "vidra";

/// How `destination.server` names the cluster that Vidra itself runs in.
pub const THIS_CLUSTER: &str = "https://kubernetes.default.svc";
/// The branch of an `InfrahubSync` that names none.
pub const DEFAULT_BRANCH: &str = "main";
