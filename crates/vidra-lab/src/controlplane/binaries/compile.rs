//! A build by Go, from sources that `go.sum` pins.

use std::{
    fs,
    fs::File,
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::{Tool, pins, pins::Module, progress::Progress};

const LINES_IN_ERROR: usize = 10;

/// Runs a command in a process group that dies with us: when our end of its standard input
/// closes, the whole group is killed, compilers included.
const SUPERVISE: &str = r#"exec 3<&0
{ read -r _ <&3; kill -KILL 0; } &
watcher=$!
"$@" 3<&- </dev/null
status=$?
kill "$watcher" 2>/dev/null
exit "$status""#;

/// The step of a build that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CompileError {
    #[error("cannot find {go:?} on the path; install Go from https://go.dev/dl")]
    NoGo {
        go: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot write the Go module to {path:?}")]
    WriteModule {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot run `go build`")]
    Run(#[source] io::Error),
    #[error("`go build` of {tool} failed:\n{tail}")]
    Failed { tool: Tool, tail: String },
}

/// Builds a tool and returns where it is in the work directory.
pub(super) fn build(go: &Path, tool: Tool, work: &Path) -> Result<PathBuf, CompileError> {
    let output = Command::new(go)
        .arg("version")
        .stdin(Stdio::null())
        .output();
    output.map_err(|source| CompileError::NoGo {
        go: go.to_owned(),
        source,
    })?;
    let module = module(tool);
    let directory = work.join(module.name);
    write_module(&module, &directory).map_err(|source| CompileError::WriteModule {
        path: directory.clone(),
        source,
    })?;
    let made = work.join("made").join(tool.file_name());
    let _progress = Progress::new(format!(
        "building {tool} with Go, once for this machine; this takes some minutes"
    ));
    run(go, tool, &directory, &made)?;
    Ok(made)
}

fn run(go: &Path, tool: Tool, directory: &Path, made: &Path) -> Result<(), CompileError> {
    let log = directory.join("build.log");
    let log_file = File::create(&log).map_err(CompileError::Run)?;
    let mut child = Command::new("/bin/sh")
        .args(["-c", SUPERVISE, "vidra-lab-build"])
        .arg(go)
        .args([
            "build",
            "-trimpath",
            "-mod=readonly",
            "-ldflags",
            &linker_flags(tool),
            "-o",
        ])
        .arg(made)
        .arg(package(tool))
        .current_dir(directory)
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        .env("GOFLAGS", "")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(log_file)
        .process_group(0)
        .spawn()
        .map_err(CompileError::Run)?;
    // `wait` would close the pipe first, which is the signal to stop.
    let alive = child.stdin.take();
    let status = child.wait().map_err(CompileError::Run)?;
    drop(alive);
    if status.success() {
        return Ok(());
    }
    let text = fs::read_to_string(&log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let tail = lines[lines.len().saturating_sub(LINES_IN_ERROR)..].join("\n");
    Err(CompileError::Failed { tool, tail })
}

fn write_module(module: &Module, directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    fs::write(directory.join("go.mod"), module.go_mod)?;
    fs::write(directory.join("go.sum"), module.go_sum)?;
    fs::write(directory.join("tools.go"), module.tools)
}

fn module(tool: Tool) -> Module {
    match tool {
        Tool::Etcd => pins::ETCD_MODULE,
        Tool::KubeApiserver | Tool::KubeControllerManager => pins::KUBERNETES_MODULE,
    }
}

fn package(tool: Tool) -> &'static str {
    match tool {
        Tool::Etcd => "go.etcd.io/etcd/server/v3",
        Tool::KubeApiserver => "k8s.io/kubernetes/cmd/kube-apiserver",
        Tool::KubeControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
    }
}

/// Kubernetes learns its version from the linker.
fn linker_flags(tool: Tool) -> String {
    if tool == Tool::Etcd {
        return "-s -w".to_owned();
    }
    let version = pins::KUBERNETES;
    let mut parts = version.trim_start_matches('v').split('.');
    let (major, minor) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    format!(
        "-s -w -X k8s.io/component-base/version.gitVersion={version} \
         -X k8s.io/component-base/version.gitMajor={major} \
         -X k8s.io/component-base/version.gitMinor={minor} \
         -X k8s.io/client-go/pkg/version.gitVersion={version}"
    )
}
