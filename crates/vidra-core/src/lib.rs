//! The domain of Vidra: pure decisions.
//!
//! May touch nothing: no I/O, no async, no clock and no randomness. Time and chance come in as
//! arguments; plans and verdicts go out as values.
//!
//! ```text
//!   text --manifest--> desired objects --plan--> what to apply, what is stale
//!                                         ^          |
//!                       inventory --------+          +--guard--> what may be deleted
//!                           ^
//!   live metadata --drift---+  (verdict by field ownership)
//! ```

pub mod change;
pub mod class;
pub mod delivery;
pub mod drift;
pub mod fields;
pub mod fight;
pub mod guard;
pub mod identity;
pub mod inventory;
pub mod manifest;
pub mod observed;
pub mod owner;
pub mod ownership;
pub mod plan;
pub mod rivalry;
pub mod schedule;
pub mod takeover;
pub mod trigger;
