//! The two kinds on a real API server: what it accepts, what it refuses and with which words, what
//! it prints, and what happens to the objects of users who come from the Go operator.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test fails by panicking, and its name says what it is about"
)]
#![allow(
    clippy::needless_pass_by_value,
    reason = "the builders take what `json!` makes"
)]

mod printing;
mod resources;
mod status;
mod support;
mod syncs;
mod upgrade;
