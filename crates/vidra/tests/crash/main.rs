//! The operator as a process that dies, and API calls that go wrong: what is left afterwards.
//!
//! ```text
//!   vidra operator (child process) ---> FaultProxy ---> kube-apiserver
//!          ^                                |
//!          +------ kill -9 at the n-th write, before, during or after it
//! ```
//!
//! All tests of this binary share one control plane and take turns, because every operator works
//! on all resources. To run one crash alone: `VIDRA_CRASH_PLAN=update/3/after`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    missing_docs,
    reason = "a test that cannot go on should stop right there, and a long one says how it went"
)]

mod crashes;
mod faults;
mod operator;
mod oracle;
mod plan;
mod proxy;
mod races;
mod rig;
mod scenario;
mod store;
#[allow(dead_code, reason = "shared with the other end-to-end tests")]
#[path = "../e2e/support.rs"]
mod support;
mod syncs;
