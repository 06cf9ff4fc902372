//! A proxy that breaks things on demand: TLS on both sides, between a client and a [`ControlPlane`].
//!
//! ```text
//!   client --- TLS, token ---> FaultProxy --- TLS, admin certificate ---> kube-apiserver
//!                                  |
//!                            Rules: which request, which time, which fault, when
//! ```
//!
//! Every request is offered to the rules in order. A rule counts the requests that it matches and
//! strikes at those of its window; without a strike a request passes untouched. Watches stream.
//! The proxy runs on threads of its own, so that all tests of a process can share one.

mod effect;
mod rules;
mod serve;
mod tls;

use std::{
    fs, io,
    io::Write,
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::json;
use tokio::runtime::Runtime;

pub use self::{
    effect::{Callback, Effect, Fault, Gate},
    rules::{Rule, Seen, Strikes},
};
use self::{serve::Shared, tls::Identity};
use crate::controlplane::{ControlPlane, unique};

/// Why the proxy could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// No certificate for the proxy.
    #[error("cannot make a certificate for the proxy")]
    Certificate(#[source] rcgen::Error),
    /// The certificate is not usable.
    #[error("cannot set up TLS for the proxy")]
    Tls(#[source] rustls::Error),
    /// No loopback port.
    #[error("cannot listen on a loopback port")]
    Listen(#[source] io::Error),
    /// No threads.
    #[error("cannot start the proxy's own runtime")]
    Runtime(#[source] io::Error),
    /// The control plane's credentials do not make a client.
    #[error("cannot connect the proxy to the API server")]
    Connect(#[source] Box<kube::Error>),
    /// The kubeconfig could not be written.
    #[error("cannot write {path:?}")]
    WriteKubeconfig {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
}

/// A running proxy; it ends when this is dropped.
pub struct FaultProxy {
    shared: Arc<Shared>,
    kubeconfig: PathBuf,
    config: kube::Config,
    runtime: Option<Runtime>,
}

impl FaultProxy {
    /// Starts a proxy in front of a control plane.
    pub fn start(plane: &ControlPlane) -> Result<Self, ProxyError> {
        let identity = Identity::new()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(ProxyError::Listen)?;
        listener.set_nonblocking(true).map_err(ProxyError::Listen)?;
        let address = listener.local_addr().map_err(ProxyError::Listen)?;
        let url = format!("https://{address}");
        let token = tls::token();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("fault-proxy")
            .enable_all()
            .build()
            .map_err(ProxyError::Runtime)?;
        let shared = Arc::new(Shared::new(&plane.config(), &token).map_err(connect)?);
        runtime.spawn(serve::run(listener, identity.acceptor, shared.clone()));
        let kubeconfig = plane
            .directory()
            .join(format!("{}.kubeconfig", unique("proxy")));
        write_kubeconfig(&kubeconfig, &url, &identity.pem, &token)?;
        let config = config(&url, identity.der, &token).map_err(connect)?;
        Ok(Self {
            shared,
            kubeconfig,
            config,
            runtime: Some(runtime),
        })
    }

    /// Access through the proxy, as cluster administrator.
    pub fn config(&self) -> kube::Config {
        self.config.clone()
    }

    /// The same as a file, gone with the control plane.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Adds a rule after those that are there.
    pub fn add(&self, rule: Rule) -> Strikes {
        self.shared.rules().add(rule)
    }

    /// Removes all rules and forgets all requests. Faults under way go on.
    pub fn clear(&self) {
        self.shared.rules().clear();
    }

    /// All requests since the last [`FaultProxy::clear`], in the order of their arrival.
    pub fn journal(&self) -> Vec<Seen> {
        self.shared.rules().journal()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Requests that are held for ever must not hold us.
            runtime.shutdown_background();
        }
    }
}

fn config(url: &str, authority: Vec<u8>, token: &str) -> Result<kube::Config, kube::Error> {
    let url = url
        .parse()
        .map_err(|error: axum::http::uri::InvalidUri| kube::Error::HttpError(error.into()))?;
    let mut config = kube::Config::new(url);
    config.root_cert = Some(vec![authority]);
    config.auth_info =
        serde_json::from_value(json!({ "token": token })).map_err(kube::Error::SerdeError)?;
    Ok(config)
}

fn write_kubeconfig(path: &Path, url: &str, pem: &str, token: &str) -> Result<(), ProxyError> {
    let content = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "proxy", "cluster": {
            "server": url, "certificate-authority-data": STANDARD.encode(pem),
        }}],
        "users": [{ "name": "proxy", "user": { "token": token } }],
        "contexts": [{ "name": "proxy", "context": { "cluster": "proxy", "user": "proxy" } }],
        "current-context": "proxy",
    });
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options
        .open(path)
        .and_then(|mut file| file.write_all(content.to_string().as_bytes()))
        .map_err(|source| ProxyError::WriteKubeconfig {
            path: path.to_owned(),
            source,
        })
}

fn connect(error: kube::Error) -> ProxyError {
    ProxyError::Connect(Box::new(error))
}
