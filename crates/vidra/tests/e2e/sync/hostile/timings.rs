//! Servers that take their time.

use vidra_lab::standin::Effect;

use super::{Ground, NEVER, OFTEN, Row, Trouble, judge};
use crate::support::value_is;

/// Waits for one look at a server that does not come to an end, then for its recovery.
async fn endure(ground: &Ground, effect: Effect, says: &'static str) {
    let mark = ground.stage.world.plane.audit().mark().unwrap();
    let before = ground.identities().await;
    let path = "/graphql";
    let fault = vidra_lab::standin::Fault::on(path, effect.clone());
    ground.stage.infrahub.fault(fault);
    let sync = ground.stage.look().await;
    let row = Row::new(says, Trouble::List(effect), "InfrahubUnreachable", says);
    judge(&row, &sync);
    ground.is_healed_meanwhile().await;
    // Ends what still hangs.
    ground.stage.infrahub.clear_faults();
    ground.stage.infrahub.halt();
    ground.stage.infrahub.resume().unwrap();
    ground.stage.ready().await;
    let deletions = ground.deletions(mark).await;
    assert!(deletions.is_empty(), "{deletions:#?}");
    assert_eq!(ground.identities().await, before);
}

#[tokio::test]
async fn a_server_that_hangs_or_stops_is_given_up_and_delays_no_other() {
    let (hanging, stopping) = (Ground::new(NEVER).await, Ground::new(NEVER).await);
    let mut other = Ground::new(OFTEN).await;
    let stop = Effect::Drip {
        milliseconds: 120_000,
    };
    let work = async {
        for _ in 0..5 {
            other.render_next();
            value_is(other.stage.client(), &other.stage.name, "web", &other.value).await;
        }
        // By now both of the others are still waiting, or this has taken very long.
        hanging.stage.infrahub.count("POST", "/graphql")
    };
    let asked = hanging.stage.infrahub.count("POST", "/graphql");
    let ((), (), seen) = tokio::join!(
        endure(&hanging, Effect::Hang, "did not begin to answer in time"),
        endure(
            &stopping,
            stop,
            "stopped in the middle of an answer in time"
        ),
        work,
    );
    assert!(seen <= asked + 1, "{asked} {seen}");
}

#[tokio::test]
async fn a_server_that_is_only_slow_is_waited_for() {
    let mut ground = Ground::new(NEVER).await;
    for effect in [
        Effect::Delay { milliseconds: 700 },
        Effect::Drip { milliseconds: 1 },
    ] {
        let fault = vidra_lab::standin::Fault::on("/", effect);
        ground.stage.infrahub.fault(fault);
        ground.render_next();
        let sync = ground.stage.look().await;
        assert_eq!(crate::sync::said(&sync, "SourceReady").0, "PlainHttp");
        value_is(
            ground.stage.client(),
            &ground.stage.name,
            "web",
            &ground.value,
        )
        .await;
        ground.stage.infrahub.clear_faults();
    }
}
