//! The rehearsal with the stand-in, so that the one with a real Infrahub cannot rot.
// Tests: a failed expectation shall end the test with a panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::time::Duration;

use vidra_lab::{
    infrahub::Progress,
    rehearsal::{Ending, Limits, with_stand_in},
    standin::{Fault, StandIn},
};

fn limits(patience: Duration) -> Limits {
    Limits {
        patience,
        progress: Progress::silent(),
    }
}

#[tokio::test]
async fn every_scene_passes_with_the_stand_in() {
    let standin = StandIn::start_seeded().unwrap();
    let limits = limits(Duration::from_mins(1));
    let report = with_stand_in(standin, limits).await.unwrap();
    assert!(report.is_success(), "{report:#?}");
    assert!(report.scenes.len() >= 11, "{report:#?}");
}

#[tokio::test]
async fn a_scene_that_fails_is_named_and_the_rest_is_not_tried() {
    let standin = StandIn::start_seeded().unwrap();
    standin.fault(Fault::status("/api/storage/object", 500, "out of order"));
    let limits = limits(Duration::from_secs(3));
    let report = with_stand_in(standin, limits).await.unwrap();
    assert!(!report.is_success(), "{report:#?}");
    let endings: Vec<&Ending> = report.scenes.iter().map(|scene| &scene.ending).collect();
    assert!(matches!(endings[0], Ending::Passed(_)), "{endings:#?}");
    let Ending::Failed(why) = endings[1] else {
        panic!("{endings:#?}");
    };
    assert!(why.contains("the sync says"), "{why}");
    assert!(endings[2..].iter().all(|it| **it == Ending::NotTried));
}
