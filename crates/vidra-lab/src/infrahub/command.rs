//! Commands that run once and end, with their output in a log file.

use std::{fs::File, path::Path, process::Stdio};

use tokio::process::Command;

use super::{error::Error, packages::search_path};

/// How much of a log goes into an error message.
const TAIL_LINES: usize = 25;

/// Runs `command` to its end; its output goes to `log`, whose end goes into the error.
pub(super) async fn run(
    step: &'static str,
    command: &mut Command,
    log: &Path,
) -> Result<(), Error> {
    let output = File::create(log).map_err(Error::file("write", log))?;
    let errors = output.try_clone().map_err(Error::file("write", log))?;
    let line = command_line(command);
    let status = command
        .env("PATH", search_path())
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .kill_on_drop(true)
        .status()
        .await
        .map_err(|source| Error::Run {
            step,
            command: line.clone(),
            source,
        })?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Step {
        step,
        command: line,
        status,
        tail: tail(log),
    })
}

/// The end of a log, introduced by a line break and its path; nothing when it is empty.
pub(super) fn tail(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    match last_lines(&text) {
        "" => String::new(),
        end => format!("\n--- the end of {} ---\n{end}", log.display()),
    }
}

fn last_lines(text: &str) -> &str {
    let text = text.trim_end();
    let start = text
        .rmatch_indices('\n')
        .nth(TAIL_LINES - 1)
        .map_or(0, |(index, _)| index + 1);
    &text[start..]
}

fn command_line(command: &Command) -> String {
    let command = command.as_std();
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_log_is_told_completely() {
        assert_eq!(last_lines("one\ntwo\n"), "one\ntwo");
    }

    #[test]
    fn of_a_long_log_only_the_end_is_told() {
        let lines: Vec<_> = (1..=100).map(|line| format!("line {line}")).collect();
        let text = lines.join("\n");
        let end = last_lines(&text);
        assert!(end.starts_with("line 76\n"), "{end}");
        assert!(end.ends_with("line 100"), "{end}");
    }

    #[tokio::test]
    async fn a_failed_command_is_told_with_its_step_its_line_and_what_it_said() {
        let log = std::env::temp_dir().join(format!("command-{}.log", std::process::id()));
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo no such jar >&2; exit 7"]);
        let error = run("copying jars", &mut command, &log).await.unwrap_err();
        std::fs::remove_file(&log).unwrap();
        let text = error.to_string();
        assert!(text.starts_with("copying jars failed (exit status: 7): `/bin/sh -c"));
        assert!(text.ends_with("no such jar"), "{text}");
    }
}
