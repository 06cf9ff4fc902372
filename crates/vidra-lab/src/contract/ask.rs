//! Asking: one request and its answer.

use std::time::Duration;

use reqwest::{
    Client, Method,
    header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderMap},
};
use serde_json::{Value, json};

use super::Target;

/// A real server on a busy machine is slow; it is not the speed that is checked.
const TIMEOUT: Duration = Duration::from_mins(1);

/// The credentials that a request brings.
#[derive(Clone, Debug, Default)]
pub(super) struct Credentials {
    pub(super) api_token: Option<String>,
    pub(super) authorization: Option<String>,
    pub(super) cookie: Option<String>,
}

impl Credentials {
    pub(super) fn none() -> Self {
        Self::default()
    }

    pub(super) fn key(token: &str) -> Self {
        Self {
            api_token: Some(token.to_owned()),
            ..Self::default()
        }
    }

    pub(super) fn bearer(token: &str) -> Self {
        Self {
            authorization: Some(format!("Bearer {token}")),
            ..Self::default()
        }
    }

    pub(super) fn and_key(mut self, token: &str) -> Self {
        self.api_token = Some(token.to_owned());
        self
    }
}

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) credentials: Credentials,
    pub(super) body: Option<(&'static str, String)>,
    pub(super) headers: Vec<(&'static str, &'static str)>,
}

impl Ask {
    pub(super) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    pub(super) fn post(path: impl Into<String>) -> Self {
        Self::new(Method::POST, path)
    }

    pub(super) fn new(method: Method, path: impl Into<String>) -> Self {
        let (path, credentials) = (path.into(), Credentials::none());
        Self {
            method,
            path,
            credentials,
            body: None,
            headers: Vec::new(),
        }
    }

    pub(super) fn json(self, body: &Value) -> Self {
        self.body("application/json", body.to_string())
    }

    pub(super) fn body(mut self, kind: &'static str, body: impl Into<String>) -> Self {
        self.body = Some((kind, body.into()));
        self
    }

    pub(super) fn graphql(path: impl Into<String>, query: &str, variables: &Value) -> Self {
        Self::post(path).json(&json!({ "query": query, "variables": variables }))
    }

    pub(super) fn with(mut self, credentials: Credentials) -> Self {
        self.credentials = credentials;
        self
    }

    pub(super) fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }
}

/// An answer, read completely.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(super) fn json(&self) -> Result<Value, String> {
        serde_json::from_str(&self.text)
            .map_err(|_| format!("no JSON: {} {}", self.status, self.excerpt()))
    }

    pub(super) fn excerpt(&self) -> String {
        self.text.chars().take(300).collect()
    }
}

pub(super) struct Asker {
    client: Client,
    base_url: String,
}

impl Asker {
    pub(super) fn new(target: &Target) -> Result<Self, String> {
        // Fails if one is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .no_proxy()
            .no_gzip()
            // After a crash the server closes its connection without a word; a connection that
            // is used again would make the next check fail in place of the one that crashed it.
            .pool_max_idle_per_host(0)
            .timeout(TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| format!("cannot make an HTTP client: {error}"))?;
        Ok(Self {
            client,
            base_url: target.base_url.clone(),
        })
    }

    pub(super) async fn send(&self, ask: &Ask) -> Result<Answer, String> {
        let url = format!("{}{}", self.base_url, ask.path);
        let mut request = self.client.request(ask.method.clone(), url);
        let Credentials {
            api_token,
            authorization,
            cookie,
        } = &ask.credentials;
        for (name, value) in [
            ("x-infrahub-key", api_token),
            (AUTHORIZATION.as_str(), authorization),
            (COOKIE.as_str(), cookie),
        ] {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        for (name, value) in &ask.headers {
            request = request.header(*name, *value);
        }
        if let Some((kind, body)) = &ask.body {
            request = request.header(CONTENT_TYPE, *kind).body(body.clone());
        }
        let failed = |error| format!("no answer to {} {}: {error}", ask.method, ask.path);
        let response = request.send().await.map_err(failed)?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.map_err(failed)?;
        Ok(Answer {
            status,
            headers,
            text,
        })
    }
}
