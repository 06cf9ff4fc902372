use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};

use super::*;

const LOGIN: Call<'_> = Call::Login;
const GRAPHQL: Call<'_> = Call::Graphql { branch: "dev" };
const QUERY: Call<'_> = Call::Query {
    query: "Mine",
    branch: "dev",
};

fn now() -> Timestamp {
    "2026-11-16T00:00:00Z".parse().unwrap()
}

fn reply(status: u16, body: &str) -> Reply {
    Reply {
        status: StatusCode::from_u16(status).unwrap(),
        headers: HeaderMap::new(),
        body: body.as_bytes().to_vec(),
    }
}

fn judged(call: Call<'_>, reply: Reply) -> Error {
    let secret = SecretString::from("hunter2");
    let judge = Judge {
        call,
        secret: Some(&secret),
        now: now(),
    };
    judge.accept(reply).expect_err("this is no good answer")
}

fn envelope(message: &str, code: u16) -> String {
    format!(
        r#"{{"data":null,"errors":[{{"message":"{message}","extensions":{{"code":{code}}}}}]}}"#
    )
}

#[test]
fn the_same_missing_branch_is_told_in_two_envelopes() {
    let strings = reply(404, r#"{"errors":["Branch: dev not found."]}"#);
    assert_eq!(judged(GRAPHQL, strings).code(), "BranchNotFound");
    let query = reply(400, &envelope("Branch: dev not found.", 400));
    assert_eq!(judged(QUERY, query).code(), "BranchNotFound");
}

#[test]
fn a_login_may_be_refused_with_401_or_404() {
    let wrong = reply(401, &envelope("Incorrect password", 401));
    assert_eq!(judged(LOGIN, wrong).code(), "CredentialsRejected");
    let unknown = reply(
        404,
        &envelope("That login user doesn't exist in the system", 404),
    );
    assert_eq!(judged(LOGIN, unknown).code(), "CredentialsRejected");
    let elsewhere = reply(404, &envelope("The requested endpoint does not exist", 404));
    assert_eq!(judged(LOGIN, elsewhere).code(), "Refused");
}

#[test]
fn only_a_message_in_a_message_makes_502_a_failing_query() {
    let nested = r#"{"data":null,"errors":[{"message":{"message":"GraphQLQuery Mine: no","path":null,
        "locations":[{"line":1,"column":18}]},"extensions":{"code":502}}]}"#;
    assert_eq!(judged(QUERY, reply(502, nested)).code(), "QueryFailed");
    assert_eq!(
        judged(QUERY, reply(502, "<html>Bad Gateway")).code(),
        "Unavailable"
    );
    assert_eq!(judged(GRAPHQL, reply(502, nested)).code(), "Unavailable");
}

#[test]
fn a_missing_query_is_not_a_missing_page() {
    let text = "Unable to find the node Mine / <class 'infrahub.core.protocols.CoreGraphQLQuery'> in the database.";
    assert_eq!(
        judged(QUERY, reply(404, &envelope(text, 404))).code(),
        "QueryNotFound"
    );
    assert_eq!(
        judged(QUERY, reply(404, "<html>404</html>")).code(),
        "WebPage"
    );
}

#[test]
fn validation_errors_are_told_without_the_input_that_they_repeat() {
    let body = r#"{"detail":[{"type":"missing","loc":["body"],"msg":"Field required","input":{"password":"geheim"}}]}"#;
    let error = judged(LOGIN, reply(422, body));
    assert_eq!(error.code(), "Refused");
    assert!(error.to_string().contains("Field required"), "{error}");
    assert!(!error.to_string().contains("geheim"), "{error}");
}

#[test]
fn a_message_never_repeats_our_secret_and_a_body_is_never_repeated_at_all() {
    let error = judged(GRAPHQL, reply(403, &envelope("not with hunter2", 403)));
    assert!(error.to_string().contains("not with ***"), "{error}");
    let error = judged(GRAPHQL, reply(403, "internal page of somebody else"));
    assert!(!error.to_string().contains("internal page"), "{error}");
}

#[test]
fn the_wait_is_read_as_seconds_and_as_a_date() {
    for (text, seconds) in [
        ("7", 7),
        ("Mon, 16 Nov 2026 00:01:30 GMT", 90),
        ("Sun, 15 Nov 2026 00:00:00 GMT", 0),
        ("soon", 5),
        ("-3", 5),
    ] {
        let mut reply = reply(429, "");
        reply
            .headers
            .insert(RETRY_AFTER, HeaderValue::from_static(text));
        let expected = Some(Duration::from_secs(seconds));
        assert_eq!(judged(GRAPHQL, reply).retry_after(), expected, "{text}");
    }
}

#[test]
fn unavailable_with_a_wait_is_overload_and_without_is_not() {
    let mut busy = reply(503, "");
    assert_eq!(judged(GRAPHQL, busy.clone()).code(), "Unavailable");
    busy.headers
        .insert(RETRY_AFTER, HeaderValue::from_static("3"));
    assert_eq!(
        judged(GRAPHQL, busy).retry_after(),
        Some(Duration::from_secs(3))
    );
}

#[test]
fn a_redirect_tells_its_origin_and_nothing_more() {
    let mut moved = reply(308, "");
    let location = HeaderValue::from_static("https://user:pw@login.example/secret?token=x");
    moved.headers.insert(LOCATION, location);
    let error = judged(GRAPHQL, moved).to_string();
    assert!(error.contains("'https://login.example:443'"), "{error}");
    assert!(
        !error.contains("secret") && !error.contains("pw"),
        "{error}"
    );
}

#[test]
fn codes_of_graphql_errors_may_be_numbers_or_words() {
    let secret = None;
    let judge = Judge {
        call: GRAPHQL,
        secret,
        now: now(),
    };
    let code = |text: &str| {
        let errors: Vec<Value> = serde_json::from_str(text).unwrap();
        judge.graphql_errors(&errors).code()
    };
    assert_eq!(
        code(r#"[{"message":"m","extensions":{"code":403}}]"#),
        "Forbidden"
    );
    assert_eq!(
        code(r#"[{"message":"m","extensions":{"code":"X","http_status":401}}]"#),
        "CredentialsRejected"
    );
    assert_eq!(
        code(r#"[{"message":"Branch: dev not found."}]"#),
        "BranchNotFound"
    );
    assert_eq!(code(r#"[{"message":"m"}]"#), "GraphqlFailed");
    assert_eq!(code("[17, null, {}]"), "GraphqlFailed");
}

#[test]
fn partial_content_is_no_success() {
    assert_eq!(
        judged(Call::Content, reply(206, "half")).code(),
        "Unexpected"
    );
}

#[test]
fn a_page_is_known_by_its_type_or_its_beginning() {
    let mut typed = reply(200, "hello");
    typed.headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("Text/HTML; charset=utf-8"),
    );
    assert!(typed.is_web_page());
    assert!(reply(200, "\n <!doctype html>").is_web_page());
    assert!(!reply(200, "{\"a\":\"<html>\"}").is_web_page());
}
