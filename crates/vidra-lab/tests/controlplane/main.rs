//! The control plane of the lab, for real: real binaries, real processes, real signals.
// A test says what it expects by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod access;
mod binaries;
mod controllers;
mod downloads;
mod faults;
mod lifecycle;
mod startup;
mod support;
