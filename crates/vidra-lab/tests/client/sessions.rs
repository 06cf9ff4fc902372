//! Logins: as few as possible, as many as needed.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use vidra_infrahub::{Credentials, Policy, Sessions};
use vidra_lab::standin::{ADMIN, Authorization, Effect, Fault, Group, StandIn, When};

use crate::support::{address, list, password, session, token};

fn standin() -> StandIn {
    let standin = StandIn::start().unwrap();
    standin.artifact("web").content("kind: ConfigMap\n").ready();
    standin
}

fn logins(standin: &StandIn) -> usize {
    standin.count("POST", "/api/auth/login")
}

#[tokio::test]
async fn fifty_calls_at_once_make_one_login() {
    let standin = standin();
    let session = session(&standin, &password());
    let results = join_all((0..50).map(|_| list(&session, "web"))).await;
    assert!(
        results
            .iter()
            .all(|result| result.as_ref().is_ok_and(|list| list.len() == 1))
    );
    assert_eq!(logins(&standin), 1);
}

#[tokio::test]
async fn a_401_in_the_middle_leads_to_one_login_however_many_calls_wait() {
    let standin = standin();
    let session = session(&standin, &password());
    list(&session, "web").await.unwrap();
    standin.change_secret();
    let results = join_all((0..50).map(|_| list(&session, "web"))).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(logins(&standin), 2);
}

#[tokio::test]
async fn a_token_that_expired_by_the_servers_clock_is_replaced_once() {
    let standin = standin();
    let session = session(&standin, &password());
    list(&session, "web").await.unwrap();
    standin.advance(Duration::from_hours(2));
    let results = join_all((0..20).map(|_| list(&session, "web"))).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(logins(&standin), 2);
}

#[tokio::test]
async fn a_token_is_refreshed_before_it_ends_so_that_no_call_fails() {
    let standin = standin();
    standin.token_lifetimes(Duration::from_secs(4), Duration::from_hours(1));
    let session = session(&standin, &password());
    list(&session, "web").await.unwrap();
    tokio::time::sleep(Duration::from_millis(3100)).await;
    list(&session, "web").await.unwrap();
    assert_eq!(
        (logins(&standin), standin.count("POST", "/api/auth/refresh")),
        (1, 1)
    );
    assert!(
        standin
            .journal()
            .iter()
            .all(|call| call.status != Some(401))
    );
}

#[tokio::test]
async fn a_server_that_refuses_its_own_tokens_is_not_asked_in_a_loop() {
    let standin = standin();
    let session = session(&standin, &password());
    standin.fault(Fault::status("/graphql", 401, ""));
    let error = list(&session, "web").await.unwrap_err();
    assert_eq!(
        (error.code(), error.reason()),
        ("SessionRejected", "CredentialsRejected")
    );
    assert_eq!(
        (logins(&standin), standin.count("POST", "/graphql")),
        (2, 2)
    );
}

#[tokio::test]
async fn a_wrong_password_is_tried_once_for_all_who_wait() {
    let standin = standin();
    let wrong = Credentials::password(ADMIN.0, &"geheim".into()).unwrap();
    let session = session(&standin, &wrong);
    let results = join_all((0..20).map(|_| list(&session, "web"))).await;
    for result in results {
        let error = result.unwrap_err();
        assert_eq!(error.code(), "CredentialsRejected");
        assert!(error.to_string().contains("Incorrect password"), "{error}");
    }
    assert_eq!(
        (logins(&standin), standin.count("POST", "/graphql")),
        (1, 0)
    );
}

#[tokio::test]
async fn an_unknown_user_is_a_matter_of_credentials() {
    let standin = standin();
    let unknown = Credentials::password("nobody", &"geheim".into()).unwrap();
    let error = list(&session(&standin, &unknown), "web").await.unwrap_err();
    assert_eq!(error.reason(), "CredentialsRejected");
}

