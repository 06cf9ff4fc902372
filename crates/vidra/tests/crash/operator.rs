//! The operator as a process of its own, which cannot outlive the test.

use std::{
    fs::File,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
};

/// Kills the operator as soon as standard input closes, however the test ends.
const GUARDIAN: &str = r#""$@" </dev/null & read -r _; kill -KILL $!; wait $!; exit 0"#;

/// A running operator. Dropping it is `kill -9`, and returns when the process is gone.
pub(crate) struct Operator {
    guardian: Child,
    stdin: Option<ChildStdin>,
}

impl Operator {
    pub(crate) fn start(kubeconfig: &Path, log: &Path, arguments: &[&str]) -> Self {
        let mut guardian = Command::new("/bin/sh")
            .args(["-c", GUARDIAN, "guardian", env!("CARGO_BIN_EXE_vidra"), "operator"])
            .args(arguments)
            .env("KUBECONFIG", kubeconfig)
            .env("NO_COLOR", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(File::create(log).unwrap())
            // Ctrl-C in a terminal goes to our group; the guardian must live to kill.
            .process_group(0)
            .spawn()
            .unwrap();
        let stdin = guardian.stdin.take();
        Self { guardian, stdin }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.guardian.wait();
    }
}
