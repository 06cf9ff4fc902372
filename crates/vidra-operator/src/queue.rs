//! The work queue: which owners have something to do, merged and never twice at once.
//!
//! Work that arrives for an owner while it is being worked on waits until that is done and then
//! leads to exactly one more turn. Nothing is dropped.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};
use vidra_core::trigger::{Trigger, TriggerSet};

/// What there is to do for one owner.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Why the whole owner is reconciled; empty if only sightings are to be judged.
    pub triggers: TriggerSet,
    /// Whether objects were seen that may have to be healed.
    pub has_sightings: bool,
    /// When it was last asked for; what was learnt before may be too old.
    pub asked_at: Option<Instant>,
}

impl Work {
    /// A reconcile of the whole owner.
    pub fn reconcile(trigger: Trigger) -> Self {
        Self {
            triggers: TriggerSet::of(trigger),
            ..Self::default()
        }
    }

    /// A look at sightings.
    pub fn sightings() -> Self {
        Self {
            has_sightings: true,
            ..Self::default()
        }
    }

    fn merge(&mut self, other: Self) {
        self.triggers.merge(other.triggers);
        self.has_sightings |= other.has_sightings;
        self.asked_at = self.asked_at.max(other.asked_at);
    }
}

/// What delayed work is for. There is at most one of each per owner: a new one replaces the old.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Slot {
    /// The periodic pass.
    Pass,
    /// The next try after a failure.
    Retry,
    /// A heal that has to wait.
    Heal,
    /// A look at something that may have passed: a fight, a kind that could not be watched.
    Look,
    /// A call from outside that has to wait, because another has just been answered.
    Hint,
    /// A report that has to wait.
    Report,
    /// A look whether a fight is over.
    Truce,
}

impl Slot {
    const ALL: [Self; 7] = [
        Self::Pass,
        Self::Retry,
        Self::Heal,
        Self::Look,
        Self::Hint,
        Self::Report,
        Self::Truce,
    ];
}

type Due = (Instant, u64);

#[derive(Default)]
struct State {
    /// Owners that are ready, in order; each is in `work`.
    ready: VecDeque<String>,
    /// What is to be done, for owners that are ready or running.
    work: HashMap<String, Work>,
    running: HashSet<String>,
    /// Work for later, by due time; the number keeps equal times apart.
    later: BTreeMap<Due, (String, Slot, Work)>,
    slots: HashMap<(String, Slot), Due>,
    count: u64,
}

impl State {
    fn add(&mut self, owner: String, mut work: Work, at: Instant) {
        // A sighting asks for nothing that may be too old.
        work.asked_at = Some(at).filter(|_| !work.triggers.is_empty());
        let is_running = self.running.contains(&owner);
        let known = self.work.get_mut(&owner);
        if let Some(known) = known {
            known.merge(work);
            return;
        }
        self.work.insert(owner.clone(), work);
        if !is_running {
            self.ready.push_back(owner);
        }
    }

    fn promote(&mut self, now: Instant) {
        while let Some(entry) = self.later.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let (at, _) = *entry.key();
            let (owner, slot, work) = entry.remove();
            self.slots.remove(&(owner.clone(), slot));
            self.add(owner, work, at);
        }
    }

    fn delay(&mut self, owner: &str, slot: Slot, work: Work, at: Instant) {
        self.cancel(owner, slot);
        self.count += 1;
        let due = (at, self.count);
        self.later.insert(due, (owner.to_owned(), slot, work));
        self.slots.insert((owner.to_owned(), slot), due);
    }

    fn cancel(&mut self, owner: &str, slot: Slot) {
        if let Some(due) = self.slots.remove(&(owner.to_owned(), slot)) {
            self.later.remove(&due);
        }
    }

    fn take(&mut self) -> Option<(String, Work)> {
        let owner = self.ready.pop_front()?;
        let work = self.work.remove(&owner)?;
        self.running.insert(owner.clone());
        Some((owner, work))
    }
}

/// The queue. Shared by everybody who has work and everybody who does it.
#[derive(Default)]
pub struct Queue {
    state: Mutex<State>,
    changed: Notify,
}

impl Queue {
    /// Adds work for an owner, now.
    pub fn add(&self, owner: &str, work: Work) {
        self.lock().add(owner.to_owned(), work, Instant::now());
        self.changed.notify_one();
    }

    /// Adds work for an owner after a delay, in place of what the slot held before.
    pub fn add_after(&self, owner: &str, slot: Slot, work: Work, delay: Duration) {
        self.add_at(owner, slot, work, Instant::now() + delay);
    }

    /// Adds work for an owner at a time, in place of what the slot held before.
    pub fn add_at(&self, owner: &str, slot: Slot, work: Work, at: Instant) {
        self.lock().delay(owner, slot, work, at);
        self.changed.notify_one();
    }

