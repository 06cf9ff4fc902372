//! One Infrahub, one identity: calls with credentials, logins only when needed.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use reqwest::{
    Method, StatusCode, Url,
    header::{AUTHORIZATION, HeaderName, HeaderValue},
};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{Mutex as AsyncMutex, Semaphore};

use crate::{
    address::{Address, Origin},
    answer::{Call, Judge},
    cache::Cache,
    credentials::Credentials,
    error::Error,
    graphql,
    policy::Policy,
    registered::Memory,
    tokens::{Access, Granted, Issuer, Keeper, lifetime},
    transport::{Ask, Reply, Transport},
};

const API_KEY: HeaderName = HeaderName::from_static("x-infrahub-key");

/// A session with an Infrahub. Get one from [`crate::Sessions`], so that all share it.
pub struct Session {
    pub(crate) address: Address,
    pub(crate) policy: Policy,
    credentials: Credentials,
    transport: Transport,
    keeper: Keeper,
    /// Until when the server wants to be left alone.
    retreat: Mutex<Option<Instant>>,
    pub(crate) downloads: Semaphore,
    pub(crate) cache: Mutex<Cache>,
    /// Contents that are being downloaded, so that nobody downloads them a second time.
    pub(crate) arriving: Mutex<HashMap<String, Arc<AsyncMutex<()>>>>,
    pub(crate) memory: Mutex<Memory>,
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = self.address.origin();
        write!(formatter, "Session({origin}, {:?})", self.credentials)
    }
}

/// A credential on its way, and which login it came from.
struct Authorization {
    header: Option<(HeaderName, HeaderValue)>,
    generation: Option<u64>,
}

impl Session {
    pub(crate) fn new(
        address: &Address,
        credentials: &Credentials,
        authority: Option<&str>,
        policy: &Policy,
    ) -> Result<Self, Error> {
        Ok(Self {
            address: address.clone(),
            credentials: credentials.clone(),
            transport: Transport::new(address.origin(), authority, policy)?,
            keeper: Keeper::new(policy.rejection_memory),
            retreat: Mutex::default(),
            downloads: Semaphore::new(policy.downloads.max(1)),
            cache: Mutex::new(Cache::new(policy.cache)),
            arriving: Mutex::default(),
            memory: Mutex::default(),
            policy: policy.clone(),
        })
    }

    /// The origin that this session talks to.
    pub fn origin(&self) -> &Origin {
        self.address.origin()
    }

    /// Whether everything, credentials included, can be read on the way.
    pub fn is_plaintext(&self) -> bool {
        self.origin().is_plaintext()
    }

    /// Whether this session has no credentials at all.
    pub fn is_anonymous(&self) -> bool {
        matches!(self.credentials, Credentials::Anonymous)
    }

    pub(crate) fn judge<'a>(&'a self, call: Call<'a>) -> Judge<'a> {
        Judge {
            call,
            secret: self.credentials.secret(),
            now: Timestamp::now(),
        }
    }

    /// Asks, with credentials; after a 401 once more with new ones.
    pub(crate) async fn ask(&self, ask: &Ask, call: Call<'_>) -> Result<Reply, Error> {
        self.heed_retreat()?;
        let first = self.authorize(None).await?;
        let mut reply = self.transport.send(ask, first.header).await?;
        if reply.status == StatusCode::UNAUTHORIZED
            && let Some(refused) = first.generation
        {
            let second = self.authorize(Some(refused)).await?;
            reply = self.transport.send(ask, second.header).await?;
        }
        let result = self.judge(call).accept(reply);
        result.map_err(|error| self.concern(error))
    }

    async fn authorize(&self, refused: Option<u64>) -> Result<Authorization, Error> {
        match &self.credentials {
            Credentials::Anonymous => Ok(Authorization {
                header: None,
                generation: None,
            }),
            Credentials::Token(token) => Ok(Authorization {
                header: Some((API_KEY, sensitive(token, "")?)),
                generation: None,
            }),
            Credentials::Password { .. } => {
                let access = self.keeper.access(self, refused, Instant::now()).await;
                let Access { token, generation } = access.map_err(|error| self.note(error))?;
                Ok(Authorization {
                    header: Some((AUTHORIZATION, sensitive(&token, "Bearer ")?)),
                    generation: Some(generation),
                })
            }
        }
    }

