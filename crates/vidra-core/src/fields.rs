//! `metadata.managedFields`: who owns which field.
//!
//! The API server keeps one entry per manager and operation. An entry's `fieldsV1` is a tree whose
//! keys name fields (`f:spec`), list items by key (`k:{"name":"web"}`), set members (`v:"x"`) or
//! indices (`i:0`); a dot stands for the node itself.

use std::{collections::BTreeSet, fmt};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::manifest::digest;

/// One entry of `metadata.managedFields`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldsEntry {
    /// Who.
    #[serde(default)]
    pub manager: String,
    /// `Apply` or `Update`.
    #[serde(default)]
    pub operation: String,
    /// The version in which the fields were written.
    #[serde(default)]
    pub api_version: String,
    /// When the set of fields or a value in it last changed, in full seconds.
    pub time: Option<Timestamp>,
    /// The subresource through which it was written, such as `status` or `scale`.
    pub subresource: Option<String>,
    /// The tree of fields.
    #[serde(default, rename = "fieldsV1")]
    pub fields: Value,
}

impl FieldsEntry {
    /// Whether this is the entry of server-side apply by a manager on the object itself.
    pub fn is_apply_of(&self, manager: &str) -> bool {
        self.operation == "Apply"
            && self.manager == manager
            && self.subresource.as_deref().unwrap_or_default().is_empty()
    }

    /// Whether another entry is by the same manager, in the same way.
    pub fn is_same_writer(&self, other: &Self) -> bool {
        let place = |entry: &Self| entry.subresource.clone().unwrap_or_default();
        self.manager == other.manager
            && self.operation == other.operation
            && place(self) == place(other)
    }

    /// The paths of all fields in the entry.
    pub fn paths(&self) -> BTreeSet<FieldPath> {
        let mut paths = BTreeSet::new();
        collect(&self.fields, &mut FieldPath::default(), &mut paths);
        paths
    }

    /// Whether a field is part of the entry.
    pub fn owns(&self, path: &FieldPath) -> bool {
        let mut node = &self.fields;
        for element in &path.0 {
            match node.get(element.key()) {
                Some(child) => node = child,
                None => return false,
            }
        }
        true
    }

    /// A short digest of everything that a change of ownership or of a value would change.
    pub fn hash(&self) -> EntryHash {
        let time = self.time.map(Timestamp::as_second).unwrap_or_default();
        let mut text = format!("{}|{}|{time}|", self.operation, self.api_version);
        canonical(&self.fields, &mut text);
        EntryHash(digest(&text)[..16].to_owned())
    }
}

/// The digest of a managed fields entry, as kept in the inventory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EntryHash(String);

impl EntryHash {
    /// Takes over a digest from a stored inventory.
    pub fn from_stored(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    /// The text to be stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Element {
    /// With its prefix, exactly as in `fieldsV1`: `f:spec`, `k:{"name":"web"}`, `v:"x"`, `i:0`.
    Raw(String),
}

impl Element {
    fn key(&self) -> &str {
        let Self::Raw(text) = self;
        text
    }
}

/// The path of a field, printed as people write it: `spec.containers[name=web].image`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldPath(Vec<Element>);

impl FieldPath {
    /// A path of plain field names.
    pub fn of_fields(names: &[&str]) -> Self {
        Self(
            names
                .iter()
                .map(|name| Element::Raw(format!("f:{name}")))
                .collect(),
        )
    }

    /// Finds a path that the API server writes in conflicts, `.spec.ports[port=80].name`, in the
    /// object that caused the conflict. The object is needed because names may contain dots.
    pub fn of_conflict(text: &str, object: &Value) -> Option<Self> {
        let mut elements = Vec::new();
        find(object, text, &mut elements).then_some(Self(elements))
    }

    /// Takes the field and all below it out of a tree of fields.
    pub fn remove_from_tree(&self, tree: &mut Value) {
        let Some((last, parents)) = self.0.split_last() else {
            return;
        };
        let mut node = tree;
        for element in parents {
            match node.get_mut(element.key()) {
                Some(child) => node = child,
                None => return,
            }
        }
        if let Some(map) = node.as_object_mut() {
            map.remove(last.key());
        }
    }

