//! The decisions of one watch, without any I/O: what to do next, when, and whether to say so.
//!
//! ```text
//!            +---------- expired, kind gone, or failed too often ----------+
//!            v                                                             |
//!          List ---- complete, at version v ----> Watch { from v } --------+
//!            ^  |                                   ^        |
//!            +--+ failed                            +--------+ ended, silent, busy, forbidden
//!            ^                                      |        |
//!            +-- v is yet to come -- Check { v } ---+        |
//!                                       ^                    |
//!                                       +--------------------+ never said a word
//! ```

use std::time::Duration;

use super::{failure::Failure, sighting::BlindCause};

/// From this many failures in a row on, a watch counts as failing, and history as doubtful.
const TOO_MANY: u32 = 3;

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// List everything.
    List,
    /// Watch from this resource version on.
    Watch {
        /// The resource version.
        version: String,
    },
    /// Ask whether this resource version has been at all.
    Check {
        /// The resource version.
        version: String,
    },
}

/// What follows from a failure, besides the next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reaction {
    /// To be told, because it is new.
    pub(super) blind: Option<BlindCause>,
    /// For the length of the pause: 0 for none.
    pub(super) failures: u32,
    /// The pause is not shorter than this.
    pub(super) at_least: Duration,
}

/// Where a watch is and how it got there.
#[derive(Debug)]
pub(super) struct Course {
    step: Step,
    /// In a row, since the watch last proved to work.
    failures: u32,
    blind: Option<BlindCause>,
}

impl Course {
    pub(super) fn new() -> Self {
        Self {
            step: Step::List,
            failures: 0,
            blind: None,
        }
    }

    pub(super) fn step(&self) -> &Step {
        &self.step
    }

    pub(super) fn blind(&self) -> Option<&BlindCause> {
        self.blind.as_ref()
    }

    /// The resource version of the watch, if it is a number, as those of all known API servers.
    pub(super) fn version(&self) -> Option<u64> {
        match &self.step {
            Step::List => None,
            Step::Watch { version } | Step::Check { version } => version.parse().ok(),
        }
    }

    /// A list is complete.
    pub(super) fn listed(&mut self, version: String) {
        self.step = Step::Watch { version };
    }

    /// A stream is open; true if that is news. A list alone would not do: the right to list does
    /// not include the right to watch.
    pub(super) fn opened(&mut self) -> bool {
        self.blind.take().is_some()
    }

    /// The stream has told everything up to this version. One that is older than what was told
    /// before means that history was replaced under us: what we know may be wrong.
    pub(super) fn advanced(&mut self, version: &str) -> Result<(), Failure> {
        let older = |own| version.parse().is_ok_and(|version: u64| version < own);
        if self.version().is_some_and(older) {
            return Err(Failure::Expired);
        }
        if let Step::Watch { version: own } = &mut self.step {
            version.clone_into(own);
        }
        self.proved();
        Ok(())
    }

    /// The API server is at this version now. A watch from a later one is open and silent for
    /// ever: that happens after a restore of etcd.
    pub(super) fn checked(&mut self, present: &str) {
        let Step::Check { version } = &self.step else {
            return;
        };
        let version = version.clone();
        let is_ahead = |own: u64| present.parse().is_ok_and(|present: u64| own > present);
        if self.version().is_some_and(is_ahead) {
            self.restart();
        } else {
            self.listed(version);
        }
    }

    /// The watch works.
    pub(super) fn proved(&mut self) {
        self.failures = 0;
    }

    /// Forgets where it was.
    pub(super) fn restart(&mut self) {
        self.step = Step::List;
    }

    /// A step failed.
    pub(super) fn failed(&mut self, failure: Failure) -> Reaction {
        // A stream that has spoken has reset the count; one that ends at once again and again,
        // or never speaks, must not become a busy loop.
        self.failures = self.failures.saturating_add(1);
        if self.must_list(&failure) {
            self.restart();
        }
        if let (Step::Watch { version }, true) = (&self.step, failure.is_doubtful()) {
            self.step = Step::Check {
                version: version.clone(),
            };
        }
        Reaction {
            failures: self.pause_grade(&failure),
            at_least: match failure {
                Failure::Busy { retry_after } => retry_after,
                _ => Duration::ZERO,
            },
            blind: self
                .cause(failure)
                .and_then(|cause| self.became_blind(cause)),
        }
    }

    fn must_list(&self, failure: &Failure) -> bool {
        match failure {
            Failure::Expired | Failure::KindGone => true,
            // Whatever it is that we cannot get past, a list does.
            Failure::Broken { .. } => self.failures >= TOO_MANY,
            // Listing would make it worse, or is forbidden as well, or would read everything only
            // because nothing has happened.
            Failure::Forbidden | Failure::Busy { .. } | Failure::Ended | Failure::Silent { .. } => {
                false
            }
        }
    }

    /// The first time these happen nothing is wrong: no pause.
    fn pause_grade(&self, failure: &Failure) -> u32 {
        match failure {
            Failure::Expired | Failure::Ended | Failure::Silent { .. } => self.failures - 1,
            _ => self.failures,
        }
    }

    fn cause(&self, failure: Failure) -> Option<BlindCause> {
        let message = match failure {
            Failure::Forbidden => return Some(BlindCause::Forbidden),
            Failure::KindGone => return Some(BlindCause::KindGone),
            Failure::Ended | Failure::Silent { .. } => return None,
            Failure::Expired => "the API server has no history for a watch".to_owned(),
            Failure::Busy { .. } => "the API server is too busy".to_owned(),
            Failure::Broken { message } => message,
        };
        (self.failures >= TOO_MANY).then_some(BlindCause::Failing { message })
    }

