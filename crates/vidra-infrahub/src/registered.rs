//! Queries that users have registered in Infrahub: whether to ask them, and asking them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::PoisonError,
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt, stream};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    answer::Call, artifact::Artifact, error::Error, graphql, list::View, session::Session,
    transport::Ask,
};

/// How long a verdict holds; queries change seldom, and asking a harmless one is only slower.
const VALIDITY: Duration = Duration::from_mins(10);
/// How many names are asked for at the same time.
const CONCURRENCY: usize = 4;
/// The variable that the Go operator passes.
const VARIABLE: &str = "artifactname";

/// What we know about a registered query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It selects something else than our own query: ask it.
    Ask,
    /// Its answers have no artifacts in them: do not ask it.
    Ignore,
}

/// Query, branch and date: a stored query is data, and may be another one there and then.
type Key = (String, String, Option<String>);

fn key(query: &str, view: &View<'_>) -> Key {
    let at = view.at.map(ToString::to_string);
    (query.to_owned(), view.branch.to_owned(), at)
}

/// Verdicts on queries.
#[derive(Default)]
pub(crate) struct Memory(HashMap<Key, (Verdict, Instant)>);

/// Ids by the name they were asked for.
type Ids = BTreeMap<String, BTreeSet<String>>;

impl Session {
    pub(crate) fn verdict(&self, query: &str, view: &View<'_>) -> Option<Verdict> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.0.retain(|_, (_, since)| since.elapsed() < VALIDITY);
        let key = key(query, view);
        memory.0.get(&key).map(|(verdict, _)| *verdict)
    }

    pub(crate) fn remember(&self, query: &str, view: &View<'_>, verdict: Verdict) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let key = key(query, view);
        memory.0.insert(key, (verdict, Instant::now()));
    }

    fn forget(&self, query: &str, view: &View<'_>) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.0.remove(&key(query, view));
    }

