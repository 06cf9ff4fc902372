//! The program itself: how it starts, what it says, how it ends.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Output, Stdio},
    time::Duration,
};

use kube::{
    Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::sync::{MutexGuard, OnceCell};
use vidra_lab::controlplane::{ControlPlane, unique};

use crate::support::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_vidra");

/// Tells the process id, ends as the program ends, and kills it as soon as standard input
/// closes, however the test ends.
const GUARDIAN: &str = r#"
exec 3<&0
"$@" </dev/null 3<&- & program=$!
echo $program
{ read -r _ <&3; kill -KILL $program; } >/dev/null 2>&1 & watcher=$!
wait $program; code=$?
kill $watcher 2>/dev/null
exit $code"#;

/// A running operator, which cannot outlive the test.
struct Process {
    guardian: Child,
    stdin: Option<ChildStdin>,
    id: String,
    log: PathBuf,
}

impl Process {
    fn start(kubeconfig: &Path, directory: &Path, arguments: &[&str]) -> Self {
        let log = directory.join(unique("operator"));
        let mut guardian = Command::new("/bin/sh")
            .args(["-c", GUARDIAN, "guardian", PROGRAM, "operator"])
            .args(arguments)
            .env("KUBECONFIG", kubeconfig)
            .env("NO_COLOR", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).unwrap())
            // Ctrl-C in a terminal goes to our group; the guardian must live to kill.
            .process_group(0)
            .spawn()
            .unwrap();
        let stdin = guardian.stdin.take();
        let mut id = String::new();
        let mut told = BufReader::new(guardian.stdout.take().unwrap());
        told.read_line(&mut id).unwrap();
        let id = id.trim().to_owned();
        assert!(id.parse::<u32>().is_ok(), "{id:?}");
        Self {
            guardian,
            stdin,
            id,
            log,
        }
    }

    /// What it has said so far.
    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until it has said something.
    async fn says(&self, text: &str) -> String {
        eventually(&format!("the operator says {text:?}"), || async {
            let said = self.said();
            said.contains(text).then_some(said)
        })
        .await
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.id]).status();
        assert!(sent.unwrap().success());
    }

    /// Waits for its end and answers its exit code.
    async fn ended(&mut self) -> i32 {
        for _ in 0..600 {
            if let Some(status) = self.guardian.try_wait().unwrap() {
                return status.code().unwrap();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("it did not end; it said:\n{}", self.said());
    }

    /// The address at which it answers probes.
    async fn address(&self) -> String {
        let said = self.says("serving /healthz").await;
        let line = said.lines().find(|line| line.contains("serving")).unwrap();
        let at = line.split("address=").nth(1).unwrap();
        at.split_whitespace().next().unwrap().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.guardian.wait();
    }
}

/// Status line and body of a GET.
fn get(address: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: vidra\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

/// A sample of a metric, summed over its labels.
fn sample(address: &str, name: &str) -> f64 {
    let (_, text) = get(address, "/metrics");
    let lines = text.lines().filter(|line| line.starts_with(name));
    lines
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum()
}

/// A control plane for these tests alone, who take turns: an operator works on all resources.
async fn turn() -> (&'static ControlPlane, Client, MutexGuard<'static, ()>) {
    static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    static PLANE: OnceCell<ControlPlane> = OnceCell::const_new();
    let turn = TURN.lock().await;
    let plane = PLANE
        .get_or_init(|| async { ControlPlane::start().await.unwrap() })
        .await;
    let client = plane.client().unwrap();
    install_definitions(&client).await;
    (plane, client, turn)
}

fn start(plane: &ControlPlane, arguments: &[&str]) -> Process {
    Process::start(plane.kubeconfig(), plane.directory(), arguments)
}

#[tokio::test]
async fn it_says_what_it_is_in_a_few_lines_and_ends_cleanly_when_told() {
    let (plane, _client, _turn) = turn().await;
    for signal in ["-TERM", "-INT"] {
        let mut operator = start(plane, &["--http-address", "off", "--namespace", "shop"]);
        let said = operator
            .says("Vidra watches InfrahubSyncs and VidraResources")
            .await;
        assert!(said.contains("this is Vidra"), "{said}");
        assert!(said.contains("namespace=\"shop\""), "{said}");
        assert!(said.contains(env!("CARGO_PKG_VERSION")), "{said}");
        assert!(said.lines().count() <= 5, "{said}");
        operator.signal(signal);
        assert_eq!(operator.ended().await, 0, "{}", operator.said());
        assert!(operator.said().contains("Vidra has ended"));
    }
}

#[tokio::test]
async fn without_the_definitions_it_says_so_answers_probes_waits_and_goes_on() {
    let plane = ControlPlane::start().await.unwrap();
    let client = plane.client().unwrap();
    let mut operator = start(&plane, &["--http-address", "127.0.0.1:0"]);
    let said = operator.says("waiting for the CRDs").await;
    assert!(
        said.contains("vidraresources.infrahub.operators.com"),
        "{said}"
    );
    let address = operator.address().await;
    assert!(get(&address, "/healthz").0.contains("200"));
    assert!(get(&address, "/readyz").0.contains("503"));
    install_definitions(&client).await;
    operator
        .says("Vidra watches InfrahubSyncs and VidraResources")
        .await;
    let namespace = plane.namespace("late").await.unwrap();
    create(
        &client,
        "late",
        &config_map(&namespace, "one", "1"),
        json!({}),
    )
    .await;
    ready(&client, "late").await;
    assert!(get(&address, "/readyz").0.contains("200"));
    operator.signal("-TERM");
    assert_eq!(operator.ended().await, 0);
}

#[tokio::test]
async fn it_ends_at_once_also_while_it_waits_for_the_definitions() {
    let plane = ControlPlane::start().await.unwrap();
    let mut operator = start(&plane, &["--http-address", "off"]);
    operator.says("waiting for the CRDs").await;
    operator.signal("-TERM");
    assert_eq!(operator.ended().await, 0, "{}", operator.said());
}

#[tokio::test]
async fn an_api_server_that_does_not_answer_is_named_and_waited_for() {
    let (plane, _client, _turn) = turn().await;
    let text = std::fs::read_to_string(plane.kubeconfig()).unwrap();
    // A port that nobody listens on: it was free a moment ago and is not handed out again soon.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let wrong = text.replace(&format!(":{}", plane.port()), &format!(":{port}"));
    let path = plane.directory().join(unique("wrong-kubeconfig"));
    std::fs::write(&path, wrong).unwrap();
    let mut operator = Process::start(&path, plane.directory(), &["--http-address", "off"]);
    let said = operator.says("the API server does not answer").await;
    assert!(!said.contains("waiting for the CRDs"), "{said}");
    operator.signal("-TERM");
    assert_eq!(operator.ended().await, 0, "{}", operator.said());
}

#[tokio::test]
async fn it_ends_cleanly_in_the_middle_of_an_apply_and_goes_on_at_the_next_start() {
    let (plane, client, _turn) = turn().await;
    let namespace = plane.namespace("middle").await.unwrap();
    let manifest: String = (0..300)
        .map(|number| config_map(&namespace, &format!("c{number}"), "1"))
        .collect();
    let mut operator = start(plane, &["--http-address", "off"]);
    operator
        .says("Vidra watches InfrahubSyncs and VidraResources")
        .await;
    create(&client, "middle", &manifest, json!({})).await;
    eventually("the first objects are there", || async {
        (!names(&client, &namespace).await.is_empty()).then_some(())
    })
    .await;
    operator.signal("-TERM");
    assert_eq!(operator.ended().await, 0, "{}", operator.said());
    let inventory = resources(&client).get("middle").await.unwrap();
    let inventory = inventory.status.unwrap().inventory.unwrap();
    assert_eq!(
        inventory.entries.len(),
        300,
        "nothing was applied unannounced"
    );

    let operator = start(plane, &["--http-address", "off"]);
    ready(&client, "middle").await;
    assert_eq!(names(&client, &namespace).await.len(), 300);
    delete(&client, "middle").await;
    drop(operator);
}

#[tokio::test]
async fn probes_and_metrics_are_answered_and_heals_are_counted() {
    let (plane, client, _turn) = turn().await;
    let namespace = plane.namespace("metrics").await.unwrap();
    let operator = start(plane, &["--http-address", "127.0.0.1:0"]);
    let address = operator.address().await;
    assert!(!address.ends_with(":0"), "{address}");
    assert!(get(&address, "/healthz").0.contains("200"));
    create(
        &client,
        "metrics",
        &config_map(&namespace, "one", "good"),
        json!({}),
    )
    .await;
    ready(&client, "metrics").await;
    assert!(get(&address, "/readyz").0.contains("200"));
    assert!(get(&address, "/nothing").0.contains("404"));
    assert!(sample(&address, "vidra_heals_total").abs() < 0.5);
    let edit = json!({"data": {"key": "bad"}});
    config_maps(&client, &namespace)
        .patch("one", &PatchParams::default(), &Patch::Merge(&edit))
        .await
        .unwrap();
    value_is(&client, &namespace, "one", "good").await;
    eventually("the heal is counted", || async {
        let heals = sample(&address, "vidra_heals_total");
        (heals > 0.5).then_some(())
    })
    .await;
    assert!(sample(&address, "vidra_heal_seconds_count") > 0.5);
    assert!(sample(&address, "vidra_reconciles_total") > 0.5);
    assert!(sample(&address, "vidra_watches") > 0.5);
    assert!(sample(&address, "vidra_panics_total").abs() < 0.5);
    delete(&client, "metrics").await;
}

#[tokio::test]
async fn an_address_that_is_taken_costs_the_probes_and_nothing_else() {
    let (plane, client, _turn) = turn().await;
    let namespace = plane.namespace("taken").await.unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let operator = start(plane, &["--http-address", &address]);
    operator.says("the address cannot be used").await;
    create(
        &client,
        "taken",
        &config_map(&namespace, "one", "1"),
        json!({}),
    )
    .await;
    ready(&client, "taken").await;
    delete(&client, "taken").await;
}

#[tokio::test]
async fn one_resource_that_cannot_be_read_does_not_stop_the_others() {
    let (plane, client, _turn) = turn().await;
    let namespace = plane.namespace("unreadable").await.unwrap();
    let definitions = dynamic(
        &client,
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        None,
    );
    let definition_name = "vidraresources.infrahub.operators.com";
    let schema = json!([{"name": "v1alpha1", "served": true, "storage": true,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]);
    let relax = json!({"spec": {"versions": schema}});
    definitions
        .patch(
            definition_name,
            &PatchParams::default(),
            &Patch::Merge(&relax),
        )
        .await
        .unwrap();
    let group = ("infrahub.operators.com", "v1alpha1", "VidraResource");
    let untyped = dynamic(&client, group, None);
    let unreadable = |manifest: serde_json::Value| {
        serde_json::from_value(json!({
            "apiVersion": "infrahub.operators.com/v1alpha1", "kind": "VidraResource",
            "metadata": {"name": "unreadable"}, "spec": {"manifest": manifest},
        }))
        .unwrap()
    };
    eventually("the relaxed schema is in force", || async {
        let object = unreadable(json!([1, 2]));
        untyped.create(&PostParams::default(), &object).await.ok()
    })
    .await;
    let operator = start(plane, &["--http-address", "off"]);
    let good = config_map(&namespace, "one", "good");
    create(&client, "readable", &good, json!({})).await;
    eventually("the other resource is applied", || async {
        config_maps(&client, &namespace)
            .get_opt("one")
            .await
            .unwrap()
    })
    .await;
    let said = operator.says("cannot be read").await;
    assert!(said.contains("unreadable"), "{said}");
    let repaired = json!({"spec": {"manifest": config_map(&namespace, "two", "2")}});
    untyped
        .patch(
            "unreadable",
            &PatchParams::default(),
            &Patch::Merge(&repaired),
        )
        .await
        .unwrap();
    value_is(&client, &namespace, "two", "2").await;
    for name in ["readable", "unreadable"] {
        delete(&client, name).await;
    }
    install_definitions(&client).await;
}

/// Runs the program to its end, far from any cluster.
fn run(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(PROGRAM)
        .args(arguments)
        .env_clear()
        .env("HOME", "/nonexistent")
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[tokio::test]
async fn without_a_cluster_it_says_what_to_set_and_fails() {
    let ended = run(&["operator", "--http-address", "off"], &[]);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("set KUBECONFIG"), "{said}");
    let missing = [("KUBECONFIG", "/nonexistent/kubeconfig")];
    let ended = run(&["operator", "--http-address", "off"], &missing);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("/nonexistent/kubeconfig"), "{said}");
}

#[tokio::test]
async fn what_cannot_be_typed_is_refused_with_code_2() {
    for arguments in [
        &["operator", "--resync", "soon"][..],
        &["operator", "--http-address", "nowhere"],
        &["operator", "--no-such-flag"],
        &["operate"],
        &[],
    ] {
        let ended = run(arguments, &[]);
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}");
        assert!(!ended.stderr.is_empty(), "{arguments:?}");
    }
}
