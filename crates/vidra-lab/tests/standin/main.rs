//! The stand-in for Infrahub, and the contract that it shares with the real one.
// Tests: a failed expectation shall end the test with a panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod artifacts;
mod client;
mod contract;
mod faults;
mod journal;
mod script;
mod sessions;
mod tls;
mod webhooks;
