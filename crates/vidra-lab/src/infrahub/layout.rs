//! Where the data of one Infrahub lives: nothing of it outlives the server.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::{error::Error, packages};

/// The user that Debian's package makes; Postgres refuses to run as root.
pub(super) const POSTGRES_USER: &str = "postgres";

/// The directories of one Infrahub.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    /// Everything but, in rare cases, the data of Postgres.
    pub data: PathBuf,
    /// The data of Postgres.
    pub postgres: PathBuf,
}

impl Layout {
    /// Plans the directories below `target`; only the top one is made.
    pub(super) fn plan(target: &Path) -> Result<Self, Error> {
        let name = format!("infrahub-{}", std::process::id());
        let data = target.join("lab").join(&name);
        fs::create_dir_all(&data).map_err(Error::file("create", &data))?;
        let data = data.canonicalize().map_err(Error::file("find", &data))?;
        let postgres = if packages::is_root() && !postgres_may_enter(&data) {
            std::env::temp_dir().join(format!("vidra-{name}-postgres"))
        } else {
            data.join("postgres")
        };
        Ok(Self { data, postgres })
    }

    /// Makes the directories and the configuration files.
    pub(super) fn fill(&self) -> Result<(), Error> {
        for name in ["log", "tmp", "home", "storage", "git", "prefect", "redis"] {
            let directory = self.data.join(name);
            fs::create_dir_all(&directory).map_err(Error::file("create", directory))?;
        }
        let gitconfig = self.gitconfig();
        let identity = "[user]\n\tname = lab\n\temail = lab@example.invalid\n";
        let trust = "[safe]\n\tdirectory = *\n";
        fs::write(&gitconfig, format!("{identity}{trust}")).map_err(Error::file("write", gitconfig))
    }

    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.data.join("log").join(format!("{name}.log"))
    }

    pub(super) fn gitconfig(&self) -> PathBuf {
        self.data.join("home/.gitconfig")
    }
}

/// Turns `command` into one that Postgres's user runs, where we are root.
pub(super) fn as_postgres(program: &Path) -> Command {
    if !packages::is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command
        .arg(format!("--reuid={POSTGRES_USER}"))
        .arg(format!("--regid={POSTGRES_USER}"))
        .arg("--clear-groups")
        .arg(program);
    command
}

/// A home directory above the workspace is often closed to other users.
fn postgres_may_enter(directory: &Path) -> bool {
    as_postgres(Path::new("test"))
        .arg("-x")
        .arg(directory)
        .current_dir("/")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The build directory that this program runs from, else `target` in the current directory.
pub(super) fn default_target() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    program
        .ancestors()
        // Cargo marks its build directory with this file.
        .find(|directory| directory.join("CACHEDIR.TAG").is_file())
        .map_or_else(|| PathBuf::from("target"), Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_finds_the_build_directory_it_was_built_into() {
        let target = default_target();
        assert!(std::env::current_exe().unwrap().starts_with(&target));
        assert!(target.join("CACHEDIR.TAG").is_file());
    }

    #[test]
    fn each_log_has_the_name_of_its_process() {
        let layout = Layout {
            data: "/data".into(),
            postgres: "/data/postgres".into(),
        };
        assert_eq!(layout.log("redis"), Path::new("/data/log/redis.log"));
    }
}
