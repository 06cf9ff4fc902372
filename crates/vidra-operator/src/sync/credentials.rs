//! Which Secret holds the credentials for an origin. Pure.
//!
//! A Secret says itself where it may be sent to: by its annotation to one exact origin, or, as it
//! has always been, by its label to a host. A sync can name a Secret, but not talk it into going
//! elsewhere.

use std::collections::BTreeMap;

use vidra_api::names::{INFRAHUB_API_URL_LABEL, ORIGIN_ANNOTATION, credential_keys};
use vidra_cluster::failure::Failure;
use vidra_core::class::Class;
use vidra_infrahub::Origin;

/// Why there are no credentials to be used.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum CredentialsError {
    /// Vidra does not know its Secrets yet, or may not.
    #[error(
        "the Secrets in namespace {namespace} are not known yet; if this stays, allow Vidra to \
         list and watch them"
    )]
    Unlisted {
        /// Vidra's own namespace.
        namespace: String,
    },
    /// Several Secrets for one origin.
    #[error(
        "the Secrets {} all claim to be the credentials for {origin}; delete all but one, or name \
         one in spec.source.credentialsRef", .secrets.join(" and ")
    )]
    Ambiguous {
        /// Where to.
        origin: Origin,
        /// Their names.
        secrets: Vec<String>,
    },
    /// The Secret that the sync names does not exist.
    #[error("there is no Secret {name} in namespace {namespace}; create it or correct the sync")]
    Missing {
        /// Its name.
        name: String,
        /// Vidra's own namespace.
        namespace: String,
    },
    /// The Secret says nothing about where it may go.
    #[error(
        "the Secret {name} does not say which Infrahub it is for; annotate it with \
         {ORIGIN_ANNOTATION}={origin}"
    )]
    Unbound {
        /// Its name.
        name: String,
        /// Where the sync wants to go.
        origin: Origin,
    },
    /// The Secret is for somebody else.
    #[error(
        "the Secret {name} is for {bound} and is not sent to {origin}; correct infrahubAPIURL, or \
         make a Secret for this origin"
    )]
    Foreign {
        /// Its name.
        name: String,
        /// Where it may go.
        bound: String,
        /// Where the sync wants to go.
        origin: Origin,
    },
    /// The Secret was given to somebody else a moment ago.
    #[error("the Secret {name} has just been changed; it is looked at again")]
    Changed {
        /// Its name.
        name: String,
    },
    /// The Secret lacks what is needed.
    #[error(
        "the Secret {name} has no usable {} and {}, nor a {}; fill them in",
        credential_keys::USERNAME,
        credential_keys::PASSWORD,
        credential_keys::TOKEN
    )]
    Incomplete {
        /// Its name.
        name: String,
    },
    /// The Secret lacks the CA bundle.
    #[error("the Secret {name} has no text under the key {key}; put the certificates (PEM) there")]
    NoBundle {
        /// Its name.
        name: String,
        /// The key.
        key: String,
    },
    /// The Secret could not be read.
    #[error("the Secret {name} could not be read ({reason}); check Vidra's permissions", reason = .source.reason)]
    Unreadable {
        /// Its name.
        name: String,
        /// What the API server said.
        source: Failure,
    },
}

impl CredentialsError {
    /// Decides about the retry. What a Secret lacks is noticed when the Secret changes.
    pub(crate) fn class(&self) -> Class {
        match self {
            Self::Unlisted { .. } | Self::Changed { .. } => Class::Transient,
            Self::Unreadable { source, .. } => source.class,
            _ => Class::Invalid,
        }
    }

    /// Stable, for conditions, Events and metrics.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Ambiguous { .. } => "CredentialsAmbiguous",
            Self::Unbound { .. } | Self::Foreign { .. } => "CredentialsForeign",
            Self::Unlisted { .. }
            | Self::Changed { .. }
            | Self::Missing { .. }
            | Self::Incomplete { .. }
            | Self::NoBundle { .. }
            | Self::Unreadable { .. } => "CredentialsMissing",
        }
    }
}

/// What the metadata of a Secret says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Changes with every write.
    pub(crate) version: String,
    /// The host of its label.
    host: Option<String>,
    /// The origin of its annotation, as written.
    origin: Option<String>,
}

