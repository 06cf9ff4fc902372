//! Programs that come from the distribution: found, installed as root, or asked for.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use tokio::process::Command;

use super::{command, error::Error, progress::Progress};

/// Where programs live that a user's search path often lacks.
const SYSTEM_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
/// `/usr/sbin/rabbitmq-server` is a wrapper that insists on root or its own user.
const RABBITMQ: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";
const POSTGRES_VERSIONS: &str = "/usr/lib/postgresql";

/// Installs without letting the packages start services of their own. A shell does both, so that
/// its trap removes the policy even when we are gone.
const INSTALL: &str = r#"
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    trap 'rm -f $policy' EXIT
    printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy
fi
apt-get update -q && apt-get install -q -y --no-install-recommends "$@"
"#;

/// The programs, each by its full path.
#[derive(Debug, Clone)]
pub(super) struct Programs {
    pub python: PathBuf,
    pub java: PathBuf,
    pub javac: PathBuf,
    pub maven: PathBuf,
    pub git: PathBuf,
    pub redis: PathBuf,
    pub rabbitmq: PathBuf,
    pub epmd: PathBuf,
    /// The directory with `initdb` and `postgres`.
    pub postgres: PathBuf,
}

/// One program that is needed, and the Debian 12 package that brings it.
struct Need {
    program: &'static str,
    package: &'static str,
    find: fn(&str) -> Option<PathBuf>,
}

const NEEDS: [Need; 9] = [
    need("python3.11", "python3.11-venv", on_path),
    need("java", "openjdk-17-jdk-headless", on_path),
    need("javac", "openjdk-17-jdk-headless", on_path),
    need("mvn", "maven", on_path),
    need("git", "git", on_path),
    need("redis-server", "redis-server", on_path),
    need("rabbitmq-server", "rabbitmq-server", |_| {
        is_file(RABBITMQ.into())
    }),
    need("epmd", "erlang-base", on_path),
    need("postgres", "postgresql-15", |_| {
        newest_postgres(Path::new(POSTGRES_VERSIONS))
    }),
];

const fn need(
    program: &'static str,
    package: &'static str,
    find: fn(&str) -> Option<PathBuf>,
) -> Need {
    Need {
        program,
        package,
        find,
    }
}

impl Programs {
    /// Finds the programs; as root it installs what is missing.
    pub(super) async fn provide(log: &Path, progress: &Progress) -> Result<Self, Error> {
        let missing = missing();
        if !missing.is_empty() && is_root() && on_path("apt-get").is_some() {
            let packages = packages_of(&missing);
            let what = format!("installing Debian packages ({})", packages.join(", "));
            progress.during(&what, install(&packages, log)).await?;
        }
        Self::find().ok_or_else(|| missing_programs(&self::missing()))
    }

    fn find() -> Option<Self> {
        let [
            python,
            java,
            javac,
            maven,
            git,
            redis,
            rabbitmq,
            epmd,
            postgres,
        ] = NEEDS.map(|need| (need.find)(need.program));
        Some(Self {
            python: python?,
            java: java?,
            javac: javac?,
            maven: maven?,
            git: git?,
            redis: redis?,
            rabbitmq: rabbitmq?,
            epmd: epmd?,
            postgres: postgres?,
        })
    }
}

/// Whether we may install packages, and Postgres has to run as somebody else.
pub(super) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// The user's search path with the system's directories behind it.
pub(super) fn search_path() -> String {
    match std::env::var("PATH") {
        Ok(path) => format!("{path}:{SYSTEM_PATH}"),
        Err(_) => SYSTEM_PATH.to_owned(),
    }
}

async fn install(packages: &[&str], log: &Path) -> Result<(), Error> {
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", INSTALL, "install"])
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive");
    command::run("installing Debian packages", &mut shell, log).await
}

fn missing() -> Vec<&'static Need> {
    NEEDS
        .iter()
        .filter(|need| (need.find)(need.program).is_none())
        .collect()
}

fn packages_of(needs: &[&Need]) -> Vec<&'static str> {
    let mut packages: Vec<_> = needs.iter().map(|need| need.package).collect();
    packages.dedup();
    packages
}

fn missing_programs(needs: &[&Need]) -> Error {
    let programs: Vec<_> = needs.iter().map(|need| need.program).collect();
    Error::MissingPrograms {
        programs: programs.join(", "),
        packages: packages_of(needs).join(" "),
    }
}

fn on_path(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&search_path())
        .map(|directory| directory.join(program))
        .find_map(is_file)
}

fn is_file(path: PathBuf) -> Option<PathBuf> {
    path.is_file().then_some(path)
}

/// Debian keeps each major version in a directory of its own: `<version>/bin`.
fn newest_postgres(versions: &Path) -> Option<PathBuf> {
    let number = |name: &OsStr| name.to_str()?.parse::<u32>().ok();
    std::fs::read_dir(versions)
        .ok()?
        .flatten()
        .filter(|version| version.path().join("bin/initdb").is_file())
        .filter(|version| version.path().join("bin/postgres").is_file())
        .max_by_key(|version| number(&version.file_name()))
        .map(|version| version.path().join("bin"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_programs_of_one_package_ask_for_it_once() {
        let needs: Vec<_> = NEEDS
            .iter()
            .filter(|need| need.program.starts_with("java"))
            .collect();
        assert_eq!(needs.len(), 2);
        assert_eq!(packages_of(&needs), ["openjdk-17-jdk-headless"]);
    }

    #[test]
    fn the_error_names_each_missing_program_and_its_package() {
        let needs: Vec<_> = NEEDS
            .iter()
            .filter(|need| ["mvn", "redis-server"].contains(&need.program))
            .collect();
        let text = missing_programs(&needs).to_string();
        assert!(text.contains("missing on this machine: mvn, redis-server;"));
        assert!(text.contains("install --no-install-recommends maven redis-server`"));
    }

    #[test]
    fn of_several_postgres_versions_the_newest_complete_one_is_taken() {
        let versions = std::env::temp_dir().join(format!("postgres-{}", std::process::id()));
        for (version, programs) in [("9", 2), ("15", 2), ("17", 1)] {
            let directory = versions.join(version).join("bin");
            std::fs::create_dir_all(&directory).unwrap();
            for program in ["initdb", "postgres"].iter().take(programs) {
                std::fs::write(directory.join(program), "").unwrap();
            }
        }
        let found = newest_postgres(&versions);
        std::fs::remove_dir_all(&versions).unwrap();
        assert_eq!(found, Some(versions.join("15/bin")));
    }
}
