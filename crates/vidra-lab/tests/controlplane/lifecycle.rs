//! Whatever happens to the owner, nothing stays behind.

use std::{
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use tokio::signal::unix::SignalKind;
use vidra_lab::controlplane::{ControlPlane, Locator, Server, Tool, shared};

use crate::support::{Scratch, eventually, executable, processes_mentioning, signal};

const ROOT: &str = "VIDRA_LAB_TEST_ROOT";
const HOLD: &str = "lifecycle::hold_a_control_plane";

async fn start_in(root: &Path) -> ControlPlane {
    ControlPlane::builder().root(root).start().await.unwrap()
}

fn assert_gone(directory: &Path) {
    eventually("all processes have ended", || {
        processes_mentioning(directory).is_empty()
    });
    eventually("the directory is removed", || !directory.exists());
}

#[tokio::test]
async fn dropping_ends_the_servers_and_removes_the_data_before_it_returns() {
    let root = Scratch::new("drop");
    let plane = start_in(root.path()).await;
    let directory = plane.directory().to_owned();
    assert_eq!(
        processes_mentioning(&directory).len(),
        3,
        "guardian, etcd, kube-apiserver"
    );
    drop(plane);
    assert_eq!(processes_mentioning(&directory), Vec::<String>::new());
    assert_eq!(root.planes(), Vec::<String>::new());
}

#[tokio::test]
async fn dropping_ends_a_paused_server() {
    let root = Scratch::new("paused");
    let plane = start_in(root.path()).await;
    plane.pause(Server::Etcd).unwrap();
    plane.pause(Server::Apiserver).unwrap();
    drop(plane);
    assert_eq!(processes_mentioning(root.path()), Vec::<String>::new());
}

#[tokio::test]
async fn a_panic_ends_the_servers_and_removes_the_data() {
    let root = Scratch::new("panic");
    let path = root.path().to_owned();
    let task = tokio::spawn(async move {
        let plane = start_in(&path).await;
        assert!(
            processes_mentioning(plane.directory()).is_empty(),
            "on purpose"
        );
    });
    assert!(task.await.unwrap_err().is_panic());
    assert_eq!(processes_mentioning(root.path()), Vec::<String>::new());
    assert_eq!(root.planes(), Vec::<String>::new());
}

#[tokio::test]
async fn a_killed_guardian_is_replaced_by_its_owner() {
    let root = Scratch::new("guardian");
    let plane = start_in(root.path()).await;
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", plane.pid(Server::Etcd).unwrap()));
    let stat = stat.expect("a test for Linux");
    let guardian = stat
        .rsplit(") ")
        .next()
        .unwrap()
        .split(' ')
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    signal("KILL", guardian);
    drop(plane);
    assert_eq!(processes_mentioning(root.path()), Vec::<String>::new());
    assert_eq!(root.planes(), Vec::<String>::new());
}

#[tokio::test]
async fn a_start_sweeps_what_a_dead_owner_left_and_nothing_else() {
    let root = Scratch::new("sweep");
    let make = |name: &str| {
        std::fs::create_dir(root.path().join(name)).unwrap();
        std::fs::File::create(root.path().join(name).join("owner.lock")).unwrap()
    };
    drop(make("plane-dead"));
    let owner = make("plane-alive");
    owner.lock().unwrap();
    std::fs::create_dir(root.path().join("something-else")).unwrap();
    let plane = start_in(root.path()).await;
    let own = plane
        .directory()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    let mut planes = root.planes();
    planes.sort();
    let mut expected = vec![own, "plane-alive".to_owned()];
    expected.sort();
    assert_eq!(planes, expected);
    assert!(root.path().join("something-else").exists());
}

/// Runs as a process of its own, started by the tests below: raises a control plane that nobody
/// drops, says where it is, and lives until its standard input closes.
#[tokio::test]
#[ignore = "started by other tests as a process of its own"]
async fn hold_a_control_plane() {
    let plane = match std::env::var_os(ROOT) {
        Some(root) => Box::leak(Box::new(start_in(Path::new(&root)).await)),
        None => shared().await,
    };
    let pid = plane.pid(Server::Etcd).unwrap();
    // A handler of our own, because a shell switches Ctrl-C off for what it runs in the background.
    let mut interrupt = tokio::signal::unix::signal(SignalKind::interrupt()).unwrap();
    writeln!(
        std::io::stdout(),
        "\nHELD {pid} {}",
        plane.directory().display()
    )
    .unwrap();
    let end = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    tokio::select! {
        read = end => {
            read.unwrap().unwrap();
        }
        _ = interrupt.recv() => std::process::exit(130),
    }
}

struct Holder {
    process: Child,
    etcd: u32,
    directory: PathBuf,
}

fn spawn_self(test: &str, root: Option<&Path>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    if let Some(root) = root {
        command.env(ROOT, root);
    }
    command.spawn().unwrap()
}

fn hold() -> Holder {
    let mut process = spawn_self(HOLD, None);
    let lines = BufReader::new(process.stdout.as_mut().unwrap()).lines();
    let line = lines
        .map(Result::unwrap)
        .find(|line| line.starts_with("HELD "))
        .unwrap();
    let mut words = line.splitn(3, ' ').skip(1);
    let etcd = words.next().unwrap().parse().unwrap();
    let directory = PathBuf::from(words.next().unwrap());
    assert_eq!(
        processes_mentioning(&directory).len(),
        3,
        "guardian, etcd, kube-apiserver"
    );
    Holder {
        process,
        etcd,
        directory,
    }
}

#[test]
fn a_process_that_ends_leaves_no_shared_control_plane() {
    let mut holder = hold();
    drop(holder.process.stdin.take());
    assert!(holder.process.wait().unwrap().success());
    assert_gone(&holder.directory);
}

#[test]
fn a_process_killed_with_sigkill_leaves_nothing() {
    let mut holder = hold();
    holder.process.kill().unwrap();
    holder.process.wait().unwrap();
    assert_gone(&holder.directory);
}

#[test]
fn a_process_killed_with_sigkill_leaves_no_paused_server() {
    let mut holder = hold();
    signal("STOP", holder.etcd);
    holder.process.kill().unwrap();
    holder.process.wait().unwrap();
    assert_gone(&holder.directory);
}

#[test]
fn an_interrupted_process_leaves_nothing() {
    let mut holder = hold();
    let stdin = holder.process.stdin.take();
    signal("INT", holder.process.id());
    assert_eq!(holder.process.wait().unwrap().code(), Some(130));
    drop(stdin);
    assert_gone(&holder.directory);
}

#[test]
fn a_process_killed_while_the_servers_start_leaves_nothing() {
    let root = Scratch::new("early");
    let mut process = spawn_self(HOLD, Some(root.path()));
    eventually("etcd is started", || {
        processes_mentioning(root.path())
            .iter()
            .any(|line| line.contains("--data-dir="))
    });
    process.kill().unwrap();
    process.wait().unwrap();
    eventually("all processes have ended", || {
        processes_mentioning(root.path()).is_empty()
    });
    eventually("the directory is removed", || root.planes().is_empty());
}

/// Runs as a process of its own: builds with a compiler that never ends.
#[tokio::test]
#[ignore = "started by another test as a process of its own"]
async fn build_for_ever() {
    let root = PathBuf::from(std::env::var_os(ROOT).expect("the test that starts this sets it"));
    let go = "#!/bin/sh\n[ \"$1\" = version ] && exit\nwhile :; do sleep 0.1; done\n";
    let locator = Locator::from_environment()
        .without_environment()
        .archives(Vec::new())
        .cache(root.join("cache"))
        .go(executable(&root.join("go"), go));
    locator.find(Tool::Etcd).await.unwrap();
}

#[test]
fn a_process_killed_while_go_builds_leaves_no_compiler() {
    let root = Scratch::new("compiler");
    let mut process = spawn_self("lifecycle::build_for_ever", Some(root.path()));
    eventually("go builds", || processes_mentioning(root.path()).len() >= 2);
    process.kill().unwrap();
    process.wait().unwrap();
    eventually("the build has ended", || {
        processes_mentioning(root.path()).is_empty()
    });
}
