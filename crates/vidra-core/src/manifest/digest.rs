//! The name of a text: its SHA-256.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// SHA-256 of a text in lower-case hexadecimal digits.
pub fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes())
        .iter()
        .fold(String::with_capacity(64), |mut hex, byte| {
            // Writing to a String cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}
