//! Who is about to refer to content, and what looked unused: the two must not pass each other.
//!
//! Content is named by the hexadecimal digits of its digest.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

/// A chunk that nothing refers to, as far as is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Suspect {
    /// The digest of its content.
    pub(super) hex: String,
    /// The uid of its Secret: one that was made anew is looked at anew.
    pub(super) uid: String,
}

#[derive(Debug, Default)]
struct State {
    leases: HashMap<String, usize>,
    suspects: HashMap<Suspect, Instant>,
    condemned: HashSet<String>,
}

impl State {
    fn clear(&mut self, hex: &str) {
        self.suspects.retain(|suspect, _| suspect.hex != hex);
    }
}

/// What a process knows about the use of its content.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    state: Mutex<State>,
    spared: Notify,
    is_used: AtomicBool,
}

impl Ledger {
    pub(super) fn note_use(&self) {
        self.is_used.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// Keeps content from being collected. Waits while it is being deleted.
    pub(super) async fn lease(self: &Arc<Self>, hex: &str) -> Lease {
        self.note_use();
        loop {
            // Made before the look, so that no end of a deletion is missed.
            let spared = self.spared.notified();
            if let Some(lease) = self.try_lease(hex) {
                return lease;
            }
            spared.await;
        }
    }

    fn try_lease(self: &Arc<Self>, hex: &str) -> Option<Lease> {
        let mut state = self.lock();
        if state.condemned.contains(hex) {
            return None;
        }
        *state.leases.entry(hex.to_owned()).or_default() += 1;
        state.clear(hex);
        Some(Lease {
            ledger: self.clone(),
            hex: hex.to_owned(),
        })
    }

    /// Notes one look: exactly these chunks seem to be unused. Answers those that have seemed so
    /// for long enough.
    pub(super) fn look(&self, suspects: Vec<Suspect>, settled: Duration) -> HashSet<Suspect> {
        let now = Instant::now();
        let mut state = self.lock();
        let before = std::mem::take(&mut state.suspects);
        for suspect in suspects {
            // Its time begins after the lease: only then can its reference be missed.
            if !state.leases.contains_key(&suspect.hex) {
                let since = before.get(&suspect).copied().unwrap_or(now);
                state.suspects.insert(suspect, since);
            }
        }
        let state = &state.suspects;
        let ripe = state.iter().filter(|(suspect, since)| {
            before.contains_key(suspect) && now.duration_since(**since) >= settled
        });
        ripe.map(|(suspect, _)| suspect.clone()).collect()
    }

    /// Content that turned out to be used.
    pub(super) fn acquit(&self, hex: &str) {
        self.lock().clear(hex);
    }

    /// Lets a chunk be deleted, unless somebody has asked for its content since it was found
    /// unused.
    pub(super) fn condemn(&self, suspect: &Suspect) -> Option<Condemned<'_>> {
        let mut state = self.lock();
        if state.leases.contains_key(&suspect.hex) || !state.suspects.contains_key(suspect) {
            return None;
        }
        state.condemned.insert(suspect.hex.clone());
        Some(Condemned {
            ledger: self,
            hex: suspect.hex.clone(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps content from being collected until it is dropped.
#[derive(Debug)]
#[must_use = "without the lease the content may be collected before it is referred to"]
pub struct Lease {
    ledger: Arc<Ledger>,
    hex: String,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut state = self.ledger.lock();
        if let Some(count) = state.leases.get_mut(&self.hex) {
            *count -= 1;
            if *count == 0 {
                state.leases.remove(&self.hex);
            }
        }
    }
}

/// Content that is being deleted; nobody can lease it meanwhile.
pub(super) struct Condemned<'a> {
    ledger: &'a Ledger,
    hex: String,
}

impl Drop for Condemned<'_> {
    fn drop(&mut self) {
        self.ledger.lock().condemned.remove(&self.hex);
        self.ledger.spared.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTLED: Duration = Duration::from_mins(10);

    fn suspect(hex: &str, uid: &str) -> Suspect {
        Suspect {
            hex: hex.to_owned(),
            uid: uid.to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_chunk_is_ripe_at_the_second_look_and_not_before_its_time() {
        let ledger = Ledger::default();
        let look = || ledger.look(vec![suspect("a", "1")], SETTLED);
        assert!(look().is_empty());
        tokio::time::advance(SETTLED / 2).await;
        assert!(look().is_empty());
        tokio::time::advance(SETTLED / 2).await;
        assert_eq!(look().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn one_look_is_never_enough() {
        let ledger = Ledger::default();
        assert!(
            ledger
                .look(vec![suspect("a", "1")], Duration::ZERO)
                .is_empty()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_in_which_it_is_used_or_made_anew_starts_the_time_again() {
        let ledger = Ledger::default();
        ledger.look(vec![suspect("a", "1"), suspect("b", "1")], SETTLED);
        tokio::time::advance(SETTLED).await;
        ledger.look(vec![suspect("b", "2")], SETTLED);
        let ripe = ledger.look(vec![suspect("a", "1"), suspect("b", "2")], SETTLED);
        assert!(ripe.is_empty(), "{ripe:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_leased_between_the_look_and_the_deletion_is_spared() {
        let ledger = Arc::new(Ledger::default());
        let one = suspect("a", "1");
        ledger.look(vec![one.clone()], SETTLED);
        tokio::time::advance(SETTLED).await;
        assert_eq!(ledger.look(vec![one.clone()], SETTLED).len(), 1);
        let lease = ledger.lease("a").await;
        assert!(ledger.condemn(&one).is_none());
        drop(lease);
        // The reference may have been written since the look.
        assert!(ledger.condemn(&one).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_waits_for_the_end_of_a_deletion() {
        let ledger = Arc::new(Ledger::default());
        let one = suspect("a", "1");
        ledger.look(vec![one.clone()], SETTLED);
        let condemned = ledger.condemn(&one);
        assert!(condemned.is_some());
        let waiting = tokio::time::timeout(SETTLED, ledger.lease("a")).await;
        assert!(waiting.is_err());
        drop(condemned);
        let _lease = ledger.lease("a").await;
    }
}
