//! Workers: as many as the settings say, now and after each change.

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::settings::{Changes, Settings};

/// Keeps as many workers as `wanted` says, until it is cancelled.
///
/// A worker gets a token that tells it to end; it should first finish what it is doing. It is not
/// cut off, neither when there are to be fewer nor at the end.
pub(crate) async fn staff<Work: Future<Output = ()> + Send + 'static>(
    mut changes: Changes,
    wanted: fn(&Settings) -> usize,
    work: impl Fn(CancellationToken) -> Work,
    (tasks, cancel): (TaskTracker, CancellationToken),
) {
    let mut workers: Vec<CancellationToken> = Vec::new();
    loop {
        let wanted = wanted(changes.known());
        while workers.len() < wanted {
            let token = cancel.child_token();
            tasks.spawn(work(token.clone()));
            workers.push(token);
        }
        for surplus in workers.drain(wanted..) {
            surplus.cancel();
        }
        if let Some(None) | None = cancel.run_until_cancelled(changes.next()).await {
            // Dropping the tokens cancels nobody: each hears of the end by itself.
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    use super::*;
    use crate::settings::Live;

    fn settings(workers: usize) -> Settings {
        Settings {
            workers,
            ..Settings::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn there_are_as_many_workers_as_wanted_after_each_change_and_none_at_the_end() {
        let live = Live::new(settings(3));
        let (tasks, cancel) = (TaskTracker::new(), CancellationToken::new());
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let work = move |token: CancellationToken| {
            let count = counted.clone();
            async move {
                count.fetch_add(1, Ordering::SeqCst);
                token.cancelled().await;
                count.fetch_sub(1, Ordering::SeqCst);
            }
        };
        let team = (tasks.clone(), cancel.clone());
        tasks.spawn(staff(live.changes(), |it| it.workers, work, team));
        for wanted in [3, 8, 1, 2, 0] {
            live.set(settings(wanted));
            tokio::time::sleep(Duration::from_millis(1)).await;
            assert_eq!(count.load(Ordering::SeqCst), wanted);
        }
        live.set(settings(5));
        tokio::time::sleep(Duration::from_millis(1)).await;
        cancel.cancel();
        tasks.close();
        tasks.wait().await;
        assert_eq!(count.load(Ordering::SeqCst), 0);
    }
}