    /// Takes back delayed work.
    pub fn cancel(&self, owner: &str, slot: Slot) {
        self.lock().cancel(owner, slot);
    }

    /// Waits for work. The owner is then this worker's until [`Queue::done`].
    pub async fn next(&self) -> (String, Work) {
        loop {
            let due = {
                let mut state = self.lock();
                state.promote(Instant::now());
                if let Some(found) = state.take() {
                    if !state.ready.is_empty() {
                        self.changed.notify_one();
                    }
                    return found;
                }
                state.later.keys().next().map(|(at, _)| *at)
            };
            match due {
                None => self.changed.notified().await,
                Some(at) => {
                    let _ = tokio::time::timeout_at(at, self.changed.notified()).await;
                }
            }
        }
    }

    /// Ends the turn of an owner; what arrived meanwhile makes it ready again.
    pub fn done(&self, owner: &str) {
        let mut state = self.lock();
        state.running.remove(owner);
        if state.work.contains_key(owner) {
            state.ready.push_back(owner.to_owned());
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Lets a waiting worker look again. A worker that leaves calls it, because it may be the only
    /// one that knew when the next delayed work is due.
    pub fn wake(&self) {
        self.changed.notify_one();
    }

    /// Drops delayed work of an owner that is gone.
    pub fn forget(&self, owner: &str) {
        let mut state = self.lock();
        for slot in Slot::ALL {
            state.cancel(owner, slot);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_during_a_turn_leads_to_exactly_one_more_turn() {
        let queue = Queue::default();
        queue.add("a", Work::reconcile(Trigger::Event));
        let (owner, _) = queue.next().await;
        queue.add("a", Work::reconcile(Trigger::Timer));
        queue.add("a", Work::sightings());
        let idle = tokio::time::timeout(Duration::from_secs(1), queue.next()).await;
        assert!(idle.is_err(), "one owner never has two turns at once");
        queue.done(&owner);
        let (_, work) = queue.next().await;
        assert!(work.has_sightings && work.triggers.contains(Trigger::Timer));
        queue.done("a");
        assert!(
            tokio::time::timeout(Duration::from_secs(1), queue.next())
                .await
                .is_err()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn delayed_work_comes_when_it_is_due_and_not_before() {
        let queue = Queue::default();
        queue.add_after(
            "a",
            Slot::Pass,
            Work::reconcile(Trigger::Timer),
            Duration::from_mins(1),
        );
        let start = Instant::now();
        let (owner, _) = queue.next().await;
        assert_eq!((owner.as_str(), start.elapsed().as_secs()), ("a", 60));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slot_holds_one_delayed_work_at_a_time() {
        let queue = Queue::default();
        for seconds in [5, 60] {
            let delay = Duration::from_secs(seconds);
            queue.add_after("a", Slot::Pass, Work::reconcile(Trigger::Timer), delay);
        }
        let start = Instant::now();
        queue.next().await;
        assert_eq!(start.elapsed().as_secs(), 60);
        queue.done("a");
        assert!(
            tokio::time::timeout(Duration::from_hours(1), queue.next())
                .await
                .is_err()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_later_addition_that_is_due_earlier_wakes_a_waiting_worker() {
        let queue = std::sync::Arc::new(Queue::default());
        queue.add_after(
            "late",
            Slot::Pass,
            Work::reconcile(Trigger::Timer),
            Duration::from_hours(1),
        );
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.next().await.0 }
        });
        tokio::time::sleep(Duration::from_millis(1)).await;
        queue.add_after(
            "soon",
            Slot::Pass,
            Work::reconcile(Trigger::Timer),
            Duration::from_secs(1),
        );
        assert_eq!(waiting.await.expect("the worker lives"), "soon");
    }

    #[tokio::test(start_paused = true)]
    async fn delayed_work_does_not_leave_with_the_worker_that_waited_for_it() {
        let queue = std::sync::Arc::new(Queue::default());
        let worker = || {
            let queue = queue.clone();
            tokio::spawn(async move { queue.next().await.0 })
        };
        let (leaving, staying) = (worker(), worker());
        tokio::time::sleep(Duration::from_millis(1)).await;
        let pass = Work::reconcile(Trigger::Timer);
        // Wakes the first worker only, which then waits for it.
        queue.add_after("a", Slot::Pass, pass, Duration::from_mins(1));
        tokio::time::sleep(Duration::from_millis(1)).await;
        leaving.abort();
        queue.wake();
        let done = tokio::time::timeout(Duration::from_mins(2), staying).await;
        let owner = done.expect("the other worker takes over");
        assert_eq!(owner.expect("it lives"), "a");
    }
}
