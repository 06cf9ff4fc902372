//! What a running watch lets others know about itself.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use super::sighting::{BlindCause, KindState, WatchedKind};

/// Shared between a running watch and the hub.
#[derive(Debug, Clone)]
pub(super) struct Record(Arc<Mutex<Facts>>);

/// How a watch is doing.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) watched: WatchedKind,
    pub(super) started: Instant,
    /// When the API server last said anything.
    pub(super) heard: Instant,
    pub(super) objects: usize,
    pub(super) lists: u64,
    pub(super) streams: u64,
    pub(super) is_watching: bool,
    pub(super) blind: Option<BlindCause>,
    pub(super) version: Option<u64>,
}

impl Record {
    pub(super) fn new(watched: WatchedKind) -> Self {
        let now = Instant::now();
        Self(Arc::new(Mutex::new(Facts {
            watched,
            started: now,
            heard: now,
            objects: 0,
            lists: 0,
            streams: 0,
            is_watching: false,
            blind: None,
            version: None,
        })))
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn version(&self) -> Option<u64> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .version
    }

    pub(super) fn state(&self, owners: usize) -> KindState {
        let facts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        KindState {
            watched: facts.watched.clone(),
            owners,
            age: facts.started.elapsed(),
            quiet: facts.heard.elapsed(),
            objects: facts.objects,
            lists: facts.lists,
            streams: facts.streams,
            is_watching: facts.is_watching,
            blind: facts.blind.clone(),
        }
    }
}
