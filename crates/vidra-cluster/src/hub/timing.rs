//! The durations and sizes that a watch keeps to.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    time::Duration,
};

/// The durations and sizes that a watch keeps to; the default is for production.
#[derive(Debug, Clone)]
pub struct Timing {
    /// A stream that says nothing for this long is taken for dead and resumed, which costs at
    /// most two small requests. API servers send a bookmark about every minute, but one that was
    /// just started sends none for kinds in which nothing has happened yet.
    pub idle: Duration,
    /// How long a list page or the begin of a watch may take.
    pub call: Duration,
    /// The shortest and the longest time that the API server is asked to keep a stream open. Each
    /// stream takes a random time between, so that not all end at once.
    pub stream: (Duration, Duration),
    /// A stream that was open for this long has worked, even if it said nothing.
    pub settled: Duration,
    /// The shortest and the longest pause after failures in a row.
    pub pause: (Duration, Duration),
    /// Objects per list page.
    pub page: u32,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(100),
            call: Duration::from_secs(30),
            stream: (Duration::from_mins(5), Duration::from_mins(10)),
            settled: Duration::from_secs(10),
            pause: (Duration::from_millis(500), Duration::from_secs(30)),
            page: 500,
        }
    }
}

impl Timing {
    /// The pause after this many failures in a row: it doubles from the shortest to the longest,
    /// and `share` (0 to 1) takes away up to half of it.
    pub(super) fn pause_after(&self, failures: u32, share: f64) -> Duration {
        let (shortest, longest) = self.pause;
        let Some(doublings) = failures.checked_sub(1) else {
            return Duration::ZERO;
        };
        let full = shortest
            .saturating_mul(2_u32.saturating_pow(doublings))
            .min(longest);
        full.mul_f64(1.0 - share / 2.0)
    }

    /// How long the API server is asked to keep a stream open, in seconds.
    pub(super) fn stream_seconds(&self, share: f64) -> u32 {
        let (shortest, longest) = self.stream;
        let chosen = shortest + longest.saturating_sub(shortest).mul_f64(share);
        u32::try_from(chosen.as_secs()).unwrap_or(u32::MAX).max(1)
    }
}

/// A random number from 0 to 1, good enough to spread load.
pub(super) fn random_share() -> f64 {
    // The standard library seeds every `RandomState` at random; that saves a dependency.
    let bits = RandomState::new().build_hasher().finish();
    f64::from(u32::try_from(bits >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_no_failure_means_no_pause() {
        let timing = Timing::default();
        let pauses: Vec<u64> = (0..=9)
            .map(|failures| timing.pause_after(failures, 0.0).as_secs())
            .collect();
        assert_eq!(pauses, [0, 0, 1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(timing.pause_after(u32::MAX, 0.0), timing.pause.1);
    }

    #[test]
    fn chance_takes_away_at_most_half_of_a_pause() {
        let timing = Timing::default();
        assert_eq!(timing.pause_after(2, 1.0), Duration::from_millis(500));
        assert_eq!(timing.pause_after(2, 0.5), Duration::from_millis(750));
    }

    #[test]
    fn streams_last_between_five_and_ten_minutes() {
        let timing = Timing::default();
        assert_eq!(
            (timing.stream_seconds(0.0), timing.stream_seconds(1.0)),
            (300, 600)
        );
        assert!((0.0..=1.0).contains(&random_share()));
    }
}
