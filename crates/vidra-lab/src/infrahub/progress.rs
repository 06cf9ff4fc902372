//! Telling a waiting person what is going on, and for how long already.

use std::{
    fmt::{self, Display},
    io::Write,
    sync::Arc,
    time::{Duration, Instant},
};

/// How long a step may be silent before the person is told that it still runs.
const SILENCE: Duration = Duration::from_secs(20);

/// Where progress lines go; each begins with the seconds since this value was made.
#[derive(Clone)]
pub struct Progress {
    started: Instant,
    sink: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Progress {
    /// Lines go to `sink`, without a line break.
    pub fn new(sink: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self {
            started: Instant::now(),
            sink: Arc::new(sink),
        }
    }

    /// Lines go to standard error, so that standard output stays usable for results.
    pub fn stderr() -> Self {
        Self::new(|line| {
            // Nobody is left to tell when standard error is closed.
            let _ = writeln!(std::io::stderr(), "{line}");
        })
    }

    /// No lines at all.
    pub fn silent() -> Self {
        Self::new(|_| ())
    }

    /// Says one thing.
    pub fn say(&self, text: impl Display) {
        let seconds = self.started.elapsed().as_secs();
        (self.sink)(&format!("[{seconds:>4} s] {text}"));
    }

    /// Says what is done, and does it `patiently`.
    pub async fn during<T>(&self, what: &str, work: impl Future<Output = T>) -> T {
        self.say(format_args!("{what} ..."));
        self.patiently(what, work).await
    }

    /// Does `work` and says now and then that it still runs.
    pub async fn patiently<T>(&self, what: &str, work: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let mut work = std::pin::pin!(work);
        loop {
            match tokio::time::timeout(SILENCE, work.as_mut()).await {
                Ok(result) => return result,
                Err(_) => self.say(format_args!(
                    "{what}: still at it after {} s",
                    began.elapsed().as_secs()
                )),
            }
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Progress").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn recorded() -> (Progress, Arc<Mutex<Vec<String>>>) {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&lines);
        let progress = Progress::new(move |line| sink.lock().unwrap().push(line.to_owned()));
        (progress, lines)
    }

    #[test]
    fn a_line_starts_with_the_seconds_that_have_passed() {
        let (progress, lines) = recorded();
        progress.say("redis is ready");
        assert_eq!(*lines.lock().unwrap(), ["[   0 s] redis is ready"]);
    }

    #[tokio::test]
    async fn work_that_ends_at_once_is_announced_once() {
        let (progress, lines) = recorded();
        let answer = progress.during("thinking", async { 42 }).await;
        assert_eq!(answer, 42);
        assert_eq!(*lines.lock().unwrap(), ["[   0 s] thinking ..."]);
    }
}
