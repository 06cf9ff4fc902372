//! When to come back: intervals with jitter, and growing delays after failures.

use std::time::Duration;

use crate::class::Class;

/// Spreads an interval by up to a tenth, so that equal intervals do not beat together.
///
/// `chance` is a number that the caller draws; equal chance gives an equal answer.
pub fn jittered(interval: Duration, chance: u64) -> Duration {
    let spread = interval / 10;
    let share = u32::try_from(chance % 1_000).unwrap_or_default();
    interval + spread * share / 1_000
}

/// How long to wait before the next try, by class and number of failures in a row.
///
/// `None`: only a change of the input helps, so there is no retry before the next pass.
pub fn retry_after(class: Class, failures: u32, chance: u64) -> Option<Duration> {
    let (first, limit) = match class {
        Class::Invalid => return None,
        Class::Waiting => (Duration::from_secs(1), Duration::from_mins(1)),
        Class::Conflict => (Duration::from_millis(500), Duration::from_mins(1)),
        Class::Denied => (Duration::from_secs(30), Duration::from_mins(10)),
        Class::Transient | Class::Fatal => (Duration::from_secs(1), Duration::from_mins(5)),
    };
    let doublings = failures.saturating_sub(1).min(16);
    Some(jittered(
        first.saturating_mul(1 << doublings).min(limit),
        chance,
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn jitter_never_shortens_and_adds_at_most_a_tenth(seconds in 0_u64..100_000, chance: u64) {
            let interval = Duration::from_secs(seconds);
            let spread = jittered(interval, chance);
            prop_assert!(spread >= interval);
            prop_assert!(spread <= interval + interval / 10);
        }

        #[test]
        fn more_failures_never_shorten_the_wait(failures in 1_u32..40, chance: u64) {
            for class in [Class::Waiting, Class::Conflict, Class::Denied, Class::Transient] {
                let now = retry_after(class, failures, chance);
                let later = retry_after(class, failures + 1, chance);
                prop_assert!(now <= later, "{class:?}: {now:?} then {later:?}");
            }
        }
    }

    #[test]
    fn wrong_input_is_not_retried() {
        assert_eq!(retry_after(Class::Invalid, 1, 0), None);
    }

    #[test]
    fn a_refusal_waits_at_least_half_a_minute() {
        assert!(retry_after(Class::Denied, 1, 0) >= Some(Duration::from_secs(30)));
    }
}
