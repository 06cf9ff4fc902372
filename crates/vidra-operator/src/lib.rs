//! The operator: controllers, queue, and how they start and end.
//!
//! ```text
//!   run --> Cluster, Hub
//!       --> resource::Controller   VidraResources: compile, plan, apply, prune, heal
//!       --> sync::Controller       InfrahubSyncs: poll, fetch, write VidraResources
//!       --> http                   probes, metrics and webhooks
//! ```
//!
//! May touch the adapters, the domain and the kinds; holds no rule that `vidra-core` can hold.

mod collect;
mod conditions;
mod events;
mod http;
mod known;
mod latch;
mod lock;
mod metrics;
pub mod queue;
pub mod resource;
mod run;
pub mod settings;
mod shared;
mod stack;
mod staff;
mod sync;

pub(crate) use lock::lock;
pub use run::{StartError, run, run_on};
