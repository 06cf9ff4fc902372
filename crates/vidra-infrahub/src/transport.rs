//! HTTP: one request, one answer, all limits kept.

use std::{error::Error as StdError, io, sync::Arc};

use reqwest::{
    Certificate, Client, Method, Response, StatusCode, Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER},
    redirect,
};
use rustls::crypto::ring;
use tokio::time::timeout;

use crate::{
    address::Origin,
    error::{Error, Phase},
    policy::Policy,
};

const USER_AGENT: &str = concat!("vidra/", env!("CARGO_PKG_VERSION"));
/// Infrahub from 1.11 on sheds load by priority, and people come before us.
const PRIORITY: (HeaderName, HeaderValue) = (
    HeaderName::from_static("x-priority"),
    HeaderValue::from_static("low"),
);
/// Of an answer that is an error anyway nobody needs more.
const ERROR_LIMIT: usize = 64 << 10;

/// A request, apart from its credentials; it may be sent twice.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) json: Option<Vec<u8>>,
    pub(crate) limit: usize,
}

/// An answer, whatever it says.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub(crate) fn location(&self) -> Option<&str> {
        self.header(&LOCATION)
    }

    pub(crate) fn retry_after(&self) -> Option<&str> {
        self.header(&RETRY_AFTER)
    }

    /// Whether this is a document for browsers; artifacts may begin with `<` as well.
    pub(crate) fn is_html(&self) -> bool {
        let beginning: Vec<u8> = self
            .body
            .trim_ascii_start()
            .iter()
            .copied()
            .take(14)
            .collect();
        let beginning = beginning.to_ascii_lowercase();
        beginning.starts_with(b"<!doctype html") || beginning.starts_with(b"<html")
    }

    /// Whether this is for people to look at.
    pub(crate) fn is_web_page(&self) -> bool {
        let content_type = self.header(&CONTENT_TYPE).unwrap_or_default();
        content_type.to_ascii_lowercase().starts_with("text/html")
            || self.body.trim_ascii_start().starts_with(b"<")
    }
}

/// An HTTP client for one origin.
#[derive(Debug)]
pub(crate) struct Transport {
    client: Client,
    policy: Policy,
}

impl Transport {
    /// `authority` is a bundle of certificates in PEM, trusted beside those of the system.
    pub(crate) fn new(
        origin: &Origin,
        authority: Option<&str>,
        policy: &Policy,
    ) -> Result<Self, Error> {
        // Somebody else may have installed a provider already, which is as good.
        let _ = ring::default_provider().install_default();
        let mut builder = Client::builder()
            .user_agent(USER_AGENT)
            .default_headers(HeaderMap::from_iter([PRIORITY]))
            .redirect(redirect::Policy::none())
            .connect_timeout(policy.connect)
            // Infrahub closes idle connections after five seconds; we do it first.
            .pool_idle_timeout(std::time::Duration::from_secs(4));
        if !policy.has_environment_proxy {
            builder = builder.no_proxy();
        }
        builder = match authority {
            _ if origin.is_plaintext() => builder.tls_certs_only([]),
            Some(pem) => builder.tls_certs_merge(certificates(pem)?),
            None => builder,
        };
        let client = builder
            .build()
            .map_err(|error| not_built(error, authority))?;
        let policy = policy.clone();
        Ok(Self { client, policy })
    }

    /// Sends a request and reads its answer.
    pub(crate) async fn send(
        &self,
        ask: &Ask,
        authorization: Option<(HeaderName, HeaderValue)>,
    ) -> Result<Reply, Error> {
        let exchange = self.exchange(ask, authorization);
        let late = |_| Error::TimedOut {
            phase: Phase::Whole,
        };
        timeout(self.policy.whole, exchange).await.map_err(late)?
    }

