//! Who we are towards Infrahub.

use std::fmt;

use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

use crate::error::Error;

/// Credentials. They cannot be printed, and blank ones cannot be made: Infrahub takes a blank
/// token for an anonymous call, which then half works.
#[derive(Clone)]
pub enum Credentials {
    /// A user name and a password, exchanged for tokens by a login.
    Password {
        /// The user name.
        username: String,
        /// The password.
        password: SecretString,
    },
    /// An API token.
    Token(SecretString),
    /// None; the server may allow reading.
    Anonymous,
}

impl Credentials {
    /// A user name and a password. Line ends after them, as editors leave them in Secrets, are not
    /// part of them.
    pub fn password(username: &str, password: &SecretString) -> Result<Self, Error> {
        let username = username.trim();
        let password = password.expose_secret().trim_end_matches(['\r', '\n']);
        if username.is_empty() {
            return Err(Error::BlankCredentials { what: "username" });
        }
        if password.is_empty() {
            return Err(Error::BlankCredentials { what: "password" });
        }
        Ok(Self::Password {
            username: username.to_owned(),
            password: password.into(),
        })
    }

    /// An API token. White space around it is not part of it.
    pub fn token(token: &SecretString) -> Result<Self, Error> {
        let token = token.expose_secret().trim();
        let is_sendable = HeaderValue::from_str(token).is_ok();
        if token.is_empty() || !is_sendable {
            return Err(Error::BlankCredentials { what: "token" });
        }
        Ok(Self::Token(token.into()))
    }

    /// Equal for equal credentials, and of no use to anybody who reads it.
    pub(crate) fn identity(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        match self {
            Self::Password { username, password } => {
                digest.update(b"password\0");
                digest.update(username.as_bytes());
                digest.update(b"\0");
                digest.update(password.expose_secret().as_bytes());
            }
            Self::Token(token) => {
                digest.update(b"token\0");
                digest.update(token.expose_secret().as_bytes());
            }
            Self::Anonymous => digest.update(b"anonymous"),
        }
        digest.finalize().into()
    }

    /// What must never appear in a text for people.
    pub(crate) fn secret(&self) -> Option<&SecretString> {
        match self {
            Self::Password { password, .. } => Some(password),
            Self::Token(token) => Some(token),
            Self::Anonymous => None,
        }
    }
}

/// The kind only: not even the user name is worth a leak.
impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Password { .. } => "Password(..)",
            Self::Token(_) => "Token(..)",
            Self::Anonymous => "Anonymous",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_print_neither_user_nor_secret() {
        let password = Credentials::password("alice", &"hunter2".into()).unwrap();
        let token = Credentials::token(&"hunter2".into()).unwrap();
        for text in [format!("{password:?}"), format!("{token:#?}")] {
            assert!(
                !text.contains("alice") && !text.contains("hunter2"),
                "{text}"
            );
        }
    }

    #[test]
    fn blank_credentials_are_refused() {
        assert!(Credentials::token(&" \n".into()).is_err());
        assert!(Credentials::password("", &"x".into()).is_err());
        assert!(Credentials::password("x", &"\n".into()).is_err());
        assert!(Credentials::token(&"two\nlines".into()).is_err());
    }

    #[test]
    fn line_ends_of_a_secret_are_not_part_of_the_credentials() {
        let plain = Credentials::password("alice", &"hunter2".into()).unwrap();
        let edited = Credentials::password("alice\n", &"hunter2\r\n".into()).unwrap();
        assert_eq!(plain.identity(), edited.identity());
    }

    #[test]
    fn different_credentials_have_different_identities() {
        let all = [
            Credentials::password("ab", &"c".into()).unwrap(),
            Credentials::password("a", &"bc".into()).unwrap(),
            Credentials::token(&"c".into()).unwrap(),
            Credentials::Anonymous,
        ];
        let identities: std::collections::BTreeSet<_> =
            all.iter().map(Credentials::identity).collect();
        assert_eq!(identities.len(), all.len());
    }
}
