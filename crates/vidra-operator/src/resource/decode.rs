//! From the manifest's text to a compiled desired set. Pure, given the kinds that are served.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::ApiResource;
use serde_json::Value;
use vidra_cluster::{discovery::Kinds, hub::WatchedKind};
use vidra_core::{
    identity::{GroupKind, ObjectKey},
    manifest::{
        Limits, ManifestError, ManifestObject, ObjectPolicy, Scope, digest, parse, refuse_reserved,
        resolve, stamp,
    },
    ownership::GO_OWNED_BY,
    plan::Wanted,
};

use crate::stack::on_large_stack;

/// Beginnings of keys that only Vidra, and the Go operator before it, may set.
const RESERVED: [&str; 2] = ["vidra.infrahub.operators.com/owner", GO_OWNED_BY];

/// One desired object.
#[derive(Debug)]
pub(crate) struct Desired {
    /// How its kind is addressed; `None` while the cluster does not serve it.
    pub(crate) resource: Option<ApiResource>,
    /// The version it is written in.
    pub(crate) version: String,
    /// What it should be, without the owner's mark.
    pub(crate) body: Value,
    /// The digest of the body and of the precedence, which is part of the mark.
    pub(crate) digest: String,
    /// What the author asks for this object.
    pub(crate) policy: ObjectPolicy,
    /// Whether its identity is certain: the scope of its kind is known.
    pub(crate) is_placed: bool,
}

/// A manifest, decoded and placed.
#[derive(Debug)]
pub(crate) struct Compiled {
    /// The generation of the `VidraResource` that it was made from.
    pub(crate) generation: i64,
    /// The digest of text and default namespace.
    pub(crate) digest: String,
    /// The objects.
    pub(crate) objects: BTreeMap<ObjectKey, Desired>,
}

impl Compiled {
    /// What planning needs to know.
    pub(crate) fn wanted(&self) -> Vec<Wanted> {
        let placed = self.objects.iter().filter(|(_, desired)| desired.is_placed);
        placed
            .map(|(key, desired)| Wanted {
                key: key.clone(),
                digest: desired.digest.clone(),
            })
            .collect()
    }

    /// The kinds to watch.
    pub(crate) fn kinds(&self) -> BTreeSet<WatchedKind> {
        self.objects
            .values()
            .filter_map(|desired| desired.resource.clone())
            .map(WatchedKind::new)
            .collect()
    }

    /// Whether the cluster does not serve every kind.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.objects
            .values()
            .any(|desired| desired.resource.is_none())
    }
}

/// Decodes a manifest. Any defect refuses the whole of it.
///
/// Reading recurses with the nesting of the text, so it needs room.
pub(crate) fn compile(
    text: &str,
    namespace: Option<&str>,
    (generation, precedence): (i64, i32),
    kinds: &Kinds,
) -> Result<Compiled, ManifestError> {
    on_large_stack(|| decode(text, namespace, (generation, precedence), kinds))
}

fn decode(
    text: &str,
    namespace: Option<&str>,
    (generation, precedence): (i64, i32),
    kinds: &Kinds,
) -> Result<Compiled, ManifestError> {
    let objects = parse(text, &Limits::default())?;
    refuse_reserved(&objects, &RESERVED)?;
    let served = |group: &str, version: &str, kind: &str| {
        kinds.exact(&GroupKind::new(group, kind), version).cloned()
    };
    let resolution = resolve(objects, namespace, |group, version, kind| {
        let served = served(group, version, kind)?;
        Some(if served.is_namespaced {
            Scope::Namespaced
        } else {
            Scope::Cluster
        })
    })?;
    let mut compiled = BTreeMap::new();
    for resolved in resolution.known {
        let resource = served(
            resolved.object.group(),
            resolved.object.version(),
            resolved.object.kind(),
        );
        let resource = resource.map(|served| served.resource);
        compiled.insert(
            resolved.key,
            desired(resolved.object, resource, true, precedence)?,
        );
    }
    for object in resolution.unknown {
        compiled.insert(object.key(), desired(object, None, false, precedence)?);
    }
    let digest = digest(&format!("{}\n{text}", namespace.unwrap_or_default()));
    Ok(Compiled {
        generation,
        digest,
        objects: compiled,
    })
}

fn desired(
    mut object: ManifestObject,
    resource: Option<ApiResource>,
    is_placed: bool,
    precedence: i32,
) -> Result<Desired, ManifestError> {
    stamp(&mut object, &vidra_core::manifest::Marks::default())?;
    let version = object.version().to_owned();
    let policy = object.policy().clone();
    let body = object.into_body();
    let digest = digest(&format!("{precedence} {body}"))[..16].to_owned();
    Ok(Desired {
        resource,
        version,
        body,
        digest,
        policy,
        is_placed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_manifest_does_not_need_the_stack_of_its_caller() {
        let deep = format!("{}1{}", "{a: ".repeat(90), "}".repeat(90));
        let text = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, namespace: b}}\ndata: {deep}\n"
        );
        let small = std::thread::Builder::new().stack_size(256 << 10);
        let compiled = small
            .spawn(move || {
                compile(&text, None, (1, 0), &Kinds::default()).map(|it| it.objects.len())
            })
            .map(std::thread::JoinHandle::join);
        assert!(matches!(compiled, Ok(Ok(Ok(1)))), "{compiled:?}");
    }
}
