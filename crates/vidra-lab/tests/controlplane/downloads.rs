//! Releases, from a server on this machine.

use std::{fmt::Write as _, fs, process::Command};

use sha2::{Digest as _, Sha256, Sha512};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use vidra_lab::controlplane::{Archive, Digest, Locator, Tool};

use crate::support::{Scratch, text};

/// A release with two binaries, as `tar` makes it.
fn release(scratch: &Scratch) -> Vec<u8> {
    scratch.executable("release/bin/kube-apiserver", "the apiserver");
    scratch.executable(
        "release/bin/kube-controller-manager",
        "the controller manager",
    );
    scratch.executable("release/bin/not-needed", "something else");
    let status = Command::new("tar")
        .args(["-czf", "release.tar.gz", "release"])
        .current_dir(scratch.path())
        .status();
    assert!(status.unwrap().success());
    fs::read(scratch.path().join("release.tar.gz")).unwrap()
}

/// Answers every request with these bytes, then closes the connection.
async fn serve(answer: Vec<u8>) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/release.tar.gz", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(&answer).await;
            let _ = stream.shutdown().await;
        }
    });
    url
}

/// An HTTP response; `cut` bytes of the body that it announces are never sent.
fn response(status: &str, body: &[u8], cut: usize) -> Vec<u8> {
    let mut answer = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    )
    .into_bytes();
    answer.extend(&body[..body.len() - cut]);
    answer
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn locator(scratch: &Scratch, url: String, digest: Digest) -> Locator {
    let member = |tool: Tool| (tool, format!("release/bin/{tool}"));
    let members = vec![
        member(Tool::KubeApiserver),
        member(Tool::KubeControllerManager),
    ];
    Locator::from_environment()
        .without_environment()
        .cache(scratch.path().join("cache"))
        .archives(vec![Archive {
            url,
            digest,
            members,
        }])
        .go(scratch.path().join("no-such-go"))
}

async fn failure(scratch: &Scratch, url: String, digest: Digest) -> String {
    let error = locator(scratch, url, digest)
        .find(Tool::KubeApiserver)
        .await
        .unwrap_err();
    let cached = fs::read_dir(scratch.path().join("cache")).unwrap();
    let keys = cached
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir());
    for key in keys {
        assert_eq!(
            fs::read_dir(&key).unwrap().count(),
            0,
            "something was cached in {}",
            key.display()
        );
    }
    text(&error)
}

#[tokio::test]
async fn a_release_with_the_right_digest_fills_the_cache() {
    let scratch = Scratch::new("release");
    let body = release(&scratch);
    for digest in [
        Digest::Sha512(hex(&Sha512::digest(&body))),
        Digest::Sha256(hex(&Sha256::digest(&body))),
    ] {
        let cache = Scratch::new("release-cache");
        let url = serve(response("200 OK", &body, 0)).await;
        let locator = locator(&cache, url, digest);
        let path = locator.find(Tool::KubeApiserver).await.unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "the apiserver");
        let nowhere = locator.archives(Vec::new());
        let path = nowhere.find(Tool::KubeControllerManager).await.unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "the controller manager");
        assert!(!path.with_file_name("not-needed").exists());
    }
}

#[tokio::test]
async fn a_release_with_a_wrong_digest_is_not_used() {
    let scratch = Scratch::new("wrong");
    let body = release(&scratch);
    let url = serve(response("200 OK", &body, 0)).await;
    let said = failure(&scratch, url, Digest::Sha512("0".repeat(128))).await;
    assert!(said.contains(&hex(&Sha512::digest(&body))), "{said}");
    assert!(said.contains("it was not used"), "{said}");
}

#[tokio::test]
async fn a_truncated_release_is_not_used() {
    let scratch = Scratch::new("truncated");
    let body = release(&scratch);
    // The digest of what arrives: only the announced length tells that something is missing.
    let digest = Digest::Sha256(hex(&Sha256::digest(&body[..body.len() - 10])));
    let url = serve(response("200 OK", &body, 10)).await;
    let said = failure(&scratch, url, digest).await;
    assert!(
        said.contains("- download: cannot get http://127.0.0.1"),
        "{said}"
    );
}

#[tokio::test]
async fn a_release_that_is_not_there_is_reported_with_the_status() {
    let scratch = Scratch::new("absent");
    let url = serve(response("404 Not Found", b"", 0)).await;
    let said = failure(&scratch, url, Digest::Sha256(String::new())).await;
    assert!(said.contains("404"), "{said}");
}

#[tokio::test]
async fn a_refused_connection_is_reported_with_the_address() {
    let scratch = Scratch::new("refused");
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/release.tar.gz", listener.local_addr().unwrap());
    drop(listener);
    let said = failure(&scratch, url.clone(), Digest::Sha256(String::new())).await;
    assert!(said.contains(&url), "{said}");
}

#[tokio::test]
async fn a_release_without_the_promised_member_is_not_used() {
    let scratch = Scratch::new("member");
    scratch.executable("release/bin/kube-apiserver", "the apiserver");
    let tar = ["-czf", "release.tar.gz", "release"];
    let status = Command::new("tar")
        .args(tar)
        .current_dir(scratch.path())
        .status();
    assert!(status.unwrap().success());
    let body = fs::read(scratch.path().join("release.tar.gz")).unwrap();
    let url = serve(response("200 OK", &body, 0)).await;
    let said = failure(&scratch, url, Digest::Sha256(hex(&Sha256::digest(&body)))).await;
    assert!(said.contains("cannot unpack"), "{said}");
}
