//! Fights: an object that is taken from us again and again is healed with growing delay.
//!
//! The heat of an object rises by one with every heal. Below the threshold a heal is immediate;
//! above it each further heal waits twice as long as the one before, up to a minute. Once the
//! wait is over and nothing had to be healed, the heat halves with every half-life: when the other
//! side stops, all is as before.

use std::time::Duration;

/// Heals in short order that are still taken for ordinary drift.
const PATIENCE: f64 = 5.0;
/// More heat would make no wait longer, but peace later.
const HOTTEST: f64 = PATIENCE + 6.0;
/// The time in which heat halves.
const HALF_LIFE: Duration = Duration::from_mins(4);
/// The longest wait between two heals.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// The state of one object's fight; times are given as the age of the process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fight {
    /// The heat right after the last heal.
    heat: f64,
    /// When that was.
    at: Duration,
}

impl Fight {
    /// Records a heal and answers how long the next one has to wait.
    pub fn healed(&mut self, now: Duration) -> Duration {
        self.heat = (self.heat_at(now) + 1.0).min(HOTTEST);
        self.at = now;
        self.wait(now)
    }

    /// How long a heal has to wait at a given time.
    pub fn wait(&self, now: Duration) -> Duration {
        self.due().saturating_sub(now)
    }

    /// Whether this counts as a fight.
    pub fn is_contended(&self, now: Duration) -> bool {
        self.heat_at(now) > PATIENCE
    }

    /// Whether the object has been left in peace long enough to forget the fight.
    pub fn is_forgotten(&self, now: Duration) -> bool {
        self.heat_at(now) < 0.5
    }

    /// When the next heal may be.
    fn due(&self) -> Duration {
        let over = self.heat - PATIENCE;
        if over <= 0.0 {
            return self.at;
        }
        self.at + Duration::from_secs_f64(over.exp2().min(LONGEST_WAIT.as_secs_f64()))
    }

    fn heat_at(&self, now: Duration) -> f64 {
        let idle = now.saturating_sub(self.due()).as_secs_f64();
        self.heat * (-idle / HALF_LIFE.as_secs_f64()).exp2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_drift_is_healed_at_once() {
        let mut fight = Fight::default();
        for second in 0..4 {
            assert_eq!(fight.healed(Duration::from_secs(second)), Duration::ZERO);
        }
        assert!(!fight.is_contended(Duration::from_secs(4)));
    }

    #[test]
    fn a_writer_that_flips_five_times_a_second_costs_at_most_a_write_a_minute_in_the_end() {
        let mut fight = Fight::default();
        let mut now = Duration::ZERO;
        let mut heals = Vec::new();
        while now < Duration::from_mins(20) {
            if fight.wait(now).is_zero() {
                fight.healed(now);
                heals.push(now);
            }
            now += Duration::from_millis(200);
        }
        let late = heals
            .iter()
            .filter(|at| **at > Duration::from_mins(10))
            .count();
        assert!(fight.is_contended(now));
        assert!((9..=10).contains(&late), "{late} heals in ten minutes");
    }

    #[test]
    fn peace_is_noticed() {
        let mut fight = Fight::default();
        for _ in 0..12 {
            fight.healed(Duration::from_secs(1));
        }
        assert!(fight.is_contended(Duration::from_secs(2)));
        assert!(!fight.is_contended(Duration::from_mins(10)));
        assert!(fight.is_forgotten(Duration::from_mins(30)));
    }
}