    /// Removes the field from an object; answers whether it was there.
    pub fn remove_from(&self, object: &mut Value) -> bool {
        let Some((last, parents)) = self.0.split_last() else {
            return false;
        };
        let mut node = object;
        for element in parents {
            match descend(node, element) {
                Some(child) => node = child,
                None => return false,
            }
        }
        remove_child(node, last)
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, element) in self.0.iter().enumerate() {
            let (kind, text) = element.key().split_at(2);
            match kind {
                "f:" if index == 0 => formatter.write_str(text)?,
                "f:" if text.contains(['.', '/']) => write!(formatter, "[{text}]")?,
                "f:" => write!(formatter, ".{text}")?,
                "k:" => write!(formatter, "[{}]", readable_key(text))?,
                _ => write!(formatter, "[{text}]")?,
            }
        }
        Ok(())
    }
}

/// What a set of paths has that another has not, at most `limit`, with children of lost parents
/// left out.
pub fn lost(before: &BTreeSet<FieldPath>, after: &BTreeSet<FieldPath>) -> Vec<FieldPath> {
    before.difference(after).cloned().collect()
}

fn collect(node: &Value, path: &mut FieldPath, paths: &mut BTreeSet<FieldPath>) {
    let children = node.as_object().filter(|map| !map.is_empty());
    let Some(children) = children else {
        paths.insert(path.clone());
        return;
    };
    for (key, child) in children {
        if key == "." {
            paths.insert(path.clone());
        } else {
            path.0.push(Element::Raw(key.clone()));
            collect(child, path, paths);
            path.0.pop();
        }
    }
}

fn find(node: &Value, text: &str, elements: &mut Vec<Element>) -> bool {
    if text.is_empty() {
        return true;
    }
    for (element, child, tail) in steps(node, text) {
        elements.push(element);
        if find(child, tail, elements) {
            return true;
        }
        elements.pop();
    }
    false
}

/// The children of a node that a path may go on with.
fn steps<'a>(node: &'a Value, text: &'a str) -> Vec<(Element, &'a Value, &'a str)> {
    if text.starts_with('[') {
        let (key, tail) = bracketed(text);
        let (kind, inner) = key.split_at(2);
        let child = item_index(node, kind, inner).and_then(|index| node.get(index));
        return child
            .map(|child| (Element::Raw(key.clone()), child, tail))
            .into_iter()
            .collect();
    }
    let name = text.strip_prefix('.').unwrap_or(text);
    let children = node.as_object().into_iter().flatten();
    children
        .filter_map(|(key, child)| {
            let tail = name.strip_prefix(key.as_str())?;
            let is_whole = tail.is_empty() || tail.starts_with(['.', '[']);
            is_whole.then(|| (Element::Raw(format!("f:{key}")), child, tail))
        })
        .collect()
}

/// `[name="web",port=80]`, `[="member"]` or `[3]`.
fn bracketed(text: &str) -> (String, &str) {
    let end = closing(text);
    let (inner, tail) = (&text[1..end], text.get(end + 1..).unwrap_or_default());
    if let Some(member) = inner.strip_prefix('=') {
        return (format!("v:{member}"), tail);
    }
    if inner.chars().all(|digit| digit.is_ascii_digit()) {
        return (format!("i:{inner}"), tail);
    }
    let pairs = inner.split(',').filter_map(|pair| pair.split_once('='));
    let parts: Vec<String> = pairs
        .map(|(key, value)| format!("\"{key}\":{value}"))
        .collect();
    (format!("k:{{{}}}", parts.join(",")), tail)
}

fn closing(text: &str) -> usize {
    let mut is_quoted = false;
    for (index, character) in text.char_indices() {
        match character {
            '"' => is_quoted = !is_quoted,
            ']' if !is_quoted => return index,
            _ => {}
        }
    }
    text.len()
}

/// Writes a tree in one fixed form, whatever the order of its keys.
fn canonical(node: &Value, text: &mut String) {
    let Some(map) = node.as_object() else {
        text.push_str(&node.to_string());
        return;
    };
    let mut keys: Vec<&String> = map.keys().collect();
    keys.sort_unstable();
    text.push('{');
    for key in keys {
        text.push_str(key);
        canonical(&map[key], text);
    }
    text.push('}');
}

fn readable_key(json: &str) -> String {
    let Ok(Value::Object(map)) = serde_json::from_str(json) else {
        return json.to_owned();
    };
    let parts: Vec<String> = map
        .iter()
        .map(|(key, value)| match value {
            Value::String(text) => format!("{key}={text}"),
            other => format!("{key}={other}"),
        })
        .collect();
    parts.join(",")
}

fn descend<'a>(node: &'a mut Value, element: &Element) -> Option<&'a mut Value> {
    let (kind, text) = element.key().split_at(2);
    if kind == "f:" {
        return node.get_mut(text);
    }
    let index = item_index(node, kind, text)?;
    node.get_mut(index)
}

