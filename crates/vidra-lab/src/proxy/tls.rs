//! The proxy's own certificate and its secret.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use rustls::{ServerConfig, crypto::ring};
use rustls_pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

use super::ProxyError;

/// A certificate that is its own authority.
pub(super) struct Identity {
    pub(super) acceptor: TlsAcceptor,
    pub(super) pem: String,
    pub(super) der: Vec<u8>,
}

impl Identity {
    pub(super) fn new() -> Result<Self, ProxyError> {
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).map_err(ProxyError::Certificate)?;
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| {
                builder
                    .with_no_client_auth()
                    .with_single_cert(vec![made.cert.der().clone()], key)
            })
            .map_err(ProxyError::Tls)?;
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            pem: made.cert.pem(),
            der: made.cert.der().to_vec(),
        })
    }
}

/// What clients have to show: who can reach the port is not administrator for that alone.
pub(super) fn token() -> String {
    let chance = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", chance(), chance())
}
