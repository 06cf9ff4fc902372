//! What several of these tests need.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use vidra_lab::controlplane::unique;

/// Nothing here takes longer unless it never happens.
const PATIENCE: Duration = Duration::from_mins(2);

/// A directory of one test, removed with the value.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(unique(name));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Names of what is in it.
    pub(crate) fn entries(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    /// Directories of control planes that are in it.
    pub(crate) fn planes(&self) -> Vec<String> {
        self.entries()
            .into_iter()
            .filter(|name| name.starts_with("plane-"))
            .collect()
    }

    pub(crate) fn executable(&self, name: &str, content: &str) -> PathBuf {
        executable(&self.0.join(name), content)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Command lines of all running processes that mention a path. Every server and every guardian
/// has the directory of its control plane in its arguments.
pub(crate) fn processes_mentioning(path: &Path) -> Vec<String> {
    let wanted = path.to_str().unwrap();
    all_command_lines()
        .into_iter()
        .filter(|line| line.contains(wanted))
        .collect()
}

fn all_command_lines() -> Vec<String> {
    let Ok(entries) = fs::read_dir("/proc") else {
        let output = Command::new("ps")
            .args(["-axww", "-o", "command="])
            .output()
            .unwrap();
        return String::from_utf8_lossy(&output.stdout)
            .lines()
            .map(str::to_owned)
            .collect();
    };
    let pids = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("cmdline").exists());
    pids.filter_map(|pid| fs::read(pid.join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .collect()
}

/// Waits for something that must happen.
pub(crate) fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !happened() {
        assert!(begin.elapsed() < PATIENCE, "this never happened: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a process exists, be it only one that nobody has waited for.
pub(crate) fn is_alive(pid: u32) -> bool {
    let command = format!("kill -0 {pid} 2>/dev/null");
    let status = Command::new("/bin/sh").args(["-c", &command]).status();
    status.unwrap().success()
}

pub(crate) fn signal(name: &str, pid: u32) {
    let command = format!("kill -{name} {pid}");
    assert!(
        Command::new("/bin/sh")
            .args(["-c", &command])
            .status()
            .unwrap()
            .success()
    );
}

/// An error as people see it, with all sources.
pub(crate) fn text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// Writes a file that can be run.
pub(crate) fn executable(path: &Path, content: &str) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_owned()
}
