//! Reads one document, YAML or JSON, into values.

use serde::{
    Deserialize,
    de::{DeserializeSeed as _, IgnoredAny},
};
use serde_json::Value;
use serde_saphyr::{
    Error as YamlError, ExternalMessageSource, Location, Options, Spanned,
    budget::BudgetBreach,
    granit_parser::ErrorKind,
    options::{DuplicateKeyPolicy, MergeKeyPolicy, NonFiniteFloatPolicy},
};

use super::{
    chunks::Chunk,
    error::Refusal,
    limits::Limits,
    redact::Viewer,
    value::{Meter, ValueSeed},
};

/// A value and where it begins, in lines and columns of the whole text.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) value: Value,
    pub(super) line: usize,
    pub(super) column: usize,
}

/// A document that could not be read, and where.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub(super) refusal: Refusal,
    pub(super) line: usize,
    pub(super) column: usize,
}

/// Reads a document: one YAML value, or JSON objects one after the other.
pub(super) fn read(
    chunk: &Chunk<'_>,
    meter: &Meter<'_>,
    viewer: &Viewer<'_>,
) -> Result<Vec<Read>, Unreadable> {
    let (content, offset) = chunk.content();
    if content.starts_with('%') {
        return Err(unreadable_at_start(chunk, Refusal::Directive));
    }
    if !content.starts_with('{') {
        return read_yaml(chunk, meter, viewer).map(|read| vec![read]);
    }
    let mark = meter.mark();
    match read_json(chunk, &content_slice(content, offset), meter, viewer) {
        Ok(values) => Ok(values),
        Err(JsonError::Refused(unreadable)) => Err(unreadable),
        // Braces also begin a YAML flow map, which need not be JSON.
        Err(JsonError::NotJson(as_json)) => {
            meter.rewind(mark);
            read_yaml(chunk, meter, viewer)
                .map(|read| vec![read])
                .map_err(|as_yaml| {
                    let is_meant_as_json = is_quoted_key(content) && !as_yaml.refusal.is_limit();
                    if is_meant_as_json { as_json } else { as_yaml }
                })
        }
    }
}

/// Whether braces are followed by a quoted key: the author meant JSON and wants its message.
fn is_quoted_key(content: &str) -> bool {
    content[1..].trim_start().starts_with('"')
}

fn unreadable_at_start(chunk: &Chunk<'_>, refusal: Refusal) -> Unreadable {
    Unreadable {
        refusal,
        line: chunk.content_line,
        column: chunk.content_column,
    }
}

// ---- YAML ----

/// How YAML is read: as kubectl does (YAML 1.1 booleans and octal numbers, merge keys), except
/// that a key which is there twice and a foreign tag are mistakes. The parser's own defaults
/// would refuse valid manifests and read `0644` as 644.
fn options(limits: &Limits, nodes_left: usize) -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: limits.effective_depth() + 1,
            flow_nesting_limit: limits.effective_depth() + 1,
            max_documents: 2,
            max_nodes: nodes_left,
            // Every node has at most a start, an end and the document around it.
            max_events: nodes_left.saturating_mul(2).saturating_add(8),
            max_aliases: limits.aliases,
            max_anchors: limits.aliases,
            max_merge_keys: limits.aliases,
            max_total_scalar_bytes: limits.expanded_bytes,
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: nodes_left.saturating_mul(2),
        },
        emit_comments: false,
        strict_indentation: false,
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Merge,
        legacy_octal_numbers: true,
        strict_booleans: false,
        ignore_binary_tag_for_string: false,
        no_schema: false,
        reject_unsupported_tags: true,
        non_finite_float_policy: NonFiniteFloatPolicy::Reject,
        with_snippet: false,
    }
}

fn read_yaml(
    chunk: &Chunk<'_>,
    meter: &Meter<'_>,
    viewer: &Viewer<'_>,
) -> Result<Read, Unreadable> {
    let seed = ValueSeed { meter, depth: 0 };
    let options = options(meter.limits(), meter.nodes_left());
    let outcome = serde_saphyr::with_deserializer_from_str_with_options(
        chunk.text,
        options,
        |deserializer| seed.deserialize(deserializer),
    );
    match outcome {
        Ok(value) => Ok(Read {
            value,
            line: chunk.content_line,
            column: chunk.content_column,
        }),
        Err(error) => {
            let (line, column) = place(chunk, error.location());
            let own = meter.take_refusal().map(|refusal| shown(refusal, viewer));
            let refusal = own.unwrap_or_else(|| yaml_refusal(&error, meter.limits(), viewer));
            Err(Unreadable {
                refusal,
                line,
                column,
            })
        }
    }
}

