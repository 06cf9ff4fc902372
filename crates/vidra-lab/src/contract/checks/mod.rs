//! The list of checks.

mod content;
mod filters;
mod graphql;
mod identity;
mod query;
mod service;
mod sessions;
mod stories;
mod times;

pub(super) use stories::stories;

use super::{ask::Ask, expect::Expect, facts::Facts};

/// One claim, the request that tries it, the answer that it predicts.
pub(super) struct Check {
    pub(super) name: String,
    pub(super) ask: Ask,
    pub(super) expect: Expect,
}

fn check(name: impl Into<String>, ask: Ask, expect: Expect) -> Check {
    Check {
        name: name.into(),
        ask,
        expect,
    }
}

/// All checks that are one request each.
pub(super) fn all(facts: &Facts) -> Vec<Check> {
    [
        service::checks(facts),
        sessions::checks(facts),
        identity::checks(facts),
        graphql::checks(facts),
        filters::checks(facts),
        query::checks(facts),
        times::checks(facts),
        content::checks(facts),
    ]
    .into_iter()
    .flatten()
    .collect()
}
