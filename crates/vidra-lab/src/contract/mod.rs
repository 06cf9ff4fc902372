//! What Vidra relies on about Infrahub, as checks that run against the stand-in and a real server.
//!
//! Every check asserts status, headers and the shape of the body of one route; never ids or times.
//! Both servers are seeded alike (see [`crate::standin::seed_like_lab`]), so that one list serves
//! both, and a check that fails on one of them tells which of the two is misunderstood.
//!
//! The checks may be run again and again: they create nothing but API tokens, which they delete,
//! sessions, and objects in the object store.

mod ask;
mod checks;
mod expect;
mod facts;

use std::fmt;

use ask::Asker;

use crate::standin::{ADMIN, ADMIN_TOKEN, ARTIFACT, BRANCH, QUERY};

/// The server to check, and what is known to be in it.
#[derive(Clone, Debug)]
pub struct Target {
    /// Without a slash at its end.
    pub base_url: String,
    /// An account that may do everything.
    pub username: String,
    /// Its password.
    pub password: String,
    /// An API token of that account.
    pub api_token: String,
    /// Name of an artifact that is rendered for two targets.
    pub artifact_name: String,
    /// A branch beside the default one; with a slash in its name.
    pub branch: String,
    /// A stored query with the variable `artifactname`.
    pub query: String,
}

impl Target {
    /// A server that is seeded like the lab.
    pub fn new(base_url: &str) -> Self {
        Self {
            base_url: base_url.trim_end_matches('/').to_owned(),
            username: ADMIN.0.to_owned(),
            password: ADMIN.1.to_owned(),
            api_token: ADMIN_TOKEN.to_owned(),
            artifact_name: ARTIFACT.to_owned(),
            branch: BRANCH.to_owned(),
            query: QUERY.to_owned(),
        }
    }

    /// The server that `VIDRA_INFRAHUB_URL` names, with the credentials of
    /// `VIDRA_INFRAHUB_USERNAME`, `VIDRA_INFRAHUB_PASSWORD` and `VIDRA_INFRAHUB_TOKEN`
    /// where they differ from the lab's.
    pub fn from_env() -> Option<Self> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let mut target = Self::new(&variable("VIDRA_INFRAHUB_URL")?);
        let Self {
            username,
            password,
            api_token,
            ..
        } = &mut target;
        for (field, name) in [
            (username, "VIDRA_INFRAHUB_USERNAME"),
            (password, "VIDRA_INFRAHUB_PASSWORD"),
            (api_token, "VIDRA_INFRAHUB_TOKEN"),
        ] {
            if let Some(value) = variable(name) {
                *field = value;
            }
        }
        Some(target)
    }
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As expected.
    Passed,
    /// Not as expected.
    Failed,
}

/// One check's end.
#[derive(Clone, Debug)]
pub struct CheckResult {
    /// What was claimed.
    pub name: String,
    /// Whether it held.
    pub outcome: Outcome,
    /// If not, what was seen instead.
    pub detail: String,
}

/// All checks' ends, in the order of the list.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// One entry per check.
    pub results: Vec<CheckResult>,
}

impl Report {
    /// Those that did not hold.
    pub fn failures(&self) -> impl Iterator<Item = &CheckResult> {
        self.results
            .iter()
            .filter(|result| result.outcome == Outcome::Failed)
    }

    /// Whether there were checks and all of them held.
    pub fn is_success(&self) -> bool {
        !self.results.is_empty() && self.failures().next().is_none()
    }

    fn push(&mut self, name: String, verdict: Result<(), String>) {
        let (outcome, detail) = match verdict {
            Ok(()) => (Outcome::Passed, String::new()),
            Err(detail) => (Outcome::Failed, detail),
        };
        self.results.push(CheckResult {
            name,
            outcome,
            detail,
        });
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self
            .results
            .iter()
            .map(|result| result.name.len())
            .max()
            .unwrap_or(0);
        for result in &self.results {
            let word = match result.outcome {
                Outcome::Passed => "ok",
                Outcome::Failed => "FAILED",
            };
            let line = format!("{:width$}  {word}  {}", result.name, result.detail);
            writeln!(formatter, "{}", line.trim_end())?;
        }
        let failed = self.failures().count();
        write!(formatter, "{} checks, {failed} failed", self.results.len())
    }
}

/// Runs all checks, one after the other.
///
/// If the server cannot even be asked for what the checks need (is it up, is it seeded?), the
/// report has one failed entry that says so.
pub async fn run(target: &Target) -> Report {
    let mut report = Report::default();
    let gathered = match Asker::new(target) {
        Ok(asker) => facts::gather(&asker, target)
            .await
            .map(|facts| (asker, facts)),
        Err(error) => Err(error),
    };
    let (asker, facts) = match gathered {
        Ok(both) => both,
        Err(detail) => {
            report.push("the server is up and seeded".to_owned(), Err(detail));
            return report;
        }
    };
    for check in checks::all(&facts) {
        let verdict = match asker.send(&check.ask).await {
            Ok(answer) => check.expect.verdict(&answer),
            Err(error) => Err(error),
        };
        report.push(check.name, verdict);
    }
    for (name, verdict) in checks::stories(&asker, &facts).await {
        report.push(name.to_owned(), verdict);
    }
    report
}
