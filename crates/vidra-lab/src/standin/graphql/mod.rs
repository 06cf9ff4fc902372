//! The GraphQL that a client of artifacts speaks; by far not all that Infrahub understands.

mod ast;
mod lexer;
mod parse;
mod resolve;
mod schema;
mod validate;
mod variables;

use ast::{Document, Field, Location, Operation, Selection};
use jiff::Timestamp;
pub(super) use lexer::SyntaxError;
use serde_json::{Map, Value as Plain};

use super::{
    identity::Identity,
    json::Json,
    world::{Branch, World},
};

/// One entry of `errors`.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) message: String,
    pub(super) locations: Vec<Location>,
    pub(super) path: Option<Vec<String>>,
}

impl Failure {
    pub(super) fn locations(&self) -> Json {
        let location = |at: &Location| {
            Json::object([
                ("line", Json::count(at.line)),
                ("column", Json::count(at.column)),
            ])
        };
        Json::List(self.locations.iter().map(location).collect())
    }

    pub(super) fn path(&self) -> Json {
        self.path.as_ref().map_or(Json::Null, |path| {
            Json::List(path.iter().map(Json::text).collect())
        })
    }
}

/// What an operation works on.
pub(super) struct Context<'a> {
    pub(super) world: &'a mut World,
    pub(super) identity: &'a Identity,
    pub(super) branch: Branch,
    pub(super) at: Timestamp,
}

/// The result of an operation.
pub(super) struct Answer {
    pub(super) data: Json,
    pub(super) failures: Vec<Failure>,
}

/// A document that was understood.
pub(super) struct Prepared {
    document: Document,
    name: Option<String>,
}

impl Prepared {
    pub(super) fn new(source: &str, name: Option<&str>) -> Result<Self, SyntaxError> {
        Ok(Self {
            document: parse::parse(source)?,
            name: name.map(str::to_owned),
        })
    }

    pub(super) fn is_mutation(&self) -> bool {
        self.document
            .operations
            .iter()
            .any(|operation| operation.is_mutation)
    }

    /// Names of the root fields, for the question who may ask them.
    pub(super) fn roots(&self) -> impl Iterator<Item = &str> {
        let selections = self
            .document
            .operations
            .iter()
            .flat_map(|one| &one.selections);
        selections.filter_map(|selection| match selection {
            Selection::Field(field) => Some(field.name.as_str()),
            _ => None,
        })
    }

    pub(super) fn run(&self, context: &mut Context<'_>, sent: &Map<String, Plain>) -> Answer {
        let operation = match self.operation() {
            Ok(operation) => operation,
            Err(message) => {
                let failure = Failure {
                    message,
                    locations: Vec::new(),
                    path: None,
                };
                return refused(vec![failure]);
            }
        };
        let failures = validate::validate(&self.document, operation);
        if !failures.is_empty() {
            return refused(failures);
        }
        match variables::coerce(operation, sent) {
            Ok(values) => self.execute(operation, context, &values),
            Err(failures) => refused(failures),
        }
    }

    fn operation(&self) -> Result<&Operation, String> {
        let operations = &self.document.operations;
        match (&self.name, operations.as_slice()) {
            (Some(name), _) => operations
                .iter()
                .find(|operation| operation.name.as_ref() == Some(name))
                .ok_or_else(|| format!("Unknown operation named '{name}'.")),
            (None, [only]) => Ok(only),
            (None, _) => {
                Err("Must provide operation name if query contains multiple operations.".to_owned())
            }
        }
    }

    fn execute(
        &self,
        operation: &Operation,
        context: &mut Context<'_>,
        values: &Map<String, Plain>,
    ) -> Answer {
        let (mut data, mut failures) = (Vec::new(), Vec::new());
        for field in self.fields(&operation.selections) {
            let arguments = variables::arguments(field, values);
            let answer = if field.name == "__typename" {
                Ok(Json::text(if operation.is_mutation {
                    "Mutation"
                } else {
                    "Query"
                }))
            } else {
                resolve::resolve(context, &field.name, &arguments)
            };
            let value = answer.map(|value| self.pick(&value, &field.selections));
            data.push((
                field.key().to_owned(),
                value.unwrap_or_else(|message| {
                    let path = Some(vec![field.key().to_owned()]);
                    failures.push(Failure {
                        message,
                        locations: vec![field.location],
                        path,
                    });
                    Json::Null
                }),
            ));
        }
        // Queries are declared non-null, so a failing one takes the whole answer with it.
        if !failures.is_empty() && !operation.is_mutation {
            return refused(failures);
        }
        Answer {
            data: Json::Object(data),
            failures,
        }
    }

    fn fields<'a>(&'a self, selections: &'a [Selection]) -> Vec<&'a Field> {
        selections
            .iter()
            .flat_map(|selection| match selection {
                Selection::Field(field) => vec![field],
                Selection::Inline { selections, .. } => self.fields(selections),
                Selection::Spread { name, .. } => self.fields(self.fragment(name).1),
            })
            .collect()
    }

    fn fragment(&self, name: &str) -> (&str, &[Selection]) {
        let found = self
            .document
            .fragments
            .iter()
            .find(|fragment| fragment.name == name);
        found.map_or(("", &[]), |fragment| (&fragment.on, &fragment.selections))
    }

    /// What the client selected of a complete answer, in the client's order.
    fn pick(&self, value: &Json, selections: &[Selection]) -> Json {
        match value {
            Json::List(items) if !selections.is_empty() => Json::List(
                items
                    .iter()
                    .map(|item| self.pick(item, selections))
                    .collect(),
            ),
            Json::Object(_) => {
                let mut picked = Vec::new();
                self.pick_into(&mut picked, value, selections);
                Json::Object(picked)
            }
            other => other.clone(),
        }
    }

    fn pick_into(&self, into: &mut Vec<(String, Json)>, value: &Json, selections: &[Selection]) {
        let actual = value
            .get("__typename")
            .and_then(Json::as_str)
            .unwrap_or_default();
        for selection in selections {
            match selection {
                Selection::Field(field) => {
                    let member = value.get(&field.name).unwrap_or(&Json::Null);
                    into.push((field.key().to_owned(), self.pick(member, &field.selections)));
                }
                Selection::Inline { on, selections, .. } => {
                    if on.as_deref().is_none_or(|on| schema::applies(on, actual)) {
                        self.pick_into(into, value, selections);
                    }
                }
                Selection::Spread { name, .. } => {
                    let (on, selections) = self.fragment(name);
                    if schema::applies(on, actual) {
                        self.pick_into(into, value, selections);
                    }
                }
            }
        }
    }
}

fn refused(failures: Vec<Failure>) -> Answer {
    Answer {
        data: Json::Null,
        failures,
    }
}
