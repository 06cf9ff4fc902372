//! How much a manifest may cost before it is refused.

/// The deepest nesting that is ever read, whatever the caller asks for: reading, comparing and
/// dropping a value recurse, and this many frames fit into the smallest thread stack by far.
const DEEPEST: usize = 100;

/// Limits on one manifest. They hold over the whole text, not per document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Size of the text in bytes, checked before anything is read.
    pub bytes: usize,
    /// Documents with content.
    pub documents: usize,
    /// Objects after lists are flattened.
    pub objects: usize,
    /// Values of any kind (maps, lists, scalars, keys) after aliases are expanded.
    pub nodes: usize,
    /// Bytes of all strings after aliases are expanded.
    pub expanded_bytes: usize,
    /// Nesting of maps and lists; more than 100 counts as 100.
    pub depth: usize,
    /// Aliases (`*name`) per document, and as many anchors (`&name`) and merge keys.
    pub aliases: usize,
    /// Lists inside lists.
    pub list_depth: usize,
    /// Problems that are collected before reading stops.
    pub problems: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 64 * 1024 * 1024,
            documents: 10_000,
            objects: 10_000,
            nodes: 2_500_000,
            expanded_bytes: 64 * 1024 * 1024,
            depth: DEEPEST,
            aliases: 10_000,
            list_depth: 4,
            problems: 20,
        }
    }
}

impl Limits {
    /// The depth that is enforced.
    pub(super) fn effective_depth(&self) -> usize {
        self.depth.min(DEEPEST)
    }
}
