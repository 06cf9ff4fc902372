//! What an object is called: cluster, group, kind, namespace and name, never the version.
//!
//! A move from `v1beta1` to `v1` is an update of the same object, so the version is kept beside
//! the identity and not inside it.

use std::fmt;

/// The cluster that an object lives in.
///
/// Every cluster-facing type carries one, so that equal names in two clusters are two objects.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterId(String);

impl ClusterId {
    /// The cluster in which Vidra itself runs.
    pub fn local() -> Self {
        Self("local".to_owned())
    }

    /// A remote cluster, named by its API server's URL.
    pub fn remote(server: &str) -> Self {
        Self(server.to_owned())
    }

    /// The name as shown in logs and metrics.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Group and kind: what a watch is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The kind, as written in manifests.
    pub kind: String,
}

impl GroupKind {
    /// Names a kind in a group.
    pub fn new(group: &str, kind: &str) -> Self {
        Self {
            group: group.to_owned(),
            kind: kind.to_owned(),
        }
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            formatter.write_str(&self.kind)
        } else {
            write!(formatter, "{}.{}", self.kind, self.group)
        }
    }
}

/// The identity of an object within one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The API group; empty for the core group.
    pub group: String,
    /// The kind, as written in manifests.
    pub kind: String,
    /// The namespace; `None` for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

impl ObjectKey {
    /// Names an object.
    pub fn new(group: &str, kind: &str, namespace: Option<&str>, name: &str) -> Self {
        Self {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.map(ToOwned::to_owned),
            name: name.to_owned(),
        }
    }

    /// The kind of the object.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(&self.group, &self.kind)
    }

    /// A form without spaces that can be parsed again: `group/kind/namespace/name`.
    ///
    /// None of the four parts may contain a slash (the API server refuses such names), so the
    /// form is unambiguous.
    pub fn path(&self) -> String {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        format!("{}/{}/{namespace}/{}", self.group, self.kind, self.name)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ", self.group_kind())?;
        match &self.namespace {
            Some(namespace) => write!(formatter, "{namespace}/{}", self.name),
            None => formatter.write_str(&self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_reads_as_people_write_it() {
        let deployment = ObjectKey::new("apps", "Deployment", Some("shop"), "web");
        assert_eq!(deployment.to_string(), "Deployment.apps shop/web");
        assert_eq!(
            ObjectKey::new("", "Namespace", None, "shop").to_string(),
            "Namespace shop"
        );
    }
}