#[tokio::test]
async fn a_changed_password_counts_at_once() {
    let standin = standin();
    let sessions = Sessions::new(Policy::default());
    let with = |password: &str| {
        let credentials = Credentials::password("robot", &password.into()).unwrap();
        sessions
            .session(&address(&standin), &credentials, None)
            .unwrap()
    };
    standin.account("robot", "new", Group::Users);
    assert!(list(&with("old"), "web").await.is_err());
    assert!(list(&with("new"), "web").await.is_ok());
    assert!(Arc::ptr_eq(&with("new"), &with("new")));
}

#[tokio::test]
async fn an_api_token_needs_no_login_and_a_revoked_one_is_refused() {
    let standin = standin();
    let key = standin.account("robot", "x", Group::Users).token();
    let session = session(&standin, &Credentials::token(&key.as_str().into()).unwrap());
    list(&session, "web").await.unwrap();
    let call = standin.journal().pop().unwrap();
    assert_eq!(call.authorization, Authorization::ApiToken);
    assert_eq!(call.header("authorization"), None);
    standin.revoke_token(&key);
    let error = list(&session, "web").await.unwrap_err();
    assert_eq!(error.code(), "CredentialsRejected");
    assert_eq!(logins(&standin), 0);
}

#[tokio::test]
async fn without_credentials_no_header_is_sent_and_the_server_decides() {
    let standin = standin();
    let session = session(&standin, &Credentials::Anonymous);
    assert_eq!(list(&session, "web").await.unwrap().len(), 1);
    let call = standin.journal().pop().unwrap();
    let sent = ["authorization", "x-infrahub-key", "cookie"].map(|name| call.header(name));
    assert_eq!(sent, [None, None, None]);
    standin.allow_anonymous(false);
    let error = list(&session, "web").await.unwrap_err();
    assert_eq!(
        (error.code(), error.reason()),
        ("AuthenticationRequired", "CredentialsMissing")
    );
}

#[tokio::test]
async fn an_account_without_permissions_is_told_so() {
    let standin = standin();
    let key = standin.account("lonely", "x", Group::Nobody).token();
    let session = session(&standin, &Credentials::token(&key.as_str().into()).unwrap());
    let error = list(&session, "web").await.unwrap_err();
    assert_eq!(error.reason(), "AccessDenied");
    assert!(
        error.to_string().contains("object:Core:Artifact:view"),
        "{error}"
    );
}

#[tokio::test]
async fn requests_say_who_they_are_and_that_they_can_wait() {
    let standin = standin();
    list(&session(&standin, &token()), "web").await.unwrap();
    let call = standin.journal().pop().unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        call.header("user-agent"),
        Some(format!("vidra/{version}").as_str())
    );
    assert_eq!(call.header("x-priority"), Some("low"));
}

#[tokio::test]
async fn a_server_that_wants_to_be_left_alone_is_left_alone_by_all_calls() {
    let standin = standin();
    let session = session(&standin, &token());
    let headers = [("retry-after".to_owned(), "30".to_owned())].into();
    let (status, body) = (429, String::new());
    let busy = Effect::Answer {
        status,
        body,
        headers,
    };
    standin.fault(Fault::on("/graphql", busy).when(When::First(1)));
    let first = list(&session, "web").await.unwrap_err();
    assert_eq!(first.retry_after(), Some(Duration::from_secs(30)));
    let second = list(&session, "web").await.unwrap_err();
    assert!(
        second
            .retry_after()
            .is_some_and(|wait| wait <= Duration::from_secs(30))
    );
    assert_eq!(standin.count("POST", "/graphql"), 1);
}

#[tokio::test]
async fn a_login_that_the_server_puts_off_is_not_a_refusal_of_the_credentials() {
    let standin = standin();
    let session = session(&standin, &password());
    standin.fault(Fault::status("/api/auth/login", 503, "").when(When::First(1)));
    assert_eq!(
        list(&session, "web").await.unwrap_err().code(),
        "Unavailable"
    );
    assert!(list(&session, "web").await.is_ok());
}

#[tokio::test]
async fn a_session_prints_no_credentials() {
    let standin = standin();
    let text = format!("{:?}", session(&standin, &password()));
    assert!(!text.contains(ADMIN.0) && !text.contains(ADMIN.1), "{text}");
    assert!(session(&standin, &password()).is_plaintext());
}
