//! Turns what the client sent into the values that the operation works with.

use serde_json::{Map, Value as Plain};

use super::{
    Failure,
    ast::{Field, Operation, Value, VariableDefinition},
    schema::named,
};

/// The variables of an operation, checked against their declared types.
pub(super) fn coerce(
    operation: &Operation,
    sent: &Map<String, Plain>,
) -> Result<Map<String, Plain>, Vec<Failure>> {
    let mut values = Map::new();
    let mut failures = Vec::new();
    for variable in &operation.variables {
        match coerce_one(variable, sent.get(&variable.name)) {
            Ok(Some(value)) => {
                values.insert(variable.name.clone(), value);
            }
            Ok(None) => {}
            Err(message) => failures.push(Failure {
                message,
                locations: vec![variable.location],
                path: None,
            }),
        }
    }
    if failures.is_empty() {
        Ok(values)
    } else {
        Err(failures)
    }
}

fn coerce_one(
    variable: &VariableDefinition,
    sent: Option<&Plain>,
) -> Result<Option<Plain>, String> {
    let (name, kind) = (&variable.name, &variable.kind);
    match sent {
        None => match &variable.default {
            Some(default) => Ok(Some(plain(default, &Map::new()))),
            None if kind.ends_with('!') => Err(format!(
                "Variable '${name}' of required type '{kind}' was not provided."
            )),
            None => Ok(None),
        },
        Some(Plain::Null) if kind.ends_with('!') => Err(format!(
            "Variable '${name}' of non-null type '{kind}' must not be null."
        )),
        Some(value) => match misfit(value, kind) {
            Some(reason) => Err(format!(
                "Variable '${name}' got invalid value {value}; {reason}"
            )),
            None => Ok(Some(value.clone())),
        },
    }
}

fn misfit(value: &Plain, kind: &str) -> Option<String> {
    if value.is_null() {
        return None;
    }
    match (named(kind), value) {
        (_, Plain::Array(items)) if kind.starts_with('[') => {
            items.iter().find_map(|item| misfit(item, named(kind)))
        }
        ("String", other) if !other.is_string() => Some(format!(
            "String cannot represent a non string value: {other}"
        )),
        ("Int", other) if !other.is_i64() => {
            Some(format!("Int cannot represent non-integer value: {other}"))
        }
        _ => None,
    }
}

/// The arguments of a field with all variables replaced; absent variables are absent arguments.
pub(super) fn arguments(field: &Field, variables: &Map<String, Plain>) -> Map<String, Plain> {
    field
        .arguments
        .iter()
        .filter(|argument| is_given(&argument.value, variables))
        .map(|argument| (argument.name.clone(), plain(&argument.value, variables)))
        .collect()
}

fn is_given(value: &Value, variables: &Map<String, Plain>) -> bool {
    match value {
        Value::Variable(name, _) => variables.contains_key(name),
        _ => true,
    }
}

fn plain(value: &Value, variables: &Map<String, Plain>) -> Plain {
    match value {
        Value::Variable(name, _) => variables.get(name).cloned().unwrap_or(Plain::Null),
        Value::Number(number) => Plain::Number(number.clone()),
        Value::Text(text) | Value::Enum(text) => Plain::String(text.clone()),
        Value::Bool(bool) => Plain::Bool(*bool),
        Value::Null => Plain::Null,
        Value::List(items) => items.iter().map(|item| plain(item, variables)).collect(),
        Value::Object(members) => Plain::Object(
            members
                .iter()
                .filter(|(_, value)| is_given(value, variables))
                .map(|(name, value)| (name.clone(), plain(value, variables)))
                .collect(),
        ),
    }
}
