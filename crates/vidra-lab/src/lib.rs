//! Development only: everything that tests, demo and benchmarks need to meet reality.
//!
//! ```text
//!   ControlPlane  etcd + kube-apiserver (+ kube-controller-manager), real binaries
//!   FaultProxy    breaks chosen requests between a client and the ControlPlane
//!   StandIn       an HTTP server that behaves like Infrahub, scripted from Rust
//!   contract      one suite of assertions, run against the stand-in and a real Infrahub
//!   infrahub      raises a real Infrahub on this machine
//!   rehearsal     the operator with either Infrahub, from a sync to objects
//!   latency       from a webhook to the applied object, measured
//!   large         the largest artifact that is promised to work, measured
//! ```
//!
//! May touch everything; nothing but tests and tools may depend on it.

pub mod contract;
pub mod controlplane;
pub mod demo;
pub mod infrahub;
pub mod large;
pub mod latency;
pub mod proxy;
pub mod rehearsal;
pub mod standin;
