//! Codes, headers and connections, to lists and to logins.

use serde_json::json;
use vidra_lab::standin::{Effect, StandIn};

use super::{OFTEN, Row, Trouble, answer, endure, envelope, redirect, with};

const EMPTY: &str =
    r#"{"data":{"CoreArtifact":{"count":0,"edges":[]},"CoreGraphQLQuery":{"edges":[]}}}"#;
const VALIDATION: &str =
    r#"{"detail":[{"type":"missing","loc":["body"],"msg":"Field required","input":{}}]}"#;

const ERROR: &str = "InfrahubError";
const AWAY: &str = "InfrahubUnreachable";

fn row(name: &'static str, effect: Effect, reason: &'static str, says: &'static str) -> Row {
    Row::new(name, Trouble::List(effect), reason, says)
}

/// Statuses other than 200; `elsewhere` is where redirects point to.
pub(super) fn statuses(elsewhere: &str) -> Vec<Row> {
    let refused = |name, effect, says| row(name, effect, ERROR, says);
    let away = |name, effect, says| row(name, effect, AWAY, says);
    let final_address = "set infrahubAPIURL to the final address";
    vec![
        refused(
            "201 with a good body",
            answer(201, EMPTY),
            "other than HTTP 200",
        ),
        refused("204", answer(204, ""), "other than HTTP 200"),
        refused(
            "206 with a good body",
            answer(206, EMPTY),
            "other than HTTP 200",
        ),
        refused("300", answer(300, EMPTY), final_address),
        refused(
            "301 to the same server",
            redirect(301, "/graphql/main/"),
            final_address,
        ),
        refused(
            "302 to another server",
            redirect(302, elsewhere),
            "to 'http://127.0.0.1:",
        ),
        refused(
            "307 to another server",
            redirect(307, elsewhere),
            final_address,
        ),
        refused("308 to nowhere", answer(308, ""), final_address),
        refused(
            "304 although nothing was conditional",
            answer(304, ""),
            final_address,
        ),
        refused(
            "400",
            answer(400, r#"{"errors":["Request body is not a valid JSON"]}"#),
            "not a valid JSON",
        ),
        row(
            "401",
            answer(401, ""),
            "CredentialsRejected",
            "just given out",
        ),
        row(
            "403",
            answer(
                403,
                &envelope("You do not have one of the permissions", 403),
            ),
            "AccessDenied",
            "give it a role",
        ),
        row(
            "403 without words",
            answer(403, ""),
            "AccessDenied",
            "give it a role",
        ),
        refused(
            "403 of a firewall",
            answer(403, "<html>Blocked</html>"),
            "no login page or proxy",
        ),
        refused(
            "404 of a web server",
            answer(404, "<html>Not Found</html>"),
            "web page",
        ),
        refused("404 with a good body", answer(404, EMPTY), "HTTP 404"),
        row(
            "404 for the branch",
            answer(404, r#"{"errors":["Branch: main not found."]}"#),
            "BranchNotFound",
            "correct targetBranch",
        ),
        refused("405", answer(405, ""), "HTTP 405"),
        refused("407 of a proxy", answer(407, ""), "HTTP 407"),
        refused("409", answer(409, ""), "HTTP 409"),
        refused("410 with a good body", answer(410, EMPTY), "HTTP 410"),
        refused("418", answer(418, "teapot"), "HTTP 418"),
        refused("422", answer(422, VALIDATION), "Field required"),
        refused("423 while merging", answer(423, ""), "HTTP 423"),
        refused("429", with(429, "", &[("retry-after", "1")]), "left alone"),
        refused(
            "429 until a time long past",
            with(429, "", &[("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT")]),
            "left alone",
        ),
        refused(
            "429 with a wait that is none",
            with(429, "", &[("retry-after", "soon")]),
            "left alone",
        ),
        refused("500", answer(500, "Internal Server Error"), "see its log"),
        refused("500 with a good body", answer(500, EMPTY), "see its log"),
        away(
            "502",
            answer(502, "<html>Bad Gateway</html>"),
            "check that it runs",
        ),
        away(
            "502 with a good body",
            answer(502, EMPTY),
            "check that it runs",
        ),
        away("503", answer(503, ""), "HTTP 503"),
        refused(
            "503 with a wait",
            with(503, "", &[("retry-after", "1")]),
            "left alone",
        ),
        away("504", answer(504, ""), "HTTP 504"),
        away("520 of a proxy", answer(520, ""), "HTTP 520"),
        refused("999 of nobody", answer(999, "<html></html>"), "HTTP 999"),
    ]
}

/// Headers and connections.
pub(super) fn connections() -> Vec<Row> {
    let gzip = |body: &str| with(200, body, &[("content-encoding", "gzip")]);
    let names: Vec<String> = (0..300).map(|index| format!("x-header-{index}")).collect();
    let headers: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x")).collect();
    vec![
        row(
            "a cut answer",
            Effect::Truncate { bytes: 20 },
            AWAY,
            "in the middle of an answer",
        ),
        row(
            "only a header",
            Effect::Truncate { bytes: 0 },
            AWAY,
            "in the middle of an answer",
        ),
        row(
            "what claims to be packed",
            gzip(EMPTY),
            AWAY,
            "in the middle of an answer",
        ),
        row(
            "a packed answer that is empty",
            gzip(""),
            ERROR,
            "is no JSON",
        ),
        row(
            "300 headers",
            with(200, EMPTY, &headers),
            AWAY,
            "cannot be reached",
        ),
        row(
            "too much",
            Effect::Oversized { bytes: 17 << 20 },
            "TooLarge",
            "larger than the limit",
        ),
        row(
            "a bomb",
            Effect::Packed { bytes: 17 << 20 },
            "TooLarge",
            "larger than the limit",
        ),
        Row::new(
            "a server that does not listen",
            Trouble::Happening(|ground| ground.stage.infrahub.halt()),
            AWAY,
            "check infrahubAPIURL, DNS",
        ),
    ]
}

/// Answers to a login; `elsewhere` is where redirects point to.
pub(super) fn logins(elsewhere: &str) -> Vec<Row> {
    let row = |name, effect, reason, says| Row::new(name, Trouble::Login(effect), reason, says);
    let tokens = |access: &str| format!(r#"{{"access_token":"{access}","refresh_token":"r"}}"#);
    vec![
        row(
            "a login that is a page",
            answer(200, "<html>"),
            ERROR,
            "web page",
        ),
        row(
            "a login without a body",
            answer(200, ""),
            ERROR,
            "is no JSON",
        ),
        row(
            "a login without tokens",
            answer(200, "{}"),
            ERROR,
            "no tokens",
        ),
        row(
            "a login with a null token",
            answer(200, r#"{"access_token":null}"#),
            ERROR,
            "no tokens",
        ),
        row(
            "a login with a blank token",
            answer(200, &tokens(" ")),
            ERROR,
            "blank token",
        ),
        row(
            "a login with a token of two lines",
            answer(200, &tokens("a\\nb")),
            ERROR,
            "cannot be sent",
        ),
        row(
            "a login with a token that is none",
            answer(200, &tokens("abc")),
            "CredentialsRejected",
            "just given out",
        ),
        row(
            "a login elsewhere",
            redirect(307, elsewhere),
            ERROR,
            "final address",
        ),
        row(
            "no page for logins",
            answer(404, "<html>"),
            ERROR,
            "web page",
        ),
        row(
            "a login of another version",
            answer(422, VALIDATION),
            ERROR,
            "HTTP 422",
        ),
        row(
            "a login that crashes",
            answer(500, "Internal Server Error"),
            ERROR,
            "HTTP 500",
        ),
        row(
            "a login behind a broken gateway",
            answer(502, ""),
            AWAY,
            "HTTP 502",
        ),
        row(
            "a login that is too much",
            with(429, "", &[("retry-after", "1")]),
            ERROR,
            "left alone",
        ),
        row(
            "a login that is cut",
            Effect::Truncate { bytes: 5 },
            AWAY,
            "in the middle",
        ),
        row(
            "a wrong password",
            answer(401, &envelope("Incorrect password", 401)),
            "CredentialsRejected",
            "correct the Secret",
        ),
        row(
            "a login that is forbidden",
            answer(403, ""),
            "AccessDenied",
            "account",
        ),
    ]
}

/// Where redirects point to: nothing may ever arrive there.
fn trap() -> (StandIn, String) {
    let trap = StandIn::start().unwrap();
    let url = format!("{}/graphql/main", trap.url());
    (trap, url)
}

#[tokio::test]
async fn no_status_but_200_is_taken_for_a_list() {
    let (trap, elsewhere) = trap();
    endure(OFTEN, json!({}), |_| statuses(&elsewhere)).await;
    assert_eq!(trap.journal().len(), 0);
}

#[tokio::test]
async fn what_breaks_on_the_way_is_told_from_what_infrahub_says() {
    endure(OFTEN, json!({}), |_| connections()).await;
}

#[tokio::test]
async fn a_login_that_goes_wrong_is_told_from_wrong_credentials() {
    let (trap, elsewhere) = trap();
    endure(OFTEN, json!({}), |_| logins(&elsewhere)).await;
    assert_eq!(trap.journal().len(), 0);
}
