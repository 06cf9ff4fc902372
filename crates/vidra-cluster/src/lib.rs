//! The adapter to Kubernetes: everything that talks to an API server.
//!
//! ```text
//!   connect --> Cluster --+-- discovery   which kinds there are, and their scope
//!                         +-- read        metadata of live objects
//!                         +-- apply       server-side apply of one object
//!                         +-- part        delete, leave or release one object
//!                         +-- custom      Vidra's own objects, whole
//!                         +-- hub         one metadata watch per kind in use
//!                         +-- store       content that does not fit a custom resource
//! ```
//!
//! May touch `kube`; decides nothing that `vidra-core` can decide.

pub mod apply;
pub mod connect;
mod custom;
pub mod discovery;
pub mod failure;
pub mod hub;
pub mod observe;
pub mod part;
pub mod read;
pub mod store;
