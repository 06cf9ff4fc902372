//! The parameter `at`: which texts are times, and which times they are.

use serde_json::json;

use super::{Check, check, graphql::page};
use crate::contract::{
    ask::Ask,
    expect::{Expect, demand},
    facts::{ARTIFACTS, Facts},
};

/// Texts that mean a time before anything was there, so that the answer is empty.
const LONG_AGO: [(&str, &str); 6] = [
    ("a time in UTC", "2020-01-01T00:00:00Z"),
    ("a time with a fraction", "2020-01-01T00:00:00.123456Z"),
    (
        "a time with an encoded offset",
        "2020-01-01T00:00:00%2B02:00",
    ),
    ("a time without a zone", "2020-01-01T00:00:00"),
    ("a date", "2020-01-01"),
    ("hours ago", "90000h"),
];

/// Texts that are accepted, whatever they lead to.
const ACCEPTED: [(&str, &str); 4] = [
    ("a difference without now", "2m"),
    ("a difference with now", "now-2m"),
    (
        "a difference into the future, which is taken for the past",
        "now%2B2h",
    ),
    ("months, which are taken for minutes", "2months"),
];

const REFUSED: [(&str, &str, &str); 9] = [
    ("nothing", "", ""),
    ("the word now", "now", "now"),
    ("another word", "yesterday", "yesterday"),
    ("seconds since the epoch", "1735689600", "1735689600"),
    ("days", "1d", "1d"),
    (
        "a raw plus sign",
        "2025-01-01T00:00:00+02:00",
        "2025-01-01T00:00:00 02:00",
    ),
    ("a small z", "2025-01-01T00:00:00z", "2025-01-01T00:00:00z"),
    (
        "an offset without a colon",
        "2025-01-01T00:00:00-0500",
        "2025-01-01T00:00:00-0500",
    ),
    (
        "a time without seconds",
        "2025-01-01T00:00Z",
        "2025-01-01T00:00Z",
    ),
];

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    let variables = json!({ "n": facts.target.artifact_name });
    let graphql = |at: &str| {
        Ask::graphql(format!("/graphql?at={at}"), ARTIFACTS, &variables).with(facts.bearer())
    };
    let empty = || {
        Expect::exactly(
            200,
            json!({ "data": { "CoreArtifact": { "count": 0, "edges": [] } } }),
        )
    };
    let mut checks = vec![
        check(
            "a time in the future shows the present",
            graphql("2040-01-01T00:00:00Z"),
            Expect::data(page(facts.count)),
        ),
        check(
            "a branch before it was made shows the default branch of that time",
            Ask::graphql(
                format!("/graphql/{}?at=2020-01-01T00:00:00Z", facts.target.branch),
                ARTIFACTS,
                &variables,
            )
            .with(facts.bearer()),
            empty(),
        ),
    ];
    for (what, at) in LONG_AGO {
        checks.push(check(format!("{what} is a time"), graphql(at), empty()));
    }
    for (what, at) in ACCEPTED {
        let accepted = Expect::data(|data| {
            demand(data["CoreArtifact"]["edges"].is_array(), || {
                format!("data is {data}")
            })
        });
        checks.push(check(format!("{what} is a time"), graphql(at), accepted));
    }
    let query = format!("/api/query/{}", facts.target.query);
    for (what, at, seen) in REFUSED {
        let message = format!("Invalid time format for {seen}");
        checks.push(check(
            format!("{what} is no time for GraphQL"),
            graphql(at),
            Expect::envelope(400, &message),
        ));
        let ask = Ask::get(format!("{query}?at={at}&artifactname=x")).with(facts.bearer());
        checks.push(check(
            format!("{what} is no time for a stored query"),
            ask,
            Expect::envelope(400, &message),
        ));
    }
    checks
}
