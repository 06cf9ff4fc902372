//! Why a control plane could not be raised or steered.

use std::{io, path::PathBuf};

use super::{AuditError, BinaryError, CertificateError, GuardianError, Server};

/// The step that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A server binary could not be found, downloaded or built.
    #[error("a binary of the control plane is missing")]
    Binary(#[source] BinaryError),
    /// The directory for data, certificates and logs could not be made.
    #[error("cannot prepare the directory {path:?} of the control plane")]
    Directory {
        /// Where it should be.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// A certificate could not be issued.
    #[error("cannot issue the certificates of the control plane")]
    Certificate(#[source] CertificateError),
    /// The guardian process failed.
    #[error("the guardian of the control plane failed")]
    Guardian(#[source] GuardianError),
    /// No free port could be found.
    #[error("cannot reserve a loopback port for {server}")]
    ReservePort {
        /// Who needs the port.
        server: Server,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// Another process has the port, on every try.
    #[error(
        "port {port} for {server} is occupied (tries: {tries}); end the process that listens on 127.0.0.1:{port} or let Vidra choose the port"
    )]
    PortOccupied {
        /// Who needed the port.
        server: Server,
        /// The last port tried.
        port: u16,
        /// How many ports were tried.
        tries: u32,
    },
    /// A server ended while it should have become ready.
    #[error("{server} died at start; its log is kept as {log:?} and ends with:\n{tail}")]
    ServerDied {
        /// Which one.
        server: Server,
        /// A copy of its log that outlives the control plane.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// A server runs but does not become ready.
    #[error(
        "{server} was not ready after {seconds} s ({last}); its log is kept as {log:?} and ends with:\n{tail}"
    )]
    NotReady {
        /// Which one.
        server: Server,
        /// How long was waited.
        seconds: u64,
        /// The answer to the last probe.
        last: String,
        /// A copy of its log that outlives the control plane.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// The server was asked to do something but does not run.
    #[error("{server} is not running; start it first")]
    NotRunning {
        /// Which one.
        server: Server,
    },
    /// A client could not be made or its request failed.
    #[error("cannot {step}")]
    Client {
        /// What was being done.
        step: &'static str,
        /// What the client said.
        #[source]
        source: Box<kube::Error>,
    },
    /// The audit log could not be read.
    #[error("cannot use the audit log")]
    Audit(#[source] AuditError),
}
