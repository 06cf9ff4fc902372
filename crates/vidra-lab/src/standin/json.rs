//! JSON that keeps the order of its keys, written the four ways Infrahub writes it.
//!
//! Signatures of webhooks cover bytes, so order and spacing matter, and `serde_json` sorts keys.

use std::fmt::{self, Write as _};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::{Number, Value};

/// A JSON value whose objects keep the order in which they were written.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// any number
    Number(Number),
    /// a string
    Text(String),
    /// an array
    List(Vec<Json>),
    /// an object, in order
    Object(Vec<(String, Json)>),
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Python's `json.dumps`: `", "` and `": "`, everything but ASCII escaped.
    PythonDefault,
    /// `","` and `":"`, everything but ASCII escaped.
    CompactEscaped,
    /// `","` and `":"`, raw UTF-8: what newer HTTP clients put on the wire.
    CompactRaw,
    /// Python's `str(dict)`: single quotes, `None`, `True`.
    PythonRepr,
}

impl Json {
    /// An object from pairs.
    pub fn object<const N: usize>(pairs: [(&str, Json); N]) -> Self {
        Self::Object(
            pairs
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect(),
        )
    }

    /// A string.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// The string or `null`.
    pub fn optional(text: Option<&str>) -> Self {
        text.map_or(Self::Null, Self::text)
    }

    /// A whole number.
    pub fn count(number: usize) -> Self {
        Self::Number(Number::from(number))
    }

    /// The member of an object.
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Self::Object(pairs) => pairs.iter().find(|(name, _)| name == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// This value in one of the four spellings.
    pub fn write(&self, style: Style) -> String {
        let mut out = String::new();
        self.write_into(&mut out, style);
        out
    }

    fn write_into(&self, out: &mut String, style: Style) {
        let repr = style == Style::PythonRepr;
        match self {
            Self::Null => out.push_str(if repr { "None" } else { "null" }),
            Self::Bool(true) => out.push_str(if repr { "True" } else { "true" }),
            Self::Bool(false) => out.push_str(if repr { "False" } else { "false" }),
            Self::Number(number) => out.push_str(&number.to_string()),
            Self::Text(text) => write_text(out, text, style),
            Self::List(items) => {
                write_sequence(out, style, ['[', ']'], items, |out, item| {
                    item.write_into(out, style);
                });
            }
            Self::Object(pairs) => {
                write_sequence(out, style, ['{', '}'], pairs, |out, (key, value)| {
                    write_text(out, key, style);
                    out.push_str(if is_spaced(style) { ": " } else { ":" });
                    value.write_into(out, style);
                });
            }
        }
    }
}

fn is_spaced(style: Style) -> bool {
    matches!(style, Style::PythonDefault | Style::PythonRepr)
}

fn write_sequence<T>(
    out: &mut String,
    style: Style,
    [open, close]: [char; 2],
    items: &[T],
    write: impl Fn(&mut String, &T),
) {
    out.push(open);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(if is_spaced(style) { ", " } else { "," });
        }
        write(out, item);
    }
    out.push(close);
}

fn write_text(out: &mut String, text: &str, style: Style) {
    if style == Style::PythonRepr {
        return write_repr(out, text);
    }
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' || (style != Style::CompactRaw && !c.is_ascii()) => write_escaped(out, c),
            c => out.push(c),
        }
    }
    out.push('"');
}

fn write_escaped(out: &mut String, character: char) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        // Writing into a String cannot fail.
        let _ = write!(out, "\\u{unit:04x}");
    }
}

fn write_repr(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.push(quote);
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out.push(quote);
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(bool) => Self::Bool(bool),
            Value::Number(number) => Self::Number(number),
            Value::String(text) => Self::Text(text),
            Value::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            Value::Object(map) => Self::Object(
                map.into_iter()
                    .map(|(key, value)| (key, value.into()))
                    .collect(),
            ),
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Number::from_f64(value).map_or(Json::Null, Json::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Json::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = access.next_entry()? {
            pairs.push(pair);
        }
        Ok(Json::Object(pairs))
    }
}
