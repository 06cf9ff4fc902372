//! Everything that can go wrong on the way to a real Infrahub, and what to do about it.

use std::{io, path::PathBuf, process::ExitStatus, time::Duration};

/// Why a real Infrahub could not be raised, seeded, asked or checked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Programs from the distribution are missing and cannot be installed from here.
    #[error(
        "missing on this machine: {programs}; install what brings them, as root: \
         `apt-get install --no-install-recommends {packages}`"
    )]
    MissingPrograms {
        /// What was looked for.
        programs: String,
        /// The Debian packages that bring it.
        packages: String,
    },
    /// A one-off command ended with a failure.
    #[error("{step} failed ({status}): `{command}`{tail}")]
    Step {
        /// What it was for.
        step: &'static str,
        /// The command line.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it printed.
        tail: String,
    },
    /// A command could not be started at all.
    #[error("{step}: could not run `{command}`")]
    Run {
        /// What it was for.
        step: &'static str,
        /// The command line.
        command: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A file or directory could not be read or written.
    #[error("could not {action} `{}`", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// With which path.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// There is no directory for the tools.
    #[error("no cache directory: set `XDG_CACHE_HOME` or `HOME`")]
    NoCacheDirectory,
    /// A port of the block that was asked for is in use.
    #[error("port {port} is in use: choose another base port than {base}, or none")]
    PortBusy {
        /// The busy port.
        port: u16,
        /// The first port of the block.
        base: u16,
    },
    /// No block of ports is free.
    #[error("no {needed} free ports in a row between {low} and {high}: end what uses them")]
    NoPorts {
        /// How many are needed.
        needed: u16,
        /// First port that was tried.
        low: u16,
        /// End of the range that was tried.
        high: u16,
    },
    /// One of Infrahub's processes ended before its time.
    #[error("{process} died ({status}){tail}")]
    Died {
        /// Which one.
        process: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// The end of its log.
        tail: String,
    },
    /// One of Infrahub's processes does not answer.
    #[error("{process} is not ready after {} s{tail}", waited.as_secs())]
    NotReady {
        /// Which one.
        process: &'static str,
        /// How long it was waited for.
        waited: Duration,
        /// The end of its log.
        tail: String,
    },
    /// The guardian, which stops everything, could not be started.
    #[error("could not start the process that cleans up (`/bin/sh`)")]
    Guardian {
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// The HTTP client could not be built.
    #[error("could not build the HTTP client")]
    Client {
        /// Why not.
        #[source]
        source: reqwest::Error,
    },
    /// A call to Infrahub got no answer.
    #[error("no answer to {call}")]
    NoAnswer {
        /// The call.
        call: String,
        /// Why not.
        #[source]
        source: reqwest::Error,
    },
    /// Infrahub answered with an HTTP error.
    #[error("{call} was refused with {status}: {body}")]
    Refused {
        /// The call.
        call: String,
        /// The HTTP status.
        status: u16,
        /// What it said.
        body: String,
    },
    /// Infrahub answered a GraphQL document with errors.
    #[error("{call} was answered with errors: {errors}")]
    GraphQl {
        /// The call.
        call: String,
        /// What it said.
        errors: String,
    },
    /// An answer lacks what every answer of its kind has.
    #[error("the answer to {call} has no `{pointer}`: {answer}")]
    Lacking {
        /// The call.
        call: String,
        /// JSON pointer to what is missing.
        pointer: &'static str,
        /// What it said.
        answer: String,
    },
    /// The seed has no artifact for this target.
    #[error("no artifact of the target `{target}`: seed first, or use one of the seeded names")]
    UnknownTarget {
        /// The name that was asked for.
        target: String,
    },
    /// The worker did not do its part in time.
    #[error("waited {} s in vain until {what}; last seen: {seen}{tail}", waited.as_secs())]
    Overdue {
        /// What was waited for.
        what: String,
        /// How long.
        waited: Duration,
        /// The last answer.
        seen: String,
        /// The end of the worker's log.
        tail: String,
    },
    /// The contract suite found a difference.
    #[error("{failed} of {total} contract checks failed against the real Infrahub")]
    Contract {
        /// How many checks failed.
        failed: usize,
        /// How many there are.
        total: usize,
    },
}

impl Error {
    /// For `map_err` on file operations.
    pub(super) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File {
            action,
            path,
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_programs_are_named_with_the_command_that_brings_them() {
        let error = Error::MissingPrograms {
            programs: "redis-server, mvn".to_owned(),
            packages: "redis-server maven".to_owned(),
        };
        assert_eq!(
            error.to_string(),
            "missing on this machine: redis-server, mvn; install what brings them, as root: \
             `apt-get install --no-install-recommends redis-server maven`"
        );
    }

    #[test]
    fn a_busy_port_is_named_together_with_the_way_out() {
        let error = Error::PortBusy {
            port: 28_003,
            base: 28_000,
        };
        assert_eq!(
            error.to_string(),
            "port 28003 is in use: choose another base port than 28000, or none"
        );
    }
}
