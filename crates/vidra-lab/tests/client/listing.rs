//! Lists, looked-up artifacts, names.

use std::{collections::BTreeSet, time::Duration};

use vidra_infrahub::{Policy, Source, Status, TargetDate, View};
use vidra_lab::standin::{Effect, Fault, StandIn, When};

use crate::support::{MAIN, list, names, only, session, session_with, token};

fn standin(artifacts: usize) -> StandIn {
    let standin = StandIn::start().unwrap();
    for index in 0..artifacts {
        let target = format!("web-{index}");
        standin
            .artifact("web")
            .target(&target)
            .content(target.clone())
            .ready();
    }
    standin
}

fn small_pages() -> Policy {
    Policy {
        page_size: 2,
        ..Policy::default()
    }
}

#[tokio::test]
async fn an_artifact_is_described_in_full() {
    let standin = StandIn::start().unwrap();
    let rendered = standin
        .artifact("web")
        .target("web-a")
        .content("kind: List\n")
        .ready();
    let artifacts = list(&session(&standin, &token()), "web").await.unwrap();
    let artifact = &artifacts[0];
    assert_eq!(
        (&artifact.id, artifact.name.as_str()),
        (&rendered.id, "web")
    );
    assert_eq!(artifact.status, Status::Ready);
    assert_eq!(artifact.storage_id, rendered.storage_id);
    assert_eq!(artifact.checksum, rendered.checksum);
    assert_eq!(artifact.content_type.as_deref(), Some("application/yaml"));
    let target = artifact.target.as_ref().unwrap();
    assert_eq!(target.kind, "KubernetesWebserver");
    assert_eq!(target.display_label.as_deref(), Some("web-a"));
    assert!(artifact.definition.as_ref().unwrap().name.is_some());
}

#[tokio::test]
async fn two_hundred_names_cost_one_request() {
    let standin = standin(3);
    let session = session(&standin, &token());
    let mut wanted: BTreeSet<String> = (0..199).map(|index| format!("none-{index}")).collect();
    wanted.insert("web".to_owned());
    let listing = session
        .list_artifacts(&MAIN, &wanted, Some("ArtifactIDs"))
        .await
        .unwrap();
    assert_eq!(listing.artifacts.len(), 200);
    assert_eq!(listing.artifacts["web"].len(), 3);
    assert_eq!(listing.artifacts["none-7"].len(), 0);
    assert_eq!(standin.journal().len(), 1);
}

#[tokio::test]
async fn no_names_are_no_question() {
    let standin = standin(1);
    let session = session(&standin, &token());
    let listing = session
        .list_artifacts(&MAIN, &BTreeSet::new(), None)
        .await
        .unwrap();
    assert!(listing.artifacts.is_empty());
    assert_eq!(standin.journal().len(), 0);
}

#[tokio::test]
async fn a_long_list_is_read_page_by_page() {
    for count in [1, 2, 3, 4, 7] {
        let standin = standin(count);
        let session = session_with(&standin, &token(), small_pages());
        let found = list(&session, "web").await.unwrap();
        let ids: BTreeSet<_> = found.iter().map(|artifact| &artifact.id).collect();
        assert_eq!(ids.len(), count);
    }
}

#[tokio::test]
async fn a_list_that_changes_while_it_is_read_is_an_error() {
    let standin = standin(5);
    let session = session_with(&standin, &token(), small_pages());
    let first = list(&session, "web").await.unwrap().swap_remove(0);
    standin.clear_journal();
    let slow = Effect::Delay { milliseconds: 1500 };
    standin.fault(Fault::on("/graphql", slow).when(When::Nth(2)));
    let reading = tokio::spawn(async move { list(&session, "web").await });
    while standin.count("POST", "/graphql") < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The count stays, only the places change.
    let label = first.target.unwrap().display_label.unwrap();
    standin.artifact("web").target(&label).delete();
    standin.artifact("web").target("web-z").content("z").ready();
    let error = reading.await.unwrap().unwrap_err();
    assert_eq!(
        (error.code(), error.reason()),
        ("ListChanged", "InfrahubError")
    );
}

#[tokio::test]
async fn branches_and_dates_are_looked_at() {
    let standin = StandIn::start().unwrap();
    standin.set_now("2026-01-01T00:00:00Z".parse().unwrap());
    let old = standin.artifact("web").content("old").ready();
    standin.advance(Duration::from_hours(24));
    let new = standin.artifact("web").content("new").ready();
    let branch = standin
        .artifact("web")
        .branch("feature/x")
        .content("branch")
        .ready();
    let session = session(&standin, &token());
    let date = TargetDate::parse("2026-01-01T03:00:00+02:00").unwrap();
    let cases = [
        (MAIN, new.checksum),
        (
            View {
                branch: "feature/x",
                at: None,
            },
            branch.checksum,
        ),
        (
            View {
                branch: "main",
                at: date.as_ref(),
            },
            old.checksum,
        ),
    ];
    for (view, checksum) in cases {
        let listing = session
            .list_artifacts(&view, &names(["web"]), None)
            .await
            .unwrap();
        assert_eq!(only(listing)[0].checksum, checksum, "{view:?}");
    }
    let call = standin.journal().pop().unwrap();
    assert_eq!(call.query, "at=2026-01-01T03%3A00%3A00%2B02%3A00");
}

