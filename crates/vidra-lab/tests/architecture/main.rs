//! Dependencies point downwards only, and every crate touches only what it may.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test that cannot go on should stop right there"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// Each of our crates, the crates of ours it may use, and foreign crates that must not be
/// anywhere below it.
const RULES: [(&str, &[&str], &[&str]); 7] = [
    ("vidra-api", &[], &["tokio", "kube-client", "reqwest", "hyper"]),
    ("vidra-core", &[], &["tokio", "kube", "kube-core", "reqwest", "hyper", "rand", "k8s-openapi"]),
    ("vidra-infrahub", &["vidra-core"], &["kube", "kube-client", "kube-core", "k8s-openapi"]),
    ("vidra-cluster", &["vidra-api", "vidra-core"], &["reqwest", "axum"]),
    (
        "vidra-operator",
        &["vidra-api", "vidra-cluster", "vidra-core", "vidra-infrahub"],
        &["vidra-lab", "rcgen"],
    ),
    (
        "vidra",
        &["vidra-api", "vidra-cluster", "vidra-core", "vidra-infrahub", "vidra-operator"],
        &["vidra-lab", "rcgen"],
    ),
    (
        "vidra-lab",
        &["vidra-api", "vidra-cluster", "vidra-core", "vidra-infrahub", "vidra-operator"],
        &[],
    ),
];

/// Calls that bring a clock, chance or the outside world into the pure crate.
const IMPURE: [&str; 9] = [
    "Timestamp::now",
    "Instant::now",
    "SystemTime::now",
    "Zoned::now",
    "std::env",
    "std::fs",
    "std::net",
    "std::process",
    "RandomState",
];

/// The normal and build dependencies of every package, by name.
struct Graph(BTreeMap<String, BTreeSet<String>>);

impl Graph {
    fn of_workspace() -> Self {
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--locked", "--offline"])
            // Without a platform cargo wants the crates of all of them, fetched or not.
            .args(["--filter-platform", &host()])
            .current_dir(workspace())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
        let names: BTreeMap<&str, &str> = metadata["packages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|package| (package["id"].as_str().unwrap(), package["name"].as_str().unwrap()))
            .collect();
        let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for node in metadata["resolve"]["nodes"].as_array().unwrap() {
            let used = node["deps"].as_array().unwrap().iter().filter(|dep| !is_only_for_tests(dep));
            let used = used.map(|dep| names[dep["pkg"].as_str().unwrap()].to_owned());
            graph.entry(names[node["id"].as_str().unwrap()].to_owned()).or_default().extend(used);
        }
        Self(graph)
    }

    fn below(&self, name: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut open = vec![name.to_owned()];
        while let Some(next) = open.pop() {
            for used in &self.0[&next] {
                if found.insert(used.clone()) {
                    open.push(used.clone());
                }
            }
        }
        found
    }
}

fn is_only_for_tests(dependency: &Value) -> bool {
    let kinds = dependency["dep_kinds"].as_array().unwrap();
    kinds.iter().all(|kind| kind["kind"] == "dev")
}

/// The platform that this test was built for and runs on.
fn host() -> String {
    let output = Command::new("rustc").arg("-vV").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn every_crate_of_the_workspace_has_a_rule() {
    let graph = Graph::of_workspace();
    let ours: Vec<&str> =
        graph.0.keys().map(String::as_str).filter(|name| name.starts_with("vidra")).collect();
    let mut ruled: Vec<&str> = RULES.iter().map(|(name, ..)| *name).collect();
    ruled.sort_unstable();
    assert_eq!(ours, ruled);
}

#[test]
fn dependencies_point_downwards_only() {
    let graph = Graph::of_workspace();
    for (name, allowed, _) in RULES {
        for used in graph.below(name).iter().filter(|used| used.starts_with("vidra")) {
            assert!(allowed.contains(&used.as_str()), "{name} must not use {used}");
        }
    }
}

#[test]
fn no_crate_touches_what_it_may_not() {
    let graph = Graph::of_workspace();
    for (name, _, forbidden) in RULES {
        let below = graph.below(name);
        for crate_name in forbidden {
            assert!(!below.contains(*crate_name), "{crate_name} must not be below {name}");
        }
    }
}

#[test]
fn the_pure_crate_has_no_clock_no_chance_and_no_outside_world() {
    let mut files = Vec::new();
    collect(&workspace().join("crates/vidra-core/src"), &mut files);
    assert!(files.len() > 10, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for call in IMPURE {
            assert!(!text.contains(call), "{} uses {call}", file.display());
        }
    }
}

#[test]
fn every_crate_says_what_it_is() {
    for (name, ..) in RULES {
        let source = workspace().join("crates").join(name).join("src");
        let root = if name == "vidra" { "main.rs" } else { "lib.rs" };
        let text = std::fs::read_to_string(source.join(root)).unwrap();
        let doc = text.lines().take_while(|line| line.starts_with("//!")).count();
        assert!(doc >= 3, "the crate doc of {name} has {doc} lines");
    }
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}
