//! The official release, if the network allows and the digest is right.

use std::{
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use sha2::{Digest as _, Sha256, Sha512};
use tokio::{fs::File, io::AsyncWriteExt, runtime::Handle};

use super::{Tool, cache::hex, progress::Progress};

/// A machine without network shall fall through quickly.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// A connection that is silent for this long is dead.
const READ_WITHIN: Duration = Duration::from_secs(30);

/// A pinned digest, in lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Digest {
    /// 64 digits.
    Sha256(String),
    /// 128 digits.
    Sha512(String),
}

/// A gzipped tar archive with binaries in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archive {
    /// Where it is.
    pub url: String,
    /// What it must be.
    pub digest: Digest,
    /// What it holds, and under which paths.
    pub members: Vec<(Tool, String)>,
}

/// The step of a download that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum DownloadError {
    #[error("no release with a known digest has {tool} for this platform")]
    NoArchive { tool: Tool },
    #[error("cannot get {url}")]
    Request {
        url: String,
        #[source]
        source: reqwest::Error,
    },
    #[error("cannot write {path:?}")]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{url} has the digest {actual}, not {expected}; it was not used")]
    WrongDigest {
        url: String,
        expected: String,
        actual: String,
    },
    #[error("cannot unpack {url} with `tar`: {reason}")]
    Unpack { url: String, reason: String },
}

/// Gets the archive that has `tool` and returns everything in it.
pub(super) fn fetch(
    archives: &[Archive],
    tool: Tool,
    work: &Path,
    runtime: &Handle,
) -> Result<Vec<(Tool, PathBuf)>, DownloadError> {
    let has_tool = |archive: &&Archive| archive.members.iter().any(|(member, _)| *member == tool);
    let archive = archives
        .iter()
        .find(has_tool)
        .ok_or(DownloadError::NoArchive { tool })?;
    let path = work.join("archive.tar.gz");
    let progress = Progress::new(format!("downloading {}", archive.url));
    let actual = runtime.block_on(download(archive, &path))?;
    let (Digest::Sha256(expected) | Digest::Sha512(expected)) = &archive.digest;
    if actual != *expected {
        let (url, expected) = (archive.url.clone(), expected.clone());
        return Err(DownloadError::WrongDigest {
            url,
            expected,
            actual,
        });
    }
    drop(progress);
    unpack(archive, &path, work)
}

/// Writes the body to `path` and returns its digest.
async fn download(archive: &Archive, path: &Path) -> Result<String, DownloadError> {
    let request_error = |source| DownloadError::Request {
        url: archive.url.clone(),
        source,
    };
    let write_error = |source| DownloadError::Write {
        path: path.to_owned(),
        source,
    };
    let client = reqwest::Client::builder()
        .connect_timeout(CONNECT_WITHIN)
        .read_timeout(READ_WITHIN)
        .build()
        .map_err(request_error)?;
    let answer = client
        .get(&archive.url)
        .send()
        .await
        .map_err(request_error)?;
    let mut answer = answer.error_for_status().map_err(request_error)?;
    let mut file = File::create(path).await.map_err(write_error)?;
    let mut hash = Hash::new(&archive.digest);
    while let Some(chunk) = answer.chunk().await.map_err(request_error)? {
        hash.update(&chunk);
        file.write_all(&chunk).await.map_err(write_error)?;
    }
    file.flush().await.map_err(write_error)?;
    Ok(hash.finish())
}

/// The system's `tar` unpacks only what is needed out of some hundred megabytes.
fn unpack(
    archive: &Archive,
    path: &Path,
    work: &Path,
) -> Result<Vec<(Tool, PathBuf)>, DownloadError> {
    let error = |reason| DownloadError::Unpack {
        url: archive.url.clone(),
        reason,
    };
    let members = archive.members.iter().map(|(_, member)| member);
    let output = Command::new("tar")
        .arg("-xzf")
        .arg(path)
        .arg("-C")
        .arg(work)
        .args(members)
        .stdin(Stdio::null())
        .output()
        .map_err(|source| error(source.to_string()))?;
    if !output.status.success() {
        return Err(error(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        ));
    }
    Ok(archive
        .members
        .iter()
        .map(|(tool, member)| (*tool, work.join(member)))
        .collect())
}

enum Hash {
    Sha256(Sha256),
    Sha512(Box<Sha512>),
}

impl Hash {
    fn new(digest: &Digest) -> Self {
        match digest {
            Digest::Sha256(_) => Self::Sha256(Sha256::new()),
            Digest::Sha512(_) => Self::Sha512(Box::new(Sha512::new())),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hash) => hash.update(bytes),
            Self::Sha512(hash) => hash.update(bytes),
        }
    }

    fn finish(self) -> String {
        match self {
            Self::Sha256(hash) => hex(&hash.finalize()),
            Self::Sha512(hash) => hex(&hash.finalize()),
        }
    }
}
