//! From text to a desired set: what an artifact says, as objects that are safe to apply.
//!
//! ```text
//! text --parse--> ManifestObject --resolve--> Resolved --stamp, strip, order_key--> apply
//!      limits, YAML as kubectl     scope and namespace   our marks, ignored fields
//!      reads it, identity checked  known, no duplicates  and a total order
//! ```
//!
//! Any refusal refuses the whole manifest: applying the readable half of a text would make the
//! other half look deleted. No value of a Secret ever reaches an error text, see
//! [`may_hold_secret`].

mod chunks;
mod digest;
mod error;
mod field_path;
mod limits;
mod lists;
mod names;
mod normalise;
mod object;
mod parse;
mod policy;
mod read;
mod redact;
mod resolve;
mod stage;
mod stamp;
mod value;

pub use digest::digest;
pub use error::{ManifestError, Position, Problem, Refusal};
pub use field_path::{FieldPath, FieldPathError, strip};
pub use limits::Limits;
pub use normalise::normalise;
pub use object::{ManifestObject, contains_secret};
pub use parse::{parse, parse_bytes};
pub use policy::{ApplyMode, ObjectPolicy, POLICY_PREFIX};
pub use redact::may_hold_secret;
pub use resolve::{Resolution, Resolved, Scope, resolve};
pub use stage::{OrderKey, Stage, order_key, stage_of};
pub use stamp::{MANAGED_BY_KEY, MANAGED_BY_VALUE, Marks, refuse_reserved, stamp};
