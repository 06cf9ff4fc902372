//! From text to stored bytes and back. Pure.

use std::io::{Read as _, Write as _};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};

use super::error::Damage;

/// The largest text that is stored or read, in bytes.
pub const LARGEST: usize = 64 << 20;
/// The most that one chunk holds. The API server refuses Secrets over 1 MiB.
pub(super) const CHUNK: usize = 900 << 10;
/// As many chunks as the largest text needs, even if it cannot be compressed at all.
pub(super) const MOST_CHUNKS: u32 = 80;

/// Compresses a text, so that `gunzip` can read what the chunks hold together.
pub(super) fn pack(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to memory does not fail.
    let _ = encoder.write_all(text.as_bytes());
    encoder.finish().unwrap_or_default()
}

/// Decompresses a text and stops as soon as it is larger than it may be.
pub(super) fn unpack(bytes: &[u8], limit: usize) -> Result<String, Damage> {
    let mut text = Vec::new();
    let read = GzDecoder::new(bytes)
        .take(limit as u64 + 1)
        .read_to_end(&mut text);
    if text.len() > limit {
        return Err(Damage::Larger);
    }
    read.map_err(|_| Damage::Undecodable)?;
    String::from_utf8(text).map_err(|_| Damage::Undecodable)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(text in ".{0,400}", times in 0_usize..200) {
            let text = text.repeat(times);
            let read = unpack(&pack(&text), text.len());
            prop_assert_eq!(read.as_deref(), Ok(text.as_str()));
        }

        #[test]
        fn a_changed_or_missing_byte_is_never_taken_for_the_text(
            text in "[a-z\n ]{1,400}",
            at in any::<prop::sample::Index>(),
            change in 1_u8..,
            is_cut: bool,
        ) {
            let mut bytes = pack(&text);
            let at = at.index(bytes.len());
            if is_cut {
                bytes.truncate(at);
            } else {
                bytes[at] ^= change;
            }
            // Some bytes of the header mean nothing: then the text must be right.
            let read = unpack(&bytes, text.len());
            prop_assert!(read.as_ref().is_err() || read.as_deref() == Ok(text.as_str()));
        }
    }

    #[test]
    fn the_same_text_is_packed_alike() {
        assert_eq!(pack("kind: List"), pack("kind: List"));
    }

    #[test]
    fn a_bomb_is_given_up_at_the_limit() {
        let bomb = pack(&"0".repeat(10 << 20));
        assert!(bomb.len() < 20_000, "{} bytes", bomb.len());
        assert_eq!(unpack(&bomb, 1 << 20), Err(Damage::Larger));
    }
}
