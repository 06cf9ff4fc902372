//! Why a reconcile runs. Triggers for one key are merged, never dropped.

use std::fmt;

/// One reason to reconcile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Trigger {
    /// The actual state changed: a managed object, or the custom resource itself.
    Event = 1,
    /// The periodic pass came round.
    Timer = 2,
    /// A long-lived task (session, event feed, watch stream) noticed something.
    Daemon = 4,
    /// Infrahub called in.
    Webhook = 8,
    /// A person asked.
    Request = 16,
    /// A retry after a failure.
    Retry = 32,
    /// The operator has just started.
    Start = 64,
}

impl Trigger {
    const ALL: [Self; 7] = [
        Self::Event,
        Self::Timer,
        Self::Daemon,
        Self::Webhook,
        Self::Request,
        Self::Retry,
        Self::Start,
    ];

    /// The stable name for status, metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Event => "Event",
            Self::Timer => "Timer",
            Self::Daemon => "Daemon",
            Self::Webhook => "Webhook",
            Self::Request => "Request",
            Self::Retry => "Retry",
            Self::Start => "Start",
        }
    }
}

/// A merged set of triggers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TriggerSet(u8);

impl TriggerSet {
    /// The set of one trigger.
    pub fn of(trigger: Trigger) -> Self {
        Self(trigger as u8)
    }

    /// Adds all triggers of another set.
    pub fn merge(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Whether a trigger is part of the set.
    pub fn contains(self, trigger: Trigger) -> bool {
        self.0 & trigger as u8 != 0
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The triggers in a stable order.
    pub fn iter(self) -> impl Iterator<Item = Trigger> {
        Trigger::ALL
            .into_iter()
            .filter(move |trigger| self.contains(*trigger))
    }
}

impl fmt::Display for TriggerSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().map(Trigger::as_str).collect();
        formatter.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_keeps_every_trigger_once() {
        let mut set = TriggerSet::of(Trigger::Request);
        set.merge(TriggerSet::of(Trigger::Event));
        set.merge(TriggerSet::of(Trigger::Event));
        assert_eq!(set.to_string(), "Event,Request");
        assert!(!set.contains(Trigger::Timer));
    }
}