    /// What a refusal of a call means for this kind of credentials.
    fn concern(&self, error: Error) -> Error {
        match (self.note(error), &self.credentials) {
            (Error::CredentialsRejected { .. }, Credentials::Anonymous) => {
                Error::AuthenticationRequired
            }
            (Error::CredentialsRejected { message }, Credentials::Password { .. }) => {
                Error::SessionRejected { message }
            }
            (error, _) => error,
        }
    }

    /// Remembers that the server wants to be left alone, but not for ever.
    fn note(&self, error: Error) -> Error {
        let Error::Overloaded { retry_after } = error else {
            return error;
        };
        let retry_after = retry_after.min(self.policy.longest_retreat);
        let until = Instant::now() + retry_after;
        let mut retreat = self.retreat.lock().unwrap_or_else(PoisonError::into_inner);
        *retreat = Some(retreat.map_or(until, |known| known.max(until)));
        Error::Overloaded { retry_after }
    }

    fn heed_retreat(&self) -> Result<(), Error> {
        let retreat = *self.retreat.lock().unwrap_or_else(PoisonError::into_inner);
        let left = retreat.map(|until| until.saturating_duration_since(Instant::now()));
        match left {
            Some(retry_after) if retry_after > Duration::ZERO => {
                Err(Error::Overloaded { retry_after })
            }
            _ => Ok(()),
        }
    }

    fn login_ask(&self, step: &str, json: Option<Vec<u8>>) -> Result<Ask, Error> {
        let url = self.address.join(["api", "auth", step]);
        Ok(Ask {
            method: Method::POST,
            url: url.ok_or(Error::InvalidName { what: "address" })?,
            json,
            limit: self.policy.list_limit,
        })
    }

    fn grant(&self, reply: Reply) -> Result<Granted, Error> {
        let judge = self.judge(Call::Login);
        let reply = judge.accept(reply)?;
        let tokens: Tokens = graphql::json(&reply, "the answer to a login has no tokens")?;
        // A blank token would be taken for an anonymous call.
        let is_blank = tokens.access_token.expose_secret().trim().is_empty();
        if is_blank {
            let what = "the answer to a login has a blank token";
            return Err(Error::Unexpected { what });
        }
        // One that cannot be sent would be kept and never be refused.
        sensitive(&tokens.access_token, "Bearer ")?;
        Ok(Granted {
            lifetime: lifetime(tokens.access_token.expose_secret(), judge.now),
            access: tokens.access_token,
            refresh: tokens.refresh_token,
        })
    }

    pub(crate) fn url<'a>(
        &self,
        parts: impl IntoIterator<Item = &'a str>,
        what: &'static str,
    ) -> Result<Url, Error> {
        self.address.join(parts).ok_or(Error::InvalidName { what })
    }
}

struct Tokens {
    access_token: SecretString,
    refresh_token: Option<SecretString>,
}

impl<'de> Deserialize<'de> for Tokens {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Plain {
            access_token: String,
            refresh_token: Option<String>,
        }
        let Plain {
            access_token,
            refresh_token,
        } = Plain::deserialize(deserializer)?;
        Ok(Self {
            access_token: access_token.into(),
            refresh_token: refresh_token.map(Into::into),
        })
    }
}

impl Issuer for Session {
    async fn login(&self) -> Result<Granted, Error> {
        let Credentials::Password { username, password } = &self.credentials else {
            return Err(Error::AuthenticationRequired);
        };
        let body = json!({ "username": username, "password": password.expose_secret() });
        let ask = self.login_ask("login", Some(body.to_string().into_bytes()))?;
        self.grant(self.transport.send(&ask, None).await?)
    }

    async fn refresh(&self, token: &SecretString) -> Result<Granted, Error> {
        let ask = self.login_ask("refresh", None)?;
        let header = (AUTHORIZATION, sensitive(token, "Bearer ")?);
        self.grant(self.transport.send(&ask, Some(header)).await?)
    }
}

/// A header's value that HTTP libraries keep out of their own logs.
fn sensitive(secret: &SecretString, prefix: &str) -> Result<HeaderValue, Error> {
    let text = format!("{prefix}{}", secret.expose_secret());
    let what = "the server gave out a token that cannot be sent";
    let mut value = HeaderValue::from_str(&text).map_err(|_| Error::Unexpected { what })?;
    value.set_sensitive(true);
    Ok(value)
}
