//! What takes long is said on the terminal, with how long it has taken so far.

use std::{
    io::{self, IsTerminal, Write},
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// One line about what happens.
pub(super) fn say(text: &str) {
    // Standard error itself: a test's output is captured, and nobody would see it in time.
    let _ = writeln!(io::stderr(), "vidra-lab: {text}");
}

/// Says what is going on until it is dropped: one line that is kept up to date on a terminal, a
/// new line every ten seconds elsewhere.
pub(super) struct Progress {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    pub(super) fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let (stop, stopped) = channel();
        let is_terminal = io::stderr().is_terminal();
        let period = Duration::from_secs(if is_terminal { 1 } else { 10 });
        let thread = std::thread::spawn(move || {
            let begin = Instant::now();
            show(&text, begin, is_terminal);
            while stopped.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                show(&text, begin, is_terminal);
            }
            if is_terminal {
                let _ = writeln!(io::stderr());
            }
        });
        Self {
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn show(text: &str, begin: Instant, is_terminal: bool) {
    let line = format!("{text} ({} s)", begin.elapsed().as_secs());
    if is_terminal {
        let _ = write!(io::stderr(), "\r\x1b[2Kvidra-lab: {line}");
    } else {
        say(&line);
    }
}
