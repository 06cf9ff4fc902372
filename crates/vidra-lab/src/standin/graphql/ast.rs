//! A GraphQL document, as far as clients of artifacts write them.

/// Line and column, both from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::standin) struct Location {
    pub(super) line: usize,
    pub(super) column: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Document {
    pub(super) operations: Vec<Operation>,
    pub(super) fragments: Vec<Fragment>,
}

#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) is_mutation: bool,
    pub(super) name: Option<String>,
    pub(super) variables: Vec<VariableDefinition>,
    pub(super) selections: Vec<Selection>,
    pub(super) location: Location,
}

#[derive(Clone, Debug)]
pub(super) struct VariableDefinition {
    pub(super) name: String,
    /// As written, without spaces: `[String!]!`.
    pub(super) kind: String,
    pub(super) default: Option<Value>,
    pub(super) location: Location,
}

#[derive(Clone, Debug)]
pub(super) struct Fragment {
    pub(super) name: String,
    pub(super) on: String,
    pub(super) selections: Vec<Selection>,
}

#[derive(Clone, Debug)]
pub(super) enum Selection {
    Field(Field),
    Inline {
        on: Option<String>,
        selections: Vec<Selection>,
        location: Location,
    },
    Spread {
        name: String,
        location: Location,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) alias: Option<String>,
    pub(super) name: String,
    pub(super) arguments: Vec<Argument>,
    pub(super) selections: Vec<Selection>,
    pub(super) location: Location,
}

impl Field {
    /// The key under which the field's value is answered.
    pub(super) fn key(&self) -> &str {
        self.alias.as_deref().unwrap_or(&self.name)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Argument {
    pub(super) name: String,
    pub(super) value: Value,
    pub(super) location: Location,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Variable(String, Location),
    Number(serde_json::Number),
    Text(String),
    Bool(bool),
    Null,
    Enum(String),
    List(Vec<Value>),
    Object(Vec<(String, Value)>),
}
