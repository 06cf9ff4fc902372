//! Certificates.

use vidra_infrahub::{Address, Policy, Sessions};
use vidra_lab::standin::{Options, StandIn, Tls};

use crate::support::{list, session, token};

fn standin(tls: Tls) -> StandIn {
    let options = Options {
        tls: Some(tls),
        ..Options::default()
    };
    let standin = StandIn::start_with(&options).unwrap();
    standin.artifact("web").content("x").ready();
    standin
}

#[tokio::test]
async fn a_certificate_of_the_given_authority_is_trusted() {
    let standin = standin(Tls::Valid);
    let session = session(&standin, &token());
    assert_eq!(list(&session, "web").await.unwrap().len(), 1);
    assert!(!session.is_plaintext());
}

#[tokio::test]
async fn no_other_certificate_is_trusted_and_no_credential_is_sent() {
    for tls in [Tls::WrongHost, Tls::Expired, Tls::SelfSigned] {
        let standin = standin(tls);
        let error = list(&session(&standin, &token()), "web").await.unwrap_err();
        assert_eq!(
            (error.code(), error.reason()),
            ("Tls", "InfrahubUnreachable"),
            "{tls:?}"
        );
        assert_eq!(standin.journal().len(), 0);
    }
}

#[tokio::test]
async fn an_authority_that_was_not_given_is_not_trusted() {
    let (standin, other) = (standin(Tls::Valid), standin(Tls::Valid));
    let address = Address::parse(&standin.url()).unwrap();
    let sessions = Sessions::new(Policy::default());
    let session = sessions
        .session(&address, &token(), other.authority())
        .unwrap();
    assert_eq!(list(&session, "web").await.unwrap_err().code(), "Tls");
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_is_told_from_one_that_is_away() {
    let plain = StandIn::start().unwrap();
    let authority = standin(Tls::Valid);
    let address = Address::parse(&plain.url().replace("http:", "https:")).unwrap();
    let sessions = Sessions::new(Policy::default());
    let session = sessions
        .session(&address, &token(), authority.authority())
        .unwrap();
    assert_eq!(list(&session, "web").await.unwrap_err().code(), "Tls");
}
