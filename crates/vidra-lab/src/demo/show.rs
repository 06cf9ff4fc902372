//! What the audience sees.

use std::{
    fmt::Display,
    io::Write,
    time::{Duration, Instant},
};

use anyhow::bail;

use crate::rehearsal::kubectl::Kubectl;

/// How long a step may take before the demo gives up on it.
const PATIENCE: Duration = Duration::from_mins(1);
/// After which silence the audience is told that something still runs, at first and from then on.
const SILENCE: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(5)];
/// A longer line is broken between words.
const WIDTH: usize = 100;

/// Prints a line.
pub fn say(line: &str) {
    // Nobody is left to be told when standard output is closed.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Says what was done or seen in the current step.
pub(super) fn detail(text: impl Display) {
    let mut line = String::new();
    for word in text.to_string().split_inclusive(' ') {
        if line.len() + word.len() > WIDTH {
            say(&format!("    {}", line.trim_end()));
            // What goes on is set off from what begins.
            "  ".clone_into(&mut line);
        }
        line.push_str(word);
    }
    say(&format!("    {}", line.trim_end()));
}

/// Numbers the steps.
#[derive(Debug, Default)]
pub(super) struct Show {
    steps: u32,
}

impl Show {
    /// Announces a step.
    pub(super) fn step(&mut self, title: &str) {
        self.steps += 1;
        say(&format!("\n{:>2}. {title}", self.steps));
    }
}

/// Shows what `kubectl get` prints.
pub(super) async fn get(kubectl: &Kubectl, what: &str, path: &str) -> anyhow::Result<()> {
    say(&format!("    $ kubectl get {what}"));
    for line in kubectl.get(path).await? {
        say(&format!("    {line}"));
    }
    Ok(())
}

/// Does something, and says now and then that it still runs.
pub(super) async fn patiently<T>(what: &str, work: impl Future<Output = T>) -> T {
    let start = Instant::now();
    let mut work = std::pin::pin!(work);
    let [mut silence, later] = SILENCE;
    loop {
        if let Ok(done) = tokio::time::timeout(silence, work.as_mut()).await {
            return done;
        }
        let seconds = start.elapsed().as_secs();
        detail(format_args!("... {what}: {seconds} s so far"));
        silence = later;
    }
}

/// Waits until a probe answers, and says how long it took.
pub(super) async fn see<T>(
    what: &str,
    probe: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let start = Instant::now();
    let looking = patiently(what, look(probe));
    let Ok(found) = tokio::time::timeout(PATIENCE, looking).await else {
        bail!("waited {} s in vain: {what}", PATIENCE.as_secs());
    };
    let found = found?;
    detail(format_args!("{what:<62} {:>7.1} ms", millis(start)));
    Ok(found)
}

async fn look<T>(mut probe: impl AsyncFnMut() -> anyhow::Result<Option<T>>) -> anyhow::Result<T> {
    loop {
        if let Some(found) = probe().await? {
            return Ok(found);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn millis(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1_000.0
}