impl Facts {
    pub(crate) fn new(
        version: String,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
    ) -> Self {
        Self {
            version,
            host: labels.get(INFRAHUB_API_URL_LABEL).cloned(),
            origin: annotations.get(ORIGIN_ANNOTATION).cloned(),
        }
    }

    /// Whether it says that it may go to an origin.
    pub(crate) fn may_go_to(&self, origin: &Origin) -> bool {
        self.is_for_exactly(origin) || self.is_for_host(origin)
    }

    fn is_for_exactly(&self, origin: &Origin) -> bool {
        let bound = self.origin.as_deref().map(Origin::parse);
        matches!(bound, Some(Ok(bound)) if bound == *origin)
    }

    fn is_for_host(&self, origin: &Origin) -> bool {
        let host = self.host.as_deref().map(str::to_ascii_lowercase);
        self.origin.is_none() && host.as_deref() == Some(origin.host())
    }
}

/// All Secrets in Vidra's namespace, by name.
pub(crate) type Secrets = BTreeMap<String, Facts>;

/// Who wants credentials.
pub(crate) struct Wish<'a> {
    /// Where they go.
    pub(crate) origin: &'a Origin,
    /// The Secret that the sync names.
    pub(crate) named: Option<&'a str>,
    /// The origin of the oldest sync on the same host. A label names a host and no origin; who
    /// comes later with another port or without TLS does not get what the first one uses.
    pub(crate) first: &'a Origin,
    /// Vidra's own namespace.
    pub(crate) namespace: &'a str,
}

/// The Secret for a wish; `None` if there is none, and Infrahub is asked anonymously.
pub(crate) fn pick(secrets: &Secrets, wish: &Wish<'_>) -> Result<Option<String>, CredentialsError> {
    if let Some(name) = wish.named {
        let facts = secrets.get(name).ok_or_else(|| CredentialsError::Missing {
            name: name.to_owned(),
            namespace: wish.namespace.to_owned(),
        })?;
        return bound(name, facts, wish).map(Some);
    }
    let exact = |(_, facts): &(&String, &Facts)| facts.is_for_exactly(wish.origin);
    if let Some(name) = only(secrets.iter().filter(exact), wish.origin)? {
        return Ok(Some(name));
    }
    let by_host = |(_, facts): &(&String, &Facts)| facts.is_for_host(wish.origin);
    let Some(name) = only(secrets.iter().filter(by_host), wish.origin)? else {
        return Ok(None);
    };
    first_come(name, wish).map(Some)
}

fn only<'a>(
    candidates: impl Iterator<Item = (&'a String, &'a Facts)>,
    origin: &Origin,
) -> Result<Option<String>, CredentialsError> {
    let mut names: Vec<String> = candidates.map(|(name, _)| name.clone()).collect();
    if names.len() > 1 {
        return Err(CredentialsError::Ambiguous {
            origin: origin.clone(),
            secrets: names,
        });
    }
    Ok(names.pop())
}

/// A Secret that a sync names, if it may go where the sync wants to.
fn bound(name: &str, facts: &Facts, wish: &Wish<'_>) -> Result<String, CredentialsError> {
    let name = name.to_owned();
    let origin = wish.origin.clone();
    if facts.is_for_exactly(wish.origin) {
        return Ok(name);
    }
    if facts.is_for_host(wish.origin) {
        return first_come(name, wish);
    }
    let bound = facts.origin.clone().or_else(|| facts.host.clone());
    Err(match bound {
        None => CredentialsError::Unbound { name, origin },
        Some(bound) => CredentialsError::Foreign {
            name,
            bound,
            origin,
        },
    })
}

