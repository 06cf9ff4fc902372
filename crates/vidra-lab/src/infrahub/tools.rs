//! What is downloaded once and kept in the user's cache: Infrahub itself and its graph database.

use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    time::Duration,
};

use sha2::{Digest, Sha256};
use tokio::process::Command;

use super::{command, error::Error, packages::Programs, progress::Progress};

const REQUIREMENTS: &str = include_str!("../../infrahub/requirements.txt");
const POM: &str = include_str!("../../infrahub/pom.xml");
const GRAPH: &str = include_str!("../../infrahub/Graph.java");

/// Its presence says that a directory was filled to the end.
const COMPLETE: &str = ".complete";

/// Where the downloaded programs are.
#[derive(Debug, Clone)]
pub(super) struct Tools {
    /// `bin` of the virtual environment.
    pub python_bin: PathBuf,
    /// Java class path of the graph database.
    pub class_path: String,
}

impl Tools {
    /// Downloads what the cache lacks.
    pub(super) async fn provide(
        cache: &Path,
        programs: &Programs,
        progress: &Progress,
    ) -> Result<Self, Error> {
        let python = cache.join(key("python", &[REQUIREMENTS]));
        if let Some(unfinished) = Unfinished::claim(&python, progress).await? {
            let what = "installing Infrahub and its Python packages (once, some minutes)";
            progress
                .during(what, install_python(&python, programs))
                .await?;
            unfinished.complete()?;
        }
        let graph = cache.join(key("neo4j", &[POM, GRAPH]));
        if let Some(unfinished) = Unfinished::claim(&graph, progress).await? {
            let what = "downloading Neo4j (once, some minutes)";
            progress
                .during(what, install_graph(&graph, programs))
                .await?;
            unfinished.complete()?;
        }
        let class_path = format!("{0}/classes:{0}/lib/*", graph.display());
        Ok(Self {
            python_bin: python.join("bin"),
            class_path,
        })
    }
}

/// `$XDG_CACHE_HOME/vidra/infrahub`, or the same below `~/.cache`.
pub(super) fn default_cache() -> Result<PathBuf, Error> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    variable("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| variable("HOME").map(|home| Path::new(&home).join(".cache")))
        .map(|cache| cache.join("vidra/infrahub"))
        .ok_or(Error::NoCacheDirectory)
}

/// Another content is another directory, so a changed list never meets an old installation.
fn key(name: &str, contents: &[&str]) -> String {
    let mut digest = Sha256::new();
    for content in contents {
        digest.update(content);
    }
    digest
        .finalize()
        .iter()
        .take(6)
        .fold(format!("{name}-"), |key, byte| format!("{key}{byte:02x}"))
}

/// An empty directory that only this process fills, because it holds the lock.
struct Unfinished {
    directory: PathBuf,
    _lock: File,
}

impl Unfinished {
    /// `None` when the directory is complete already.
    async fn claim(directory: &Path, progress: &Progress) -> Result<Option<Self>, Error> {
        if directory.join(COMPLETE).exists() {
            return Ok(None);
        }
        let parent = directory.parent().unwrap_or(directory);
        fs::create_dir_all(parent).map_err(Error::file("create", parent))?;
        let lock = lock(&directory.with_extension("lock"), progress).await?;
        if directory.join(COMPLETE).exists() {
            return Ok(None);
        }
        if directory.exists() {
            fs::remove_dir_all(directory).map_err(Error::file("remove", directory))?;
        }
        fs::create_dir(directory).map_err(Error::file("create", directory))?;
        Ok(Some(Self {
            directory: directory.to_owned(),
            _lock: lock,
        }))
    }

    fn complete(self) -> Result<(), Error> {
        let marker = self.directory.join(COMPLETE);
        fs::write(&marker, "").map_err(Error::file("write", marker))
    }
}

/// The lock goes with the file handle, so a killed process never leaves one behind.
async fn lock(path: &Path, progress: &Progress) -> Result<File, Error> {
    let file = File::create(path).map_err(Error::file("create", path))?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(source)) => return Err(Error::file("lock", path)(source)),
            Err(TryLockError::WouldBlock) => {
                progress.say("another process is installing the same; waiting for it");
                tokio::time::sleep(Duration::from_secs(10)).await;
            }
        }
    }
}

async fn install_python(directory: &Path, programs: &Programs) -> Result<(), Error> {
    let requirements = directory.join("requirements.txt");
    fs::write(&requirements, REQUIREMENTS).map_err(Error::file("write", &requirements))?;
    let log = directory.join("install.log");
    let mut venv = Command::new(&programs.python);
    venv.args(["-m", "venv"]).arg(directory);
    command::run("making a Python environment", &mut venv, &log).await?;
    let mut pip = Command::new(directory.join("bin/pip"));
    pip.args(["install", "--disable-pip-version-check", "--no-input"])
        .arg("--requirement")
        .arg(&requirements);
    command::run("installing Infrahub with pip", &mut pip, &log).await
}

async fn install_graph(directory: &Path, programs: &Programs) -> Result<(), Error> {
    let (pom, source) = (directory.join("pom.xml"), directory.join("Graph.java"));
    fs::write(&pom, POM).map_err(Error::file("write", &pom))?;
    fs::write(&source, GRAPH).map_err(Error::file("write", &source))?;
    let log = directory.join("install.log");
    let (library, repository) = (directory.join("lib"), directory.join("repository"));
    let mut maven = Command::new(&programs.maven);
    maven
        .args(["--batch-mode", "--no-transfer-progress", "--file"])
        .arg(&pom)
        .args(["dependency:copy-dependencies", "-DincludeScope=runtime"])
        .arg(format!("-DoutputDirectory={}", library.display()))
        .arg(format!("-Dmaven.repo.local={}", repository.display()));
    command::run("downloading Neo4j with Maven", &mut maven, &log).await?;
    // Maven's own copy of what now is in `lib`.
    fs::remove_dir_all(&repository).map_err(Error::file("remove", &repository))?;
    let mut javac = Command::new(&programs.javac);
    javac
        .arg("-cp")
        .arg(format!("{}/*", library.display()))
        .arg("-d")
        .arg(directory.join("classes"))
        .arg(&source);
    command::run("compiling the Neo4j launcher", &mut javac, &log).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_changes_with_any_of_the_contents() {
        let keys = [
            key("a", &["x", "y"]),
            key("a", &["x", "z"]),
            key("a", &["w", "y"]),
        ];
        assert_eq!(keys[0].len(), "a-".len() + 12);
        assert_ne!(keys[0], keys[1]);
        assert_ne!(keys[0], keys[2]);
    }

    #[tokio::test]
    async fn a_half_filled_directory_is_emptied_and_a_complete_one_is_kept() {
        let cache = std::env::temp_dir().join(format!("tools-{}", std::process::id()));
        let directory = cache.join("python-1");
        fs::create_dir_all(directory.join("half")).unwrap();

        let unfinished = Unfinished::claim(&directory, &Progress::silent()).await;
        let unfinished = unfinished.unwrap().expect("it was not complete");
        assert!(!directory.join("half").exists());
        fs::write(directory.join("whole"), "").unwrap();
        unfinished.complete().unwrap();

        let again = Unfinished::claim(&directory, &Progress::silent()).await;
        assert!(again.unwrap().is_none());
        assert!(directory.join("whole").exists());
        fs::remove_dir_all(&cache).unwrap();
    }
}
