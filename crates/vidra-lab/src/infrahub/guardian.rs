//! Ends what we started, also when we are killed.
//!
//! A shell in a process group of its own reads from a pipe that only we hold. When we end, for
//! whatever reason, the pipe ends; the shell then ends every process group it was told of and
//! removes the directories it was given.

use std::{
    io::{self, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Reads lines `<signal> <process group>` until the pipe ends. A group counts as alive while a
/// member that is not a zombie is left: nobody may reap orphans where this runs as a container.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
alive() { cat /proc/[0-9]*/stat 2>/dev/null | sed 's/.*) //' | grep -q "^[^ZX] [0-9]* $1 "; }
groups=
while read -r signal group; do groups="$groups $signal:$group"; done
for entry in $groups; do kill -s "${entry%%:*}" -- "-${entry#*:}" 2>/dev/null; done
patience=50
for entry in $groups; do
    while [ $patience -gt 0 ] && alive "${entry#*:}"; do patience=$((patience - 1)); sleep 0.3; done
    if alive "${entry#*:}"; then kill -s KILL -- "-${entry#*:}" 2>/dev/null; fi
done
for directory in "$@"; do rm -rf -- "$directory" || { sleep 1; rm -rf -- "$directory"; }; done
"#;

/// Longer than the shell may need.
const LIMIT: Duration = Duration::from_mins(1);

/// Owns the processes of one server; dropping it ends them and waits for that.
#[derive(Debug)]
pub(super) struct Guardian {
    shell: Child,
    wards: Vec<(&'static str, Child)>,
}

impl Guardian {
    /// Starts the shell; `doomed` are the directories that go when everything has ended.
    pub(super) fn start(doomed: &[&Path]) -> io::Result<Self> {
        let shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "guardian"])
            .args(doomed)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self {
            shell,
            wards: Vec::new(),
        })
    }

    /// Starts `command` as a process group that will be ended with `signal`.
    pub(super) fn spawn(
        &mut self,
        name: &'static str,
        command: &mut Command,
        signal: &str,
    ) -> io::Result<()> {
        let child = command.process_group(0).spawn()?;
        let group = child.id();
        self.wards.push((name, child));
        match &mut self.shell.stdin {
            Some(pipe) => writeln!(pipe, "{signal} {group}"),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// The first process that has ended although nobody asked it to.
    pub(super) fn first_dead(&mut self) -> Option<(&'static str, ExitStatus)> {
        self.wards.iter_mut().find_map(|(name, child)| {
            let status = child.try_wait().ok().flatten()?;
            Some((*name, status))
        })
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let deadline = Instant::now() + LIMIT;
        while matches!(self.shell.try_wait(), Ok(None)) && Instant::now() < deadline {
            self.first_dead();
            thread::sleep(Duration::from_millis(50));
        }
        for (_, child) in &mut self.wards {
            // Reaps it; whatever is still alive here is beyond our reach.
            let _ = child.try_wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdout(Stdio::null());
        command
    }

    fn is_running(pid: &str) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.contains(") Z "))
    }

    fn wait_for_file(path: &Path) -> String {
        loop {
            if let Ok(text) = std::fs::read_to_string(path)
                && text.ends_with('\n')
            {
                return text.trim().to_owned();
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn dropping_it_ends_children_of_the_process_too_and_removes_the_directory() {
        let directory = std::env::temp_dir().join(format!("guardian-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let note = directory.join("pid");
        let mut guardian = Guardian::start(&[&directory]).unwrap();
        let script = format!("sleep 300 & echo $! > {}; wait", note.display());
        guardian
            .spawn("a shell that waits", &mut shell(&script), "TERM")
            .unwrap();
        let grandchild = wait_for_file(&note);
        assert!(is_running(&grandchild));

        drop(guardian);

        assert!(!is_running(&grandchild));
        assert!(!directory.exists());
    }

    #[test]
    fn children_of_the_process_are_asked_before_they_are_killed() {
        let note = std::env::temp_dir().join(format!("guardian-{}.note", std::process::id()));
        let child = "trap \"echo asked >&3; exit\" TERM; echo up >&3; while :; do sleep 0.1; done";
        let script = format!("exec 3>>{}; sh -c '{child}' & wait", note.display());
        let mut guardian = Guardian::start(&[]).unwrap();
        guardian
            .spawn("a shell that waits", &mut shell(&script), "TERM")
            .unwrap();
        assert_eq!(wait_for_file(&note), "up");

        drop(guardian);

        let said = std::fs::read_to_string(&note).unwrap();
        std::fs::remove_file(&note).unwrap();
        assert_eq!(said, "up\nasked\n");
    }

    #[test]
    fn a_process_that_ends_by_itself_is_reported_with_its_name_and_status() {
        let mut guardian = Guardian::start(&[]).unwrap();
        guardian
            .spawn("short-lived", &mut shell("exit 3"), "TERM")
            .unwrap();
        let (name, status) = loop {
            if let Some(dead) = guardian.first_dead() {
                break dead;
            }
            thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(name, "short-lived");
        assert_eq!(status.code(), Some(3));
    }
}
