//! Why a manifest is refused: one [`Refusal`] per problem, each with its position.

use std::fmt;

/// Where in the whole text a document, an object or a mistake begins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Position {
    /// Line, counted from 1; 0 when the problem has no place (the text as a whole).
    pub line: usize,
    /// Column, counted from 1.
    pub column: usize,
    /// Document, counted from 1, documents without content left out.
    pub document: usize,
    /// Path inside the document for members of a list (`items[2]`), empty otherwise.
    pub item: String,
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            return formatter.write_str("the text");
        }
        write!(
            formatter,
            "line {}, column {} (document {}",
            self.line, self.column, self.document
        )?;
        if !self.item.is_empty() {
            write!(formatter, ", {}", self.item)?;
        }
        formatter.write_str(")")
    }
}

/// What is wrong, and what to do about it. No variant carries a value from the data of a Secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The text is larger than the limit.
    #[error("the manifest has {bytes} bytes, more than {limit}; split it into several artifacts")]
    TooLarge {
        /// Size of the text.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// Too many documents.
    #[error("more than {limit} documents; split the manifest into several artifacts")]
    TooManyDocuments {
        /// The limit.
        limit: usize,
    },
    /// Too many objects after lists are flattened.
    #[error("more than {limit} objects; split the manifest into several artifacts")]
    TooManyObjects {
        /// The limit.
        limit: usize,
    },
    /// Too many values after aliases are expanded.
    #[error("more than {limit} values (aliases expanded); write less or split the manifest")]
    TooManyNodes {
        /// The limit.
        limit: usize,
    },
    /// Strings grow too large when aliases are expanded.
    #[error("the strings exceed {limit} bytes once aliases are expanded; use fewer aliases")]
    ExpandsTooLarge {
        /// The limit.
        limit: usize,
    },
    /// Nesting of maps and lists.
    #[error("maps and lists are nested deeper than {limit}; flatten the document")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// Aliases, anchors or merge keys.
    #[error("more than {limit} aliases, anchors or merge keys; write the values out")]
    TooManyAliases {
        /// The limit.
        limit: usize,
    },
    /// Bytes that are not UTF-8.
    #[error("the text is not UTF-8; save it as UTF-8 without other encodings mixed in")]
    NotUtf8,
    /// A character that YAML does not allow anywhere.
    #[error("control character U+{code:04X} is not allowed; remove it or write it as an escape")]
    ControlCharacter {
        /// The code point.
        code: u32,
    },
    /// The text is neither YAML nor JSON.
    #[error("not valid YAML or JSON: {detail}")]
    Syntax {
        /// What the parser expected.
        detail: String,
    },
    /// A `%YAML` or `%TAG` line.
    #[error("YAML directives (lines that begin with '%') are not supported; remove the line")]
    Directive,
    /// A key that is there twice in one map.
    #[error("the key {key} is there twice in one map; keep one of them")]
    DuplicateKey {
        /// The key, quoted, or a stand-in when it must not be shown.
        key: String,
    },
    /// A key that is null, a list or a map.
    #[error("a key must be a string, a number or a boolean; quote it, or render its template")]
    BadKey,
    /// `<<` with something other than maps.
    #[error("the merge key '<<' needs a map or a list of maps")]
    BadMergeKey,
    /// `*name` without `&name`.
    #[error("an alias refers to an anchor that this document does not define")]
    UnknownAnchor,
    /// An anchor that contains itself.
    #[error("an anchor contains an alias to itself; write the value out")]
    RecursiveAnchor,
    /// A tag that is not one of YAML's own.
    #[error("the tag {tag} is not supported; remove it or render the value beforehand")]
    UnsupportedTag {
        /// The tag, quoted, or a stand-in when it must not be shown.
        tag: String,
    },
    /// A value that does not fit its tag (`!!int abc`, `!!binary` without base64 of UTF-8 text).
    #[error("a value does not fit its tag: {detail}")]
    BadTaggedValue {
        /// What the tag wants.
        detail: &'static str,
    },
    /// `.nan`, `.inf` and numbers beyond the range of a 64-bit float.
    #[error("a number is not finite, which JSON cannot express; put it in quotes")]
    NonFiniteNumber,
    /// A document or list member that is not a map.
    #[error("expected an object (a map with apiVersion, kind and metadata), found {found}")]
    NotAnObject {
        /// What is there.
        found: &'static str,
    },
    /// A required field is absent, null or empty.
    #[error("{field} is missing or empty; every object needs it")]
    Missing {
        /// Path of the field.
        field: &'static str,
    },
    /// A field has the wrong type.
    #[error("{field} must be {expected}, found {found}{hint}")]
    WrongType {
        /// Path of the field.
        field: String,
        /// The type it must have.
        expected: &'static str,
        /// The type it has.
        found: &'static str,
        /// What usually helps.
        hint: &'static str,
    },
    /// `apiVersion` is not `version` or `group/version`.
    #[error("apiVersion {value} is not 'version' or 'group/version' in lower case")]
    BadApiVersion {
        /// The value, quoted, or a stand-in when it must not be shown.
        value: String,
    },
    /// `kind` is not a name of a kind.
    #[error("kind {value} is not a name of letters and digits (at most 63)")]
    BadKind {
        /// The value, quoted, or a stand-in when it must not be shown.
        value: String,
    },
    /// `metadata.name` cannot stand in the path of a URL.
    #[error("metadata.name {value} {why}")]
    BadName {
        /// The value, quoted, or a stand-in when it must not be shown.
        value: String,
        /// The rule that it breaks.
        why: &'static str,
    },
    /// `metadata.namespace` is not a name of a namespace.
    #[error(
        "metadata.namespace {value} is not a namespace: lower-case letters, digits and '-' \
         (at most 63)"
    )]
    BadNamespace {
        /// The value, quoted, or a stand-in when it must not be shown.
        value: String,
    },
    /// `metadata.generateName` is set.
    #[error("metadata.generateName cannot be kept in step; give the object a fixed metadata.name")]
    GenerateName,
    /// `kind: List` without `items`, or `items` that is not a list.
    #[error("a List needs 'items' as a list, found {found}")]
    ListItems {
        /// What is there.
        found: &'static str,
    },
    /// Lists inside lists.
    #[error("lists are nested deeper than {limit}; flatten them")]
    ListTooDeep {
        /// The limit.
        limit: usize,
    },
    /// One of our annotations has a value that means nothing.
    #[error("annotation {annotation} must be {expected}")]
    BadPolicy {
        /// Key of the annotation.
        annotation: String,
        /// What it may be.
        expected: String,
    },
    /// The same object twice.
    #[error("{object} is defined twice, first at {first}; keep one of them")]
    DuplicateObject {
        /// Kind, namespace and name.
        object: String,
        /// Where it was defined first.
        first: Position,
    },
    /// The author uses a label or annotation that is ours.
    #[error("the {place} {key} is reserved for Vidra; remove it from the manifest")]
    ReservedKey {
        /// `label` or `annotation`.
        place: &'static str,
        /// The key.
        key: String,
    },
}

