//! GraphQL over HTTP, and what is common to all answers in JSON.

use reqwest::{Method, Url};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    answer::Call,
    error::Error,
    list::View,
    session::Session,
    transport::{Ask, Reply},
};

/// A field of an object in Infrahub: `{"value": …}`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Attribute {
    pub(crate) value: Option<String>,
}

/// `count` and `edges { node }`.
#[derive(Debug, Deserialize)]
pub(crate) struct Connection<T> {
    pub(crate) count: u64,
    pub(crate) edges: Vec<Edge<T>>,
}

/// One of `edges`.
#[derive(Debug, Deserialize)]
pub(crate) struct Edge<T> {
    pub(crate) node: T,
}

#[derive(Deserialize)]
struct Answer<T> {
    data: T,
    errors: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct Errors {
    errors: Option<Vec<Value>>,
}

impl Session {
    /// Runs a query of ours. Errors beside data are errors.
    pub(crate) async fn graphql<T: DeserializeOwned>(
        &self,
        view: &View<'_>,
        query: &str,
        variables: Value,
    ) -> Result<T, Error> {
        let branch = view.branch;
        let call = Call::Graphql { branch };
        // A slash in a branch's name is a slash in the path.
        let parts = std::iter::once("graphql").chain(branch.split('/'));
        let ask = Ask {
            method: Method::POST,
            url: at(self.url(parts, "branch")?, view),
            json: Some(
                json!({ "query": query, "variables": variables })
                    .to_string()
                    .into_bytes(),
            ),
            limit: self.policy.list_limit,
        };
        let reply = self.ask(&ask, call).await?;
        self.data(&reply, call)
    }

    /// The `data` of an answer, if there is nothing else in it.
    pub(crate) fn data<T: DeserializeOwned>(
        &self,
        reply: &Reply,
        call: Call<'_>,
    ) -> Result<T, Error> {
        let answer = serde_json::from_slice::<Answer<T>>(&reply.body);
        let errors = match &answer {
            Ok(answer) => answer.errors.clone(),
            // Where the data is not as expected, the errors may say why.
            Err(_) => json::<Errors>(reply, "it is no object with data or errors")?.errors,
        };
        if let Some(errors) = errors.filter(|errors| !errors.is_empty()) {
            return Err(self.judge(call).graphql_errors(&errors));
        }
        let what = "the data of the query's answer";
        answer
            .map(|answer| answer.data)
            .map_err(|_| Error::Unexpected { what })
    }
}

/// A body as JSON of a known form.
pub(crate) fn json<T: DeserializeOwned>(reply: &Reply, what: &'static str) -> Result<T, Error> {
    serde_json::from_slice(&reply.body).map_err(|error| {
        if reply.is_web_page() {
            Error::WebPage {
                status: reply.status.as_u16(),
            }
        } else if error.is_data() {
            Error::Unexpected { what }
        } else {
            Error::Malformed
        }
    })
}

/// Adds the point in time; `+` and the like are encoded.
pub(crate) fn at(mut url: Url, view: &View<'_>) -> Url {
    if let Some(at) = view.at {
        url.query_pairs_mut().append_pair("at", at.as_str());
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::date::TargetDate;

    #[test]
    fn the_plus_of_an_offset_is_encoded() {
        let date = TargetDate::parse("2025-01-01T00:00:00+02:00").unwrap();
        let view = View {
            branch: "main",
            at: date.as_ref(),
        };
        let url = at(
            Url::parse("http://hub.example/graphql/main").unwrap(),
            &view,
        );
        assert_eq!(url.query(), Some("at=2025-01-01T00%3A00%3A00%2B02%3A00"));
    }
}
