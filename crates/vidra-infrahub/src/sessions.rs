//! All sessions of this process.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use sha2::{Digest, Sha256};

use crate::{
    address::Address, credentials::Credentials, error::Error, policy::Policy, session::Session,
};

/// Address, identity of the credentials, digest of the CA bundle.
type Key = (Address, [u8; 32], [u8; 32]);

struct Entry {
    session: Arc<Session>,
    used: Instant,
}

/// One session per address and credential, shared by all who ask.
///
/// Changed credentials are other credentials: they get a session of their own at once, and the
/// old one is forgotten when nobody has used it for a while.
pub struct Sessions {
    policy: Policy,
    open: Mutex<HashMap<Key, Entry>>,
}

impl Sessions {
    /// No sessions yet.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            open: Mutex::default(),
        }
    }

    /// The session for an address and credentials. Asks nothing of the server.
    ///
    /// `authority` is a CA bundle in PEM, trusted beside the system's.
    pub fn session(
        &self,
        address: &Address,
        credentials: &Credentials,
        authority: Option<&str>,
    ) -> Result<Arc<Session>, Error> {
        self.session_at(address, credentials, authority, Instant::now())
    }

    fn session_at(
        &self,
        address: &Address,
        credentials: &Credentials,
        authority: Option<&str>,
        now: Instant,
    ) -> Result<Arc<Session>, Error> {
        let bundle = Sha256::digest(authority.unwrap_or_default());
        let key = (address.clone(), credentials.identity(), bundle.into());
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, entry| now.duration_since(entry.used) < self.policy.session_idle);
        if let Some(entry) = open.get_mut(&key) {
            entry.used = now;
            return Ok(Arc::clone(&entry.session));
        }
        let session = Session::new(address, credentials, authority, &self.policy)?;
        let session = Arc::new(session);
        let entry = Entry {
            session: Arc::clone(&session),
            used: now,
        };
        open.insert(key, entry);
        Ok(session)
    }

    /// How many sessions there are.
    pub fn len(&self) -> usize {
        self.open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn address() -> Address {
        Address::parse("http://127.0.0.1:9").unwrap()
    }

    fn token(text: &str) -> Credentials {
        Credentials::token(&text.into()).unwrap()
    }

    #[test]
    fn equal_address_and_credentials_share_a_session_and_others_do_not() {
        let sessions = Sessions::new(Policy::default());
        let of = |address: &Address, token| sessions.session(address, &token, None).unwrap();
        let first = of(&address(), token("a"));
        assert!(Arc::ptr_eq(&first, &of(&address(), token("a"))));
        assert!(!Arc::ptr_eq(&first, &of(&address(), token("b"))));
        let elsewhere = Address::parse("http://127.0.0.1:10").unwrap();
        assert!(!Arc::ptr_eq(&first, &of(&elsewhere, token("a"))));
        assert_eq!(sessions.len(), 3);
    }

    #[test]
    fn a_session_that_nobody_uses_is_forgotten() {
        let sessions = Sessions::new(Policy::default());
        let start = Instant::now();
        let ask = |name, minutes| {
            let now = start + Duration::from_mins(minutes);
            sessions
                .session_at(&address(), &token(name), None, now)
                .unwrap();
            sessions.len()
        };
        assert_eq!(ask("old", 0), 1);
        assert_eq!(ask("new", 40), 2);
        assert_eq!(ask("new", 80), 1);
    }

    #[test]
    fn a_ca_bundle_that_is_none_is_refused() {
        let sessions = Sessions::new(Policy::default());
        let address = Address::parse("https://127.0.0.1:9").unwrap();
        let nonsense = "-----BEGIN CERTIFICATE-----\nbm9wZQ==\n-----END CERTIFICATE-----\n";
        for pem in ["", "no certificate", nonsense] {
            let error = sessions
                .session(&address, &token("a"), Some(pem))
                .unwrap_err();
            assert_eq!(error.code(), "InvalidAuthority", "{pem}");
        }
    }
}
