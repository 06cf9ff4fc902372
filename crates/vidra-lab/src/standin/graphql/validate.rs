//! Judges a document against the schema before it is executed.

use super::{
    Failure,
    ast::{Argument, Document, Field, Location, Operation, Selection, Value, VariableDefinition},
    schema::{self, FieldType, fields, input, named},
};

pub(super) fn validate(document: &Document, operation: &Operation) -> Vec<Failure> {
    let mut validator = Validator {
        document,
        operation,
        failures: Vec::new(),
        used: Vec::new(),
        depth: 0,
    };
    let root = if operation.is_mutation {
        "Mutation"
    } else {
        "Query"
    };
    validator.selections(&operation.selections, root);
    validator.unused_variables();
    validator.failures
}

struct Validator<'a> {
    document: &'a Document,
    operation: &'a Operation,
    failures: Vec<Failure>,
    used: Vec<&'a str>,
    depth: usize,
}

impl<'a> Validator<'a> {
    fn fail(&mut self, message: String, locations: &[Location]) {
        self.failures.push(Failure {
            message,
            locations: locations.to_vec(),
            path: None,
        });
    }

    fn selections(&mut self, selections: &'a [Selection], type_name: &str) {
        for selection in selections {
            match selection {
                Selection::Field(field) => self.field(field, type_name),
                Selection::Inline {
                    on,
                    selections,
                    location,
                } => {
                    self.fragment(on.as_deref().unwrap_or(type_name), selections, *location);
                }
                Selection::Spread { name, location } => self.spread(name, *location),
            }
        }
    }

    fn fragment(&mut self, on: &str, selections: &'a [Selection], location: Location) {
        if fields(on).is_some() {
            self.selections(selections, on);
        } else {
            self.fail(format!("Unknown type '{on}'."), &[location]);
        }
    }

    fn spread(&mut self, name: &str, location: Location) {
        let document = self.document;
        let Some(fragment) = document.fragments.iter().find(|one| one.name == name) else {
            return self.fail(format!("Unknown fragment '{name}'."), &[location]);
        };
        self.depth += 1;
        if self.depth > document.fragments.len() {
            self.fail(
                format!("Cannot spread fragment '{name}' within itself."),
                &[location],
            );
        } else {
            self.fragment(&fragment.on, &fragment.selections, location);
        }
        self.depth -= 1;
    }

    fn field(&mut self, field: &'a Field, type_name: &str) {
        if field.name == "__typename" {
            return;
        }
        let known = fields(type_name).unwrap_or_default();
        let Some(definition) = known.iter().find(|one| one.name == field.name) else {
            let hint = suggestion(&field.name, known);
            let message = format!(
                "Cannot query field '{}' on type '{type_name}'.{hint}",
                field.name
            );
            return self.fail(message, &[field.location]);
        };
        for argument in &field.arguments {
            self.argument(argument, definition, type_name);
        }
        self.shape(field, definition);
        self.selections(&field.selections, named(definition.kind));
    }

    fn shape(&mut self, field: &Field, definition: &FieldType) {
        let (name, kind) = (&field.name, definition.kind);
        match (fields(named(kind)).is_some(), field.selections.is_empty()) {
            (true, true) => self.fail(
                format!(
                    "Field '{name}' of type '{kind}' must have a selection of subfields. \
                     Did you mean '{name} {{ ... }}'?"
                ),
                &[field.location],
            ),
            (false, false) => self.fail(
                format!(
                    "Field '{name}' must not have a selection since type '{kind}' has no subfields."
                ),
                &[field.location],
            ),
            _ => {}
        }
    }

    fn argument(&mut self, argument: &'a Argument, definition: &FieldType, type_name: &str) {
        let name = &argument.name;
        if let Some((_, kind)) = definition.arguments.iter().find(|(known, _)| known == name) {
            return self.value(&argument.value, kind, argument.location);
        }
        let field = definition.name;
        let message = format!("Unknown argument '{name}' on field '{type_name}.{field}'.");
        self.fail(message, &[argument.location]);
    }

