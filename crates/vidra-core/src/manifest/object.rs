//! One object of a manifest: its identity is checked, everything else is the author's.

use serde_json::{Map, Value};

use super::{
    error::{Position, Refusal},
    names,
    normalise::normalise,
    policy::ObjectPolicy,
    redact::Viewer,
};
use crate::identity::{GroupKind, ObjectKey};

/// An object as written, normalised, with a valid identity and a readable policy.
///
/// The namespace is what the author wrote: whether the kind has one is known only after
/// [`resolve`](super::resolve).
#[derive(Clone, PartialEq)]
pub struct ManifestObject {
    group: String,
    version: String,
    kind: String,
    name: String,
    namespace: Option<String>,
    policy: ObjectPolicy,
    position: Position,
    body: Value,
}

/// Without the body, which may be a Secret.
impl std::fmt::Debug for ManifestObject {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ManifestObject")
            .field("api_version", &self.api_version())
            .field("kind", &self.kind)
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl ManifestObject {
    /// API group, empty for the core group.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// API version without the group.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// `version` or `group/version`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Kind.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Namespace, if there is one.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// What the author asked for with our annotations.
    pub fn policy(&self) -> &ObjectPolicy {
        &self.policy
    }

    /// Where the object begins in the text.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// The object as JSON.
    pub fn body(&self) -> &Value {
        &self.body
    }

    /// The object as JSON, taken out.
    pub fn into_body(self) -> Value {
        self.body
    }

    /// Group and kind.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind {
            group: self.group.clone(),
            kind: self.kind.clone(),
        }
    }

    /// Identity with the namespace that the object has now.
    pub fn key(&self) -> ObjectKey {
        self.key_in(self.namespace.clone())
    }

    /// Identity in another namespace.
    pub(super) fn key_in(&self, namespace: Option<String>) -> ObjectKey {
        ObjectKey {
            group: self.group.clone(),
            kind: self.kind.clone(),
            namespace,
            name: self.name.clone(),
        }
    }

    /// `Kind namespace/name`, for people.
    pub fn describe(&self) -> String {
        describe(&self.kind, self.namespace.as_deref(), &self.name)
    }

    /// Puts the object into a namespace, or out of all.
    pub(super) fn set_namespace(&mut self, namespace: Option<&str>) {
        self.namespace = namespace.map(str::to_owned);
        if let Some(metadata) = self.metadata_mut() {
            match namespace {
                Some(namespace) => metadata.insert("namespace".to_owned(), Value::from(namespace)),
                None => metadata.remove("namespace"),
            };
        }
    }

    /// The metadata; always there, because the identity was read from it.
    pub(super) fn metadata_mut(&mut self) -> Option<&mut Map<String, Value>> {
        self.body.get_mut("metadata")?.as_object_mut()
    }
}

/// Whether any object is a Secret, so that the text must not be stored in the open.
pub fn contains_secret<'o>(objects: impl IntoIterator<Item = &'o ManifestObject>) -> bool {
    objects
        .into_iter()
        .any(|object| object.group.is_empty() && object.kind == "Secret")
}

