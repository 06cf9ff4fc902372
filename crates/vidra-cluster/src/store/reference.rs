//! How content is referred to.

use vidra_api::{ManifestReference, StoredContent, names::CONTENT_PREFIX};

use super::{
    codec::LARGEST,
    error::{Damage, StoreError},
};

/// What every digest begins with.
pub const DIGEST_PREFIX: &str = "sha256:";

/// A reference to content: what it is, and in how many chunks it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reference {
    /// Digest of the text: `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// Number of chunks.
    pub chunks: u32,
    /// Size of the text in bytes, where it is known.
    pub size: Option<u64>,
}

impl Reference {
    pub(super) fn new(hex: &str, chunks: u32, size: usize) -> Self {
        Self {
            digest: format!("{DIGEST_PREFIX}{hex}"),
            chunks,
            size: Some(size as u64),
        }
    }

    /// The digits of the digest.
    pub(super) fn hex(&self) -> Result<&str, StoreError> {
        let hex = self.digest.strip_prefix(DIGEST_PREFIX);
        hex.filter(|hex| is_hex(hex))
            .ok_or_else(|| StoreError::Address {
                digest: self.digest.clone(),
            })
    }

    /// How large the text may be at most.
    pub(super) fn limit(&self) -> usize {
        self.size
            .map_or(LARGEST, |size| usize::try_from(size).unwrap_or(usize::MAX))
    }

    pub(super) fn spoilt(&self, damage: Damage) -> StoreError {
        StoreError::Damaged {
            digest: self.digest.clone(),
            damage,
        }
    }

    /// The name that its chunks share, for references by name.
    pub fn stored_content(&self) -> StoredContent {
        let hex = self.digest.strip_prefix(DIGEST_PREFIX).unwrap_or_default();
        StoredContent {
            name: content_name(hex),
            chunks: i32::try_from(self.chunks).unwrap_or(i32::MAX),
        }
    }
}

impl From<&ManifestReference> for Reference {
    /// Numbers that make no sense become 0 chunks, which no content has.
    fn from(reference: &ManifestReference) -> Self {
        Self {
            digest: reference.digest.clone(),
            chunks: u32::try_from(reference.chunks).unwrap_or_default(),
            size: reference.size.and_then(|size| u64::try_from(size).ok()),
        }
    }
}

impl From<&Reference> for ManifestReference {
    fn from(reference: &Reference) -> Self {
        Self {
            digest: reference.digest.clone(),
            chunks: i32::try_from(reference.chunks).unwrap_or(i32::MAX),
            size: reference.size.and_then(|size| i64::try_from(size).ok()),
        }
    }
}

pub(super) fn content_name(hex: &str) -> String {
    format!("{CONTENT_PREFIX}{hex}")
}

pub(super) fn chunk_name(hex: &str, index: u32) -> String {
    format!("{CONTENT_PREFIX}{hex}-{index}")
}

/// The digits of the digest in the name of content or of a chunk.
pub(super) fn hex_in(name: &str) -> Option<&str> {
    let rest = name.strip_prefix(CONTENT_PREFIX)?;
    let hex = rest.split('-').next()?;
    is_hex(hex).then_some(hex)
}

fn is_hex(hex: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    hex.len() == 64 && hex.bytes().all(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_survives_the_custom_resource() {
        let reference = Reference::new(&"ab".repeat(32), 3, 2_000_000);
        let stored = ManifestReference::from(&reference);
        assert_eq!(Reference::from(&stored), reference);
    }

    #[test]
    fn only_names_of_chunks_have_a_digest() {
        let hex = "0f".repeat(32);
        assert_eq!(hex_in(&chunk_name(&hex, 12)), Some(hex.as_str()));
        assert_eq!(hex_in(&content_name(&hex)), Some(hex.as_str()));
        for other in ["vidra-content-0f0f-0", "login", &chunk_name(&hex, 1)[1..]] {
            assert_eq!(hex_in(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_no_digest_is_not_looked_for() {
        for digest in ["", "md5:00", "sha256:00", "sha256:../../../etc"] {
            let reference = Reference {
                digest: digest.to_owned(),
                chunks: 1,
                size: None,
            };
            assert!(reference.hex().is_err(), "{digest}");
        }
    }
}