    fn value(&mut self, value: &'a Value, kind: &str, location: Location) {
        match value {
            Value::Variable(name, at) => self.variable(name, kind, *at),
            Value::List(items) => {
                let inner = kind
                    .trim_end_matches('!')
                    .trim_start_matches('[')
                    .trim_end_matches(']');
                for item in items {
                    self.value(item, inner, location);
                }
            }
            Value::Object(members) => self.members(members, named(kind), location),
            Value::Text(text) if named(kind) == "Int" => {
                let message = format!("Int cannot represent non-integer value: \"{text}\"");
                self.fail(message, &[location]);
            }
            Value::Number(number) if named(kind) == "String" => {
                let message = format!("String cannot represent a non string value: {number}");
                self.fail(message, &[location]);
            }
            _ => {}
        }
    }

    fn members(&mut self, members: &'a [(String, Value)], kind: &str, location: Location) {
        let known = input(kind).unwrap_or_default();
        for (name, value) in members {
            match known.iter().find(|(known, _)| known == name) {
                Some((_, member)) => self.value(value, member, location),
                None => self.fail(
                    format!("Field '{name}' is not defined by type '{kind}'."),
                    &[location],
                ),
            }
        }
    }

    fn variable(&mut self, name: &'a str, kind: &str, location: Location) {
        self.used.push(name);
        let operation = self.operation;
        let Some(variable) = operation.variables.iter().find(|one| one.name == name) else {
            let suffix = by_operation(operation, " by operation");
            let message = format!("Variable '${name}' is not defined{suffix}.");
            return self.fail(message, &[location, operation.location]);
        };
        if !is_compatible(variable, kind) {
            let message = format!(
                "Variable '${name}' of type '{}' used in position expecting type '{kind}'.",
                variable.kind
            );
            self.fail(message, &[variable.location, location]);
        }
    }

    fn unused_variables(&mut self) {
        for variable in &self.operation.variables {
            if !self.used.contains(&variable.name.as_str()) {
                let suffix = by_operation(self.operation, " in operation");
                let message = format!("Variable '${}' is never used{suffix}.", variable.name);
                self.fail(message, &[variable.location]);
            }
        }
    }
}

fn by_operation(operation: &Operation, words: &str) -> String {
    operation
        .name
        .as_ref()
        .map_or(String::new(), |name| format!("{words} '{name}'"))
}

/// A variable fits where its type is the wanted one or a stricter one.
fn is_compatible(variable: &VariableDefinition, wanted: &str) -> bool {
    let has_default = variable.default.is_some();
    match wanted.strip_suffix('!') {
        Some(nullable) if has_default => is_subtype(&variable.kind, nullable),
        _ => is_subtype(&variable.kind, wanted),
    }
}

fn is_subtype(kind: &str, wanted: &str) -> bool {
    match (kind.strip_suffix('!'), wanted.strip_suffix('!')) {
        (Some(kind), Some(wanted)) => is_subtype(kind, wanted),
        (None, Some(_)) => false,
        (Some(kind), None) => is_subtype(kind, wanted),
        (None, None) => match (unlisted(kind), unlisted(wanted)) {
            (Some(kind), Some(wanted)) => is_subtype(kind, wanted),
            (None, None) => kind == wanted,
            _ => false,
        },
    }
}

fn unlisted(kind: &str) -> Option<&str> {
    kind.strip_prefix('[')?.strip_suffix(']')
}

/// ` Did you mean 'name'?`, where exactly that helps; the real one knows more fields than we do.
fn suggestion(name: &str, known: &'static [schema::FieldType]) -> String {
    let limit = name.len() * 2 / 5 + 1;
    let near: Vec<&str> = known
        .iter()
        .map(|field| field.name)
        .filter(|candidate| distance(name, candidate) <= limit)
        .collect();
    match near[..] {
        [] => String::new(),
        [one] => format!(" Did you mean '{one}'?"),
        _ => format!(" Did you mean '{}'?", near.join("' or '")),
    }
}

fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, character) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for column in 0..right.len() {
            let substituted = diagonal + usize::from(character != right[column]);
            diagonal = row[column + 1];
            row[column + 1] = substituted.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}
