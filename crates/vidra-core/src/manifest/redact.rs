//! What of a manifest may be shown in an error, when the text may hold a Secret.

/// A line of source is shown up to this many characters.
const SNIPPET_CHARACTERS: usize = 80;

/// Whether a text could contain values of a Secret, decided without parsing it.
///
/// On purpose far too careful: it is asked about texts that could not be read, where nobody knows
/// which value belongs to which object. Escapes count because they can spell any word.
pub fn may_hold_secret(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    ["secret", "stringdata", "\\x", "\\u"]
        .iter()
        .any(|word| lower.contains(word))
}

/// Decides for one document what its errors may quote.
#[derive(Debug, Clone, Copy)]
pub(super) struct Viewer<'t> {
    text: &'t str,
    document: &'t str,
    text_may_hold_secret: bool,
}

impl<'t> Viewer<'t> {
    /// For a text as a whole. All of it counts for each document, because a stray separator inside
    /// a quoted value cuts a Secret into documents that no longer look like one.
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            text,
            document: text,
            text_may_hold_secret: may_hold_secret(text),
        }
    }

    /// For one document of the text.
    pub(super) fn for_document(&self, document: &'t str) -> Self {
        Self { document, ..*self }
    }

    fn is_open(&self) -> bool {
        !self.text_may_hold_secret && !has_data_key(self.document)
    }

    /// A value in quotes, shortened and escaped, or a stand-in.
    pub(super) fn quote(&self, value: &str) -> String {
        if self.is_open() {
            quoted(value)
        } else {
            "(not shown)".to_owned()
        }
    }

    /// The source line with a number counted from 1, quoted, if it may be shown.
    pub(super) fn line(&self, number: usize) -> Option<String> {
        let line = self.text.lines().nth(number.checked_sub(1)?)?.trim();
        (!line.is_empty() && self.is_open()).then(|| quoted(line))
    }
}

fn quoted(value: &str) -> String {
    let mut shown: String = value
        .chars()
        .take(SNIPPET_CHARACTERS)
        .flat_map(char::escape_debug)
        .collect();
    if value.chars().nth(SNIPPET_CHARACTERS).is_some() {
        shown.push_str("...");
    }
    format!("'{shown}'")
}

/// Whether `data:` or a key that ends in it (`binaryData:`, `userData:`) stands anywhere, quoted
/// or not; `metadata:`, which is in every document, does not count.
fn has_data_key(document: &str) -> bool {
    let lower = document.to_ascii_lowercase();
    lower.match_indices("data").any(|(start, word)| {
        let after = lower[start + word.len()..].trim_start_matches(['"', '\'']);
        after.trim_start().starts_with(':') && !lower[..start].ends_with("meta")
    })
}
