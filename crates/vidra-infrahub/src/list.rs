//! Which artifacts there are: complete, or an error.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    artifact::{Artifact, NODE, Node},
    date::TargetDate,
    error::Error,
    graphql::{Attribute, Connection},
    registered::{Verdict, selects_by_name},
    session::Session,
};

/// More than any Infrahub has; a server that goes on for ever is stopped here.
const MOST_ARTIFACTS: u64 = 200_000;

/// Which state of Infrahub is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<'a> {
    /// The branch.
    pub branch: &'a str,
    /// The point in time; now if absent.
    pub at: Option<&'a TargetDate>,
}

/// Which query selected the artifacts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Ours, or one that says the same.
    Own,
    /// The one that is registered in Infrahub.
    Registered,
}

/// All artifacts of all names that were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// By the name that was asked for. Every such name is there, also without artifacts.
    pub artifacts: BTreeMap<String, Vec<Artifact>>,
    /// Which query selected them.
    pub source: Source,
}

/// A list that is asked for, page by page.
struct Request<'a> {
    /// The filter in GraphQL, and the variable that it takes.
    filter: &'static str,
    wanted: &'a BTreeSet<String>,
    /// Whose text is asked for beside the first page.
    query: Option<&'a str>,
}

impl Request<'_> {
    fn document(&self, has_query: bool) -> String {
        let filter = self.filter;
        let kind = if filter == "ids" { "[ID]" } else { "[String]" };
        let (variable, field) = if has_query {
            (
                ",$query:String",
                " CoreGraphQLQuery(name__value:$query,limit:2){edges{node{query{value}}}}",
            )
        } else {
            ("", "")
        };
        format!(
            "query VidraArtifacts($wanted:{kind},$offset:Int,$limit:Int{variable}){{\
             CoreArtifact({filter}:$wanted,offset:$offset,limit:$limit){{\
             count edges{{node{{{NODE}}}}}}}{field}}}"
        )
    }

    fn is_wanted(&self, artifact: &Artifact) -> bool {
        self.wanted.contains(if self.filter == "ids" {
            &artifact.id
        } else {
            &artifact.name
        })
    }
}

#[derive(Deserialize)]
struct Page {
    #[serde(rename = "CoreArtifact")]
    artifacts: Connection<Node>,
    #[serde(rename = "CoreGraphQLQuery", default)]
    queries: Option<Queries>,
}

#[derive(Deserialize)]
struct Queries {
    edges: Vec<crate::graphql::Edge<Query>>,
}

#[derive(Deserialize)]
struct Query {
    query: Attribute,
}

/// What a first page says about the registered query.
enum Answer {
    /// Nothing that would matter; these are the artifacts.
    Complete(Vec<Artifact>),
    /// It selects something else, so it has to be asked.
    Elsewhere,
}

