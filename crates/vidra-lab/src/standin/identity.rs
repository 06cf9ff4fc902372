//! Who is calling: the order in which Infrahub looks at credentials, and what it says to bad ones.

use axum::http::{HeaderMap, header};

use super::{
    respond::Refusal,
    token::{Claims, Purpose, Rejection},
    world::{Account, Group, World},
};

/// How an account proved itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Credential {
    Jwt,
    ApiToken,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    Anonymous,
    Account {
        id: String,
        group: Group,
        credential: Credential,
    },
}

/// What came with a request, before it is judged.
pub(super) struct Presented {
    pub(super) api_token: Option<String>,
    pub(super) bearer: Option<String>,
    cookies: String,
}

impl Presented {
    /// Blank credentials and other schemes than bearer count as none at all.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = text(header::AUTHORIZATION.as_str())
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, token)| {
                scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty()
            })
            .map(|(_, token)| token.trim().to_owned());
        let api_token = text("x-infrahub-key")
            .filter(|key| !key.is_empty())
            .map(str::to_owned);
        let cookies = text(header::COOKIE.as_str()).unwrap_or_default().to_owned();
        Self {
            api_token,
            bearer,
            cookies,
        }
    }

    /// The bearer token, or else the cookie of that name.
    pub(super) fn jwt(&self, cookie: &str) -> Option<String> {
        let crumb = || {
            let mut pairs = self
                .cookies
                .split(';')
                .filter_map(|pair| pair.trim().split_once('='));
            pairs
                .find(|(name, _)| *name == cookie)
                .map(|(_, value)| value.to_owned())
        };
        self.bearer.clone().or_else(crumb)
    }
}

impl World {
    /// The API token wins over everything else, even where only the other one is good.
    /// A bad credential is refused even where none at all would do.
    pub(super) fn identify(&self, presented: &Presented) -> Result<Identity, Refusal> {
        if let Some(value) = &presented.api_token {
            return self.by_api_token(value);
        }
        match presented.jwt("access_token") {
            Some(token) => self.by_access_token(&token).map(|(identity, _)| identity),
            None => Ok(Identity::Anonymous),
        }
    }

    fn by_api_token(&self, value: &str) -> Result<Identity, Refusal> {
        let now = self.now();
        let is_good = |expires: Option<_>| expires.is_none_or(|expires| expires > now);
        let token = self
            .tokens
            .iter()
            .find(|token| token.value == value && is_good(token.expires));
        let account = token.and_then(|token| self.account(&token.account));
        let account = account.ok_or_else(|| Refusal::unauthorized("Invalid token"))?;
        Ok(identity(account, Credential::ApiToken))
    }

    /// Access tokens are judged by their signature alone: a logout does not touch them.
    pub(super) fn by_access_token(&self, token: &str) -> Result<(Identity, Claims), Refusal> {
        let claims = self.claims(token)?;
        if claims.purpose != Purpose::Access {
            let message = "Invalid token, current token is not an access token";
            return Err(Refusal::unauthorized(message));
        }
        let account = self.account(&claims.account);
        let account = account.ok_or_else(|| Refusal::unauthorized("Invalid token"))?;
        Ok((identity(account, Credential::Jwt), claims))
    }

    pub(super) fn claims(&self, token: &str) -> Result<Claims, Refusal> {
        let now = self.now().as_second();
        Claims::verify(token, &self.settings.secret, now).map_err(|rejection| match rejection {
            Rejection::Invalid => Refusal::unauthorized("Invalid token"),
            Rejection::Expired => Refusal::unauthorized("Expired Signature"),
        })
    }

    fn account(&self, id: &str) -> Option<&Account> {
        self.accounts.iter().find(|account| account.id == id)
    }
}

fn identity(account: &Account, credential: Credential) -> Identity {
    Identity::Account {
        id: account.id.clone(),
        group: account.group,
        credential,
    }
}
