//! From objects as written to objects with a known scope and a final identity.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    error::{ManifestError, Position, Problem, Refusal},
    object::{ManifestObject, describe},
};
use crate::identity::{GroupKind, ObjectKey};

/// The namespace of namespaced objects that name none, when nobody names another.
const FALLBACK_NAMESPACE: &str = "default";

/// Whether the objects of a kind live in namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// In a namespace.
    Namespaced,
    /// In none.
    Cluster,
}

/// An object whose kind is known: its namespace is final.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// The object, its body with the final namespace.
    pub object: ManifestObject,
    /// Identity without version.
    pub key: ObjectKey,
    /// Scope of the kind.
    pub scope: Scope,
    /// The kind is known only from a `CustomResourceDefinition` of the same manifest: that one
    /// must be applied and established first.
    pub awaits_definition: bool,
}

/// A manifest against what the cluster knows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Resolution {
    /// Ready to be ordered and applied, in the order of the text.
    pub known: Vec<Resolved>,
    /// Of kinds that nobody knows yet; they wait for their definition.
    pub unknown: Vec<ManifestObject>,
}

/// Resolves objects. `scope_of` asks discovery for group, version and kind.
///
/// Fails when two objects have one identity, whatever their versions.
pub fn resolve(
    objects: Vec<ManifestObject>,
    default_namespace: Option<&str>,
    scope_of: impl Fn(&str, &str, &str) -> Option<Scope>,
) -> Result<Resolution, ManifestError> {
    let default = default_namespace
        .filter(|name| !name.is_empty())
        .unwrap_or(FALLBACK_NAMESPACE);
    let defined = definitions(&objects);
    let mut resolution = Resolution::default();
    for object in objects {
        let discovered = scope_of(object.group(), object.version(), object.kind());
        let scope = discovered.or_else(|| defined.get(&version_key(&object)).copied());
        match scope {
            None => resolution.unknown.push(object),
            Some(scope) => {
                resolution
                    .known
                    .push(place(object, scope, default, discovered.is_none()));
            }
        }
    }
    refuse_duplicates(&resolution, default)?;
    Ok(resolution)
}

fn place(mut object: ManifestObject, scope: Scope, default: &str, awaits: bool) -> Resolved {
    let namespace = namespace_in(&object, scope, default);
    object.set_namespace(namespace.as_deref());
    Resolved {
        key: object.key(),
        object,
        scope,
        awaits_definition: awaits,
    }
}

fn namespace_in(object: &ManifestObject, scope: Scope, default: &str) -> Option<String> {
    match scope {
        Scope::Cluster => None,
        Scope::Namespaced => Some(object.namespace().unwrap_or(default).to_owned()),
    }
}

type VersionKey = (String, String, String);

fn version_key(object: &ManifestObject) -> VersionKey {
    (
        object.group().to_owned(),
        object.version().to_owned(),
        object.kind().to_owned(),
    )
}

/// The kinds that custom resource definitions of this manifest will make known.
fn definitions(objects: &[ManifestObject]) -> BTreeMap<VersionKey, Scope> {
    objects.iter().filter_map(definition).flatten().collect()
}

fn definition(object: &ManifestObject) -> Option<Vec<(VersionKey, Scope)>> {
    if object.group() != "apiextensions.k8s.io" || object.kind() != "CustomResourceDefinition" {
        return None;
    }
    let spec = object.body().get("spec")?;
    let scope = match spec.get("scope")?.as_str()? {
        "Namespaced" => Scope::Namespaced,
        "Cluster" => Scope::Cluster,
        _ => return None,
    };
    let group = spec.get("group")?.as_str()?;
    let kind = spec.pointer("/names/kind")?.as_str()?;
    let versions = spec
        .get("versions")?
        .as_array()?
        .iter()
        .filter_map(served_version);
    let key = |version: &str| (group.to_owned(), version.to_owned(), kind.to_owned());
    Some(versions.map(|version| (key(version), scope)).collect())
}

fn served_version(version: &Value) -> Option<&str> {
    let is_served = version
        .get("served")
        .and_then(Value::as_bool)
        .unwrap_or(true);
    version.get("name")?.as_str().filter(|_| is_served)
}

/// Finds objects with one identity. Objects of unknown kinds count with the namespace as written,
/// unless another version of their kind tells the scope.
fn refuse_duplicates(resolution: &Resolution, default: &str) -> Result<(), ManifestError> {
    let scopes: BTreeMap<GroupKind, Scope> = resolution
        .known
        .iter()
        .map(|known| (known.object.group_kind(), known.scope))
        .collect();
    let known = resolution
        .known
        .iter()
        .map(|known| (known.key.clone(), &known.object));
    let unknown = resolution.unknown.iter().map(|object| {
        let namespace = match scopes.get(&object.group_kind()) {
            Some(scope) => namespace_in(object, *scope, default),
            None => object.namespace().map(str::to_owned),
        };
        (object.key_in(namespace), object)
    });
    let mut all: Vec<_> = known.chain(unknown).collect();
    all.sort_by_key(|(_, object)| order_in_text(object.position()));
    let mut first = BTreeMap::new();
    let mut problems = Vec::new();
    for (key, object) in all {
        match first.get(&key) {
            Some(position) => problems.push(duplicate(&key, object, position)),
            None => {
                first.insert(key, object.position().clone());
            }
        }
    }
    ManifestError::unless_empty(problems)
}

fn order_in_text(position: &Position) -> (usize, usize, usize, String) {
    (
        position.document,
        position.line,
        position.column,
        position.item.clone(),
    )
}

fn duplicate(key: &ObjectKey, object: &ManifestObject, first: &Position) -> Problem {
    let described = describe(&key.kind, key.namespace.as_deref(), &key.name);
    Problem {
        refusal: Refusal::DuplicateObject {
            object: described,
            first: first.clone(),
        },
        position: object.position().clone(),
        object: None,
        snippet: None,
    }
}
