//! Flattens `kind: List` and typed lists such as `ConfigMapList`.

use serde_json::{Map, Value};

use super::{
    error::{Position, Refusal},
    object::type_name,
};

/// A member and where it is.
pub(super) struct Member {
    pub(super) value: Value,
    pub(super) position: Position,
}

/// What a value turned out to be.
pub(super) enum Flat {
    /// One object, or something that claims to be one.
    Object(Value),
    /// A list with its members, which may be lists again.
    List(Vec<Member>),
    /// A list that cannot be read.
    Broken(Refusal),
}

/// Takes a list apart. `places` are the lines and columns of its members, if known.
pub(super) fn flatten(mut value: Value, at: &Position, places: &[(usize, usize)]) -> Flat {
    let Some(list) = value.as_object_mut().filter(|fields| is_list(fields)) else {
        return Flat::Object(value);
    };
    let inherited = inherited_type(list);
    match list.remove("items") {
        Some(Value::Array(items)) => {
            let members = items.into_iter().enumerate();
            Flat::List(
                members
                    .map(|(index, item)| member(item, index, at, places, inherited.as_ref()))
                    .collect(),
            )
        }
        // What a Go program writes for a list without members.
        Some(Value::Null) => Flat::List(Vec::new()),
        Some(other) => Flat::Broken(Refusal::ListItems {
            found: type_name(&other),
        }),
        None => Flat::Broken(Refusal::ListItems { found: "none" }),
    }
}

/// `List` always is one. `AllowList` may well be an object, so it must look like a list: with
/// items and without a name.
pub(super) fn is_list(fields: &Map<String, Value>) -> bool {
    let kind = fields
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let is_named = fields
        .get("metadata")
        .and_then(|metadata| metadata.get("name"))
        .is_some();
    let has_items = fields
        .get("items")
        .is_some_and(|items| items.is_array() || items.is_null());
    kind == "List" || (kind.ends_with("List") && has_items && !is_named)
}

/// Members of a `ConfigMapList` may leave out what the list says already.
fn inherited_type(list: &Map<String, Value>) -> Option<(Value, Value)> {
    let kind = list.get("kind")?.as_str()?.strip_suffix("List")?;
    let api_version = list.get("apiVersion")?.clone();
    (!kind.is_empty()).then(|| (api_version, Value::from(kind)))
}

fn member(
    mut value: Value,
    index: usize,
    at: &Position,
    places: &[(usize, usize)],
    inherited: Option<&(Value, Value)>,
) -> Member {
    if let (Some((api_version, kind)), Some(fields)) = (inherited, value.as_object_mut())
        && !fields.contains_key("kind")
    {
        fields.insert("kind".to_owned(), kind.clone());
        fields
            .entry("apiVersion")
            .or_insert_with(|| api_version.clone());
    }
    let (line, column) = places.get(index).copied().unwrap_or((at.line, at.column));
    let path = if at.item.is_empty() {
        String::new()
    } else {
        format!("{}.", at.item)
    };
    let item = format!("{path}items[{index}]");
    Member {
        value,
        position: Position {
            line,
            column,
            document: at.document,
            item,
        },
    }
}
