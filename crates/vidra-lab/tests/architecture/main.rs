//! Dependencies point downwards only, and every crate touches only what it may.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test that cannot go on should stop right there"
)]

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

/// Each of our crates, the crates of ours it may use, and foreign crates that must not be
/// anywhere below it.
const RULES: [(&str, &[&str], &[&str]); 7] = [
    (
        "vidra-api",
        &[],
        &["tokio", "kube-client", "reqwest", "hyper"],
    ),
    (
        "vidra-core",
        &[],
        &[
            "tokio",
            "kube",
            "kube-core",
            "reqwest",
            "hyper",
            "rand",
            "k8s-openapi",
        ],
    ),
    (
        "vidra-infrahub",
        &["vidra-core"],
        &["kube", "kube-client", "kube-core", "k8s-openapi"],
    ),
    (
        "vidra-cluster",
        &["vidra-api", "vidra-core"],
        &["reqwest", "axum"],
    ),
    (
        "vidra-operator",
        &["vidra-api", "vidra-cluster", "vidra-core", "vidra-infrahub"],
        &["vidra-lab", "rcgen"],
    ),
    (
        "vidra",
        &[
            "vidra-api",
            "vidra-cluster",
            "vidra-core",
            "vidra-infrahub",
            "vidra-operator",
        ],
        &["vidra-lab", "rcgen"],
    ),
    (
        "vidra-lab",
        &[
            "vidra-api",
            "vidra-cluster",
            "vidra-core",
            "vidra-infrahub",
            "vidra-operator",
        ],
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

/// Everything below a crate that is not only for its tests, with the features that it asks for
/// itself: what its neighbours ask for does not count.
fn below(name: &str) -> BTreeSet<String> {
    let text = cargo(&[
        "tree",
        "--package",
        name,
        "--edges",
        "normal,build",
        "--prefix",
        "none",
    ]);
    let names = text
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    names
        .filter(|found| *found != name)
        .map(ToOwned::to_owned)
        .collect()
}

fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .args(["--locked", "--offline"])
        .current_dir(workspace())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn every_crate_of_the_workspace_has_a_rule() {
    let crates = std::fs::read_dir(workspace().join("crates")).unwrap();
    let found: BTreeSet<String> = crates
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let ruled: BTreeSet<String> = RULES.iter().map(|(name, ..)| (*name).to_owned()).collect();
    assert_eq!(found, ruled);
}

#[test]
fn dependencies_point_downwards_only() {
    for (name, allowed, _) in RULES {
        for used in below(name).iter().filter(|used| used.starts_with("vidra")) {
            assert!(
                allowed.contains(&used.as_str()),
                "{name} must not use {used}"
            );
        }
    }
}

#[test]
fn no_crate_touches_what_it_may_not() {
    for (name, _, forbidden) in RULES {
        let below = below(name);
        assert!(
            below.contains("serde"),
            "{name}: the tree was not read: {below:?}"
        );
        for crate_name in forbidden {
            assert!(
                !below.contains(*crate_name),
                "{crate_name} must not be below {name}"
            );
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
        let doc = text
            .lines()
            .take_while(|line| line.starts_with("//!"))
            .count();
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