    fn became_blind(&mut self, cause: BlindCause) -> Option<BlindCause> {
        let is_news = !self
            .blind
            .as_ref()
            .is_some_and(|known| known.is_like(&cause));
        self.blind = Some(cause.clone());
        is_news.then_some(cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken() -> Failure {
        Failure::Broken {
            message: "connection refused".to_owned(),
        }
    }

    fn watching() -> Course {
        let mut course = Course::new();
        course.listed("7".to_owned());
        assert!(!course.opened(), "nothing was wrong before");
        course
    }

    fn from(version: &str) -> Step {
        Step::Watch {
            version: version.to_owned(),
        }
    }

    #[test]
    fn a_stream_that_ends_in_good_order_is_resumed_at_once_where_it_was() {
        let mut course = watching();
        course.advanced("9").unwrap();
        let reaction = course.failed(Failure::Ended);
        assert_eq!(
            (course.step(), reaction.failures, reaction.blind),
            (&from("9"), 0, None)
        );
    }

    #[test]
    fn streams_that_end_without_a_word_are_reopened_more_and_more_slowly() {
        let mut course = watching();
        let grades: Vec<u32> = (0..4)
            .map(|_| course.failed(Failure::Ended).failures)
            .collect();
        assert_eq!(grades, [0, 1, 2, 3]);
    }

    #[test]
    fn expired_history_leads_to_a_list_first_at_once_then_with_pauses() {
        let mut course = watching();
        assert_eq!(course.failed(Failure::Expired).failures, 0);
        assert_eq!(course.step(), &Step::List);
        course.listed("8".to_owned());
        course.opened();
        assert_eq!(
            course.failed(Failure::Expired).failures,
            1,
            "a list alone proves nothing"
        );
    }

    #[test]
    fn an_event_from_the_past_means_that_history_was_replaced() {
        let mut course = watching();
        assert_eq!(course.advanced("10"), Ok(()));
        assert_eq!(course.advanced("10"), Ok(()));
        assert_eq!(
            course.advanced("9"),
            Err(Failure::Expired),
            "as numbers, not as texts"
        );
    }

    #[test]
    fn a_stream_that_fell_silent_is_resumed() {
        let mut course = watching();
        course.failed(Failure::Silent { had_spoken: true });
        assert_eq!(course.step(), &from("7"));
    }

    #[test]
    fn a_stream_that_never_spoke_is_resumed_if_its_version_has_been() {
        let mut course = watching();
        course.failed(Failure::Silent { had_spoken: false });
        assert_eq!(
            course.step(),
            &Step::Check {
                version: "7".to_owned()
            }
        );
        course.checked("10");
        assert_eq!(
            course.step(),
            &from("7"),
            "not from 10: the stream may have been dead"
        );
    }

    #[test]
    fn a_stream_that_never_spoke_is_listed_anew_if_its_version_is_yet_to_come() {
        let mut course = watching();
        course.failed(Failure::Silent { had_spoken: false });
        course.checked("6");
        assert_eq!(course.step(), &Step::List);
    }

    #[test]
    fn a_check_that_fails_is_made_again_and_after_three_failures_everything_is_listed() {
        let mut course = watching();
        course.failed(Failure::Silent { had_spoken: false });
        course.failed(broken());
        assert_eq!(
            course.step(),
            &Step::Check {
                version: "7".to_owned()
            }
        );
        course.failed(broken());
        assert_eq!(course.step(), &Step::List);
    }

    #[test]
    fn two_failures_are_kept_quiet_and_the_third_is_told_once_and_leads_to_a_list() {
        let mut course = watching();
        let told: Vec<bool> = (0..5)
            .map(|_| course.failed(broken()).blind.is_some())
            .collect();
        assert_eq!(told, [false, false, true, false, false]);
        assert_eq!(course.step(), &Step::List);
    }

    #[test]
    fn a_resource_version_survives_two_failures() {
        let mut course = watching();
        course.failed(broken());
        course.failed(broken());
        assert_eq!(course.step(), &from("7"));
    }

    #[test]
    fn forbidden_is_told_at_once_and_the_place_is_kept_until_the_right_is_granted() {
        let mut course = watching();
        let reaction = course.failed(Failure::Forbidden);
        assert_eq!(reaction.blind, Some(BlindCause::Forbidden));
        assert_eq!(course.failed(Failure::Forbidden).blind, None);
        assert_eq!(course.step(), &from("7"));
        assert!(course.opened(), "that it works again is news");
        assert!(!course.opened(), "but only once");
    }

    #[test]
    fn a_kind_that_went_is_told_at_once_and_listed_when_it_is_back() {
        let mut course = watching();
        assert_eq!(
            course.failed(Failure::KindGone).blind,
            Some(BlindCause::KindGone)
        );
        assert_eq!(course.step(), &Step::List);
    }

    #[test]
    fn another_cause_is_told_again() {
        let mut course = watching();
        course.failed(Failure::Forbidden);
        assert_eq!(
            course.failed(Failure::KindGone).blind,
            Some(BlindCause::KindGone)
        );
    }

    #[test]
    fn a_busy_server_is_left_alone_for_as_long_as_it_asks_and_not_listed() {
        let mut course = watching();
        let wait = Duration::from_secs(7);
        for _ in 0..5 {
            assert_eq!(
                course.failed(Failure::Busy { retry_after: wait }).at_least,
                wait
            );
        }
        assert_eq!(course.step(), &from("7"));
    }

    #[test]
    fn one_event_forgives_all_failures() {
        let mut course = watching();
        course.failed(broken());
        course.failed(broken());
        course.opened();
        course.advanced("8").unwrap();
        assert_eq!(course.failed(broken()).failures, 1);
    }
}
