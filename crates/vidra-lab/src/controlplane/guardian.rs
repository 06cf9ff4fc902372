//! The process that outlives us by a moment, to end what we started.
//!
//! `guardian.sh` is the parent of all servers and blocks on reading its standard input. That pipe
//! is the whole trick: nobody else holds its other end, so it closes when we close it or die.

use std::{
    collections::HashMap,
    fmt::Write as _,
    io::{self, BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use super::Server;

const SCRIPT: &str = include_str!("guardian.sh");

/// Why the guardian could not do its work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuardianError {
    /// `/bin/sh` could not be started.
    #[error("cannot start the guardian process /bin/sh")]
    Spawn(#[source] io::Error),
    /// The command line of a server could not be written.
    #[error("cannot write {path:?}")]
    WriteCommand {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// The guardian does not answer.
    #[error("the guardian process does not answer; was it killed?")]
    Talk(#[source] io::Error),
    /// The guardian answered something else than expected.
    #[error("the guardian process answered {answer:?} to {request:?}")]
    Answer {
        /// What it was asked.
        request: String,
        /// What it said.
        answer: String,
    },
}

/// What can be done to a running server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Ends it at once (`SIGKILL`).
    Kill,
    /// Asks it to end (`SIGTERM`).
    Terminate,
    /// Freezes it (`SIGSTOP`): connections stay open, nothing answers.
    Pause,
    /// Lets it run again (`SIGCONT`).
    Resume,
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Self::Kill => "KILL",
            Self::Terminate => "TERM",
            Self::Pause => "STOP",
            Self::Resume => "CONT",
        }
    }
}

/// The running guardian of one directory. Dropping it ends all servers and removes the directory.
pub(super) struct Guardian {
    directory: PathBuf,
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    pids: HashMap<Server, u32>,
}

impl Guardian {
    pub(super) fn spawn(directory: &Path) -> Result<Self, GuardianError> {
        let mut child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "vidra-lab-guardian"])
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C in a terminal goes to our group; the guardian must live to clean up.
            .process_group(0)
            .spawn()
            .map_err(GuardianError::Spawn)?;
        let missing = || GuardianError::Spawn(io::Error::other("no pipe"));
        let requests = child.stdin.take().ok_or_else(missing)?;
        let answers = BufReader::new(child.stdout.take().ok_or_else(missing)?);
        let directory = directory.to_owned();
        Ok(Self {
            directory,
            child,
            requests: Some(requests),
            answers,
            pids: HashMap::new(),
        })
    }

    pub(super) fn pid(&self, server: Server) -> Option<u32> {
        self.pids.get(&server).copied()
    }

    /// Starts a server.
    pub(super) fn start(
        &mut self,
        server: Server,
        program: &Path,
        arguments: &[String],
    ) -> Result<(), GuardianError> {
        let path = self.directory.join(format!("{}.sh", server.key()));
        std::fs::write(&path, command_line(program, arguments))
            .map_err(|source| GuardianError::WriteCommand { path, source })?;
        let request = format!("start {}", server.key());
        let answer = self.ask(&request)?;
        let Ok(pid) = answer.parse() else {
            return Err(GuardianError::Answer { request, answer });
        };
        self.pids.insert(server, pid);
        Ok(())
    }

    /// Whether the server was there to get the signal.
    pub(super) fn signal(&mut self, server: Server, signal: Signal) -> Result<bool, GuardianError> {
        if !self.pids.contains_key(&server) {
            return Ok(false);
        }
        let answer = self.ask(&format!("signal {} {}", server.key(), signal.name()))?;
        Ok(answer == "ok")
    }

    /// Blocks until the server has ended.
    pub(super) fn wait(&mut self, server: Server) -> Result<(), GuardianError> {
        self.ask(&format!("wait {}", server.key()))?;
        self.pids.remove(&server);
        Ok(())
    }

    /// What the guardian would have done, had nobody killed it.
    fn clean_up(&self) {
        let pids = self.pids.values().map(u32::to_string);
        let _ = Command::new("/bin/sh")
            .args(["-c", "kill -KILL \"$@\"", "sh"])
            .args(pids)
            .status();
        while self.pids.values().any(|pid| !has_ended(*pid)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }

    fn ask(&mut self, request: &str) -> Result<String, GuardianError> {
        let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
        let requests = self
            .requests
            .as_mut()
            .ok_or_else(closed)
            .map_err(GuardianError::Talk)?;
        requests
            .write_all(format!("{request}\n").as_bytes())
            .map_err(GuardianError::Talk)?;
        let mut answer = String::new();
        match self.answers.read_line(&mut answer) {
            Ok(0) => Err(GuardianError::Talk(closed())),
            Ok(_) => Ok(answer.trim_end().to_owned()),
            Err(source) => Err(GuardianError::Talk(source)),
        }
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.requests.take());
        // Whoever drops a control plane may count on its being gone afterwards.
        if !self.child.wait().is_ok_and(|status| status.success()) {
            self.clean_up();
        }
    }
}

/// A file that people can read and run again by hand.
fn command_line(program: &Path, arguments: &[String]) -> String {
    let mut line = format!("exec {}", quote(&program.to_string_lossy()));
    for argument in arguments {
        let _ = write!(line, " \\\n  {}", quote(argument));
    }
    line.push('\n');
    line
}

fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Whether a process has ended; one that nobody has waited for yet counts as ended.
pub(super) fn has_ended(pid: u32) -> bool {
    if cfg!(target_os = "linux") {
        // The state follows the command name, which is in parentheses and may contain anything.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        return stat
            .rsplit(") ")
            .next()
            .is_none_or(|rest| rest.is_empty() || rest.starts_with(['Z', 'X']));
    }
    let output = Command::new("ps")
        .args(["-o", "stat=", "-p", &pid.to_string()])
        .output();
    output.is_ok_and(|output| output.stdout.is_empty() || output.stdout.starts_with(b"Z"))
}
