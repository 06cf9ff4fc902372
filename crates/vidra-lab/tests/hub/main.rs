//! The watch hub against a real API server: what it sees, what it does not lose, and what is left
//! of it afterwards.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test fails by panicking, and its name says what it is about"
)]

mod definitions;
mod events;
mod outages;
mod owners;
mod proxy;
mod restore;
mod rights;
mod support;
