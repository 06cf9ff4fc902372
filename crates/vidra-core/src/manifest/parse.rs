//! The driver: text in, objects or all problems out.

use serde_json::Value;

use super::{
    chunks::{Chunk, chunks, forbidden_character},
    error::{ManifestError, Position, Problem, Refusal},
    limits::Limits,
    lists::{Flat, flatten, is_list},
    object::{ManifestObject, check},
    read::{Read, item_places, read},
    redact::Viewer,
    value::Meter,
};

/// Parses bytes that should be UTF-8; see [`parse`].
pub fn parse_bytes(bytes: &[u8], limits: &Limits) -> Result<Vec<ManifestObject>, ManifestError> {
    check_size(bytes.len(), limits)?;
    match std::str::from_utf8(bytes) {
        Ok(text) => parse(text, limits),
        Err(error) => {
            let read = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            let line = read.matches('\n').count() + 1;
            let column = read.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            Err(refused(
                Refusal::NotUtf8,
                Position {
                    line,
                    column,
                    document: 1,
                    ..Position::default()
                },
            ))
        }
    }
}

/// Parses a manifest: YAML documents or JSON objects, lists flattened, each object normalised.
///
/// An empty text is an empty set; whether that may be applied is for the caller to say.
pub fn parse(text: &str, limits: &Limits) -> Result<Vec<ManifestObject>, ManifestError> {
    check_size(text.len(), limits)?;
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    if let Some((refusal, line, column)) = forbidden_character(text) {
        return Err(refused(
            refusal,
            Position {
                line,
                column,
                document: 1,
                ..Position::default()
            },
        ));
    }
    let mut parser = Parser {
        viewer: Viewer::new(text),
        limits,
        meter: Meter::new(limits),
        objects: Vec::new(),
        problems: Vec::new(),
    };
    for (index, chunk) in chunks(text).iter().enumerate() {
        if index >= limits.documents {
            parser.stop(
                Refusal::TooManyDocuments {
                    limit: limits.documents,
                },
                chunk,
                index,
            );
        }
        if parser.is_done() {
            break;
        }
        parser.document(chunk, index + 1);
    }
    ManifestError::unless_empty(parser.problems)?;
    Ok(parser.objects)
}

fn check_size(bytes: usize, limits: &Limits) -> Result<(), ManifestError> {
    if bytes <= limits.bytes {
        return Ok(());
    }
    Err(refused(
        Refusal::TooLarge {
            bytes,
            limit: limits.bytes,
        },
        Position::default(),
    ))
}

fn refused(refusal: Refusal, position: Position) -> ManifestError {
    ManifestError::new(
        Problem {
            refusal,
            position,
            object: None,
            snippet: None,
        },
        Vec::new(),
    )
}

struct Parser<'t, 'l> {
    viewer: Viewer<'t>,
    limits: &'l Limits,
    meter: Meter<'l>,
    objects: Vec<ManifestObject>,
    problems: Vec<Problem>,
}

/// What the members of one document have in common.
struct Document<'c, 't> {
    viewer: Viewer<'t>,
    places: Vec<(usize, usize)>,
    chunk: &'c Chunk<'t>,
}

impl<'t> Parser<'t, '_> {
    /// Enough problems, or one that makes going on pointless.
    fn is_done(&self) -> bool {
        let is_spent = self
            .problems
            .last()
            .is_some_and(|problem| problem.refusal.is_limit());
        is_spent || self.problems.len() >= self.limits.problems
    }

    fn stop(&mut self, refusal: Refusal, chunk: &Chunk<'t>, document: usize) {
        let (line, column) = (chunk.content_line, chunk.content_column);
        let position = Position {
            line,
            column,
            document,
            ..Position::default()
        };
        self.problems.push(Problem {
            refusal,
            position,
            object: None,
            snippet: None,
        });
    }

    fn document(&mut self, chunk: &Chunk<'t>, number: usize) {
        let viewer = self.viewer.for_document(chunk.text);
        match read(chunk, &self.meter, &viewer) {
            Err(unreadable) => {
                let (line, column) = (unreadable.line, unreadable.column);
                let position = Position {
                    line,
                    column,
                    document: number,
                    ..Position::default()
                };
                self.refuse(unreadable.refusal, position, None, &viewer);
            }
            Ok(values) => {
                let mut document = Document {
                    viewer,
                    places: Vec::new(),
                    chunk,
                };
                let is_alone = values.len() == 1;
                for read in values {
                    self.value(read, number, is_alone, &mut document);
                }
            }
        }
    }

    fn value(
        &mut self,
        read: Read,
        number: usize,
        is_alone: bool,
        document: &mut Document<'_, 't>,
    ) {
        let Read {
            value,
            line,
            column,
        } = read;
        let position = Position {
            line,
            column,
            document: number,
            ..Position::default()
        };
        if value.is_null() {
            return;
        }
        // Only a list that is the whole document can be found again for its lines.
        document.places = match value.as_object() {
            Some(fields) if is_alone && is_list(fields) => item_places(document.chunk, self.limits),
            _ => Vec::new(),
        };
        self.member(value, &position, 0, document);
    }

    fn member(
        &mut self,
        value: Value,
        position: &Position,
        depth: usize,
        document: &Document<'_, 't>,
    ) {
        if self.is_done() {
            return;
        }
        let places = if depth == 0 {
            document.places.as_slice()
        } else {
            &[]
        };
        match flatten(value, position, places) {
            Flat::Object(value) => self.object(value, position, document),
            Flat::Broken(refusal) => {
                self.refuse(refusal, position.clone(), None, &document.viewer);
            }
            Flat::List(_) if depth >= self.limits.list_depth => {
                let refusal = Refusal::ListTooDeep {
                    limit: self.limits.list_depth,
                };
                self.refuse(refusal, position.clone(), None, &document.viewer);
            }
            Flat::List(members) => {
                for member in members {
                    self.member(member.value, &member.position, depth + 1, document);
                }
            }
        }
    }

    fn object(&mut self, value: Value, position: &Position, document: &Document<'_, 't>) {
        if self.objects.len() >= self.limits.objects {
            let refusal = Refusal::TooManyObjects {
                limit: self.limits.objects,
            };
            return self.refuse(refusal, position.clone(), None, &document.viewer);
        }
        match check(value, position, &document.viewer) {
            Ok(object) => self.objects.push(object),
            Err(unfit) => {
                for refusal in unfit.refusals {
                    self.refuse(
                        refusal,
                        position.clone(),
                        unfit.object.clone(),
                        &document.viewer,
                    );
                }
            }
        }
    }

    fn refuse(
        &mut self,
        refusal: Refusal,
        position: Position,
        object: Option<String>,
        viewer: &Viewer<'_>,
    ) {
        if self.problems.len() < self.limits.problems.max(1) {
            let snippet = viewer.line(position.line);
            self.problems.push(Problem {
                refusal,
                position,
                object,
                snippet,
            });
        }
    }
}