impl Refusal {
    /// Stable name of the problem, for metrics, documentation and tests.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing { field } => missing_code(field),
            Self::TooLarge { .. } => "TooLarge",
            Self::TooManyDocuments { .. } => "TooManyDocuments",
            Self::TooManyObjects { .. } => "TooManyObjects",
            Self::TooManyNodes { .. } => "TooManyNodes",
            Self::ExpandsTooLarge { .. } => "ExpandsTooLarge",
            Self::TooDeep { .. } => "TooDeep",
            Self::TooManyAliases { .. } => "TooManyAliases",
            Self::NotUtf8 => "NotUtf8",
            Self::ControlCharacter { .. } => "ControlCharacter",
            Self::Syntax { .. } => "Syntax",
            Self::Directive => "Directive",
            Self::DuplicateKey { .. } => "DuplicateKey",
            Self::BadKey => "BadKey",
            Self::BadMergeKey => "BadMergeKey",
            Self::UnknownAnchor => "UnknownAnchor",
            Self::RecursiveAnchor => "RecursiveAnchor",
            Self::UnsupportedTag { .. } => "UnsupportedTag",
            Self::BadTaggedValue { .. } => "BadTaggedValue",
            Self::NonFiniteNumber => "NonFiniteNumber",
            Self::NotAnObject { .. } => "NotAnObject",
            Self::WrongType { .. } => "WrongType",
            Self::BadApiVersion { .. } => "BadApiVersion",
            Self::BadKind { .. } => "BadKind",
            Self::BadName { .. } => "BadName",
            Self::BadNamespace { .. } => "BadNamespace",
            Self::GenerateName => "GenerateName",
            Self::ListItems { .. } => "ListItems",
            Self::ListTooDeep { .. } => "ListTooDeep",
            Self::BadPolicy { .. } => "BadPolicy",
            Self::DuplicateObject { .. } => "DuplicateObject",
            Self::ReservedKey { .. } => "ReservedKey",
        }
    }

    /// Whether the manifest is too much rather than wrong.
    pub(super) fn is_limit(&self) -> bool {
        matches!(
            self,
            Self::TooLarge { .. }
                | Self::TooManyDocuments { .. }
                | Self::TooManyObjects { .. }
                | Self::TooManyNodes { .. }
                | Self::ExpandsTooLarge { .. }
                | Self::TooDeep { .. }
                | Self::TooManyAliases { .. }
                | Self::ListTooDeep { .. }
        )
    }
}

