//! Where one control plane keeps its data, certificates and logs.
//!
//! Below cargo's target directory, so that a checkout is all that tests ever write to. The owner
//! holds a file lock inside; the operating system lets go of it when the owner dies, so a
//! directory whose lock is free is a leftover and is swept by the next start.

use std::{
    env, fs,
    fs::File,
    io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use super::unique;

const OWNER: &str = "owner.lock";
const PREFIX: &str = "plane";
/// Logs of failed starts are kept this long.
const LOGS_KEPT_FOR: Duration = Duration::from_hours(24);

/// A directory of our own, marked as in use for as long as this value lives.
pub(super) struct Directory {
    path: PathBuf,
    root: PathBuf,
    _owner: File,
}

impl Directory {
    /// Makes a fresh one below `root` and sweeps what dead owners left there.
    pub(super) fn create(root: &Path) -> io::Result<Self> {
        fs::create_dir_all(root)?;
        // Nobody sweeps between "directory made" and "owner lock taken".
        let gate = File::create(root.join("sweep.lock"))?;
        gate.lock()?;
        sweep(root)?;
        let path = root.join(unique(PREFIX));
        fs::create_dir(&path)?;
        let owner = File::create(path.join(OWNER))?;
        owner.lock()?;
        Ok(Self {
            path,
            root: root.to_owned(),
            _owner: owner,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Copies a log to where it outlives this directory.
    pub(super) fn keep_log(&self, log: &Path) -> PathBuf {
        let logs = self.root.join("logs");
        let plane = self.path.file_name().unwrap_or_default().to_string_lossy();
        let server = log.file_name().unwrap_or_default().to_string_lossy();
        let kept = logs.join(format!("{plane}-{server}"));
        match fs::create_dir_all(&logs).and_then(|()| fs::copy(log, &kept)) {
            Ok(_) => kept,
            Err(_) => log.to_owned(),
        }
    }
}

/// `<target>/lab`, or a place in the user's cache directory for a binary that cargo did not build.
pub(super) fn default_root() -> Option<PathBuf> {
    let target = target_directory().map(|target| target.join("lab"));
    target.or_else(|| Some(super::binaries::cache_directory()?.join("planes")))
}

/// Cargo marks its target directory with a `CACHEDIR.TAG`; every binary it builds lies below.
fn target_directory() -> Option<PathBuf> {
    let executable = env::current_exe().ok()?;
    let marked = |directory: &&Path| directory.join("CACHEDIR.TAG").is_file();
    executable
        .ancestors()
        .skip(1)
        .find(marked)
        .map(Path::to_owned)
}

fn sweep(root: &Path) -> io::Result<()> {
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        if is_plane(&path) && owner_is_dead(&path) {
            // Its guardian may be removing it at the same time; the next sweep sees what is left.
            let _ = fs::remove_dir_all(&path);
        }
    }
    sweep_logs(&root.join("logs"));
    Ok(())
}

fn is_plane(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.is_dir() && name.starts_with(&format!("{PREFIX}-"))
}

fn owner_is_dead(path: &Path) -> bool {
    match File::open(path.join(OWNER)) {
        Ok(owner) => owner.try_lock().is_ok(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

fn sweep_logs(logs: &Path) {
    let Ok(entries) = fs::read_dir(logs) else {
        return;
    };
    let is_old = |modified: SystemTime| modified.elapsed().is_ok_and(|age| age > LOGS_KEPT_FOR);
    for entry in entries.flatten() {
        if entry
            .metadata()
            .and_then(|data| data.modified())
            .is_ok_and(is_old)
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}
