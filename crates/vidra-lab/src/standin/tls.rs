//! Certificates, good and bad, and a listener that speaks TLS.

use std::{io, net::SocketAddr, sync::Arc};

use axum::serve::Listener;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use rustls::{ServerConfig, crypto::ring};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// Which certificate the server shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tls {
    /// For this host, signed by the authority that [`super::StandIn::authority`] tells.
    Valid,
    /// Signed by that authority, for another host.
    WrongHost,
    /// Signed by that authority, for this host, long expired.
    Expired,
    /// For this host, signed by itself.
    SelfSigned,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum TlsError {
    #[error("cannot make a certificate")]
    Certificate(#[source] rcgen::Error),
    #[error("cannot set up TLS with the new certificate")]
    Config(#[source] rustls::Error),
}

/// A server's side of TLS.
#[derive(Clone)]
pub(super) struct Identity {
    pub(super) authority: String,
    config: Arc<ServerConfig>,
}

/// Several libraries bring a provider; ours is made the default unless another one is already.
pub(super) fn install_provider() {
    // An error means that one is installed, which is what we want.
    let _ = ring::default_provider().install_default();
}

impl Identity {
    pub(super) fn new(tls: Tls) -> Result<Self, TlsError> {
        let issuer = authority().map_err(TlsError::Certificate)?;
        let key = KeyPair::generate().map_err(TlsError::Certificate)?;
        let certificate = certificate(tls, &issuer, &key).map_err(TlsError::Certificate)?;
        let private = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| {
                builder
                    .with_no_client_auth()
                    .with_single_cert(vec![certificate], private)
            })
            .map_err(TlsError::Config)?;
        Ok(Self {
            authority: issuer.pem(),
            config: Arc::new(config),
        })
    }
}

fn authority() -> Result<CertifiedIssuer<'static, KeyPair>, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    // A name of its own, or a certificate that signs itself would look like a bad one of ours.
    params
        .distinguished_name
        .push(DnType::CommonName, "Vidra lab authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}

fn certificate(
    tls: Tls,
    issuer: &CertifiedIssuer<'_, KeyPair>,
    key: &KeyPair,
) -> Result<CertificateDer<'static>, rcgen::Error> {
    let names = match tls {
        Tls::WrongHost => vec!["infrahub.elsewhere.example".to_owned()],
        _ => vec!["127.0.0.1".to_owned(), "localhost".to_owned()],
    };
    let mut params = CertificateParams::new(names)?;
    if tls == Tls::Expired {
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
    }
    let certificate = match tls {
        Tls::SelfSigned => params.self_signed(key)?,
        _ => params.signed_by(key, issuer)?,
    };
    Ok(certificate.der().clone())
}

/// Accepts connections; a client that dawdles in its handshake keeps no other one waiting.
pub(super) struct TlsListener {
    accepted: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    address: SocketAddr,
}

impl TlsListener {
    pub(super) fn new(listener: TcpListener, identity: &Identity) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (sender, accepted) = mpsc::channel(64);
        let acceptor = TlsAcceptor::from(Arc::clone(&identity.config));
        tokio::spawn(accept(listener, acceptor, sender));
        Ok(Self { accepted, address })
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    sender: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    while let Ok((stream, address)) = listener.accept().await {
        let (acceptor, sender) = (acceptor.clone(), sender.clone());
        tokio::spawn(async move {
            // A client that does not like our certificate hangs up; that is what tests want.
            if let Ok(stream) = acceptor.accept(stream).await {
                let _ = sender.send((stream, address)).await;
            }
        });
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.accepted.recv().await {
            Some(connection) => connection,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(self.address)
    }
}