fn missing_code(field: &str) -> &'static str {
    match field {
        "apiVersion" => "MissingApiVersion",
        "kind" => "MissingKind",
        "metadata" => "MissingMetadata",
        _ => "MissingName",
    }
}

/// One reason to refuse a manifest, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong.
    pub refusal: Refusal,
    /// Where.
    pub position: Position,
    /// `Kind name` when the object is known that far.
    pub object: Option<String>,
    /// The line in question, absent when it could hold the value of a Secret.
    pub snippet: Option<String>,
}

impl Problem {
    /// Stable name of the problem.
    pub fn code(&self) -> &'static str {
        self.refusal.code()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.position)?;
        if let Some(object) = &self.object {
            write!(formatter, ", {object}")?;
        }
        write!(formatter, ": {}", self.refusal)?;
        if let Some(snippet) = &self.snippet {
            write!(formatter, " (near: {snippet})")?;
        }
        Ok(())
    }
}

/// The manifest is refused as a whole; every problem that was found, in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the manifest is refused, {}", Listed(.problems))]
pub struct ManifestError {
    problems: Vec<Problem>,
}

impl ManifestError {
    /// An error of at least one problem.
    pub(super) fn new(first: Problem, rest: Vec<Problem>) -> Self {
        let mut problems = vec![first];
        problems.extend(rest);
        Self { problems }
    }

    /// `Err` when there are problems.
    pub(super) fn unless_empty(problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Self { problems })
        }
    }

    /// The problems; never empty.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Stable, bounded reason for conditions, Events and metrics.
    pub fn reason(&self) -> &'static str {
        if self
            .problems
            .iter()
            .all(|problem| problem.refusal.is_limit())
        {
            "ManifestTooLarge"
        } else {
            "ManifestInvalid"
        }
    }

    /// The codes of all problems, each once, in the order they were found.
    pub fn codes(&self) -> Vec<&'static str> {
        let mut codes = Vec::new();
        for problem in &self.problems {
            if !codes.contains(&problem.code()) {
                codes.push(problem.code());
            }
        }
        codes
    }
}

/// Prints problems in one line.
struct Listed<'a>(&'a [Problem]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.0.len() == 1 {
            "problem"
        } else {
            "problems"
        };
        write!(formatter, "{} {plural}", self.0.len())?;
        for problem in self.0 {
            write!(formatter, "; {problem}")?;
        }
        Ok(())
    }
}
