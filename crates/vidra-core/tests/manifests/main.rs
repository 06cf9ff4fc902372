//! Manifests from text to a desired set: a corpus of good and bad files, and properties.
// Tests stop at the first surprise; their names say what is claimed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    unreachable_pub
)]

mod corpus;
mod errors;
mod limits;
mod order;
mod properties;
mod resolving;
mod secrets;
mod stamping;
mod support;
