//! Paths of fields that are not ours to keep, as JSON pointers.

use std::{cmp::Ordering, fmt};

use serde_json::Value;

/// A field of an object: `/spec/replicas`. `~1` stands for `/` and `~0` for `~` inside a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPath {
    segments: Vec<String>,
}

/// Why a path is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldPathError {
    /// It is not a pointer.
    #[error("a field path begins with '/', for example /spec/replicas")]
    NoSlash,
    /// A name is empty.
    #[error("a field path has no empty names; remove the extra '/'")]
    EmptySegment,
    /// A tilde that is no escape.
    #[error("'~' in a field path is written '~0', '/' inside a name '~1'")]
    BadEscape,
    /// It would remove what makes the object this object.
    #[error("apiVersion, kind, metadata, metadata.name and metadata.namespace cannot be ignored")]
    Identity,
}

impl FieldPath {
    /// Reads a pointer.
    pub fn parse(text: &str) -> Result<Self, FieldPathError> {
        let rest = text.strip_prefix('/').ok_or(FieldPathError::NoSlash)?;
        let segments = rest
            .split('/')
            .map(unescape)
            .collect::<Result<Vec<_>, _>>()?;
        let path = Self { segments };
        if path.is_identity() {
            Err(FieldPathError::Identity)
        } else {
            Ok(path)
        }
    }

    fn is_identity(&self) -> bool {
        let names: Vec<&str> = self.segments.iter().map(String::as_str).collect();
        matches!(
            names.as_slice(),
            ["apiVersion" | "kind" | "metadata"] | ["metadata", "name" | "namespace"]
        )
    }

    /// The names on the way, unescaped.
    pub fn segments(&self) -> &[String] {
        &self.segments
    }

    fn remove_from(&self, body: &mut Value) {
        let Some((last, parents)) = self.segments.split_last() else {
            return;
        };
        let parent = parents
            .iter()
            .try_fold(body, |value, segment| step(value, segment));
        match parent {
            Some(Value::Object(fields)) => {
                fields.remove(last);
            }
            Some(Value::Array(members)) => {
                if let Some(index) = index(last).filter(|index| *index < members.len()) {
                    members.remove(index);
                }
            }
            _ => {}
        }
    }
}

fn step<'v>(value: &'v mut Value, segment: &str) -> Option<&'v mut Value> {
    match value {
        Value::Object(fields) => fields.get_mut(segment),
        Value::Array(members) => members.get_mut(index(segment)?),
        _ => None,
    }
}

/// Digits without a leading zero; anything else names no member of a list.
fn index(segment: &str) -> Option<usize> {
    let is_canonical = segment == "0" || !segment.starts_with(['0', '+']);
    segment.parse().ok().filter(|_| is_canonical)
}

fn unescape(segment: &str) -> Result<String, FieldPathError> {
    if segment.is_empty() {
        return Err(FieldPathError::EmptySegment);
    }
    let mut name = String::with_capacity(segment.len());
    let mut characters = segment.chars();
    while let Some(character) = characters.next() {
        name.push(match (character, character == '~') {
            (other, false) => other,
            _ => match characters.next() {
                Some('0') => '~',
                Some('1') => '/',
                _ => return Err(FieldPathError::BadEscape),
            },
        });
    }
    Ok(name)
}

impl fmt::Display for FieldPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.segments.iter().try_for_each(|segment| {
            write!(
                formatter,
                "/{}",
                segment.replace('~', "~0").replace('/', "~1")
            )
        })
    }
}

/// Numbers count as numbers, so that the later member of a list sorts after the earlier one.
impl Ord for FieldPath {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |path: &Self| -> Vec<(Option<usize>, String)> {
            path.segments
                .iter()
                .map(|name| (index(name), name.clone()))
                .collect()
        };
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for FieldPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Removes fields from an object; paths that lead nowhere are fine, parents stay even when empty.
pub fn strip(body: &mut Value, paths: &[FieldPath]) {
    let mut paths: Vec<&FieldPath> = paths.iter().collect();
    // From the back, so that removing one member of a list does not move another one's index.
    paths.sort_by(|left, right| right.cmp(left));
    paths.dedup();
    for path in paths {
        path.remove_from(body);
    }
}
