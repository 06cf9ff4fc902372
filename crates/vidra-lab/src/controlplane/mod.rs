//! A real Kubernetes control plane that raises itself: etcd, kube-apiserver and, on demand,
//! kube-controller-manager, as plain processes on loopback ports.
//!
//! ```text
//!   ControlPlane --- stdin pipe ---> guardian (/bin/sh) ---> etcd
//!        |                                             +---> kube-apiserver ---> audit log
//!        | certificates, kubeconfigs                   +---> kube-controller-manager
//!        v
//!   <target>/lab/<name>/   one directory per control plane, gone when it ends
//! ```
//!
//! The servers are children of the guardian. It ends them and removes the directory as soon as
//! its standard input closes, which the operating system does however our process ends: by drop,
//! by panic, by Ctrl-C or by `kill -9`.

mod audit;
mod binaries;
mod certificates;
mod directory;
mod error;
mod guardian;
mod kubeconfig;
mod plane;
mod ports;
mod processes;
mod servers;

use std::{
    process,
    sync::atomic::{AtomicU64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

pub use audit::{AuditError, AuditLog, Entry, Mark};
pub use binaries::{Archive, BinaryError, Digest, Locator, Tool};
pub use certificates::CertificateError;
pub use error::Error;
pub use guardian::{GuardianError, Signal};
pub use plane::{Builder, ControlPlane};
pub use servers::Server;

/// The control plane that all tests of one process share. Started by the first caller, ended by
/// the guardian when the process ends.
///
/// Every `#[tokio::test]` has its own runtime and a client must not outlive the one it was made
/// in: take a fresh [`ControlPlane::client`] in every test.
///
/// # Panics
///
/// When no control plane can be raised: no test can go on without it, and the text says what to do.
#[expect(
    clippy::panic,
    reason = "only tests call this, and none of them can go on"
)]
pub async fn shared() -> &'static ControlPlane {
    static SHARED: tokio::sync::OnceCell<ControlPlane> = tokio::sync::OnceCell::const_new();
    match SHARED.get_or_try_init(ControlPlane::start).await {
        Ok(plane) => plane,
        Err(error) => panic!("cannot raise the shared control plane: {}", chain(&error)),
    }
}

/// A name that no other test uses, valid as a DNS label when `prefix` is one of at most 40 bytes.
pub fn unique(prefix: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let serial = NEXT.fetch_add(1, Ordering::Relaxed);
    format!(
        "{prefix}-{:x}-{:x}-{serial:x}",
        since_epoch.as_secs() & 0xff_ffff,
        process::id()
    )
}

/// An error with all its sources in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