fn remove_child(node: &mut Value, element: &Element) -> bool {
    let (kind, text) = element.key().split_at(2);
    if kind == "f:" {
        return node
            .as_object_mut()
            .is_some_and(|map| map.remove(text).is_some());
    }
    let Some(index) = item_index(node, kind, text) else {
        return false;
    };
    node.as_array_mut().is_some_and(|items| {
        items.remove(index);
        true
    })
}

fn item_index(node: &Value, kind: &str, text: &str) -> Option<usize> {
    let items = node.as_array()?;
    let wanted: Value = serde_json::from_str(text).ok()?;
    match kind {
        "i:" => usize::try_from(wanted.as_u64()?)
            .ok()
            .filter(|index| *index < items.len()),
        "v:" => items.iter().position(|item| *item == wanted),
        _ => {
            let wanted = wanted.as_object()?;
            items.iter().position(|item| has_keys(item, wanted))
        }
    }
}

fn has_keys(item: &Value, wanted: &serde_json::Map<String, Value>) -> bool {
    wanted.iter().all(|(key, value)| match item.get(key) {
        Some(found) => found == value,
        // The API server fills in defaulted list keys, such as the protocol of a port.
        None => key == "protocol" && value == "TCP",
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(fields: &Value) -> FieldsEntry {
        serde_json::from_value(json!({
            "manager": "vidra/x/y", "operation": "Apply", "apiVersion": "apps/v1",
            "time": "2026-11-16T02:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields,
        }))
        .expect("a managed fields entry")
    }

    fn web() -> FieldsEntry {
        entry(
            &json!({"f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {
            "k:{\"name\":\"web\"}": {".": {}, "f:image": {}, "f:name": {}}}}}}}),
        )
    }

    #[test]
    fn paths_read_as_people_write_them() {
        let paths: Vec<String> = web().paths().iter().map(ToString::to_string).collect();
        assert_eq!(
            paths,
            [
                "spec.replicas",
                "spec.template.spec.containers[name=web]",
                "spec.template.spec.containers[name=web].image",
                "spec.template.spec.containers[name=web].name",
            ]
        );
    }

    #[test]
    fn the_hash_sees_a_lost_field_and_a_moved_time_but_not_the_order_of_keys() {
        let reordered = entry(
            &serde_json::from_str(r#"{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{"f:name":{},"f:image":{},".":{}}}}},"f:replicas":{}}}"#)
                .expect("JSON"),
        );
        assert_eq!(web().hash(), reordered.hash());
        let mut moved = web();
        moved.time = Some("2026-11-16T02:00:01Z".parse().expect("a time"));
        assert_ne!(web().hash(), moved.hash());
        assert_ne!(web().hash(), entry(&json!({"f:spec": {}})).hash());
    }

    #[test]
    fn a_field_of_a_list_item_is_removed_by_its_key() {
        let image = web().paths().into_iter().nth(2).expect("three paths");
        let mut object = json!({"spec": {"template": {"spec": {"containers": [
            {"name": "side", "image": "a"}, {"name": "web", "image": "b"}]}}}});
        assert!(image.remove_from(&mut object));
        assert_eq!(
            object["spec"]["template"]["spec"]["containers"],
            json!([{"name": "side", "image": "a"}, {"name": "web"}])
        );
        assert!(!image.remove_from(&mut object));
    }

    #[test]
    fn a_path_in_a_conflict_is_found_in_an_object() {
        let mut object = json!({"spec": {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]},
            "metadata": {"finalizers": ["x", "y"]}, "data": {"app": "1", "app.conf": "2"}});
        let paths = [
            ".spec.ports[port=81].name",
            r#".metadata.finalizers[="x"]"#,
            ".data.app.conf",
        ];
        for path in paths {
            let found = FieldPath::of_conflict(path, &object).expect(path);
            assert!(found.remove_from(&mut object), "{path}");
        }
        assert_eq!(FieldPath::of_conflict(".data.other", &object), None);
        assert_eq!(
            object,
            json!({"spec": {"ports": [{"port": 80, "name": "a"}, {"port": 81}]},
                "metadata": {"finalizers": ["y"]}, "data": {"app": "1"}})
        );
    }

    #[test]
    fn an_entry_owns_its_paths_and_no_others() {
        assert!(web().owns(&FieldPath::of_fields(&["spec", "replicas"])));
        assert!(!web().owns(&FieldPath::of_fields(&["spec", "paused"])));
    }
}
