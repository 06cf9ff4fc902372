//! A directory with binaries that somebody names.

use std::{env, os::unix::fs::PermissionsExt, path::PathBuf};

use super::{BinaryError, Tool};

/// Our own variable.
pub(super) const OURS: &str = "VIDRA_LAB_BINARIES";
/// The variable that tools around controller-runtime use.
const KUBEBUILDER: &str = "KUBEBUILDER_ASSETS";

#[derive(Debug, Clone)]
pub(super) struct Explicit {
    variable: &'static str,
    directory: PathBuf,
}

impl Explicit {
    pub(super) fn from_environment() -> Option<Self> {
        let named = |variable| env::var_os(variable).filter(|value| !value.is_empty());
        let ours = named(OURS).map(|path| Self::ours(path.into()));
        ours.or_else(|| named(KUBEBUILDER).map(|path| Self::kubebuilder(path.into())))
    }

    pub(super) fn ours(directory: PathBuf) -> Self {
        Self {
            variable: OURS,
            directory,
        }
    }

    pub(super) fn kubebuilder(directory: PathBuf) -> Self {
        Self {
            variable: KUBEBUILDER,
            directory,
        }
    }

    /// `None` when another source may be asked.
    pub(super) fn find(&self, tool: Tool) -> Result<Option<PathBuf>, BinaryError> {
        let Self {
            variable,
            directory,
        } = self.clone();
        if !directory.is_dir() {
            return Err(BinaryError::NoDirectory {
                variable,
                path: directory,
            });
        }
        let path = directory.join(tool.file_name());
        let Ok(metadata) = path.metadata() else {
            if self.may_lack(tool) {
                return Ok(None);
            }
            let path = directory;
            return Err(BinaryError::NotInDirectory {
                variable,
                path,
                tool,
            });
        };
        if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
            return Err(BinaryError::NotExecutable { variable, path });
        }
        Ok(Some(path))
    }

    /// The assets of kubebuilder never contain the controller manager.
    fn may_lack(&self, tool: Tool) -> bool {
        self.variable == KUBEBUILDER && tool == Tool::KubeControllerManager
    }
}
