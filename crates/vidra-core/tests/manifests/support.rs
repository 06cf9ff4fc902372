//! What all of these tests need.

use vidra_core::manifest::{
    Limits, ManifestError, ManifestObject, Resolution, Scope, parse, refuse_reserved, resolve,
};

/// Keys that an author must not use; the operator passes the same.
pub const RESERVED: [&str; 2] = [
    "vidra.infrahub.operators.com/owner",
    "vidraresource.infrahub.operators.com/owned-by",
];

pub fn read(text: &str) -> Result<Vec<ManifestObject>, ManifestError> {
    parse(text, &Limits::default())
}

/// Parses a text that must be good.
pub fn objects(text: &str) -> Vec<ManifestObject> {
    read(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Parses a text that must be bad.
pub fn error(text: &str) -> ManifestError {
    match read(text) {
        Err(error) => error,
        Ok(objects) => panic!("accepted as {objects:?}\n{text}"),
    }
}

/// A small discovery: a few kinds of a real cluster, no custom ones.
pub fn discovery(group: &str, version: &str, kind: &str) -> Option<Scope> {
    match (group, version, kind) {
        ("", "v1", "ConfigMap" | "Secret" | "Service" | "ServiceAccount")
        | ("apps", "v1", "Deployment")
        | ("autoscaling", "v1" | "v2", "HorizontalPodAutoscaler") => Some(Scope::Namespaced),
        ("", "v1", "Namespace")
        | ("rbac.authorization.k8s.io", "v1", "ClusterRole")
        | ("apiextensions.k8s.io", "v1", "CustomResourceDefinition") => Some(Scope::Cluster),
        _ => None,
    }
}

/// The whole way: parse, refuse reserved keys, resolve.
pub fn compile(text: &str) -> Result<Resolution, ManifestError> {
    let objects = read(text)?;
    refuse_reserved(&objects, &RESERVED)?;
    resolve(objects, None, discovery)
}

/// A ConfigMap with more lines of metadata.
pub fn config_map(name: &str, metadata: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n{metadata}")
}