fn first_come(name: String, wish: &Wish<'_>) -> Result<String, CredentialsError> {
    if wish.first == wish.origin {
        return Ok(name);
    }
    Err(CredentialsError::Foreign {
        name,
        bound: wish.first.to_string(),
        origin: wish.origin.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(host: Option<&str>, origin: Option<&str>) -> Facts {
        Facts {
            version: "1".to_owned(),
            host: host.map(str::to_owned),
            origin: origin.map(str::to_owned),
        }
    }

    fn secrets<const N: usize>(all: [(&str, Facts); N]) -> Secrets {
        all.map(|(name, facts)| (name.to_owned(), facts)).into()
    }

    fn ask(secrets: &Secrets, url: &str, named: Option<&str>) -> Result<Option<String>, String> {
        ask_after(secrets, url, named, url)
    }

    fn ask_after(
        secrets: &Secrets,
        url: &str,
        named: Option<&str>,
        first: &str,
    ) -> Result<Option<String>, String> {
        let wish = Wish {
            origin: &Origin::parse(url).unwrap(),
            named,
            first: &Origin::parse(first).unwrap(),
            namespace: "vidra-system",
        };
        pick(secrets, &wish).map_err(|error| error.to_string())
    }

    const URL: &str = "https://infrahub.example.com";

    #[test]
    fn the_label_of_the_host_is_enough_as_it_has_always_been() {
        let has = secrets([
            ("right", secret(Some("infrahub.example.com"), None)),
            ("other", secret(Some("elsewhere.example.com"), None)),
        ]);
        assert_eq!(ask(&has, URL, None), Ok(Some("right".to_owned())));
        assert_eq!(ask(&has, "https://nowhere.example.com", None), Ok(None));
    }

    #[test]
    fn two_secrets_for_one_host_are_an_error_that_names_both() {
        let has = secrets([
            ("one", secret(Some("infrahub.example.com"), None)),
            ("two", secret(Some("infrahub.example.com"), None)),
        ]);
        let error = ask(&has, URL, None).unwrap_err();
        assert!(error.contains("one") && error.contains("two"), "{error}");
        assert_eq!(ask(&has, URL, Some("two")), Ok(Some("two".to_owned())));
    }

    #[test]
    fn an_exact_origin_comes_before_a_host_and_goes_nowhere_else() {
        let has = secrets([
            (
                "exact",
                secret(
                    Some("infrahub.example.com"),
                    Some("https://infrahub.example.com:8443"),
                ),
            ),
            ("host", secret(Some("infrahub.example.com"), None)),
        ]);
        let exact = "https://infrahub.example.com:8443";
        assert_eq!(ask(&has, exact, None), Ok(Some("exact".to_owned())));
        assert_eq!(ask(&has, URL, None), Ok(Some("host".to_owned())));
        let error = ask(&has, URL, Some("exact")).unwrap_err();
        assert!(error.contains("is not sent to"), "{error}");
    }

    #[test]
    fn a_secret_that_a_sync_names_must_itself_say_where_it_may_go() {
        let has = secrets([("kubeconfig", secret(None, None))]);
        let error = ask(&has, URL, Some("kubeconfig")).unwrap_err();
        assert!(error.contains("annotate"), "{error}");
        let error = ask(&has, URL, Some("absent")).unwrap_err();
        assert!(error.contains("absent") && error.contains("vidra-system"));
    }

    #[test]
    fn a_later_sync_on_another_port_does_not_get_what_the_first_one_uses() {
        let has = secrets([("host", secret(Some("infrahub.example.com"), None))]);
        for url in [
            "http://infrahub.example.com",
            "https://infrahub.example.com:1",
        ] {
            let error = ask_after(&has, url, None, URL).unwrap_err();
            assert!(error.contains("is not sent to"), "{error}");
            assert!(ask_after(&has, url, Some("host"), URL).is_err());
        }
    }

    #[test]
    fn a_secret_may_go_where_it_says_and_nowhere_else() {
        let origin = |url| Origin::parse(url).unwrap();
        let by_host = secret(Some("infrahub.example.com"), None);
        assert!(by_host.may_go_to(&origin(URL)));
        let bound = secret(
            Some("infrahub.example.com"),
            Some("https://other.example.com"),
        );
        assert!(!bound.may_go_to(&origin(URL)));
        assert!(bound.may_go_to(&origin("https://other.example.com")));
        assert!(!secret(None, None).may_go_to(&origin(URL)));
    }

    #[test]
    fn an_annotation_that_is_no_origin_matches_nothing() {
        let has = secrets([(
            "bad",
            secret(Some("infrahub.example.com"), Some("anywhere")),
        )]);
        assert_eq!(ask(&has, URL, None), Ok(None));
        assert!(ask(&has, URL, Some("bad")).is_err());
    }
}
