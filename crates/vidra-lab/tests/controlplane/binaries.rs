//! Where binaries come from, and what is said when they do not.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use vidra_lab::controlplane::{BinaryError, Locator, Tool};

use crate::support::{Scratch, text};

/// Builds whatever it is asked for: a script that says so, and counts how often it was run.
const FAKE_GO: &str = r#"#!/bin/sh
[ "$1" = version ] && exit 0
echo run >>"$(dirname "$0")/runs"
[ -f go.mod ] && [ -f go.sum ] && [ "$CGO_ENABLED" = 0 ] || exit 3
while [ "$1" != -o ]; do shift; done
mkdir -p "$(dirname "$2")"
printf '#!/bin/sh\necho built %s\n' "$3" >"$2"
chmod +x "$2"
"#;

const BROKEN_GO: &str = "#!/bin/sh\n[ \"$1\" = version ] && exit 0\necho the reason >&2\nexit 1\n";

/// Neither environment nor network.
fn offline(scratch: &Scratch) -> Locator {
    let locator = Locator::from_environment()
        .without_environment()
        .archives(Vec::new());
    locator
        .cache(scratch.path().join("cache"))
        .go(scratch.path().join("no-such-go"))
}

fn runs(scratch: &Scratch) -> usize {
    fs::read_to_string(scratch.path().join("runs")).map_or(0, |text| text.lines().count())
}

async fn failure(locator: &Locator, tool: Tool) -> String {
    text(&locator.find(tool).await.unwrap_err())
}

#[tokio::test]
async fn a_named_directory_wins() {
    let scratch = Scratch::new("named");
    let etcd = scratch.executable("etcd", "");
    let found = offline(&scratch)
        .directory(scratch.path())
        .find(Tool::Etcd)
        .await
        .unwrap();
    assert_eq!(found, etcd);
}

#[tokio::test]
async fn a_named_directory_that_is_missing_is_an_error() {
    let scratch = Scratch::new("missing");
    let path = scratch.path().join("nowhere");
    let said = failure(&offline(&scratch).directory(&path), Tool::Etcd).await;
    assert!(
        said.contains("VIDRA_LAB_BINARIES") && said.contains("nowhere"),
        "{said}"
    );
    assert!(said.contains("correct or unset it"), "{said}");
}

#[tokio::test]
async fn a_named_directory_without_the_binary_is_an_error() {
    let scratch = Scratch::new("lacking");
    scratch.executable("etcd", "");
    let locator = offline(&scratch).directory(scratch.path());
    for tool in [Tool::KubeApiserver, Tool::KubeControllerManager] {
        let said = failure(&locator, tool).await;
        assert!(said.contains(&format!("has no {tool}")), "{said}");
    }
}

#[tokio::test]
async fn a_named_binary_that_cannot_be_run_is_an_error() {
    let scratch = Scratch::new("mode");
    fs::write(scratch.path().join("etcd"), "").unwrap();
    let said = failure(&offline(&scratch).directory(scratch.path()), Tool::Etcd).await;
    assert!(
        said.contains("is not executable") && said.contains("chmod +x"),
        "{said}"
    );
}

#[tokio::test]
async fn assets_of_kubebuilder_may_lack_the_controller_manager_only() {
    let scratch = Scratch::new("assets");
    scratch.executable("etcd", "");
    let go = scratch.executable("go", FAKE_GO);
    let locator = offline(&scratch).kubebuilder_assets(scratch.path()).go(go);
    let found = locator.find(Tool::KubeControllerManager).await.unwrap();
    assert!(found.starts_with(scratch.path().join("cache")), "{found:?}");
    let said = failure(&locator, Tool::KubeApiserver).await;
    assert!(said.contains("KUBEBUILDER_ASSETS"), "{said}");
}

#[tokio::test]
async fn go_builds_once_and_the_cache_answers_afterwards() {
    let scratch = Scratch::new("build");
    let locator = offline(&scratch).go(scratch.executable("go", FAKE_GO));
    let first = locator.find(Tool::KubeApiserver).await.unwrap();
    assert!(run(&first).contains("built k8s.io/kubernetes/cmd/kube-apiserver"));
    let second = locator.find(Tool::KubeApiserver).await.unwrap();
    assert_eq!((first, runs(&scratch)), (second, 1));
    assert!(
        !scratch.path().join("cache/work").exists(),
        "the work directory stays behind"
    );
}

#[tokio::test]
async fn many_at_once_build_once() {
    let scratch = Scratch::new("together");
    let locator = offline(&scratch).go(scratch.executable("go", FAKE_GO));
    let all = (0..8).map(|_| locator.find(Tool::Etcd));
    for found in futures::future::join_all(all).await {
        found.unwrap();
    }
    assert_eq!(runs(&scratch), 1);
}

#[tokio::test]
async fn a_half_written_binary_is_made_again() {
    let scratch = Scratch::new("half");
    let locator = offline(&scratch).go(scratch.executable("go", FAKE_GO));
    let path = locator.find(Tool::Etcd).await.unwrap();
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(locator.find(Tool::Etcd).await.unwrap(), path);
    assert_eq!((fs::read(&path).unwrap(), runs(&scratch)), (whole, 2));
}

#[tokio::test]
async fn a_binary_of_the_right_size_and_wrong_content_is_made_again() {
    let scratch = Scratch::new("flipped");
    let locator = offline(&scratch).go(scratch.executable("go", FAKE_GO));
    let path = locator.find(Tool::Etcd).await.unwrap();
    let whole = fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    fs::write(&path, &flipped).unwrap();
    locator.find(Tool::Etcd).await.unwrap();
    assert_eq!((fs::read(&path).unwrap(), runs(&scratch)), (whole, 2));
}

#[tokio::test]
async fn a_binary_without_its_record_is_made_again() {
    let scratch = Scratch::new("record");
    let locator = offline(&scratch).go(scratch.executable("go", FAKE_GO));
    let path = locator.find(Tool::Etcd).await.unwrap();
    fs::remove_file(path.with_extension("sha256")).unwrap();
    locator.find(Tool::Etcd).await.unwrap();
    assert_eq!(runs(&scratch), 2);
}

#[tokio::test]
async fn without_network_and_go_the_error_says_what_to_install_and_what_was_tried() {
    let scratch = Scratch::new("nothing");
    let said = failure(&offline(&scratch), Tool::Etcd).await;
    for part in [
        "install Go",
        "VIDRA_LAB_BINARIES",
        "- download: ",
        "- build: ",
        "no-such-go",
    ] {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
}

#[tokio::test]
async fn a_failed_build_is_reported_with_what_go_said() {
    let scratch = Scratch::new("broken");
    let locator = offline(&scratch).go(scratch.executable("go", BROKEN_GO));
    let said = failure(&locator, Tool::Etcd).await;
    assert!(
        said.contains("`go build` of etcd failed") && said.contains("the reason"),
        "{said}"
    );
}

#[tokio::test]
async fn a_cache_that_cannot_be_written_is_an_error_that_names_it() {
    let scratch = Scratch::new("readonly");
    // A file where a directory should be refuses everybody, root included.
    fs::write(scratch.path().join("cache"), "").unwrap();
    let error = offline(&scratch).find(Tool::Etcd).await.unwrap_err();
    let BinaryError::Cache { path, .. } = &error else {
        panic!("{error:?}")
    };
    assert!(path.starts_with(scratch.path().join("cache")), "{path:?}");
}

fn run(program: &Path) -> String {
    assert_ne!(program.metadata().unwrap().permissions().mode() & 0o100, 0);
    let output = std::process::Command::new(program).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}
