//! Content that was downloaded, by where it is stored: what is there never changes.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

struct Kept {
    checksum: String,
    content: Arc<str>,
    used: u64,
}

/// Keeps what was used last, up to a number of bytes.
pub(crate) struct Cache {
    capacity: usize,
    size: usize,
    clock: u64,
    kept: HashMap<String, Kept>,
    /// Storage ids by when they were used; no two at the same time.
    by_use: BTreeMap<u64, String>,
}

impl Cache {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            size: 0,
            clock: 0,
            kept: HashMap::new(),
            by_use: BTreeMap::new(),
        }
    }

    /// The content, if it is here and has this checksum.
    pub(crate) fn get(&mut self, storage_id: &str, checksum: &str) -> Option<Arc<str>> {
        let kept = self.kept.get_mut(storage_id)?;
        if kept.checksum != checksum {
            return None;
        }
        self.clock += 1;
        self.by_use.remove(&kept.used);
        self.by_use.insert(self.clock, storage_id.to_owned());
        kept.used = self.clock;
        Some(Arc::clone(&kept.content))
    }

    /// Keeps content; what was not used for the longest time makes room.
    pub(crate) fn put(&mut self, storage_id: &str, checksum: &str, content: &Arc<str>) {
        self.remove(storage_id);
        if content.len() > self.capacity {
            return;
        }
        while self.size + content.len() > self.capacity {
            let Some(oldest) = self.by_use.values().next().cloned() else {
                break;
            };
            self.remove(&oldest);
        }
        self.clock += 1;
        self.size += content.len();
        self.by_use.insert(self.clock, storage_id.to_owned());
        let kept = Kept {
            checksum: checksum.to_owned(),
            content: Arc::clone(content),
            used: self.clock,
        };
        self.kept.insert(storage_id.to_owned(), kept);
    }

    fn remove(&mut self, storage_id: &str) {
        if let Some(kept) = self.kept.remove(storage_id) {
            self.by_use.remove(&kept.used);
            self.size -= kept.content.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(cache: &mut Cache, id: &str, length: usize) {
        cache.put(id, "c", &Arc::from("x".repeat(length)));
    }

    fn has(cache: &mut Cache, id: &str) -> bool {
        cache.get(id, "c").is_some()
    }

    #[test]
    fn what_was_not_used_for_the_longest_time_makes_room() {
        let mut cache = Cache::new(10);
        put(&mut cache, "a", 4);
        put(&mut cache, "b", 4);
        assert!(has(&mut cache, "a"));
        put(&mut cache, "c", 4);
        assert!(has(&mut cache, "a") && has(&mut cache, "c") && !has(&mut cache, "b"));
    }

    #[test]
    fn another_checksum_is_other_content() {
        let mut cache = Cache::new(10);
        put(&mut cache, "a", 4);
        assert_eq!(cache.get("a", "other"), None);
    }

    #[test]
    fn what_does_not_fit_pushes_nothing_out() {
        let mut cache = Cache::new(10);
        put(&mut cache, "a", 4);
        put(&mut cache, "large", 11);
        assert!(has(&mut cache, "a") && !has(&mut cache, "large"));
    }

    #[test]
    fn the_size_is_right_after_replacements() {
        let mut cache = Cache::new(10);
        for _ in 0..100 {
            put(&mut cache, "a", 6);
            put(&mut cache, "b", 4);
        }
        assert_eq!(
            (cache.size, cache.kept.len(), cache.by_use.len()),
            (10, 2, 2)
        );
    }
}
