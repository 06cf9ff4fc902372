//! The client for Infrahub against the stand-in: sessions, lists, content, webhooks, bad answers.
// Tests: a failed expectation shall end the test with a panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod content;
mod hostile;
mod listing;
mod registered;
mod sessions;
mod support;
mod tls;
mod webhooks;
