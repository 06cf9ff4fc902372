//! Logins, tokens, permissions.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use vidra_lab::standin::{ADMIN, Group, StandIn};

use crate::client::Client;

#[tokio::test]
async fn an_access_token_ends_with_its_lifetime_and_a_refresh_makes_a_new_one() {
    let standin = StandIn::start().unwrap();
    standin.token_lifetimes(Duration::from_mins(1), Duration::from_mins(10));
    let client = Client::of(&standin);
    let (access, refresh) = client.login(ADMIN.0, ADMIN.1).await;
    assert_eq!(client.with_bearer("/api/info", &access).await.status, 200);

    standin.advance(Duration::from_secs(61));
    let late = client.with_bearer("/api/info", &access).await;
    assert_eq!(
        (late.status, late.message().as_str()),
        (401, "Expired Signature")
    );

    let renewal = client
        .request(Method::POST, "/api/auth/refresh")
        .bearer_auth(&refresh);
    let renewed = client.send(renewal).await.json()["access_token"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(client.with_bearer("/api/info", &renewed).await.status, 200);

    standin.advance(Duration::from_mins(10));
    let renewal = client
        .request(Method::POST, "/api/auth/refresh")
        .bearer_auth(&refresh);
    assert_eq!(client.send(renewal).await.message(), "Expired Signature");
}

#[tokio::test]
async fn a_new_secret_makes_all_tokens_of_logins_invalid_but_no_api_token() {
    let standin = StandIn::start().unwrap();
    let client = Client::of(&standin);
    let (access, _) = client.login(ADMIN.0, ADMIN.1).await;
    let key = standin
        .account(ADMIN.0, ADMIN.1, Group::Administrators)
        .token();
    standin.change_secret();

    assert_eq!(
        client.with_bearer("/api/info", &access).await.message(),
        "Invalid token"
    );
    let by_key = client
        .request(Method::GET, "/api/info")
        .header("X-INFRAHUB-KEY", key);
    assert_eq!(client.send(by_key).await.status, 200);
}

#[tokio::test]
async fn an_expired_or_revoked_api_token_is_invalid() {
    let standin = StandIn::start().unwrap();
    let client = Client::of(&standin);
    let account = standin.account("robot", "secret", Group::Users);
    let soon = standin.now() + Duration::from_mins(1);
    let (short, long) = (account.expiring_token(Some(soon)), account.token());
    let ask = |key: &str| {
        client
            .request(Method::GET, "/api/info")
            .header("X-INFRAHUB-KEY", key)
    };
    assert_eq!(client.send(ask(&short)).await.status, 200);

    standin.advance(Duration::from_secs(61));
    assert_eq!(client.send(ask(&short)).await.message(), "Invalid token");
    assert_eq!(client.send(ask(&long)).await.status, 200);

    standin.revoke_token(&long);
    assert_eq!(client.send(ask(&long)).await.message(), "Invalid token");
}

#[tokio::test]
async fn an_account_in_no_group_reads_content_but_may_not_query() {
    let standin = StandIn::start_seeded().unwrap();
    let client = Client::of(&standin);
    let rendered = standin
        .artifact("extra")
        .content("kind: ConfigMap\n")
        .ready();
    let key = standin.account("lonely", "secret", Group::Nobody).token();
    let with_key = |method, path: &str| client.request(method, path).header("X-INFRAHUB-KEY", &key);

    let query = json!({ "query": "{ CoreArtifact { count } }" });
    let asked = client
        .send(with_key(Method::POST, "/graphql").json(&query))
        .await;
    let expected = "You do not have one of the following permissions: \
                    object:Core:Artifact:view:allow_default";
    assert_eq!((asked.status, asked.message().as_str()), (403, expected));
    let path = format!("/api/artifact/{}", rendered.id);
    assert_eq!(
        client.send(with_key(Method::GET, &path)).await.text,
        "kind: ConfigMap\n"
    );
    let path = format!("/api/storage/object/{}", rendered.storage_id.unwrap());
    assert_eq!(client.send(with_key(Method::GET, &path)).await.status, 200);
}

#[tokio::test]
async fn without_anonymous_access_only_the_configuration_is_open() {
    let standin = StandIn::start_seeded().unwrap();
    standin.allow_anonymous(false);
    let client = Client::of(&standin);
    assert_eq!(client.get("/api/config").await.status, 200);
    assert_eq!(
        client.get("/api/info").await.message(),
        "Authentication is required"
    );
    let asked = client
        .graphql("/graphql", "{ CoreArtifact { count } }")
        .await;
    assert_eq!(
        asked.message(),
        "Authentication is required to perform this operation"
    );
}
