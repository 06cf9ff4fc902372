//! Builds JSON values while counting what they cost.
//!
//! One visitor serves both parsers, so that YAML and JSON obey the same limits and the same rules
//! for keys and numbers. The depth is checked before each descent: no input can exhaust the stack.

use std::{
    cell::{Cell, RefCell},
    fmt,
};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{error::Refusal, limits::Limits};

/// What has been read of a manifest so far, and why reading was stopped.
#[derive(Debug)]
pub(super) struct Meter<'l> {
    limits: &'l Limits,
    nodes: Cell<usize>,
    bytes: Cell<usize>,
    refusal: RefCell<Option<Refusal>>,
}

impl<'l> Meter<'l> {
    pub(super) fn new(limits: &'l Limits) -> Self {
        Self {
            limits,
            nodes: Cell::new(0),
            bytes: Cell::new(0),
            refusal: RefCell::new(None),
        }
    }

    pub(super) fn limits(&self) -> &'l Limits {
        self.limits
    }

    /// How many values may still be read.
    pub(super) fn nodes_left(&self) -> usize {
        self.limits.nodes.saturating_sub(self.nodes.get())
    }

    /// Why the visitor stopped, if it was the visitor.
    pub(super) fn take_refusal(&self) -> Option<Refusal> {
        self.refusal.borrow_mut().take()
    }

    /// Counters, to try the same text with another parser.
    pub(super) fn mark(&self) -> (usize, usize) {
        (self.nodes.get(), self.bytes.get())
    }

    pub(super) fn rewind(&self, (nodes, bytes): (usize, usize)) {
        self.nodes.set(nodes);
        self.bytes.set(bytes);
    }

    fn charge<E: Error>(&self, bytes: usize) -> Result<(), E> {
        self.nodes.set(self.nodes.get() + 1);
        self.bytes.set(self.bytes.get().saturating_add(bytes));
        if self.nodes.get() > self.limits.nodes {
            return Err(self.refuse(Refusal::TooManyNodes {
                limit: self.limits.nodes,
            }));
        }
        if self.bytes.get() > self.limits.expanded_bytes {
            let limit = self.limits.expanded_bytes;
            return Err(self.refuse(Refusal::ExpandsTooLarge { limit }));
        }
        Ok(())
    }

    /// Remembers the refusal beside the parser's error, which can only carry text.
    fn refuse<E: Error>(&self, refusal: Refusal) -> E {
        let error = E::custom(refusal.code());
        *self.refusal.borrow_mut() = Some(refusal);
        error
    }
}

/// Reads one value at a depth.
#[derive(Clone, Copy)]
pub(super) struct ValueSeed<'m, 'l> {
    pub(super) meter: &'m Meter<'l>,
    pub(super) depth: usize,
}

impl ValueSeed<'_, '_> {
    fn descend<E: Error>(self) -> Result<Self, E> {
        let limit = self.meter.limits.effective_depth();
        if self.depth >= limit {
            return Err(self.meter.refuse(Refusal::TooDeep { limit }));
        }
        Ok(Self {
            depth: self.depth + 1,
            ..self
        })
    }

    fn next_key<'de, A: MapAccess<'de>>(
        self,
        entries: &mut A,
        seen: &Map<String, Value>,
    ) -> Result<Option<String>, A::Error> {
        let meter = self.meter;
        entries.next_key_seed(KeySeed { meter, seen })
    }

    fn scalar<E: Error>(self, value: Value) -> Result<Value, E> {
        self.meter.charge(0)?;
        Ok(value)
    }
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_, '_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.scalar(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.scalar(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.scalar(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        match number(value) {
            Some(number) => self.scalar(Value::Number(number)),
            None => Err(self.meter.refuse(Refusal::NonFiniteNumber)),
        }
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.meter.charge(value.len())?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        self.meter.charge(value.len())?;
        Ok(Value::String(value))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.scalar(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        self.scalar(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        self.meter.charge(0)?;
        let inner = self.descend()?;
        let mut list = Vec::new();
        while let Some(value) = members.next_element_seed(inner)? {
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        self.meter.charge(0)?;
        let inner = self.descend()?;
        let mut map = Map::new();
        while let Some(key) = self.next_key(&mut entries, &map)? {
            let value = entries.next_value_seed(inner)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

/// Reads a key and turns it into the string that kubectl sends: `8080` and `on` are keys too.
struct KeySeed<'m, 'l> {
    meter: &'m Meter<'l>,
    seen: &'m Map<String, Value>,
}

impl KeySeed<'_, '_> {
    /// Looks for duplicates here, while the parser still knows where the key is. The YAML parser
    /// has found most of them already, but `1` and `"1"` or `on` and `yes` differ for it.
    fn key<E: Error>(self, key: String) -> Result<String, E> {
        self.meter.charge(key.len())?;
        if self.seen.contains_key(&key) {
            return Err(self.meter.refuse(Refusal::DuplicateKey { key }));
        }
        Ok(key)
    }

    fn bad<E: Error>(self) -> E {
        self.meter.refuse(Refusal::BadKey)
    }
}

impl<'de> DeserializeSeed<'de> for KeySeed<'_, '_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for KeySeed<'_, '_> {
    type Value = String;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<String, E> {
        self.key(value.to_string())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<String, E> {
        self.key(value.to_string())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<String, E> {
        self.key(value.to_string())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<String, E> {
        match number(value) {
            Some(number) => self.key(number.to_string()),
            None => Err(self.bad()),
        }
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<String, E> {
        self.key(value.to_owned())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<String, E> {
        self.key(value)
    }

    fn visit_unit<E: Error>(self) -> Result<String, E> {
        Err(self.bad())
    }

    fn visit_none<E: Error>(self) -> Result<String, E> {
        Err(self.bad())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<String, A::Error> {
        Err(self.bad())
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<String, A::Error> {
        Err(self.bad())
    }
}

/// `1e3` is the integer 1000, as kubectl sends it; the API server wants integers to look like it.
fn number(value: f64) -> Option<Number> {
    if value.fract() == 0.0
        && let Ok(integer) = format!("{value:.0}").parse::<i64>()
    {
        return Some(Number::from(integer));
    }
    Number::from_f64(value)
}
