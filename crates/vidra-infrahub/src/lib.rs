//! The adapter to Infrahub: which artifacts there are, what is in them, and who calls in.
//!
//! ```text
//!   Sessions ── Session ──┬── list_artifacts   own query, or the registered one
//!    (pool)       │       ├── look_up          is this artifact really gone?
//!                 │       ├── name_is_known    misspelt, or an empty group?
//!                 │       └── content          by storage id, verified, cached
//!             one login, shared by all calls
//!
//!   webhook::Receiver ── Hint                  pure: signature, time window, replay
//! ```
//!
//! May touch HTTP and `vidra-core`; knows nothing of Kubernetes.
//!
//! # What can be relied on
//!
//! - A list of artifacts is complete or it is an [`Error`]. No answer of any kind, however odd, is
//!   ever turned into "no artifacts".
//! - Credentials go to the exact origin they were given for: redirects are not followed.
//! - An [`Error`] never contains a body, a credential or a URL beyond its origin; of what the
//!   server said only the message of Infrahub's own error envelope is kept, bounded and redacted.
//!
//! # Registered queries
//!
//! Users of the Go operator have registered a query (`ArtifactIDs`) that answers for one name.
//! One request per name is a lot, and almost all of these queries say the same as ours. So the
//! first page of our own query, which answers for all names at once, also asks for the *text* of
//! the registered query. Where there is none, or where it selects exactly the artifacts of a name,
//! our answer is taken: one request in all. Only a query that selects something else is run, once
//! per name; it then decides *which* artifacts belong to a name, and our query, asked by their
//! ids, tells what they are. A registered query whose answer has no artifacts in it at all is
//! ignored; one that fails is an error, because ignoring it could select too much.

mod address;
mod answer;
mod artifact;
mod cache;
mod content;
mod credentials;
mod date;
mod error;
mod graphql;
mod list;
mod lookup;
mod policy;
mod redact;
mod registered;
mod session;
mod sessions;
mod tokens;
mod transport;
pub mod webhook;

pub use address::{Address, Origin};
pub use artifact::{Artifact, Definition, Status, Target, Trust, Untrusted, trust};
pub use credentials::Credentials;
pub use date::{DateError, TargetDate};
pub use error::{Error, Phase};
pub use list::{Listing, Source, View};
pub use lookup::Known;
pub use policy::Policy;
pub use session::Session;
pub use sessions::Sessions;
