//! JSON web tokens, HS256, with the claims that Infrahub puts into them.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use sha2::Sha256;

use super::json::{Json, Style};

/// What a token is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Purpose {
    Access,
    Refresh,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Claims {
    #[serde(rename = "sub")]
    pub(super) account: String,
    #[serde(rename = "nbf")]
    pub(super) not_before: i64,
    #[serde(rename = "exp")]
    pub(super) expires: i64,
    #[serde(rename = "type")]
    pub(super) purpose: Purpose,
    #[serde(rename = "session_id")]
    pub(super) session: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rejection {
    Invalid,
    Expired,
}

impl Claims {
    pub(super) fn sign(&self, secret: &str) -> String {
        let purpose = match self.purpose {
            Purpose::Access => "access",
            Purpose::Refresh => "refresh",
        };
        let payload = Json::object([
            ("sub", Json::text(&self.account)),
            ("iat", Json::Number(self.not_before.into())),
            ("nbf", Json::Number(self.not_before.into())),
            ("exp", Json::Number(self.expires.into())),
            ("fresh", Json::Bool(false)),
            ("type", Json::text(purpose)),
            ("session_id", Json::text(&self.session)),
        ]);
        let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","typ":"JWT"}"#);
        let body = URL_SAFE_NO_PAD.encode(payload.write(Style::CompactEscaped));
        let signed = format!("{header}.{body}");
        let signature = URL_SAFE_NO_PAD.encode(hmac_sha256(secret.as_bytes(), signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    /// The signature is judged before the times, so a forged token is never merely "expired".
    pub(super) fn verify(token: &str, secret: &str, now: i64) -> Result<Self, Rejection> {
        let (signed, signature) = token.rsplit_once('.').ok_or(Rejection::Invalid)?;
        let expected = URL_SAFE_NO_PAD.encode(hmac_sha256(secret.as_bytes(), signed.as_bytes()));
        let (_, body) = signed.split_once('.').ok_or(Rejection::Invalid)?;
        if signature != expected {
            return Err(Rejection::Invalid);
        }
        let bytes = URL_SAFE_NO_PAD
            .decode(body)
            .map_err(|_| Rejection::Invalid)?;
        let claims: Self = serde_json::from_slice(&bytes).map_err(|_| Rejection::Invalid)?;
        if claims.expires <= now {
            return Err(Rejection::Expired);
        }
        if claims.not_before > now {
            return Err(Rejection::Invalid);
        }
        Ok(claims)
    }
}

/// HMAC-SHA256; any key length will do.
pub(super) fn hmac_sha256(key: &[u8], message: &[u8]) -> Vec<u8> {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return Vec::new(); // HMAC takes keys of every length.
    };
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}
