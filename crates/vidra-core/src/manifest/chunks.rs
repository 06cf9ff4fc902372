//! Cuts a text into documents, the way kubectl does: at lines that begin with `---`.
//!
//! Reading document by document is what lets one pass report the mistakes of all of them.

use super::error::Refusal;

/// The text of one document that has content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunk<'t> {
    /// The document, its separator line included.
    pub(super) text: &'t str,
    /// Line of the whole text on which the chunk begins, counted from 1.
    pub(super) first_line: usize,
    /// Line of the whole text with the first content.
    pub(super) content_line: usize,
    /// Column of that content.
    pub(super) content_column: usize,
}

/// The documents with content; empty and comment-only ones are left out.
pub(super) fn chunks(text: &str) -> Vec<Chunk<'_>> {
    let mut found = Vec::new();
    let (mut start, mut first_line, mut offset) = (0, 1, 0);
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let ends_here = is_end(line);
        if ends_here || is_separator(line) {
            found.extend(chunk(&text[start..offset], first_line));
            // An end marker belongs to no document, a separator to the one that it opens.
            (start, first_line) = if ends_here {
                (offset + line.len(), index + 2)
            } else {
                (offset, index + 1)
            };
        }
        offset += line.len();
    }
    found.extend(chunk(&text[start..], first_line));
    found
}

fn chunk(text: &str, first_line: usize) -> Option<Chunk<'_>> {
    let (index, column) = text
        .lines()
        .enumerate()
        .find_map(|(index, line)| Some((index, content_of(line)?)))?;
    Some(Chunk {
        text,
        first_line,
        content_line: first_line + index,
        content_column: column,
    })
}

/// Column of the first content in a line that is more than blanks, a comment or a separator.
fn content_of(line: &str) -> Option<usize> {
    let rest = if is_separator(line) { &line[3..] } else { line };
    let content = rest.trim_start();
    let is_blank = content.is_empty() || content.starts_with('#');
    (!is_blank).then(|| line[..line.len() - content.len()].chars().count() + 1)
}

fn is_separator(line: &str) -> bool {
    is_marker(line, "---")
}

fn is_end(line: &str) -> bool {
    is_marker(line, "...")
}

fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

impl<'t> Chunk<'t> {
    /// The text from its first content on, and the byte offset of that content in the chunk.
    pub(super) fn content(&self) -> (&'t str, usize) {
        let mut offset = 0;
        for line in self.text.split_inclusive('\n') {
            if let Some(column) = content_of(line) {
                let inside: usize = line.chars().take(column - 1).map(char::len_utf8).sum();
                return (&self.text[offset + inside..], offset + inside);
            }
            offset += line.len();
        }
        ("", self.text.len())
    }
}

/// The first character that YAML allows nowhere, with its line and column.
pub(super) fn forbidden_character(text: &str) -> Option<(Refusal, usize, usize)> {
    let (offset, character) = text
        .char_indices()
        .find(|(_, character)| is_forbidden(*character))?;
    let before = &text[..offset];
    let line = before.matches('\n').count() + 1;
    let column = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .chars()
        .count()
        + 1;
    Some((
        Refusal::ControlCharacter {
            code: u32::from(character),
        },
        line,
        column,
    ))
}

fn is_forbidden(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' | '\u{85}' => false,
        '\u{FFFE}' | '\u{FFFF}' => true,
        other => other.is_control(),
    }
}