    async fn exchange(
        &self,
        ask: &Ask,
        authorization: Option<(HeaderName, HeaderValue)>,
    ) -> Result<Reply, Error> {
        let mut request = self
            .client
            .request(ask.method.clone(), ask.url.clone())
            .header(ACCEPT, "application/json, */*;q=0.5");
        if let Some(json) = &ask.json {
            let json_type = HeaderValue::from_static("application/json");
            request = request.header(CONTENT_TYPE, json_type).body(json.clone());
        }
        if let Some((name, value)) = authorization {
            request = request.header(name, value);
        }
        let late = |_| Error::TimedOut {
            phase: Phase::Header,
        };
        let response = timeout(self.policy.header, request.send()).await;
        let response = response.map_err(late)?.map_err(not_sent)?;
        self.receive(response, ask.limit).await
    }

    async fn receive(&self, response: Response, limit: usize) -> Result<Reply, Error> {
        let (status, headers) = (response.status(), response.headers().clone());
        let body = if status == StatusCode::OK {
            self.read(response, limit).await?
        } else if status.is_redirection() {
            Vec::new()
        } else {
            self.read_beginning(response).await
        };
        Ok(Reply {
            status,
            headers,
            body,
        })
    }

    /// The whole body, or an error.
    async fn read(&self, mut response: Response, limit: usize) -> Result<Vec<u8>, Error> {
        let too_large = Error::TooLarge { limit };
        if response
            .content_length()
            .is_some_and(|length| length > limit as u64)
        {
            return Err(too_large);
        }
        let mut body = Vec::new();
        while let Some(piece) = self.piece(&mut response).await? {
            if body.len() + piece.len() > limit {
                return Err(too_large);
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }

    /// As much of the body as explains an error; the status tells more than its end.
    async fn read_beginning(&self, mut response: Response) -> Vec<u8> {
        let mut body = Vec::new();
        while let Ok(Some(piece)) = self.piece(&mut response).await {
            body.extend_from_slice(&piece);
            if body.len() >= ERROR_LIMIT {
                break;
            }
        }
        body
    }

    async fn piece(
        &self,
        response: &mut Response,
    ) -> Result<Option<impl std::ops::Deref<Target = [u8]> + use<>>, Error> {
        let late = |_| Error::TimedOut { phase: Phase::Idle };
        let broken = |error| Error::Interrupted {
            source: hushed(error),
        };
        let piece = timeout(self.policy.idle, response.chunk()).await;
        piece.map_err(late)?.map_err(broken)
    }
}

fn certificates(pem: &str) -> Result<Vec<Certificate>, Error> {
    let found = Certificate::from_pem_bundle(pem.as_bytes());
    let found = found.map_err(|error| not_built(error, Some(pem)))?;
    if found.is_empty() {
        return Err(Error::InvalidAuthority { source: None });
    }
    Ok(found)
}

/// Certificates are only looked into when the client is made.
fn not_built(error: reqwest::Error, authority: Option<&str>) -> Error {
    let source = hushed(error);
    match authority {
        Some(_) => Error::InvalidAuthority {
            source: Some(source),
        },
        None => Error::Setup { source },
    }
}

/// A URL may tell more than people should read in a status.
fn hushed(error: reqwest::Error) -> Arc<reqwest::Error> {
    Arc::new(error.without_url())
}

fn not_sent(error: reqwest::Error) -> Error {
    let (is_timeout, is_tls) = (error.is_timeout(), is_about_tls(&error));
    let source = hushed(error);
    if is_tls {
        Error::Tls { source }
    } else if is_timeout {
        Error::TimedOut {
            phase: Phase::Header,
        }
    } else {
        Error::Unreachable { source }
    }
}

/// `io::Error` hides what it carries from `source()`, so it is opened by hand.
fn is_about_tls(error: &(dyn StdError + 'static)) -> bool {
    if error.is::<rustls::Error>() {
        return true;
    }
    let carried = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    carried.is_some_and(|inner| is_about_tls(inner)) || error.source().is_some_and(is_about_tls)
}
