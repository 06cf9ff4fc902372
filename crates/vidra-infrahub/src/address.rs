//! Where an Infrahub is.

use std::fmt;

use reqwest::Url;

use crate::error::Error;

/// The exact origin `scheme://host:port`; credentials belong to one of these.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    scheme: &'static str,
    host: String,
    port: u16,
}

impl Origin {
    /// Reads the origin of a URL; a path is ignored, a missing port is the scheme's.
    pub fn parse(text: &str) -> Result<Self, Error> {
        Address::parse(text).map(|address| address.origin)
    }

    /// The host alone, as the label of a credentials Secret has it.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether everything, credentials included, can be read on the way.
    pub fn is_plaintext(&self) -> bool {
        self.scheme == "http"
    }

    pub(crate) fn of(url: &Url) -> Option<Self> {
        let scheme = match url.scheme() {
            "http" => "http",
            "https" => "https",
            _ => return None,
        };
        Some(Self {
            scheme,
            host: url.host_str()?.to_owned(),
            port: url.port_or_known_default()?,
        })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}://{}:{}", self.scheme, self.host, self.port)
    }
}

/// An origin and the path below which Infrahub lives, for servers behind a reverse proxy.
///
/// The path is part of where requests go, but not of the origin that credentials are bound to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    origin: Origin,
    base: Url,
}

impl Address {
    /// Reads the URL of a sync. Credentials, query and fragment are refused.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let refused = |problem| Error::InvalidAddress { problem };
        let mut base =
            Url::parse(text.trim()).map_err(|_| refused("it cannot be read as a URL"))?;
        if !base.username().is_empty() || base.password().is_some() {
            return Err(refused("it contains credentials"));
        }
        if base.query().is_some() || base.fragment().is_some() {
            return Err(refused("it contains a query or a fragment"));
        }
        let origin = Origin::of(&base).ok_or_else(|| refused("it is no http or https URL"))?;
        let path = base.path().trim_end_matches('/').to_owned();
        base.set_path(&path);
        Ok(Self { origin, base })
    }

    /// The origin that credentials are bound to.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The URL of a path below the base.
    ///
    /// Every part is one segment, whatever is in it: `a/b` and `?` are encoded. What cannot be
    /// one, because URLs give it another meaning, is refused.
    pub(crate) fn join<'a>(&self, parts: impl IntoIterator<Item = &'a str>) -> Option<Url> {
        let mut url = self.base.clone();
        {
            let mut segments = url.path_segments_mut().ok()?;
            segments.pop_if_empty();
            for part in parts {
                if part.is_empty() || is_dots(part) {
                    return None;
                }
                segments.push(part);
            }
        }
        Some(url)
    }
}

/// `.` and `..`, which a URL parser would take as "here" and "up", also when encoded.
fn is_dots(part: &str) -> bool {
    matches!(
        part.to_ascii_lowercase().replace("%2e", ".").as_str(),
        "." | ".."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(text: &str) -> String {
        Origin::parse(text).unwrap().to_string()
    }

    #[test]
    fn an_origin_has_scheme_host_and_port_and_nothing_else() {
        assert_eq!(
            origin("https://Infrahub.Example.com"),
            "https://infrahub.example.com:443"
        );
        assert_eq!(origin("http://10.0.0.1/prefix/"), "http://10.0.0.1:80");
        assert_eq!(origin(" https://[::1]:8000/ "), "https://[::1]:8000");
    }

    #[test]
    fn another_scheme_or_port_is_another_origin() {
        let one = Origin::parse("https://hub.example").unwrap();
        assert_ne!(one, Origin::parse("http://hub.example").unwrap());
        assert_ne!(one, Origin::parse("https://hub.example:8443").unwrap());
        assert_eq!(one, Origin::parse("https://HUB.example:443/x").unwrap());
    }

    #[test]
    fn what_is_no_plain_address_is_refused_without_repeating_it() {
        let bad = [
            "",
            "hub.example",
            "ftp://hub.example",
            "https://",
            "https://user:hunter2@hub.example",
            "https://hub.example?token=hunter2",
            "https://hub.example#hunter2",
            "unix:/run/hunter2.sock",
        ];
        for text in bad {
            let error = Address::parse(text).expect_err(text);
            assert_eq!(error.reason(), "InvalidSpec");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_path_prefix_is_kept_and_parts_are_encoded() {
        let address = Address::parse("https://hub.example/infra/hub/").unwrap();
        let url = address.join(["graphql", "feature", "a b?c#d%e/f"]).unwrap();
        assert_eq!(
            url.path(),
            "/infra/hub/graphql/feature/a%20b%3Fc%23d%25e%2Ff"
        );
        let plain = Address::parse("https://hub.example").unwrap();
        assert_eq!(
            plain.join(["graphql"]).unwrap().as_str(),
            "https://hub.example/graphql"
        );
    }

    #[test]
    fn a_part_can_never_climb_out_of_the_base() {
        let address = Address::parse("https://hub.example/infra").unwrap();
        for part in ["", ".", "..", "%2e%2E", ".%2e"] {
            assert_eq!(address.join(["graphql", part]), None, "{part}");
        }
    }
}