/// The visitor's refusal with its key fit to be shown.
fn shown(refusal: Refusal, viewer: &Viewer<'_>) -> Refusal {
    match refusal {
        Refusal::DuplicateKey { key } => Refusal::DuplicateKey {
            key: viewer.quote(&key),
        },
        other => other,
    }
}

fn place(chunk: &Chunk<'_>, location: Option<Location>) -> (usize, usize) {
    match location {
        Some(location) if location.line() > 0 => {
            let line = usize::try_from(location.line()).unwrap_or(usize::MAX);
            let column = usize::try_from(location.column()).unwrap_or(usize::MAX);
            (chunk.first_line.saturating_add(line - 1), column)
        }
        _ => (chunk.content_line, chunk.content_column),
    }
}

/// Maps the parser's error. Its own text is used only where it cannot quote a value.
fn yaml_refusal(error: &YamlError, limits: &Limits, viewer: &Viewer<'_>) -> Refusal {
    match error {
        YamlError::WithSnippet { error, .. } | YamlError::AliasError { error, .. } => {
            yaml_refusal(error, limits, viewer)
        }
        YamlError::DuplicateMappingKey { key, .. } => Refusal::DuplicateKey {
            key: key
                .as_deref()
                .map_or_else(|| "(a collection)".to_owned(), |key| viewer.quote(key)),
        },
        YamlError::UnsupportedTag { tag, .. } => Refusal::UnsupportedTag {
            tag: viewer.quote(tag),
        },
        YamlError::MergeValueNotMapOrSeqOfMaps { .. } => Refusal::BadMergeKey,
        YamlError::UnknownAnchor { .. } => Refusal::UnknownAnchor,
        YamlError::RecursiveReferencesRequireWeakTypes { .. } => Refusal::RecursiveAnchor,
        YamlError::NonFiniteFloat { .. } => Refusal::NonFiniteNumber,
        YamlError::InvalidBinaryBase64 { .. } => Refusal::BadTaggedValue {
            detail: "!!binary needs base64",
        },
        YamlError::BinaryNotUtf8 { .. } => Refusal::BadTaggedValue {
            detail: "!!binary must decode to UTF-8 text",
        },
        YamlError::InvalidScalar { .. }
        | YamlError::TaggedScalarCannotDeserializeIntoString { .. } => Refusal::BadTaggedValue {
            detail: "remove the tag or correct the value",
        },
        YamlError::Budget { breach, .. } => budget_refusal(breach, limits),
        YamlError::AliasReplayLimitExceeded { .. }
        | YamlError::AliasReplayCounterOverflow { .. } => Refusal::TooManyNodes {
            limit: limits.nodes,
        },
        YamlError::AliasReplayStackDepthExceeded { .. } => Refusal::TooDeep {
            limit: limits.effective_depth(),
        },
        YamlError::ExternalMessage { source, .. } if is_too_deep(source) => Refusal::TooDeep {
            limit: limits.effective_depth(),
        },
        other => Refusal::Syntax {
            detail: syntax_detail(other),
        },
    }
}

/// The scanner stops at nested brackets before the budget counts them.
fn is_too_deep(source: &ExternalMessageSource) -> bool {
    matches!(source, ExternalMessageSource::Parser(error)
        if matches!(error.kind(), ErrorKind::RecursionLimitExceeded))
}

fn budget_refusal(breach: &BudgetBreach, limits: &Limits) -> Refusal {
    match breach {
        BudgetBreach::Depth { .. } => Refusal::TooDeep {
            limit: limits.effective_depth(),
        },
        BudgetBreach::ScalarBytes { .. } | BudgetBreach::RecordedAnchorBytes { .. } => {
            Refusal::ExpandsTooLarge {
                limit: limits.expanded_bytes,
            }
        }
        BudgetBreach::Aliases { .. }
        | BudgetBreach::Anchors { .. }
        | BudgetBreach::MergeKeys { .. } => Refusal::TooManyAliases {
            limit: limits.aliases,
        },
        BudgetBreach::Events { .. }
        | BudgetBreach::Nodes { .. }
        | BudgetBreach::RecordedAnchorEvents { .. } => Refusal::TooManyNodes {
            limit: limits.nodes,
        },
        _ => Refusal::Syntax {
            detail: "the document is malformed".to_owned(),
        },
    }
}

