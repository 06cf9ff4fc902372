//! Queries that users registered.

use vidra_infrahub::{Credentials, Source};
use vidra_lab::standin::{ARTIFACT, Effect, Fault, QUERY, StandIn};

use crate::support::{MAIN, names, password, session, token};

const ONLY_READY: &str = "query Mine($artifactname: String!) { \
    CoreArtifact(name__value: $artifactname, status__value: \"Ready\") { edges { node { id } } } }";

fn standin(query: &str) -> StandIn {
    let standin = StandIn::start().unwrap();
    standin.query("Mine", query);
    for name in ["web", "db"] {
        standin.artifact(name).target("a").content(name).ready();
        standin.artifact(name).target("b").pending();
    }
    standin
}

fn requests(standin: &StandIn) -> (usize, usize) {
    let count = |path| standin.count("POST", path) + standin.count("GET", path);
    (count("/graphql"), count("/api/query/"))
}

#[tokio::test]
async fn the_query_that_users_of_the_first_operator_registered_costs_one_request_for_all_names() {
    let standin = StandIn::start_seeded().unwrap();
    let session = session(&standin, &token());
    let wanted = names([ARTIFACT, "other"]);
    let listing = session
        .list_artifacts(&MAIN, &wanted, Some(QUERY))
        .await
        .unwrap();
    assert_eq!(
        (listing.artifacts[ARTIFACT].len(), listing.source),
        (2, Source::Own)
    );
    assert_eq!(requests(&standin), (1, 0));
}

#[tokio::test]
async fn a_query_that_is_not_registered_costs_nothing() {
    let standin = standin(ONLY_READY);
    let session = session(&standin, &token());
    let wanted = names(["web", "db"]);
    let listing = session
        .list_artifacts(&MAIN, &wanted, Some("Other"))
        .await
        .unwrap();
    assert_eq!(
        (listing.artifacts["web"].len(), listing.source),
        (2, Source::Own)
    );
    assert_eq!(requests(&standin), (1, 0));
}

#[tokio::test]
async fn a_query_that_selects_otherwise_decides_and_is_remembered() {
    let standin = standin(ONLY_READY);
    for credentials in [token(), password(), Credentials::Anonymous] {
        let session = session(&standin, &credentials);
        for expected in [(2, 2), (1, 2)] {
            standin.clear_journal();
            let wanted = names(["web", "db"]);
            let listing = session
                .list_artifacts(&MAIN, &wanted, Some("Mine"))
                .await
                .unwrap();
            assert_eq!(listing.source, Source::Registered);
            for name in ["web", "db"] {
                assert_eq!(listing.artifacts[name].len(), 1);
                assert_eq!(listing.artifacts[name][0].name, name);
                assert!(listing.artifacts[name][0].storage_id.is_some());
            }
            assert_eq!(requests(&standin), expected, "{credentials:?}");
        }
    }
}

#[tokio::test]
async fn a_query_that_is_removed_is_replaced_by_ours() {
    let standin = standin(ONLY_READY);
    let session = session(&standin, &token());
    session
        .list_artifacts(&MAIN, &names(["web"]), Some("Mine"))
        .await
        .unwrap();
    standin.delete_query("Mine");
    let listing = session
        .list_artifacts(&MAIN, &names(["web"]), Some("Mine"))
        .await
        .unwrap();
    assert_eq!(
        (listing.artifacts["web"].len(), listing.source),
        (2, Source::Own)
    );
}

#[tokio::test]
async fn a_query_about_something_else_is_ignored() {
    let query = "query($artifactname: String) { Branch(name: $artifactname) { name } }";
    let standin = standin(query);
    let session = session(&standin, &token());
    for expected in [(2, 1), (1, 0)] {
        standin.clear_journal();
        let listing = session
            .list_artifacts(&MAIN, &names(["web"]), Some("Mine"))
            .await
            .unwrap();
        assert_eq!(
            (listing.artifacts["web"].len(), listing.source),
            (2, Source::Own)
        );
        assert_eq!(requests(&standin), expected);
    }
}

#[tokio::test]
async fn a_query_that_fails_is_an_error_and_not_our_own_answer() {
    for query in [
        "query($name: String!) { CoreArtifact(name__value: $name) { edges { node { id } } } }",
        "query($artifactname: String!) { CoreArtifact(name__value: $artifactname) { nope } x }",
    ] {
        let standin = standin(query);
        let session = session(&standin, &token());
        let result = session
            .list_artifacts(&MAIN, &names(["web"]), Some("Mine"))
            .await;
        let error = result.unwrap_err();
        assert_eq!(
            (error.code(), error.reason()),
            ("QueryFailed", "InfrahubError"),
            "{query}"
        );
        assert!(error.to_string().contains("GraphQLQuery Mine"), "{error}");
    }
}

#[tokio::test]
async fn bad_answers_of_a_registered_query_are_errors() {
    let standin = standin(ONLY_READY);
    let session = session(&standin, &token());
    let wanted = names(["web"]);
    let ask = || session.list_artifacts(&MAIN, &wanted, Some("Mine"));
    ask().await.unwrap();
    for (status, body, code) in [
        (200, "<html>", "WebPage"),
        (200, "", "Malformed"),
        (200, "{}", "Unexpected"),
        (200, r#"{"data":null}"#, "Unexpected"),
        (200, r#"{"data":{"CoreArtifact":null}}"#, "Unexpected"),
        (
            200,
            r#"{"data":{"CoreArtifact":{"edges":null}}}"#,
            "Unexpected",
        ),
        (
            200,
            r#"{"data":{"CoreArtifact":{"edges":[{"node":null}]}}}"#,
            "Unexpected",
        ),
        (
            200,
            r#"{"data":{"CoreArtifact":{"count":5,"edges":[]}}}"#,
            "Incomplete",
        ),
        (
            200,
            r#"{"data":{"CoreArtifact":{"edges":[{"node":{"id":"gone"}}]}}}"#,
            "ListChanged",
        ),
        (
            200,
            r#"{"data":{"CoreArtifact":{"edges":[]}},"errors":[{"message":"m"}]}"#,
            "GraphqlFailed",
        ),
        (401, "", "CredentialsRejected"),
        (403, "", "Forbidden"),
        (404, "<html>", "WebPage"),
        (404, "", "Refused"),
        (500, "Internal Server Error", "Crashed"),
        (502, "<html>", "Unavailable"),
        (504, "", "Unavailable"),
    ] {
        let id = standin.fault(Fault::status("/api/query/", status, body));
        assert_eq!(ask().await.unwrap_err().code(), code, "{status} {body}");
        standin.disarm(id);
        assert_eq!(ask().await.unwrap().artifacts["web"].len(), 1);
    }
}

#[tokio::test]
async fn where_queries_may_not_be_read_the_registered_one_is_asked() {
    let standin = standin(ONLY_READY);
    let session = session(&standin, &token());
    let message = "You do not have one of the following permissions: object:Core:GraphQLQuery:view";
    let body = format!(
        r#"{{"data":null,"errors":[{{"message":"{message}","extensions":{{"code":403}}}}]}}"#
    );
    let headers = [].into();
    let refused = Effect::Answer {
        status: 403,
        body,
        headers,
    };
    standin.fault(Fault::on("/graphql", refused).when(vidra_lab::standin::When::First(1)));
    let listing = session
        .list_artifacts(&MAIN, &names(["web"]), Some("Mine"))
        .await
        .unwrap();
    assert_eq!(
        (listing.artifacts["web"].len(), listing.source),
        (1, Source::Registered)
    );
}
