//! The operator against a real API server: what it promises, seen from outside.
//!
//! All tests of this binary share one control plane and one operator; they keep apart by name and
//! namespace. A test that needs other settings or faults has a control plane of its own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test that cannot go on should stop right there"
)]

mod adoption;
mod aliases;
mod basics;
mod config;
mod conflicts;
mod converge;
mod corpus;
mod dangers;
mod drift;
mod fights;
mod kinds;
mod leaving;
mod operator;
mod ownership;
mod prune;
mod quiet;
mod refusals;
mod rest;
mod restart;
mod rights;
mod status;
mod store;
#[allow(dead_code, reason = "shared by all modules; each uses a part")]
mod support;
mod sync;
mod takeover;
mod timers;
