//! Content: verified, cached, not too much at once.

use futures::future::join_all;
use vidra_infrahub::{Trust, trust};
use vidra_lab::standin::{Effect, Fault, StandIn, When};

use crate::support::{impatient, list, session, session_with, token};

const TEXT: &str = "kind: ConfigMap\n";

struct Stored {
    storage_id: String,
    checksum: String,
}

fn store(standin: &StandIn, target: &str, content: impl Into<Vec<u8>>) -> Stored {
    let rendered = standin
        .artifact("web")
        .target(target)
        .content(content)
        .ready();
    Stored {
        storage_id: rendered.storage_id.unwrap(),
        checksum: rendered.checksum.unwrap(),
    }
}

fn downloads(standin: &StandIn) -> usize {
    standin.count("GET", "/api/storage/object/")
}

#[tokio::test]
async fn what_is_trusted_can_be_fetched() {
    let standin = StandIn::start().unwrap();
    store(&standin, "a", TEXT);
    let session = session(&standin, &token());
    let artifact = list(&session, "web").await.unwrap().swap_remove(0);
    let Trust::Trusted {
        storage_id,
        checksum,
    } = trust(&artifact)
    else {
        panic!("not trusted: {artifact:?}");
    };
    assert_eq!(
        &*session.content(&storage_id, &checksum).await.unwrap(),
        TEXT
    );
}

#[tokio::test]
async fn the_same_content_is_downloaded_once_also_by_many_at_once() {
    let standin = StandIn::start().unwrap();
    let stored = store(&standin, "a", TEXT);
    let session = session(&standin, &token());
    let calls = (0..20).map(|_| session.content(&stored.storage_id, &stored.checksum));
    let results = join_all(calls).await;
    assert!(results.iter().all(Result::is_ok));
    session
        .content(&stored.storage_id, &stored.checksum.to_uppercase())
        .await
        .unwrap();
    assert_eq!(downloads(&standin), 1);
}

#[tokio::test]
async fn at_most_eight_downloads_run_at_once() {
    let standin = StandIn::start().unwrap();
    let stored: Vec<_> = (0..40)
        .map(|index| store(&standin, &format!("t{index}"), format!("n: {index}\n")))
        .collect();
    standin.fault(Fault::on(
        "/api/storage/",
        Effect::Delay { milliseconds: 100 },
    ));
    let session = session(&standin, &token());
    let calls = stored
        .iter()
        .map(|one| session.content(&one.storage_id, &one.checksum));
    let results = join_all(calls).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(downloads(&standin), 40);
    assert_eq!(standin.max_in_flight(), 8);
}

#[tokio::test]
async fn a_failed_download_is_not_cached() {
    let standin = StandIn::start().unwrap();
    let stored = store(&standin, "a", TEXT);
    let session = session(&standin, &token());
    standin.fault(Fault::status("/api/storage/", 503, "").when(When::First(1)));
    assert!(
        session
            .content(&stored.storage_id, &stored.checksum)
            .await
            .is_err()
    );
    assert!(
        session
            .content(&stored.storage_id, &stored.checksum)
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn every_bad_content_has_its_own_name() {
    let body = |body: &str| Effect::Content {
        body: body.to_owned(),
    };
    let status = |status, body: &str| Effect::Answer {
        status,
        body: body.to_owned(),
        headers: [].into(),
    };
    for (what, effect, code, reason) in [
        (
            "other text",
            body("kind: Secret\n"),
            "ChecksumMismatch",
            "ChecksumMismatch",
        ),
        (
            "cut text",
            body("kind: Con"),
            "ChecksumMismatch",
            "ChecksumMismatch",
        ),
        ("nothing", body(""), "ChecksumMismatch", "ChecksumMismatch"),
        (
            "a login page",
            body("<!DOCTYPE html><p>Log in"),
            "WebPage",
            "InfrahubError",
        ),
        (
            "half of it",
            status(206, TEXT),
            "Unexpected",
            "InfrahubError",
        ),
        ("no content", status(204, ""), "Unexpected", "InfrahubError"),
        ("forbidden", status(403, ""), "Forbidden", "AccessDenied"),
        ("not found", status(404, ""), "Refused", "InfrahubError"),
        (
            "a crash",
            status(500, "Internal Server Error"),
            "Crashed",
            "InfrahubError",
        ),
        (
            "a cut connection",
            Effect::Truncate { bytes: 4 },
            "Interrupted",
            "InfrahubUnreachable",
        ),
        (
            "too much",
            Effect::Oversized { bytes: 1 << 20 },
            "TooLarge",
            "TooLarge",
        ),
        ("silence", Effect::Hang, "TimedOut", "InfrahubUnreachable"),
        (
            "dripping",
            Effect::Drip { milliseconds: 200 },
            "TimedOut",
            "InfrahubUnreachable",
        ),
    ] {
        let standin = StandIn::start().unwrap();
        let stored = store(&standin, "a", TEXT);
        let session = session_with(&standin, &token(), impatient());
        standin.fault(Fault::on("/api/storage/", effect));
        let error = session
            .content(&stored.storage_id, &stored.checksum)
            .await
            .unwrap_err();
        assert_eq!((error.code(), error.reason()), (code, reason), "{what}");
        standin.clear_faults();
        let content = session
            .content(&stored.storage_id, &stored.checksum)
            .await
            .unwrap();
        assert_eq!(&*content, TEXT, "{what}");
    }
}

#[tokio::test]
async fn damage_and_loss_in_the_object_store_are_noticed() {
    let standin = StandIn::start().unwrap();
    let session = session(&standin, &token());
    let damaged = store(&standin, "a", TEXT);
    standin.corrupt(&damaged.storage_id, "kind: Secret\n");
    let error = session
        .content(&damaged.storage_id, &damaged.checksum)
        .await
        .unwrap_err();
    assert_eq!(error.code(), "ChecksumMismatch");
    standin.lose(&damaged.storage_id);
    let error = session
        .content(&damaged.storage_id, &damaged.checksum)
        .await
        .unwrap_err();
    assert_eq!(
        (error.code(), error.reason()),
        ("ContentMissing", "InfrahubError")
    );
    let empty = store(&standin, "b", "");
    let error = session
        .content(&empty.storage_id, &empty.checksum)
        .await
        .unwrap_err();
    assert_eq!(
        (error.code(), error.reason()),
        ("EmptyContent", "EmptyManifest")
    );
}

#[tokio::test]
async fn a_storage_id_cannot_lead_to_another_path() {
    let standin = StandIn::start().unwrap();
    let session = session(&standin, &token());
    let error = session.content("..", &"0".repeat(32)).await.unwrap_err();
    assert_eq!(error.code(), "Unexpected");
    assert_eq!(standin.journal().len(), 0);
    let _ = session.content("../../info?x", &"0".repeat(32)).await;
    let call = standin.journal().pop().unwrap();
    assert_eq!(
        (call.path.as_str(), call.query.as_str()),
        ("/api/storage/object/../../info?x", "")
    );
}
