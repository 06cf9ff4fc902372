//! TLS, with good and with bad certificates.

use std::error::Error;

use vidra_lab::standin::{Options, StandIn, Tls};

use crate::client::Client;

fn started(tls: Tls) -> (StandIn, Client) {
    let standin = StandIn::start_with(&Options {
        tls: Some(tls),
        ..Options::default()
    })
    .unwrap();
    let client = Client::of(&standin);
    (standin, client)
}

/// The whole story of an error, down to what the TLS library says.
fn story(error: &reqwest::Error) -> String {
    let mut words = vec![error.to_string()];
    let mut source = error.source();
    while let Some(error) = source {
        words.push(error.to_string());
        source = error.source();
    }
    words.join(": ")
}

#[tokio::test]
async fn a_valid_certificate_is_accepted_by_those_who_trust_its_authority() {
    let (standin, client) = started(Tls::Valid);
    assert!(standin.url().starts_with("https://127.0.0.1:"));
    assert_eq!(client.get("/api/info").await.status, 200);
}

#[tokio::test]
async fn a_bad_certificate_is_refused_for_its_own_reason() {
    for (tls, reason) in [
        (Tls::WrongHost, "not valid for name"),
        (Tls::Expired, "expired"),
        (Tls::SelfSigned, "UnknownIssuer"),
    ] {
        let (_standin, client) = started(tls);
        let error = client
            .request(reqwest::Method::GET, "/api/info")
            .send()
            .await
            .unwrap_err();
        let story = story(&error);
        assert!(story.contains(reason), "{tls:?}: {story}");
    }
}
