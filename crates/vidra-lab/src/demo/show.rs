//! What the audience sees.

use std::{
    fmt::Display,
    io::Write,
    time::{Duration, Instant},
};

use anyhow::bail;

/// How long a step may take before the demo gives up on it.
const PATIENCE: Duration = Duration::from_mins(1);

/// Prints a line.
pub fn say(line: &str) {
    // Nobody is left to be told when standard output is closed.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Says what was done or seen in the current step.
pub(super) fn detail(text: impl Display) {
    say(&format!("    {text}"));
}

/// Numbers the steps and times them.
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

/// Waits until a probe answers, and says how long it took.
pub(super) async fn see<T, F>(what: &str, mut probe: impl FnMut() -> F) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<Option<T>>>,
{
    let start = Instant::now();
    loop {
        if let Some(found) = probe().await? {
            detail(format_args!("{what:<58} {:>7.1} ms", millis(start)));
            return Ok(found);
        }
        if start.elapsed() > PATIENCE {
            bail!("waited {} s in vain: {what}", PATIENCE.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn millis(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1_000.0
}
