//! Where the binaries of the control plane come from. The first hit wins:
//!
//! 1. a directory that the environment names (`VIDRA_LAB_BINARIES`, `KUBEBUILDER_ASSETS`);
//! 2. the cache in the user's cache directory;
//! 3. the official release, checked against a digest pinned here;
//! 4. a build by the `go` on the path, from modules pinned here.
//!
//! What 3 and 4 make goes to the cache, under a key that changes with any of the pins.

mod cache;
mod compile;
mod download;
mod explicit;
mod pins;
mod progress;

use std::{
    env, fmt, io,
    path::{Path, PathBuf},
};

use cache::Cache;
pub(super) use cache::cache_directory;
pub use download::{Archive, Digest};
use explicit::Explicit;
use tokio::runtime::Handle;

use super::chain;

/// One of the binaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tool {
    /// `etcd`
    Etcd,
    /// `kube-apiserver`
    KubeApiserver,
    /// `kube-controller-manager`
    KubeControllerManager,
}

impl Tool {
    /// The name of its file.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
        }
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.file_name())
    }
}

/// Why there is no binary.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BinaryError {
    /// The environment names a directory that is none.
    #[error("{variable} names {path:?}, which is no directory; correct or unset it")]
    NoDirectory {
        /// The environment variable.
        variable: &'static str,
        /// Its value.
        path: PathBuf,
    },
    /// The directory from the environment lacks the binary.
    #[error("{variable} names {path:?}, which has no {tool}; put it there or unset the variable")]
    NotInDirectory {
        /// The environment variable.
        variable: &'static str,
        /// Its value.
        path: PathBuf,
        /// What is missing.
        tool: Tool,
    },
    /// The binary from the environment cannot be run.
    #[error("{path:?} (from {variable}) is not executable; run `chmod +x` on it")]
    NotExecutable {
        /// The environment variable.
        variable: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// Nobody knows where the cache should be.
    #[error("no cache directory is known; set XDG_CACHE_HOME or HOME")]
    NoCacheDirectory,
    /// The cache cannot be used.
    #[error("cannot use the cache at {path:?}; check its permissions or remove it")]
    Cache {
        /// The file or directory.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// All sources failed.
    #[error(
        "no {tool} could be had; install Go (https://go.dev/dl) or let this machine reach dl.k8s.io and github.com, or set {} to a directory with etcd, kube-apiserver and kube-controller-manager. Tried:\n{}",
        explicit::OURS,
        attempts.iter().map(|attempt| format!("- {attempt}")).collect::<Vec<_>>().join("\n")
    )]
    Nowhere {
        /// What is missing.
        tool: Tool,
        /// Each source and why it failed.
        attempts: Vec<String>,
    },
    /// The search itself was aborted.
    #[error("the search for {tool} was aborted")]
    Aborted {
        /// What was searched.
        tool: Tool,
        /// By what.
        #[source]
        source: tokio::task::JoinError,
    },
}

/// Finds binaries, and makes what it does not find.
#[derive(Debug, Clone)]
pub struct Locator {
    explicit: Option<Explicit>,
    cache: Option<PathBuf>,
    archives: Vec<Archive>,
    go: PathBuf,
}

impl Locator {
    /// All four sources, as the environment says.
    pub fn from_environment() -> Self {
        Self {
            explicit: Explicit::from_environment(),
            cache: cache_directory(),
            archives: pins::archives(env::consts::OS, env::consts::ARCH),
            go: PathBuf::from("go"),
        }
    }

    /// The sources that make something, without what the environment names.
    #[must_use]
    pub fn without_environment(mut self) -> Self {
        self.explicit = None;
        self
    }

    /// As if `VIDRA_LAB_BINARIES` named this directory.
    #[must_use]
    pub fn directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.explicit = Some(Explicit::ours(path.into()));
        self
    }

    /// As if `KUBEBUILDER_ASSETS` named this directory.
    #[must_use]
    pub fn kubebuilder_assets(mut self, path: impl Into<PathBuf>) -> Self {
        self.explicit = Some(Explicit::kubebuilder(path.into()));
        self
    }

    /// Another cache.
    #[must_use]
    pub fn cache(mut self, path: impl Into<PathBuf>) -> Self {
        self.cache = Some(path.into());
        self
    }

    /// Other releases.
    #[must_use]
    pub fn archives(mut self, archives: Vec<Archive>) -> Self {
        self.archives = archives;
        self
    }

    /// Another `go`.
    #[must_use]
    pub fn go(mut self, program: impl Into<PathBuf>) -> Self {
        self.go = program.into();
        self
    }

    /// The path of a binary that can be run. May take minutes the first time on a machine, and
    /// says so on the terminal.
    pub async fn find(&self, tool: Tool) -> Result<PathBuf, BinaryError> {
        if let Some(explicit) = &self.explicit
            && let Some(path) = explicit.find(tool)?
        {
            return Ok(path);
        }
        let this = self.clone();
        let runtime = Handle::current();
        tokio::task::spawn_blocking(move || this.find_or_make(tool, &runtime))
            .await
            .map_err(|source| BinaryError::Aborted { tool, source })?
    }

    /// Blocks: on the lock, on digests, on the compiler.
    fn find_or_make(&self, tool: Tool, runtime: &Handle) -> Result<PathBuf, BinaryError> {
        let root = self.cache.as_deref().ok_or(BinaryError::NoCacheDirectory)?;
        let cache = Cache::open(root, &pins::key())?;
        if let Some(path) = cache.get(tool) {
            return Ok(path);
        }
        let _lock = cache.lock()?;
        // Whoever had the lock before us may have made it.
        if let Some(path) = cache.get(tool) {
            return Ok(path);
        }
        if cache.has_remains_of(tool) {
            progress::say(&format!(
                "the cached {tool} is damaged and will be made again"
            ));
        }
        let work = cache.work_directory()?;
        let mut attempts = Vec::new();
        match download::fetch(&self.archives, tool, work.path(), runtime) {
            Ok(made) => return cache.put_all(&made, tool),
            Err(error) => attempts.push(format!("download: {}", chain(&error))),
        }
        progress::say(&format!(
            "Go has to build {tool}, after this: {}",
            attempts.join(" ")
        ));
        match compile::build(&self.go, tool, work.path()) {
            Ok(path) => cache.put_all(&[(tool, path)], tool),
            Err(error) => {
                attempts.push(format!("build: {}", chain(&error)));
                Err(BinaryError::Nowhere { tool, attempts })
            }
        }
    }
}

fn cache_error(path: &Path) -> impl FnOnce(io::Error) -> BinaryError {
    let path = path.to_owned();
    move |source| BinaryError::Cache { path, source }
}