fn syntax_detail(error: &YamlError) -> String {
    match error {
        // The scanner's messages are fixed sentences about what it expected.
        YamlError::ExternalMessage { msg, .. } => msg.clone(),
        YamlError::Eof { .. } => "the text ends too early".to_owned(),
        YamlError::MultipleDocuments { .. } => {
            "more content follows the end of the document; separate documents with '---'".to_owned()
        }
        YamlError::FoldedBlockScalarMustIndentContent { .. } => {
            "the content of a block text must be indented".to_owned()
        }
        _ => "the document is malformed".to_owned(),
    }
}

#[derive(Deserialize)]
struct ItemPlaces {
    items: Vec<Spanned<IgnoredAny>>,
}

/// Lines and columns of the members of a list document; empty when they cannot be told apart.
pub(super) fn item_places(chunk: &Chunk<'_>, limits: &Limits) -> Vec<(usize, usize)> {
    let options = options(limits, limits.nodes);
    let places: Result<ItemPlaces, _> = serde_saphyr::from_str_with_options(chunk.text, options);
    let items = places.map(|places| places.items).unwrap_or_default();
    items
        .iter()
        .map(|item| place(chunk, Some(item.referenced)))
        .collect()
}

// ---- JSON ----

enum JsonError {
    /// Read as JSON, but refused.
    Refused(Unreadable),
    /// Not JSON: it may still be YAML.
    NotJson(Unreadable),
}

/// A part of a chunk, with its byte offset there.
struct Slice<'t> {
    text: &'t str,
    offset: usize,
}

fn content_slice(text: &str, offset: usize) -> Slice<'_> {
    Slice { text, offset }
}

impl Slice<'_> {
    /// Line and column of the whole text for a line and column of this slice.
    fn place(&self, chunk: &Chunk<'_>, line: usize, column: usize) -> (usize, usize) {
        let before = &chunk.text[..self.offset];
        let lines = before.matches('\n').count();
        let last = before
            .rsplit('\n')
            .next()
            .unwrap_or_default()
            .chars()
            .count();
        let line = line.max(1);
        let column = column.max(1);
        (
            chunk.first_line + lines + line - 1,
            if line == 1 { last + column } else { column },
        )
    }
}

fn read_json(
    chunk: &Chunk<'_>,
    content: &Slice<'_>,
    meter: &Meter<'_>,
    viewer: &Viewer<'_>,
) -> Result<Vec<Read>, JsonError> {
    let mut values = Vec::new();
    for slice in json_slices(chunk, content)? {
        let mut deserializer = serde_json::Deserializer::from_str(slice.text);
        let seed = ValueSeed { meter, depth: 0 };
        let value = seed.deserialize(&mut deserializer).map_err(|error| {
            let (line, column) = slice.place(chunk, error.line(), error.column());
            match meter.take_refusal() {
                Some(refusal) => {
                    let refusal = shown(refusal, viewer);
                    JsonError::Refused(Unreadable {
                        refusal,
                        line,
                        column,
                    })
                }
                None => not_json(&error, (line, column)),
            }
        })?;
        let (line, column) = slice.place(chunk, 1, 1);
        values.push(Read {
            value,
            line,
            column,
        });
    }
    Ok(values)
}

/// Where each of the values begins and ends, found without building them.
fn json_slices<'t>(chunk: &Chunk<'_>, content: &Slice<'t>) -> Result<Vec<Slice<'t>>, JsonError> {
    let mut slices = Vec::new();
    let mut stream = serde_json::Deserializer::from_str(content.text).into_iter::<IgnoredAny>();
    let mut start = 0;
    while let Some(next) = stream.next() {
        next.map_err(|error| not_json(&error, content.place(chunk, error.line(), error.column())))?;
        let end = stream.byte_offset();
        let skipped = content.text[start..end].len() - content.text[start..end].trim_start().len();
        let text = &content.text[start + skipped..end];
        slices.push(Slice {
            text,
            offset: content.offset + start + skipped,
        });
        start = end;
    }
    Ok(slices)
}

/// Serde's messages about syntax are fixed sentences that quote nothing; the place is ours.
fn not_json(error: &serde_json::Error, (line, column): (usize, usize)) -> JsonError {
    let message = error.to_string();
    let detail = message
        .split(" at line ")
        .next()
        .unwrap_or_default()
        .to_owned();
    JsonError::NotJson(Unreadable {
        refusal: Refusal::Syntax { detail },
        line,
        column,
    })
}
