//! The contract, kept by the stand-in.

use vidra_lab::{
    contract::{self, Target},
    standin::StandIn,
};

#[tokio::test]
async fn the_stand_in_keeps_the_contract() {
    let standin = StandIn::start_seeded().unwrap();
    let report = contract::run(&Target::new(&standin.url())).await;
    assert!(report.is_success(), "{report}");
    assert!(report.results.len() >= 80, "{report}");
}

#[tokio::test]
async fn a_server_without_the_lab_s_world_is_told_as_such() {
    let standin = StandIn::start().unwrap();
    let report = contract::run(&Target::new(&standin.url())).await;
    assert_eq!(report.results.len(), 1);
    assert!(
        report
            .to_string()
            .contains("is the server seeded like the lab?"),
        "{report}"
    );
}

#[tokio::test]
async fn a_broken_promise_is_told_with_its_name_and_what_was_seen() {
    let standin = StandIn::start_seeded().unwrap();
    standin.fault(vidra_lab::standin::Fault::status(
        "/api/info",
        418,
        "short and stout",
    ));
    let report = contract::run(&Target::new(&standin.url())).await;
    let failed: Vec<_> = report.failures().collect();
    assert!(!report.is_success());
    assert!(
        failed.iter().all(|result| result.detail.contains("418")),
        "{report}"
    );
    assert!(
        failed
            .iter()
            .any(|result| result.name == "info tells the version"),
        "{report}"
    );
}
