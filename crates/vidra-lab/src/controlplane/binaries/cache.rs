//! Binaries that were made once, each beside a file with its size and SHA-256.
//!
//! A binary is moved into place complete, and its record after it: without a fitting record it
//! does not count, so a half-written or damaged one is made again.

use std::{
    collections::HashSet,
    env,
    fmt::Write as _,
    fs,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use sha2::{Digest as _, Sha256};

use super::{BinaryError, Tool, cache_error, progress};

/// `vidra/controlplane` in the user's cache directory.
pub(in crate::controlplane) fn cache_directory() -> Option<PathBuf> {
    let named = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let usual = if cfg!(target_os = "macos") {
        "Library/Caches"
    } else {
        ".cache"
    };
    let base = named.or_else(|| env::home_dir().map(|home| home.join(usual)))?;
    Some(base.join("vidra").join("controlplane"))
}

/// The binaries for one key.
pub(super) struct Cache {
    root: PathBuf,
    directory: PathBuf,
}

/// A place for downloads and builds, removed afterwards.
pub(super) struct WorkDirectory(PathBuf);

impl WorkDirectory {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Cache {
    pub(super) fn open(root: &Path, key: &str) -> Result<Self, BinaryError> {
        let directory = root.join(key);
        fs::create_dir_all(&directory).map_err(cache_error(&directory))?;
        Ok(Self {
            root: root.to_owned(),
            directory,
        })
    }

    /// A binary that is as it was when it was put here.
    pub(super) fn get(&self, tool: Tool) -> Option<PathBuf> {
        let path = self.directory.join(tool.file_name());
        let record = fs::read_to_string(self.record(tool)).ok()?;
        is_intact(&path, &record).then_some(path)
    }

    /// Whether there is something that [`Self::get`] does not accept.
    pub(super) fn has_remains_of(&self, tool: Tool) -> bool {
        self.directory.join(tool.file_name()).exists()
    }

    /// Only one process makes binaries; the others wait and use them.
    pub(super) fn lock(&self) -> Result<File, BinaryError> {
        let path = self.root.join("lock");
        let file = File::create(&path).map_err(cache_error(&path))?;
        if file.try_lock().is_err() {
            let _progress =
                progress::Progress::new("another process prepares the control plane, waiting");
            file.lock().map_err(cache_error(&path))?;
        }
        Ok(file)
    }

    /// For whoever holds the lock. What an earlier holder left there is removed.
    pub(super) fn work_directory(&self) -> Result<WorkDirectory, BinaryError> {
        let path = self.root.join("work");
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).map_err(cache_error(&path))?;
        Ok(WorkDirectory(path))
    }

    /// Takes finished binaries in and returns the path of the wanted one.
    pub(super) fn put_all(
        &self,
        made: &[(Tool, PathBuf)],
        wanted: Tool,
    ) -> Result<PathBuf, BinaryError> {
        for (tool, path) in made {
            self.put(*tool, path).map_err(cache_error(path))?;
        }
        Ok(self.directory.join(wanted.file_name()))
    }

    fn put(&self, tool: Tool, made: &Path) -> io::Result<()> {
        let record = record_of(made)?;
        File::open(made)?.sync_all()?;
        let path = self.directory.join(tool.file_name());
        fs::rename(made, &path)?;
        let new_record = made.with_extension("record");
        fs::write(&new_record, &record)?;
        fs::rename(&new_record, self.record(tool))?;
        remember(&path);
        Ok(())
    }

    fn record(&self, tool: Tool) -> PathBuf {
        self.directory.join(format!("{tool}.sha256"))
    }
}

/// Binaries whose digest this process has seen to be right, as they were then.
static VERIFIED: Mutex<Option<HashSet<(PathBuf, u64, SystemTime)>>> = Mutex::new(None);

/// The size every time, the digest once per process: it costs about half a second.
fn is_intact(path: &Path, record: &str) -> bool {
    let Some(state) = state(path) else {
        return false;
    };
    if !record.starts_with(&format!("{} ", state.1)) {
        return false;
    }
    let mut verified = VERIFIED.lock().unwrap_or_else(PoisonError::into_inner);
    let verified = verified.get_or_insert_default();
    if verified.contains(&state) {
        return true;
    }
    let is_right = record_of(path).is_ok_and(|now| now == record);
    if is_right {
        verified.insert(state);
    }
    is_right
}

fn remember(path: &Path) {
    let mut verified = VERIFIED.lock().unwrap_or_else(PoisonError::into_inner);
    verified.get_or_insert_default().extend(state(path));
}

fn state(path: &Path) -> Option<(PathBuf, u64, SystemTime)> {
    let metadata = path.metadata().ok()?;
    Some((path.to_owned(), metadata.len(), metadata.modified().ok()?))
}

/// Size and digest, as they are written beside a binary.
fn record_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut size = 0_u64;
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(format!("{size} {}\n", hex(&hash.finalize())));
        }
        hash.update(&buffer[..count]);
        size += count as u64;
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
