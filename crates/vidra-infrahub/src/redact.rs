//! Words of a server, made fit for people: bounded, on one line, without credentials.

use secrecy::{ExposeSecret, SecretString};

/// More than any message of Infrahub that tells something.
const LONGEST: usize = 300;
/// A shorter secret would be found everywhere, and replacing it would tell where it is.
const SHORTEST_SECRET: usize = 4;
const HIDDEN: &str = "***";

/// A message without `secret` and without anything that looks like a web token.
pub(crate) fn message(text: &str, secret: Option<&SecretString>) -> Option<String> {
    let text = hide_secret(text, secret)?;
    let words = text.split(|letter: char| letter.is_whitespace() || letter.is_control());
    let words = words.filter(|word| !word.is_empty()).map(hide_token);
    let line = words.collect::<Vec<_>>().join(" ");
    let short: String = line.chars().take(LONGEST).collect();
    (!short.is_empty()).then_some(short)
}

/// `None` where the secret is too short to be replaced: then nothing is told.
fn hide_secret(text: &str, secret: Option<&SecretString>) -> Option<String> {
    let Some(secret) = secret.map(ExposeSecret::expose_secret) else {
        return Some(text.to_owned());
    };
    if !text.contains(secret) {
        return Some(text.to_owned());
    }
    (secret.len() >= SHORTEST_SECRET).then(|| text.replace(secret, HIDDEN))
}

/// Web tokens begin with `{"` in base64.
fn hide_token(word: &str) -> &str {
    if word.contains("eyJ") { HIDDEN } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_tokens_do_not_get_through() {
        let secret = SecretString::from("hunter2");
        let text = "password hunter2 of \"Bearer eyJhbGciOi.e30.x\" is\nwrong\u{7}";
        let expected = "password *** of \"Bearer *** is wrong";
        assert_eq!(message(text, Some(&secret)).as_deref(), Some(expected));
    }

    #[test]
    fn where_a_secret_is_too_short_to_be_hidden_nothing_is_told() {
        assert_eq!(message("no way", Some(&"a".into())), None);
        assert_eq!(message("no", Some(&"a".into())).as_deref(), Some("no"));
    }

    #[test]
    fn a_message_is_bounded() {
        let long = "\u{e4}".repeat(10_000);
        assert_eq!(message(&long, None).unwrap().chars().count(), LONGEST);
    }

    #[test]
    fn nothing_is_no_message() {
        assert_eq!(message(" \n\t", None), None);
    }
}
