//! Content that is not what was rendered, and renderings that are no manifests.

use serde_json::json;
use vidra_lab::standin::{Effect, StandIn};

use super::{OFTEN, Row, Trouble, answer, endure, envelope, redirect, with};

const ERROR: &str = "InfrahubError";
const AWAY: &str = "InfrahubUnreachable";
const INVALID: &str = "ManifestInvalid";

/// Answers to a download; `elsewhere` is where redirects point to.
pub(super) fn answers(elsewhere: &str) -> Vec<Row> {
    let row = |name, effect, reason, says| Row::new(name, Trouble::Content(effect), reason, says);
    let content = |body: &str| Effect::Content {
        body: body.to_owned(),
    };
    let other = |name, body: &str| row(name, content(body), "ChecksumMismatch", "has the checksum");
    let lost = envelope(
        "Unable to find the node 1 / StorageObject in the database.",
        404,
    );
    let gzip = with(200, "kind: A", &[("content-encoding", "gzip")]);
    vec![
        row(
            "content that is a page",
            content("<!doctype html><p>Log in"),
            ERROR,
            "web page",
        ),
        other(
            "other content",
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: evil}\n",
        ),
        other("no content", ""),
        other(
            "the beginning of the content",
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata:",
        ),
        other(
            "an error instead of the content",
            r#"{"errors":[{"message":"sorry"}]}"#,
        ),
        row(
            "content that is cut",
            Effect::Truncate { bytes: 10 },
            AWAY,
            "in the middle",
        ),
        row(
            "content that claims to be packed",
            gzip,
            AWAY,
            "in the middle",
        ),
        row(
            "content without end",
            Effect::Oversized { bytes: 65 << 20 },
            "TooLarge",
            "raise the limit",
        ),
        row(
            "content that is a bomb",
            Effect::Packed { bytes: 65 << 20 },
            "TooLarge",
            "raise the limit",
        ),
        row(
            "content elsewhere",
            redirect(302, elsewhere),
            ERROR,
            "final address",
        ),
        row(
            "content for 204",
            answer(204, ""),
            ERROR,
            "other than HTTP 200",
        ),
        row(
            "a part of the content",
            answer(206, "kind"),
            ERROR,
            "other than HTTP 200",
        ),
        row(
            "content that is not for us",
            answer(401, ""),
            "CredentialsRejected",
            "just given out",
        ),
        row(
            "content that is forbidden",
            answer(403, ""),
            "AccessDenied",
            "role",
        ),
        row(
            "content that is lost",
            answer(404, &lost),
            ERROR,
            "object store",
        ),
        row(
            "no page for content",
            answer(404, "<html></html>"),
            ERROR,
            "web page",
        ),
        row(
            "content that is too much",
            with(429, "", &[("retry-after", "1")]),
            ERROR,
            "left alone",
        ),
        row(
            "content that crashes",
            answer(500, ""),
            ERROR,
            "see its log",
        ),
        row(
            "content behind a broken gateway",
            answer(502, "<html>"),
            AWAY,
            "check that it runs",
        ),
    ]
}

/// Renderings with the right checksum that are no manifests.
pub(super) fn manifests() -> Vec<Row> {
    let row = |name, text: &str, reason, says| {
        let rendered = Trouble::Rendered(text.as_bytes().to_vec());
        Row::new(name, rendered, reason, says)
    };
    let binary = Trouble::Rendered(vec![0xff, 0xfe, 0x00, 0x41]);
    let bomb = (1..12).fold("k0: &a0 [x]\n".to_owned(), |bomb, level| {
        let before = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb + &format!("k{level}: &a{level} [{before}]\n")
    });
    let transformation = "correct";
    vec![
        row("an empty rendering", "", "EmptyManifest", transformation),
        row(
            "a rendering of white space",
            " \n\n",
            "EmptyManifest",
            transformation,
        ),
        row(
            "a rendering of comments",
            "# nothing\n---\n# here\n",
            "EmptyManifest",
            transformation,
        ),
        row(
            "an empty List",
            "apiVersion: v1\nkind: List\nitems: []\n",
            "EmptyManifest",
            transformation,
        ),
        Row::new("a binary rendering", binary, INVALID, "UTF-8"),
        row(
            "a rendered error page",
            "<html><body>Oops</body></html>",
            INVALID,
            transformation,
        ),
        row(
            "a rendered sentence",
            "jinja2.exceptions.UndefinedError",
            INVALID,
            transformation,
        ),
        row(
            "a template that was not rendered",
            "kind: {{ kind }}\n",
            INVALID,
            transformation,
        ),
        row(
            "an object without a kind",
            "apiVersion: v1\nmetadata: {name: a}\n",
            INVALID,
            "kind",
        ),
        row("broken YAML", "a: [1, 2\nb: }", INVALID, "not valid YAML"),
        row(
            "a control character",
            "apiVersion: v1\nkind: \"\u{0}\"\n",
            INVALID,
            "U+0000",
        ),
        row(
            "an object without a fixed name",
            "apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n",
            INVALID,
            "generateName",
        ),
        row(
            "a name that climbs",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: ../../x}\n",
            INVALID,
            "metadata.name",
        ),
        row(
            "a bomb of aliases",
            &bomb,
            "ManifestTooLarge",
            transformation,
        ),
        row(
            "a tower of brackets",
            &"[".repeat(50_000),
            "ManifestTooLarge",
            transformation,
        ),
    ]
}

#[tokio::test]
async fn content_that_is_not_what_was_rendered_is_not_delivered() {
    let trap = StandIn::start().unwrap();
    endure(OFTEN, json!({}), |_| answers(&trap.url())).await;
    assert_eq!(trap.journal().len(), 0);
}

#[tokio::test]
async fn a_rendering_that_is_no_manifest_is_not_delivered_and_not_fetched_again() {
    let grounds = endure(OFTEN, json!({}), |_| manifests()).await;
    let count = manifests().len();
    let fetched = grounds
        .iter()
        .map(|ground| ground.stage.infrahub.count("GET", "/api/storage/object"));
    // Each once, and each good one before and after it once, however often the list was asked for.
    assert_eq!(fetched.sum::<usize>(), 2 * grounds.len() + 2 * count);
}
