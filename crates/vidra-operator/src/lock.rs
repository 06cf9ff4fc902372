//! Taking a lock that only short, infallible code holds.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock. Whoever panicked while holding it left whole values behind.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
