//! Webhooks, signed as the different generations of Infrahub sign them.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    events::Event,
    json::{Json, Style},
    text::hex,
    token::hmac_sha256,
    world::random,
};

/// How long a receiver may take, as in Infrahub's default.
const TIMEOUT: Duration = Duration::from_secs(10);
/// One attempt and three more, without a pause in between; after that the event is lost.
const ATTEMPTS: usize = 4;

/// A webhook that was not delivered.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The HTTP client could not be made.
    #[error("cannot make the HTTP client for webhooks")]
    Client(#[source] reqwest::Error),
    /// The receiver did not answer.
    #[error("no answer from the webhook receiver '{url}'; is it listening?")]
    Send {
        /// Where it was sent to.
        url: String,
        /// What the HTTP client says.
        #[source]
        source: reqwest::Error,
    },
}

/// What is signed and what is sent, by the server's version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Generation {
    /// Up to 1.2.5: the signature covers Python's `str(dict)`; nothing on the wire looks like it.
    #[serde(rename = "1.2.5")]
    Repr,
    /// 1.2.6 to 1.6, container images: `json.dumps`, signed and sent alike.
    #[default]
    #[serde(rename = "1.6")]
    Dumps,
    /// 1.4.13 as a Python package and 1.7.0 to 1.7.4: `json.dumps` is signed, compact UTF-8 is sent.
    #[serde(rename = "1.7.0")]
    Mismatch,
    /// From 1.7.5: compact with escapes is signed, compact UTF-8 is sent.
    #[serde(rename = "1.7.5")]
    Compact,
}

impl Generation {
    /// The text that the signature covers.
    pub fn signed(self, body: &Json) -> String {
        body.write(match self {
            Self::Repr => Style::PythonRepr,
            Self::Dumps | Self::Mismatch => Style::PythonDefault,
            Self::Compact => Style::CompactEscaped,
        })
    }

    /// The text on the wire.
    pub fn sent(self, body: &Json) -> String {
        body.write(match self {
            Self::Repr | Self::Dumps => Style::PythonDefault,
            Self::Mismatch | Self::Compact => Style::CompactRaw,
        })
    }

    fn client_name(self) -> &'static str {
        match self {
            Self::Repr | Self::Dumps => "python-httpx/0.27.2",
            Self::Mismatch | Self::Compact => "python-httpx/0.28.1",
        }
    }
}

/// The value of the header `webhook-signature`.
pub fn signature(key: &str, id: &str, timestamp: &str, payload: &str) -> String {
    let message = format!("{id}.{timestamp}.{payload}");
    let digest = hmac_sha256(key.as_bytes(), message.as_bytes());
    format!("v1,{}", STANDARD.encode(digest))
}

/// A webhook ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// All headers but those that the connection needs.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: String,
}

impl Delivery {
    /// One attempt: id, time and signature are new each time, the event's id is not.
    pub fn new(event: &Event, key: Option<&str>, generation: Generation, at: Timestamp) -> Self {
        let body = event.body();
        let mut headers = vec![
            ("user-agent", generation.client_name().to_owned()),
            ("accept", "application/json".to_owned()),
            ("content-type", "application/json".to_owned()),
        ];
        if let Some(key) = key {
            let id = format!(
                "msg_{}",
                hex(&[random().to_be_bytes(), random().to_be_bytes()].concat())
            );
            let timestamp = at.as_second().to_string();
            let signature = signature(key, &id, &timestamp, &generation.signed(&body));
            headers.extend([
                ("webhook-id", id),
                ("webhook-timestamp", timestamp),
                ("webhook-signature", signature),
            ]);
        }
        Self {
            headers,
            body: generation.sent(&body),
        }
    }
}

/// A receiver of webhooks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscription {
    /// Where to send.
    pub url: String,
    /// The shared key; without one nothing is signed.
    #[serde(default)]
    pub key: Option<String>,
    /// Which server to imitate.
    #[serde(default)]
    pub generation: Generation,
    /// One event name, or `all`.
    #[serde(default = "all")]
    pub event: String,
}

fn all() -> String {
    "all".to_owned()
}

impl Subscription {
    pub(super) fn wants(&self, event: &Event) -> bool {
        self.event == "all" || self.event == event.name
    }
}

/// Sends one attempt and tells the receiver's status.
pub(super) async fn send(
    subscription: &Subscription,
    event: &Event,
    at: Timestamp,
) -> Result<u16, WebhookError> {
    let (key, generation) = (subscription.key.as_deref(), subscription.generation);
    let delivery = Delivery::new(event, key, generation, at);
    let mut request = client()?.post(&subscription.url).body(delivery.body);
    for (name, value) in delivery.headers {
        request = request.header(name, value);
    }
    let failed = |source| WebhookError::Send {
        url: subscription.url.clone(),
        source,
    };
    Ok(request.send().await.map_err(failed)?.status().as_u16())
}

fn client() -> Result<reqwest::Client, WebhookError> {
    super::tls::install_provider();
    reqwest::Client::builder()
        .timeout(TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .build()
        .map_err(WebhookError::Client)
}

/// Tries as often as the real server does; the result is nobody's concern.
pub(super) async fn deliver(subscription: Subscription, event: Event, at: Timestamp) {
    for _ in 0..ATTEMPTS {
        if let Ok(200..300) = send(&subscription, &event, at).await {
            return;
        }
    }
}
