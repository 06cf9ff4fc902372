//! The domain of Vidra: pure decisions.
//!
//! May touch nothing: no I/O, no async, no clock and no randomness. Time and chance come in as
//! arguments; plans and verdicts go out as values.

pub mod manifest;
