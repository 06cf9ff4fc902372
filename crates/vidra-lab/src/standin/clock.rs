//! The time as the stand-in sees it. Tests move it instead of waiting.

use jiff::{SignedDuration, Timestamp};

/// Real time plus an offset, or a time that stands still.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    offset: SignedDuration,
    frozen: Option<Timestamp>,
}

impl Clock {
    pub(super) fn now(&self) -> Timestamp {
        let base = self.frozen.unwrap_or_else(Timestamp::now);
        base.checked_add(self.offset).unwrap_or(base)
    }

    pub(super) fn freeze_at(&mut self, now: Timestamp) {
        *self = Self {
            offset: SignedDuration::ZERO,
            frozen: Some(now),
        };
    }

    pub(super) fn advance(&mut self, by: SignedDuration) {
        self.offset = self.offset.saturating_add(by);
    }
}