    /// The artifacts that a registered query selects for each name; `None` if there is no such
    /// query, or none that speaks of artifacts.
    pub(crate) async fn by_registered(
        &self,
        view: &View<'_>,
        names: &BTreeSet<String>,
        query: &str,
    ) -> Result<Option<BTreeMap<String, Vec<Artifact>>>, Error> {
        let selected = match self.selected(view, names, query).await {
            Ok(Some(selected)) => selected,
            Ok(None) => {
                self.remember(query, view, Verdict::Ignore);
                return Ok(None);
            }
            Err(Error::QueryNotFound { .. }) => {
                self.forget(query, view);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let all = selected.values().flatten().cloned().collect();
        let known = self.by_ids(view, &all).await?;
        assign(selected, known).map(Some)
    }

    async fn selected(
        &self,
        view: &View<'_>,
        names: &BTreeSet<String>,
        query: &str,
    ) -> Result<Option<Ids>, Error> {
        let ask = |name: String| async move {
            let ids = self.run(view, query, &name).await?;
            Ok::<_, Error>(ids.map(|ids| (name, ids)))
        };
        let answers = stream::iter(names.clone()).map(ask).buffered(CONCURRENCY);
        let answers: Vec<Option<_>> = answers.try_collect().await?;
        Ok(answers.into_iter().collect())
    }

    /// Runs the query for one name. Without credentials only GET is allowed.
    async fn run(
        &self,
        view: &View<'_>,
        query: &str,
        name: &str,
    ) -> Result<Option<BTreeSet<String>>, Error> {
        let url = self.url(["api", "query", query], "name of the query")?;
        let mut url = graphql::at(url, view);
        url.query_pairs_mut().append_pair("branch", view.branch);
        let (method, json) = if self.is_anonymous() {
            url.query_pairs_mut().append_pair(VARIABLE, name);
            (Method::GET, None)
        } else {
            let body = json!({ "variables": { VARIABLE: name } });
            (Method::POST, Some(body.to_string().into_bytes()))
        };
        let ask = Ask {
            method,
            url,
            json,
            limit: self.policy.list_limit,
        };
        let branch = view.branch;
        let call = Call::Query { query, branch };
        let reply = self.ask(&ask, call).await?;
        ids(&self.data(&reply, call)?)
    }
}

/// Gives every name its artifacts. One that is selected but not known has just gone.
fn assign(selected: Ids, known: Vec<Artifact>) -> Result<BTreeMap<String, Vec<Artifact>>, Error> {
    let by_id = |artifact: Artifact| (artifact.id.clone(), artifact);
    let known: HashMap<_, _> = known.into_iter().map(by_id).collect();
    let of = |ids: BTreeSet<String>| {
        let artifacts = ids.iter().map(|id| known.get(id).cloned());
        artifacts
            .collect::<Option<Vec<_>>>()
            .ok_or(Error::ListChanged)
    };
    let assigned = selected.into_iter().map(|(name, ids)| Ok((name, of(ids)?)));
    assigned.collect()
}

/// The ids in an answer; `None` if it is about something else.
fn ids(data: &Value) -> Result<Option<BTreeSet<String>>, Error> {
    let unexpected = |what| Error::Unexpected { what };
    let data = data.as_object();
    let data = data.ok_or_else(|| unexpected("the registered query's answer has no data"))?;
    let only = data.values().next().filter(|_| data.len() == 1);
    let Some(connection) = data.get("CoreArtifact").or(only) else {
        return Ok(None);
    };
    if connection.is_null() {
        return Err(unexpected("the registered query's answer has no list"));
    }
    let Some(edges) = connection.get("edges") else {
        return Ok(None);
    };
    let edges = edges.as_array();
    let edges = edges.ok_or_else(|| unexpected("the registered query's list is none"))?;
    let received = edges.len() as u64;
    if let Some(expected) = connection.get("count").and_then(Value::as_u64)
        && expected != received
    {
        return Err(Error::Incomplete { expected, received });
    }
    let mut ids = BTreeSet::new();
    for edge in edges {
        let node = edge.get("node").and_then(Value::as_object);
        let node = node.ok_or_else(|| unexpected("the registered query's list has holes"))?;
        match node.get("id").map(Value::as_str) {
            None => return Ok(None),
            Some(Some(id)) if !id.is_empty() => ids.insert(id.to_owned()),
            Some(_) => return Err(unexpected("the registered query's ids are none")),
        };
    }
    Ok(Some(ids))
}

/// Whether a query selects exactly the artifacts of the name that it is given, as ours does.
///
/// Judged by its tokens: what is selected *of* them does not matter, because we ask for it
/// ourselves. In doubt it does not, which costs requests but is never wrong.
pub(crate) fn selects_by_name(text: &str) -> bool {
    let Some(tokens) = tokens(text) else {
        return false;
    };
    let mut rest = tokens.as_slice();
    if !eat(&mut rest, &["query"]) {
        return false;
    }
    if rest.first().is_some_and(|name| is_name(name)) {
        rest = &rest[1..];
    }
    if !eat(&mut rest, &["(", "$", VARIABLE, ":", "String"]) {
        return false;
    }
    let _ = eat(&mut rest, &["!"]);
    eat(
        &mut rest,
        &[
            ")",
            "{",
            "CoreArtifact",
            "(",
            "name__value",
            ":",
            "$",
            VARIABLE,
            ")",
        ],
    ) && is_last_selection(rest)
}

/// `{ … } }` without arguments, directives or fragments, and nothing after it.
fn is_last_selection(tokens: &[&str]) -> bool {
    let mut depth = 1_i32;
    for (index, token) in tokens.iter().enumerate() {
        match *token {
            "{" => depth += 1,
            "}" => depth -= 1,
            name if is_name(name) && depth > 1 => {}
            _ => return false,
        }
        if depth == 0 {
            return index + 1 == tokens.len();
        }
    }
    false
}

fn eat(tokens: &mut &[&str], expected: &[&str]) -> bool {
    let is_there = tokens.starts_with(expected);
    if is_there {
        *tokens = &tokens[expected.len()..];
    }
    is_there
}

fn is_name(token: &str) -> bool {
    token.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
}

/// Names and single signs; white space, commas and comments mean nothing in GraphQL. `None` for
/// what a plain query does not have, such as texts.
fn tokens(text: &str) -> Option<Vec<&str>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches('\u{feff}');
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '#' => rest.find(['\n', '\r']).unwrap_or(rest.len()),
            ',' => 1,
            space if space.is_ascii_whitespace() => 1,
            letter if letter.is_ascii_alphanumeric() || letter == '_' => {
                let is_other = |one: char| !one.is_ascii_alphanumeric() && one != '_';
                let length = rest.find(is_other).unwrap_or(rest.len());
                tokens.push(&rest[..length]);
                length
            }
            sign if sign.is_ascii() && sign != '"' => {
                tokens.push(&rest[..1]);
                1
            }
            _ => return None,
        };
        rest = &rest[length..];
    }
    Some(tokens)
}

#[cfg(test)]
#[path = "registered_tests.rs"]
mod tests;
