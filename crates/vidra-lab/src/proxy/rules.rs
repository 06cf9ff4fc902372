//! Which request is struck by which fault. Pure: requests in, faults out.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{body::Bytes, http::request::Parts};

use super::effect::Fault;

/// A request as the proxy saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// `GET`, `PATCH` and so on.
    pub method: String,
    /// Path without query.
    pub path: String,
    /// Query, or empty.
    pub query: String,
    /// What the client calls itself.
    pub user_agent: String,
    /// The body.
    pub body: Bytes,
}

impl Seen {
    pub(super) fn of(parts: &Parts, body: &Bytes) -> Self {
        let user_agent = parts.headers.get("user-agent");
        let user_agent = user_agent.and_then(|value| value.to_str().ok());
        Self {
            method: parts.method.as_str().to_owned(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            user_agent: user_agent.unwrap_or_default().to_owned(),
            body: body.clone(),
        }
    }

    /// Whether the request asks for a change.
    pub fn is_mutation(&self) -> bool {
        ["POST", "PUT", "PATCH", "DELETE"].contains(&self.method.as_str())
    }

    /// Whether the request opens a watch.
    pub fn is_watch(&self) -> bool {
        self.query
            .split('&')
            .any(|part| part == "watch=true" || part == "watch=1")
    }

    /// Whether path, query or body contain a text.
    pub fn mentions(&self, text: &str) -> bool {
        let in_body = || String::from_utf8_lossy(&self.body).contains(text);
        self.path.contains(text) || self.query.contains(text) || in_body()
    }
}

type Matcher = Box<dyn Fn(&Seen) -> bool + Send + Sync>;

/// Which of the matching requests are struck, and by what.
pub struct Rule {
    matches: Matcher,
    first: usize,
    count: usize,
    fault: Fault,
    strikes: Strikes,
}

impl Rule {
    /// Strikes every request that matches.
    pub fn every(matches: impl Fn(&Seen) -> bool + Send + Sync + 'static, fault: Fault) -> Self {
        Self {
            matches: Box::new(matches),
            first: 1,
            count: usize::MAX,
            fault,
            strikes: Strikes::default(),
        }
    }

    /// Strikes only the n-th match, counted from 1, since the rule was added.
    #[must_use]
    pub fn nth(self, n: usize) -> Self {
        Self {
            first: n,
            count: 1,
            ..self
        }
    }

    /// Strikes this many matches and lets later ones pass.
    #[must_use]
    pub fn times(self, count: usize) -> Self {
        Self { count, ..self }
    }

    fn offer(&self, seen: &Seen) -> Option<Fault> {
        if !(self.matches)(seen) {
            return None;
        }
        let number = self.strikes.matched.fetch_add(1, Ordering::SeqCst) + 1;
        let is_struck = number >= self.first && number - self.first < self.count;
        is_struck.then(|| {
            self.strikes.struck.fetch_add(1, Ordering::SeqCst);
            self.fault.clone()
        })
    }
}

/// How often a rule matched and struck.
#[derive(Debug, Clone, Default)]
pub struct Strikes {
    matched: Arc<AtomicUsize>,
    struck: Arc<AtomicUsize>,
}

impl Strikes {
    /// How many requests matched.
    pub fn matched(&self) -> usize {
        self.matched.load(Ordering::SeqCst)
    }

    /// How many of them were struck.
    pub fn struck(&self) -> usize {
        self.struck.load(Ordering::SeqCst)
    }
}

/// All rules and all requests.
#[derive(Default)]
pub(super) struct Rules {
    rules: Vec<Rule>,
    journal: Vec<Seen>,
}

impl Rules {
    pub(super) fn add(&mut self, rule: Rule) -> Strikes {
        let strikes = rule.strikes.clone();
        self.rules.push(rule);
        strikes
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
        self.journal.clear();
    }

    pub(super) fn journal(&self) -> Vec<Seen> {
        self.journal.clone()
    }

    /// Writes a request down and finds its fault: that of the first rule that strikes. Every rule
    /// up to that one counts the request.
    pub(super) fn judge(&mut self, seen: Seen) -> Option<Fault> {
        let fault = self.rules.iter().find_map(|rule| rule.offer(&seen));
        self.journal.push(seen);
        fault
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::Effect;

    fn seen(method: &str, path: &str, query: &str) -> Seen {
        Seen {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            user_agent: "vidra/0".to_owned(),
            body: Bytes::from_static(b"{\"name\":\"shop\"}"),
        }
    }

    fn struck(rules: &mut Rules, method: &str, times: usize) -> Vec<bool> {
        (0..times)
            .map(|_| rules.judge(seen(method, "/api", "")).is_some())
            .collect()
    }

    #[test]
    fn the_nth_match_is_struck_and_no_other() {
        let mut rules = Rules::default();
        let cut = Fault::Request(Effect::Cut);
        let strikes = rules.add(Rule::every(Seen::is_mutation, cut).nth(3));
        assert_eq!(struck(&mut rules, "GET", 3), [false; 3]);
        assert_eq!(struck(&mut rules, "PATCH", 4), [false, false, true, false]);
        assert_eq!((strikes.matched(), strikes.struck()), (4, 1));
        assert_eq!(rules.journal().len(), 7);
    }

    #[test]
    fn the_first_matches_are_struck_and_later_ones_pass() {
        let mut rules = Rules::default();
        rules.add(Rule::every(|_| true, Fault::Reply(Effect::Cut)).times(2));
        assert_eq!(struck(&mut rules, "GET", 4), [true, true, false, false]);
    }

    #[test]
    fn the_first_rule_that_strikes_decides() {
        let mut rules = Rules::default();
        rules.add(Rule::every(|_| true, Fault::Request(Effect::Cut)).nth(2));
        rules.add(Rule::every(|_| true, Fault::Reply(Effect::Cut)));
        let is_request = |fault| matches!(fault, Some(Fault::Request(_)));
        let found: Vec<bool> = (0..3)
            .map(|_| is_request(rules.judge(seen("GET", "/", ""))))
            .collect();
        assert_eq!(found, [false, true, false]);
    }

    #[test]
    fn a_watch_is_known_by_its_query() {
        assert!(seen("GET", "/api/v1/pods", "allowWatchBookmarks=true&watch=true").is_watch());
        assert!(seen("GET", "/api/v1/pods", "watch=1").is_watch());
        assert!(!seen("GET", "/api/v1/pods", "allowWatchBookmarks=true").is_watch());
    }

    #[test]
    fn a_request_mentions_what_is_in_its_path_query_or_body() {
        let seen = seen("GET", "/api/v1/namespaces/one", "labelSelector=two");
        assert!(
            ["one", "two", "shop"]
                .iter()
                .all(|text| seen.mentions(text))
        );
        assert!(!seen.mentions("three"));
    }
}
