//! Answers that must never be taken for a list of artifacts, each with the name it gets.

use vidra_infrahub::Error;
use vidra_lab::standin::{Effect, Fault, StandIn};

use crate::support::{MAIN, impatient, list, names, password, session_with, token};

/// What is served, and which code and reason it must get.
type Row = (&'static str, Effect, &'static str, &'static str);

fn answer(status: u16, body: &str) -> Effect {
    with(status, body, &[])
}

fn with(status: u16, body: &str, headers: &[(&str, &str)]) -> Effect {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Effect::Answer {
        status,
        body: body.to_owned(),
        headers: headers.iter().map(owned).collect(),
    }
}

fn redirect(status: u16, location: &str) -> Effect {
    let location = location.to_owned();
    Effect::Redirect { status, location }
}

/// A list with one artifact in it, good but for the parts that are given.
fn one(count: &str, id: &str, name: &str) -> String {
    let node = format!(
        r#"{{"id":{id},"name":{{"value":{name}}},"status":{{"value":"Ready"}},"content_type":{{"value":null}},"checksum":{{"value":"c"}},"storage_id":{{"value":"s"}}}}"#
    );
    format!(r#"{{"data":{{"CoreArtifact":{{"count":{count},"edges":[{{"node":{node}}}]}}}}}}"#)
}

const PERMISSION: &str = r#"{"data":null,"errors":[{"message":"You do not have one of the following permissions: x","extensions":{"code":403}}]}"#;
const VALIDATION: &str =
    r#"{"detail":[{"type":"missing","loc":["body"],"msg":"Field required","input":{}}]}"#;
const EMPTY: &str = r#"{"data":{"CoreArtifact":{"count":0,"edges":[]}}}"#;

/// Bodies with HTTP 200 that are no list.
fn bodies() -> Vec<Row> {
    let bad = |what, body: &str| (what, answer(200, body), "Unexpected", "InfrahubError");
    let other = |what, body: &str, code| (what, answer(200, body), code, "InfrahubError");
    let html = &[("content-type", "text/html")];
    vec![
        other("a web page", "<!doctype html><html></html>", "WebPage"),
        other("XML", "<?xml version=\"1.0\"?><a/>", "WebPage"),
        (
            "a page by its type",
            with(200, "Sign in", html),
            "WebPage",
            "InfrahubError",
        ),
        other("nothing", "", "Malformed"),
        other("white space", " \n", "Malformed"),
        other("plain text", "OK", "Malformed"),
        other("half of an answer", &EMPTY[..30], "Malformed"),
        other("two answers", &format!("{EMPTY}{EMPTY}"), "Malformed"),
        other("a deep nest", &"[".repeat(5_000), "Malformed"),
        bad("null", "null"),
        bad("a number", "0"),
        bad("a text", "\"no artifacts\""),
        bad("an array", "[]"),
        bad("an empty object", "{}"),
        bad("no data", r#"{"data":null}"#),
        bad("data without a list", r#"{"data":{}}"#),
        bad("a list that is null", r#"{"data":{"CoreArtifact":null}}"#),
        bad("a list that is a list", r#"{"data":{"CoreArtifact":[]}}"#),
        bad("no count", r#"{"data":{"CoreArtifact":{"edges":[]}}}"#),
        bad("no edges", r#"{"data":{"CoreArtifact":{"count":0}}}"#),
        bad(
            "edges that are null",
            r#"{"data":{"CoreArtifact":{"count":0,"edges":null}}}"#,
        ),
        bad(
            "a hole",
            r#"{"data":{"CoreArtifact":{"count":1,"edges":[{"node":null}]}}}"#,
        ),
        bad("the REST form of success", r#"{"result":{"artifacts":[]}}"#),
        bad("the answer to another query", r#"{"data":{"Branch":[]}}"#),
        bad(
            "data twice",
            r#"{"data":{"CoreArtifact":{"count":0,"edges":[]}},"data":null}"#,
        ),
    ]
}

/// Lists with HTTP 200 in the right form, but with something wrong in them.
fn lists() -> Vec<Row> {
    let bad = |what, body: &str| (what, answer(200, body), "Unexpected", "InfrahubError");
    let other = |what, body: &str, code| (what, answer(200, body), code, "InfrahubError");
    let twice = one("2", r#""a""#, r#""web""#).replace("}}}]", r#"}}},{"node":{"id":"a"}}]"#);
    vec![
        bad("a negative count", &one("-1", r#""a""#, r#""web""#)),
        bad("a count in words", &one("\"1\"", r#""a""#, r#""web""#)),
        bad("a broken count", &one("1.5", r#""a""#, r#""web""#)),
        bad("an empty id", &one("1", r#""""#, r#""web""#)),
        bad("an id that is a number", &one("1", "7", r#""web""#)),
        bad("an artifact without a name", &one("1", r#""a""#, "null")),
        bad(
            "an artifact that nobody asked for",
            &one("1", r#""a""#, r#""db""#),
        ),
        bad("a node without its fields", &twice),
        other(
            "fewer than counted",
            &one("2", r#""a""#, r#""web""#),
            "Incomplete",
        ),
        other(
            "more than counted",
            &one("0", r#""a""#, r#""web""#),
            "Incomplete",
        ),
        other(
            "a count without anything",
            &EMPTY.replace('0', "3"),
            "Incomplete",
        ),
        other(
            "an endless list",
            &one("18446744073709551615", r#""a""#, r#""web""#),
            "Incomplete",
        ),
        other(
            "errors beside good data",
            &EMPTY.replace("}}}", r#"}},"errors":[{"message":"partial"}]}"#),
            "GraphqlFailed",
        ),
        other(
            "errors alone",
            r#"{"data":null,"errors":[{"message":"m"}]}"#,
            "GraphqlFailed",
        ),
        other(
            "odd errors",
            r#"{"data":null,"errors":[7,null]}"#,
            "GraphqlFailed",
        ),
        (
            "a refusal with 200",
            answer(200, PERMISSION),
            "Forbidden",
            "AccessDenied",
        ),
    ]
}

/// Statuses other than 200.
fn statuses() -> Vec<Row> {
    let error = |what, effect, code| (what, effect, code, "InfrahubError");
    let away = |what, effect| (what, effect, "Unavailable", "InfrahubUnreachable");
    let later = &[("retry-after", "0")];
    vec![
        error("201 with a good body", answer(201, EMPTY), "Unexpected"),
        error("204", answer(204, ""), "Unexpected"),
        error("206 with a good body", answer(206, EMPTY), "Unexpected"),
        error(
            "301 to the same server",
            redirect(301, "/graphql/main/"),
            "Redirected",
        ),
        error(
            "302 to a login",
            redirect(302, "https://login.example/x"),
            "Redirected",
        ),
        error(
            "307 to inside",
            redirect(307, "http://169.254.169.254/latest"),
            "Redirected",
        ),
        error("308 to nowhere", answer(308, ""), "Redirected"),
        error("300", answer(300, EMPTY), "Redirected"),
        error(
            "400",
            answer(400, r#"{"errors":["Request body is not a valid JSON"]}"#),
            "Refused",
        ),
        (
            "401",
            answer(401, ""),
            "CredentialsRejected",
            "CredentialsRejected",
        ),
        ("403", answer(403, PERMISSION), "Forbidden", "AccessDenied"),
        (
            "403 without words",
            answer(403, ""),
            "Forbidden",
            "AccessDenied",
        ),
        error(
            "403 of a firewall",
            answer(403, "<html>Blocked</html>"),
            "WebPage",
        ),
        error(
            "404 of a web server",
            answer(404, "<html>Not Found</html>"),
            "WebPage",
        ),
        error("404 with a good body", answer(404, EMPTY), "Refused"),
        (
            "404 for the branch",
            answer(404, r#"{"errors":["Branch: main not found."]}"#),
            "BranchNotFound",
            "BranchNotFound",
        ),
        error("405", answer(405, ""), "Refused"),
        error("407 of a proxy", answer(407, ""), "Refused"),
        error("410", answer(410, EMPTY), "Refused"),
        error("418", answer(418, "teapot"), "Refused"),
        error("422", answer(422, VALIDATION), "Refused"),
        error("423 while merging", answer(423, ""), "Refused"),
        error("429", with(429, "", later), "Overloaded"),
        error("503 with a wait", with(503, "", later), "Overloaded"),
        error(
            "500 after a syntax error",
            answer(500, "Internal Server Error"),
            "Crashed",
        ),
        error("500 with a good body", answer(500, EMPTY), "Crashed"),
        away("502", answer(502, "<html>Bad Gateway</html>")),
        away("502 with a good body", answer(502, EMPTY)),
        away("503", answer(503, "")),
        away("504", answer(504, "")),
        away("520 of a proxy", answer(520, "")),
    ]
}

/// Connections and timings.
fn connections() -> Vec<Row> {
    let away = |what, effect, code| (what, effect, code, "InfrahubUnreachable");
    let gzip = &[("content-encoding", "gzip")];
    vec![
        away("silence", Effect::Hang, "TimedOut"),
        away(
            "an answer that comes too late",
            Effect::Delay {
                milliseconds: 3_000,
            },
            "TimedOut",
        ),
        away(
            "an answer that stops",
            Effect::Drip {
                milliseconds: 2_000,
            },
            "TimedOut",
        ),
        away(
            "an answer that never ends",
            Effect::Drip { milliseconds: 100 },
            "TimedOut",
        ),
        away(
            "a cut answer",
            Effect::Truncate { bytes: 20 },
            "Interrupted",
        ),
        away(
            "only a header",
            Effect::Truncate { bytes: 0 },
            "Interrupted",
        ),
        away(
            "what claims to be packed",
            with(200, EMPTY, gzip),
            "Interrupted",
        ),
        (
            "too much",
            Effect::Oversized { bytes: 1 << 20 },
            "TooLarge",
            "TooLarge",
        ),
    ]
}

fn standin() -> StandIn {
    let standin = StandIn::start().unwrap();
    standin.artifact("web").content("kind: ConfigMap\n").ready();
    standin
}

#[tokio::test]
async fn every_bad_list_is_an_error_with_its_own_name_and_passes_with_its_cause() {
    let rows: Vec<Row> = [bodies(), lists(), statuses(), connections()].concat();
    assert!(rows.len() >= 75, "{}", rows.len());
    let standin = standin();
    for (what, effect, code, reason) in rows {
        let session = session_with(&standin, &token(), impatient());
        standin.fault(Fault::on("/graphql", effect));
        let error = list(&session, "web").await.expect_err(what);
        assert_eq!(
            (error.code(), error.reason()),
            (code, reason),
            "{what}: {error}"
        );
        standin.clear_faults();
        let patient = list(&session, "web").await;
        assert_eq!(patient.expect(what).len(), 1, "{what}");
    }
}

#[tokio::test]
async fn a_good_answer_without_artifacts_is_the_only_empty_one() {
    let standin = standin();
    let session = session_with(&standin, &token(), impatient());
    standin.fault(Fault::on("/graphql", answer(200, EMPTY)));
    assert_eq!(list(&session, "web").await.unwrap(), []);
    // Asked for the registered query as well, the same answer is not complete.
    let error = session
        .list_artifacts(&MAIN, &names(["web"]), Some("Q"))
        .await
        .unwrap_err();
    assert_eq!(error.code(), "Unexpected");
}

#[tokio::test]
async fn a_server_that_is_away_is_unreachable() {
    let standin = standin();
    let session = session_with(&standin, &token(), impatient());
    standin.halt();
    let error = list(&session, "web").await.unwrap_err();
    assert_eq!(
        (error.code(), error.reason()),
        ("Unreachable", "InfrahubUnreachable")
    );
    standin.resume().unwrap();
    assert_eq!(list(&session, "web").await.unwrap().len(), 1);
}

#[tokio::test]
async fn every_bad_answer_to_a_login_is_told_from_wrong_credentials() {
    let blank = r#"{"access_token":" ","refresh_token":"r"}"#;
    let rows: [Row; 10] = [
        (
            "a web page",
            answer(200, "<html>"),
            "WebPage",
            "InfrahubError",
        ),
        ("nothing", answer(200, ""), "Malformed", "InfrahubError"),
        (
            "no tokens",
            answer(200, "{}"),
            "Unexpected",
            "InfrahubError",
        ),
        (
            "a blank token",
            answer(200, blank),
            "Unexpected",
            "InfrahubError",
        ),
        (
            "a redirect",
            redirect(302, "https://sso.example/"),
            "Redirected",
            "InfrahubError",
        ),
        (
            "no such page",
            answer(404, "<html>"),
            "WebPage",
            "InfrahubError",
        ),
        (
            "another version",
            answer(422, VALIDATION),
            "Refused",
            "InfrahubError",
        ),
        (
            "a crash",
            answer(500, "Internal Server Error"),
            "Crashed",
            "InfrahubError",
        ),
        (
            "a gateway",
            answer(502, ""),
            "Unavailable",
            "InfrahubUnreachable",
        ),
        ("silence", Effect::Hang, "TimedOut", "InfrahubUnreachable"),
    ];
    let standin = standin();
    for (what, effect, code, reason) in rows {
        let session = session_with(&standin, &password(), impatient());
        standin.clear_journal();
        standin.fault(Fault::on("/api/auth/login", effect));
        let error = list(&session, "web").await.expect_err(what);
        assert_eq!(
            (error.code(), error.reason()),
            (code, reason),
            "{what}: {error}"
        );
        assert_eq!(standin.count("POST", "/graphql"), 0, "{what}");
        standin.clear_faults();
        assert_eq!(list(&session, "web").await.expect(what).len(), 1);
    }
}

#[tokio::test]
async fn no_error_repeats_a_body_a_secret_or_an_address() {
    let standin = standin();
    let session = session_with(&standin, &password(), impatient());
    let secret = "s3cr3t-inside";
    let leaks = [
        answer(200, secret),
        answer(200, &format!("<html>{secret}")),
        answer(500, secret),
        answer(403, secret),
        answer(
            404,
            &format!(r#"{{"detail":"{secret}","result":"{secret}"}}"#),
        ),
        redirect(302, &format!("http://127.0.0.1/{secret}?{secret}")),
    ];
    for effect in leaks {
        standin.fault(Fault::on("/graphql", effect));
        let text = everything(&list(&session, "web").await.unwrap_err());
        assert!(!text.contains(secret) && !text.contains("eyJ"), "{text}");
        standin.clear_faults();
    }
    standin.halt();
    let text = everything(&list(&session, "web").await.unwrap_err());
    assert!(!text.contains("/graphql"), "{text}");
}

/// Display, Debug and the whole chain.
fn everything(error: &Error) -> String {
    let mut text = format!("{error} {error:?}");
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text = format!("{text} {inner} {inner:?}");
        source = inner.source();
    }
    text
}
