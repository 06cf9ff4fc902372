//! The settings that hold now, for everybody who needs them.

use std::sync::Arc;

use tokio::sync::watch;

use super::Settings;

/// The settings that hold now. Clones share them.
///
/// Ask anew for each decision: what [`Live::get`] answered before may be out of date.
#[derive(Debug, Clone)]
pub struct Live {
    sender: Arc<watch::Sender<Arc<Settings>>>,
}

impl Live {
    /// Settings to begin with.
    pub fn new(settings: Settings) -> Self {
        Self {
            sender: Arc::new(watch::Sender::new(Arc::new(settings))),
        }
    }

    /// The settings that hold now.
    pub fn get(&self) -> Arc<Settings> {
        self.sender.borrow().clone()
    }

    /// Puts other settings in force; answers whether that changed anything.
    pub fn set(&self, settings: Settings) -> bool {
        self.sender.send_if_modified(|known| {
            let is_changed = **known != settings;
            if is_changed {
                *known = Arc::new(settings);
            }
            is_changed
        })
    }

    /// The changes from here on.
    pub fn changes(&self) -> Changes {
        let mut receiver = self.sender.subscribe();
        let known = receiver.borrow_and_update().clone();
        Changes { receiver, known }
    }
}

/// Changes of the settings, one after the other. Changes in quick succession may come as one.
#[derive(Debug)]
pub struct Changes {
    receiver: watch::Receiver<Arc<Settings>>,
    known: Arc<Settings>,
}

impl Changes {
    /// The settings that this receiver knows.
    pub fn known(&self) -> &Arc<Settings> {
        &self.known
    }

    /// Waits for the next change: the settings before and after it. `None` when there will be no
    /// more, because every [`Live`] is gone.
    pub async fn next(&mut self) -> Option<(Arc<Settings>, Arc<Settings>)> {
        self.receiver.changed().await.ok()?;
        let after = self.receiver.borrow_and_update().clone();
        let before = std::mem::replace(&mut self.known, after.clone());
        Some((before, after))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn every(seconds: u64) -> Settings {
        Settings {
            requeue_sync_after: Duration::from_secs(seconds),
            ..Settings::default()
        }
    }

    #[tokio::test]
    async fn a_change_is_told_once_with_what_was_before() {
        let live = Live::new(every(1));
        let mut changes = live.changes();
        assert!(live.set(every(2)));
        let (before, after) = changes.next().await.expect("a change");
        assert_eq!((&*before, &*after), (&every(1), &every(2)));
        assert_eq!(*live.get(), every(2));
        drop(live);
        assert!(changes.next().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn settings_that_are_the_same_are_no_change() {
        let live = Live::new(every(1));
        let mut changes = live.changes();
        assert!(!live.set(every(1)));
        let told = tokio::time::timeout(Duration::from_secs(1), changes.next()).await;
        assert!(told.is_err(), "{told:?}");
    }

    #[tokio::test]
    async fn a_change_before_the_first_wait_is_not_missed() {
        let live = Live::new(every(1));
        let mut changes = live.changes();
        live.set(every(2));
        live.set(every(3));
        let (before, after) = changes.next().await.expect("a change");
        assert_eq!((&*before, &*after), (&every(1), &every(3)));
    }
}
