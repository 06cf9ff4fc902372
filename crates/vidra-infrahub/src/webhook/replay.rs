//! Events that were seen before.

use std::collections::{HashSet, VecDeque};

/// Remembers the last so many ids.
#[derive(Debug)]
pub(super) struct Replays {
    capacity: usize,
    known: HashSet<String>,
    order: VecDeque<String>,
}

impl Replays {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            known: HashSet::new(),
            order: VecDeque::new(),
        }
    }

    /// Whether an id is seen for the first time; it is known from now on.
    pub(super) fn is_new(&mut self, id: &str) -> bool {
        if !self.known.insert(id.to_owned()) {
            return false;
        }
        self.order.push_back(id.to_owned());
        if self.order.len() > self.capacity
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_new_once_and_the_memory_is_bounded() {
        let mut replays = Replays::new(2);
        assert!(replays.is_new("a"));
        assert!(!replays.is_new("a"));
        assert!(replays.is_new("b") && replays.is_new("c"));
        assert!(replays.is_new("a"), "the oldest is forgotten");
        assert_eq!((replays.known.len(), replays.order.len()), (2, 2));
    }
}