#[tokio::test]
async fn an_unknown_branch_is_told_by_name_also_with_a_registered_query() {
    let standin = standin(1);
    let session = session(&standin, &token());
    let view = View {
        branch: "gone/x",
        at: None,
    };
    for query in [None, Some("ArtifactIDs")] {
        let error = session
            .list_artifacts(&view, &names(["web"]), query)
            .await
            .unwrap_err();
        assert_eq!(error.reason(), "BranchNotFound");
        assert!(error.to_string().contains("'gone/x'"), "{error}");
    }
}

#[tokio::test]
async fn a_branch_cannot_lead_to_another_path() {
    let standin = standin(1);
    let session = session(&standin, &token());
    for branch in ["", "..", "../api/info", "a//b", "a/"] {
        let view = View { branch, at: None };
        let error = session
            .list_artifacts(&view, &names(["web"]), None)
            .await
            .unwrap_err();
        assert_eq!(error.code(), "InvalidName", "{branch}");
    }
    assert_eq!(standin.journal().len(), 0);
    let view = View {
        branch: "a?b#c",
        at: None,
    };
    let error = session
        .list_artifacts(&view, &names(["web"]), None)
        .await
        .unwrap_err();
    assert_eq!(error.code(), "BranchNotFound");
}

#[tokio::test]
async fn a_deleted_artifact_is_confirmed_gone_and_others_are_found() {
    let standin = standin(3);
    let session = session_with(&standin, &token(), small_pages());
    let found = list(&session, "web").await.unwrap();
    let ids: BTreeSet<_> = found.iter().map(|artifact| artifact.id.clone()).collect();
    assert_eq!(session.look_up(&MAIN, &ids).await.unwrap().len(), 3);
    standin.artifact("web").target("web-1").delete();
    let present = session.look_up(&MAIN, &ids).await.unwrap();
    let gone: Vec<_> = ids.iter().filter(|id| !present.contains_key(*id)).collect();
    assert_eq!((present.len(), gone.len()), (2, 1));
    let label = |id: &String| {
        let artifact = found.iter().find(|artifact| artifact.id == *id).unwrap();
        artifact.target.clone().unwrap().display_label.unwrap()
    };
    assert_eq!(label(gone[0]), "web-1");
}

#[tokio::test]
async fn a_failed_look_up_confirms_nothing() {
    let standin = standin(1);
    let session = session(&standin, &token());
    let empty = r#"{"data":{"CoreArtifact":{"edges":[]}}}"#;
    standin.fault(Fault::status("/graphql", 200, empty));
    assert!(session.look_up(&MAIN, &names(["x"])).await.is_err());
}

#[tokio::test]
async fn a_misspelt_name_is_told_from_an_empty_group() {
    let standin = standin(2);
    let session = session(&standin, &token());
    let known = session.name_is_known(&MAIN, "web").await.unwrap();
    assert_eq!((known.artifacts, known.is_known()), (2, true));
    let unknown = session.name_is_known(&MAIN, "wbe").await.unwrap();
    assert_eq!(
        (unknown.artifacts, unknown.definitions, unknown.is_known()),
        (0, 0, false)
    );
    for target in ["web-0", "web-1"] {
        standin.artifact("web").target(target).delete();
    }
    let empty = session.name_is_known(&MAIN, "web").await.unwrap();
    assert_eq!(
        (empty.artifacts, empty.definitions, empty.is_known()),
        (0, 1, true)
    );
}

#[tokio::test]
async fn every_status_is_reported_as_it_is() {
    let standin = StandIn::start().unwrap();
    standin.artifact("web").target("a").content("a").ready();
    standin.artifact("web").target("b").pending();
    standin.artifact("web").target("c").content("c").ready();
    standin.artifact("web").target("c").failed();
    standin.artifact("web").target("d").processing();
    let found = list(&session(&standin, &token()), "web").await.unwrap();
    let mut states: Vec<_> = found
        .iter()
        .map(|artifact| artifact.status.to_string())
        .collect();
    states.sort();
    assert_eq!(states, ["Error", "Pending", "Processing", "Ready"]);
    let listing = session(&standin, &token())
        .list_artifacts(&MAIN, &names(["web"]), None)
        .await;
    assert_eq!(listing.unwrap().source, Source::Own);
}
