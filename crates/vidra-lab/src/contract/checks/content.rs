//! Content of artifacts and of the object store.

use reqwest::Method;
use serde_json::json;

use super::{Check, check};
use crate::{
    contract::{
        ask::Ask,
        expect::{Expect, demand},
        facts::Facts,
    },
    standin::md5_hex,
};

const NOBODY: &str = "18e85cd8-0000-0000-0000-000000000000";

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    artifact(facts).into_iter().chain(storage(facts)).collect()
}

/// Content whose MD5 is the checksum in the graph.
fn is_whole(facts: &Facts) -> impl Fn(&str) -> bool + Send + Sync + 'static {
    let checksum = facts.checksum.clone();
    move |text| md5_hex(text.as_bytes()) == checksum
}

fn artifact(facts: &Facts) -> Vec<Check> {
    let path = format!("/api/artifact/{}", facts.artifact);
    let get = |suffix: &str| Ask::get(format!("{path}{suffix}")).with(facts.bearer());
    let missing = |id: &str| {
        Expect::envelope(
            404,
            &format!("Unable to find the node {id} / CoreArtifact in the database."),
        )
    };
    let whole = || Expect::content(Some("application/yaml"), is_whole(facts));
    let branch = facts.target.branch.replace('/', "%2F");
    vec![
        check(
            "content of an artifact has its type and checksum",
            get(""),
            whole(),
        ),
        check(
            "content is not compressed, and not cached",
            get("")
                .header("accept-encoding", "gzip")
                .header("if-none-match", "\"x\""),
            whole(),
        ),
        check(
            "content in the future is the present one",
            get("?at=2040-01-01T00:00:00Z"),
            whole(),
        ),
        check(
            "content on a branch is readable",
            get(&format!("?branch={branch}")),
            Expect::content(Some("application/yaml"), |text| !text.is_empty()),
        ),
        check(
            "content before the artifact was there is 404",
            get("?at=2020-01-01T00:00:00Z"),
            missing(&facts.artifact),
        ),
        check(
            "content on an unknown branch is 400",
            get("?branch=nope"),
            Expect::envelope(400, "Branch: nope not found."),
        ),
        check(
            "content at no time is 400",
            get("?at=yesterday"),
            Expect::envelope(400, "Invalid time format for yesterday"),
        ),
        check(
            "an unknown artifact is 404",
            Ask::get(format!("/api/artifact/{NOBODY}")).with(facts.bearer()),
            missing(NOBODY),
        ),
        check(
            "an artifact by a word is 404",
            Ask::get("/api/artifact/abc").with(facts.bearer()),
            missing("abc"),
        ),
        check(
            "an unknown artifact is told to anybody",
            Ask::get("/api/artifact/abc"),
            missing("abc"),
        ),
        check(
            "an artifact by the id of its target is a crash",
            Ask::get(format!("/api/artifact/{}", facts.object)).with(facts.bearer()),
            Expect::crash(),
        ),
        check(
            "content has no HEAD",
            Ask::new(Method::HEAD, path.clone()).with(facts.bearer()),
            Expect::any(|answer| {
                let allowed = answer.header("allow");
                demand(answer.status == 405 && allowed == Some("GET"), || {
                    format!("{} {allowed:?}", answer.status)
                })
            }),
        ),
    ]
}

fn storage(facts: &Facts) -> Vec<Check> {
    let get = |id: &str| Ask::get(format!("/api/storage/object/{id}"));
    let missing = |id: &str| {
        Expect::envelope(
            404,
            &format!("Unable to find the node {id} / StorageObject in the database."),
        )
    };
    let upload = || Ask::post("/api/storage/upload/content");
    vec![
        check(
            "a stored object has no type but the checksum",
            get(&facts.storage_id).with(facts.bearer()),
            Expect::content(None, is_whole(facts)),
        ),
        check(
            "a stored object is open",
            get(&facts.storage_id),
            Expect::content(None, is_whole(facts)),
        ),
        check(
            "an unknown object is 404",
            get(NOBODY).with(facts.bearer()),
            missing(NOBODY),
        ),
        check(
            "an object by a word is 404",
            get("nope").with(facts.bearer()),
            missing("nope"),
        ),
        check(
            "an object by the id of the attribute is 404",
            get(&facts.storage_attribute).with(facts.bearer()),
            missing(&facts.storage_attribute),
        ),
        check(
            "a path in place of an object is no route",
            get("..%2F..%2Fetc%2Fpasswd").with(facts.bearer()),
            Expect::envelope(
                404,
                "The requested endpoint /api/storage/object/../../etc/passwd does not exist",
            ),
        ),
        check(
            "an upload needs a credential",
            upload().json(&json!({ "content": "x" })),
            Expect::envelope(401, "Authentication is required"),
        ),
        check(
            "an upload without content is 422",
            upload().json(&json!({})).with(facts.key()),
            Expect::detail("missing", json!(["body", "content"])),
        ),
        check(
            "a definition that does not exist is not generated",
            Ask::post("/api/artifact/generate/nope")
                .json(&json!({}))
                .with(facts.key()),
            Expect::any(|answer| {
                demand((400..600).contains(&answer.status), || {
                    format!("status {}", answer.status)
                })
            }),
        ),
    ]
}