pub(super) fn describe(kind: &str, namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

/// Problems of one object: its name as far as it is known, and all refusals.
pub(super) struct Unfit {
    pub(super) object: Option<String>,
    pub(super) refusals: Vec<Refusal>,
}

/// Checks a value and makes it an object.
pub(super) fn check(
    mut body: Value,
    position: &Position,
    viewer: &Viewer<'_>,
) -> Result<ManifestObject, Unfit> {
    let Value::Object(fields) = &body else {
        let refusal = Refusal::NotAnObject {
            found: type_name(&body),
        };
        return Err(Unfit {
            object: None,
            refusals: vec![refusal],
        });
    };
    let mut checker = Checker {
        fields,
        viewer,
        refusals: Vec::new(),
    };
    let api_version = checker.api_version();
    let kind = checker.kind();
    let metadata = checker.metadata();
    let name = metadata.and_then(|metadata| checker.name(metadata));
    let namespace = metadata.and_then(|metadata| checker.namespace(metadata));
    if let Some(metadata) = metadata {
        checker.check_maps(metadata);
    }
    let (policy, faults) = ObjectPolicy::read(&body);
    let mut refusals = checker.refusals;
    refusals.extend(faults);
    let object = kind.as_deref().zip(name.as_deref());
    let described = object.map(|(kind, name)| describe(kind, namespace.as_deref(), name));
    let (true, Some((group, version)), Some(kind), Some(name)) =
        (refusals.is_empty(), api_version, kind, name)
    else {
        return Err(Unfit {
            object: described,
            refusals,
        });
    };
    normalise(&mut body);
    let position = position.clone();
    Ok(ManifestObject {
        group,
        version,
        kind,
        name,
        namespace,
        policy,
        position,
        body,
    })
}

struct Checker<'b, 'v> {
    fields: &'b Map<String, Value>,
    viewer: &'v Viewer<'v>,
    refusals: Vec<Refusal>,
}

impl<'b> Checker<'b, '_> {
    fn api_version(&mut self) -> Option<(String, String)> {
        let text = self.required("apiVersion", self.fields.get("apiVersion"))?;
        let Some((group, version)) = names::split_api_version(text) else {
            let value = self.viewer.quote(text);
            return self.refuse(Refusal::BadApiVersion { value });
        };
        Some((group.to_owned(), version.to_owned()))
    }

    fn kind(&mut self) -> Option<String> {
        let text = self.required("kind", self.fields.get("kind"))?;
        if !names::is_kind(text) {
            let value = self.viewer.quote(text);
            return self.refuse(Refusal::BadKind { value });
        }
        Some(text.to_owned())
    }

    fn metadata(&mut self) -> Option<&'b Map<String, Value>> {
        match self.fields.get("metadata") {
            None | Some(Value::Null) => self.refuse(Refusal::Missing { field: "metadata" }),
            Some(Value::Object(metadata)) => Some(metadata),
            Some(other) => self.refuse(wrong_type("metadata", "a map", other)),
        }
    }

    fn name(&mut self, metadata: &'b Map<String, Value>) -> Option<String> {
        if metadata.get("generateName").is_some_and(is_set) {
            self.refusals.push(Refusal::GenerateName);
            if !metadata.get("name").is_some_and(is_set) {
                return None;
            }
        }
        let text = self.required("metadata.name", metadata.get("name"))?;
        if let Some(why) = names::name_fault(text) {
            let value = self.viewer.quote(text);
            return self.refuse(Refusal::BadName { value, why });
        }
        Some(text.to_owned())
    }

    /// An empty namespace is none, as for kubectl.
    fn namespace(&mut self, metadata: &'b Map<String, Value>) -> Option<String> {
        let text = match metadata.get("namespace") {
            None | Some(Value::Null) => return None,
            Some(Value::String(text)) if text.is_empty() => return None,
            Some(Value::String(text)) => text,
            Some(other) => {
                return self.refuse(wrong_type("metadata.namespace", "a string", other));
            }
        };
        if !names::is_label(text) {
            let value = self.viewer.quote(text);
            return self.refuse(Refusal::BadNamespace { value });
        }
        Some(text.clone())
    }

    /// Labels and annotations must be maps of strings, or ours could not be added.
    fn check_maps(&mut self, metadata: &'b Map<String, Value>) {
        for field in ["labels", "annotations"] {
            match metadata.get(field) {
                None | Some(Value::Null) => {}
                Some(Value::Object(entries)) => self.check_entries(field, entries),
                Some(other) => {
                    let field = format!("metadata.{field}");
                    self.refusals.push(wrong_type(&field, "a map", other));
                }
            }
        }
    }

    fn check_entries(&mut self, field: &str, entries: &'b Map<String, Value>) {
        for (key, value) in entries.iter().filter(|(_, value)| !value.is_string()) {
            let field = format!("metadata.{field}[{}]", self.viewer.quote(key));
            self.refusals.push(wrong_type(&field, "a string", value));
        }
    }

    fn required(&mut self, field: &'static str, value: Option<&'b Value>) -> Option<&'b str> {
        match value {
            None | Some(Value::Null) => self.refuse(Refusal::Missing { field }),
            Some(Value::String(text)) if text.is_empty() => self.refuse(Refusal::Missing { field }),
            Some(Value::String(text)) => Some(text),
            Some(other) => self.refuse(wrong_type(field, "a string", other)),
        }
    }

    fn refuse<T>(&mut self, refusal: Refusal) -> Option<T> {
        self.refusals.push(refusal);
        None
    }
}

fn is_set(value: &Value) -> bool {
    !(value.is_null() || value.as_str().is_some_and(str::is_empty))
}

fn wrong_type(field: &str, expected: &'static str, found: &Value) -> Refusal {
    let is_scalar = matches!(found, Value::Number(_) | Value::Bool(_));
    let hint = match (expected, found) {
        ("a string", Value::Null) => "; write \"\" for an empty value",
        ("a string", _) if is_scalar => "; put the value in quotes",
        _ => "",
    };
    Refusal::WrongType {
        field: field.to_owned(),
        expected,
        found: type_name(found),
        hint,
    }
}

/// The type of a value, for people.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing (null)",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}