impl Session {
    /// All artifacts of some names, by one query for all names where that is possible; see the
    /// documentation of the crate for what a registered query is good for.
    pub async fn list_artifacts(
        &self,
        view: &View<'_>,
        names: &BTreeSet<String>,
        query: Option<&str>,
    ) -> Result<Listing, Error> {
        let query = query.filter(|query| !query.is_empty());
        // A null or missing filter would be none at all, so nothing is asked for nothing.
        if names.is_empty() {
            return Ok(listing(names, Vec::new()));
        }
        let verdict = query.and_then(|query| self.verdict(query, view));
        let probed = query.filter(|_| verdict.is_none());
        if verdict != Some(Verdict::Ask) {
            match self.by_names(view, names, probed).await {
                Ok(Answer::Complete(artifacts)) => return Ok(listing(names, artifacts)),
                Ok(Answer::Elsewhere) => {}
                Err(error) if probed.is_some() && is_about_queries(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let asked = self
            .by_registered(view, names, query.unwrap_or_default())
            .await?;
        if let Some(artifacts) = asked {
            let source = Source::Registered;
            return Ok(Listing { artifacts, source });
        }
        match self.by_names(view, names, None).await? {
            Answer::Complete(artifacts) => Ok(listing(names, artifacts)),
            Answer::Elsewhere => Err(Error::ListChanged),
        }
    }

    async fn by_names(
        &self,
        view: &View<'_>,
        names: &BTreeSet<String>,
        query: Option<&str>,
    ) -> Result<Answer, Error> {
        let request = Request {
            filter: "name__values",
            wanted: names,
            query,
        };
        self.pages(view, &request).await
    }

    /// What is there of some ids. What is not in the answer does not exist.
    pub(crate) async fn by_ids(
        &self,
        view: &View<'_>,
        ids: &BTreeSet<String>,
    ) -> Result<Vec<Artifact>, Error> {
        let mut found = Vec::new();
        let ids: Vec<_> = ids.iter().cloned().collect();
        for some in ids.chunks(self.page_size()) {
            let wanted = some.iter().cloned().collect();
            let request = Request {
                filter: "ids",
                wanted: &wanted,
                query: None,
            };
            if let Answer::Complete(artifacts) = self.pages(view, &request).await? {
                found.extend(artifacts);
            }
        }
        Ok(found)
    }

    async fn pages(&self, view: &View<'_>, request: &Request<'_>) -> Result<Answer, Error> {
        let mut reading = Reading::default();
        let mut query = request.query;
        loop {
            let mut variables = json!({
                "wanted": request.wanted,
                "offset": reading.offset(),
                "limit": self.page_size(),
            });
            if let Some(query) = query {
                variables["query"] = Value::from(query);
            }
            let document = request.document(query.is_some());
            let page: Page = self.graphql(view, &document, variables).await?;
            if let Some(query) = query.take()
                && selects_otherwise(page.queries)?
            {
                self.remember(query, view, Verdict::Ask);
                return Ok(Answer::Elsewhere);
            }
            if reading.add(page.artifacts, request)? {
                return Ok(Answer::Complete(reading.found));
            }
        }
    }

    /// At least two: each page repeats the last entry of the one before.
    fn page_size(&self) -> usize {
        (self.policy.page_size as usize).max(2)
    }
}

/// Whether the account may read artifacts but not registered queries.
fn is_about_queries(error: &Error) -> bool {
    matches!(error, Error::Forbidden { message: Some(text) } if text.contains("GraphQLQuery"))
}

/// Whether there is a registered query and it selects something else than ours.
fn selects_otherwise(queries: Option<Queries>) -> Result<bool, Error> {
    let what = "no answer about the registered query";
    let queries = queries.ok_or(Error::Unexpected { what })?;
    let mut texts = queries
        .edges
        .iter()
        .map(|edge| edge.node.query.value.as_deref());
    Ok(texts.any(|text| !selects_by_name(text.unwrap_or_default())))
}

fn listing(names: &BTreeSet<String>, artifacts: Vec<Artifact>) -> Listing {
    let empty = |name: &String| (name.clone(), Vec::new());
    let mut by_name: BTreeMap<_, Vec<_>> = names.iter().map(empty).collect();
    for artifact in artifacts {
        by_name
            .entry(artifact.name.clone())
            .or_default()
            .push(artifact);
    }
    Listing {
        artifacts: by_name,
        source: Source::Own,
    }
}

/// Pages as they come in. Each repeats the last entry of the one before: if anything before it
/// came or went meanwhile, another entry stands in its place.
#[derive(Default)]
struct Reading {
    expected: Option<u64>,
    found: Vec<Artifact>,
    ids: HashSet<String>,
}

impl Reading {
    fn offset(&self) -> usize {
        self.found.len().saturating_sub(1)
    }

    /// Whether the list is complete with this page.
    fn add(&mut self, page: Connection<Node>, request: &Request<'_>) -> Result<bool, Error> {
        let expected = *self.expected.get_or_insert(page.count);
        if page.count != expected {
            return Err(Error::ListChanged);
        }
        let nodes = page
            .edges
            .into_iter()
            .map(|edge| Artifact::try_from(edge.node));
        let mut artifacts = nodes.collect::<Result<Vec<_>, _>>()?.into_iter();
        if let Some(last) = self.found.last()
            && artifacts
                .next()
                .is_none_or(|repeated| repeated.id != last.id)
        {
            return Err(Error::ListChanged);
        }
        let before = self.found.len();
        for artifact in artifacts {
            self.take(artifact, request)?;
        }
        self.progress(before, expected)
    }

    fn take(&mut self, artifact: Artifact, request: &Request<'_>) -> Result<(), Error> {
        if !request.is_wanted(&artifact) {
            let what = "an artifact that was not asked for";
            return Err(Error::Unexpected { what });
        }
        if !self.ids.insert(artifact.id.clone()) {
            return Err(Error::ListChanged);
        }
        self.found.push(artifact);
        Ok(())
    }

    fn progress(&self, before: usize, expected: u64) -> Result<bool, Error> {
        let received = self.found.len() as u64;
        let is_stuck = self.found.len() == before && received < expected;
        if is_stuck || received > expected || expected > MOST_ARTIFACTS {
            return Err(Error::Incomplete { expected, received });
        }
        Ok(received == expected)
    }
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
