//! What both kinds share.

use kube::KubeSchema;
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};

use crate::{names, rules};

/// Where the objects go.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub struct Destination {
    /// URL of the API server of the target cluster, for which a Secret with the label
    /// cluster-kubeconfig must exist. Absent, empty or https://kubernetes.default.svc: the
    /// cluster that Vidra runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    #[x_kube(validation = rules::server_form())]
    pub server: Option<String>,
    /// Namespace for namespaced objects that name none. Absent or empty: such objects are
    /// refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    #[x_kube(validation = rules::namespace_form())]
    pub namespace: Option<String>,
    /// Whether a change to a managed object is put right at once, in addition to the timer.
    /// Absent: as configured for all by eventBasedReconcile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconcile_on_events: Option<bool>,
}

impl Destination {
    /// The remote API server, or `None` for the cluster that Vidra runs in.
    pub fn remote_server(&self) -> Option<&str> {
        let server = self.server.as_deref()?.trim_end_matches('/');
        (!server.is_empty() && server != names::THIS_CLUSTER).then_some(server)
    }

    /// The namespace for objects that name none.
    pub fn default_namespace(&self) -> Option<&str> {
        self.namespace.as_deref().filter(|name| !name.is_empty())
    }
}

/// Names a Secret in Vidra's own namespace.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub struct NameReference {
    /// Name of the Secret in Vidra's own namespace.
    #[schemars(length(max = 253))]
    #[x_kube(validation = rules::object_name())]
    pub name: String,
}

/// Names one key of a Secret in Vidra's own namespace.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub struct KeyReference {
    /// Name of the Secret in Vidra's own namespace.
    #[schemars(length(max = 253))]
    #[x_kube(validation = rules::object_name())]
    pub name: String,
    /// Key in the Secret. Absent: ca.crt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[x_kube(validation = rules::secret_key())]
    pub key: Option<String>,
}

impl KeyReference {
    /// The key, by default `ca.crt`.
    pub fn key(&self) -> &str {
        self.key.as_deref().unwrap_or(names::CA_BUNDLE_KEY)
    }
}

/// The state in one word, as users of the Go operator know it.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Not started.
    Pending,
    /// Work is under way.
    Running,
    /// The desired state was reached.
    Succeeded,
    /// The last attempt failed; see the conditions.
    Failed,
    /// The source is gone or no longer says anything about this object.
    Stale,
}

impl State {
    /// The texts of all states, for the schema.
    pub const NAMES: [&str; 5] = ["Pending", "Running", "Succeeded", "Failed", "Stale"];

    /// The text as written into the status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Stale => "Stale",
        }
    }
}

/// Reads a value of a status, and takes one that cannot be understood for absent.
///
/// A status is only a memory of ours. A strange value in it, from another version for example,
/// must not make the object unreadable.
pub(crate) fn lenient<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let value = Option::<serde_json::Value>::deserialize(deserializer)?;
    Ok(value.and_then(|value| serde_json::from_value(value).ok()))
}

/// For `skip_serializing_if`: what equals the default is not written.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(server: &str) -> Destination {
        Destination {
            server: Some(server.into()),
            ..Destination::default()
        }
    }

    #[test]
    fn an_absent_empty_or_in_cluster_server_is_this_cluster() {
        assert_eq!(Destination::default().remote_server(), None);
        assert_eq!(server("").remote_server(), None);
        assert_eq!(
            server("https://kubernetes.default.svc").remote_server(),
            None
        );
        assert_eq!(
            server("https://kubernetes.default.svc/").remote_server(),
            None
        );
    }

    #[test]
    fn any_other_server_is_remote() {
        let remote = server("https://cluster.example.com:6443");
        assert_eq!(
            remote.remote_server(),
            Some("https://cluster.example.com:6443")
        );
    }
}
