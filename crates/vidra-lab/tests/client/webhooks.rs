//! Webhooks as the different versions of Infrahub sign them.

use jiff::{Timestamp, ToSpan};
use vidra_infrahub::webhook::{Accepted, Delivery, Hint, Receiver, Refusal, Rules};
use vidra_lab::standin::{Delivery as Sent, Event, Generation, Json, StandIn};

const KEY: &str = "not base64, \u{e4}nd not ASCII";
const GENERATIONS: [Generation; 3] = [Generation::Dumps, Generation::Mismatch, Generation::Compact];

fn received(sent: &Sent) -> Delivery<'_> {
    let header = |name| {
        let found = sent.headers.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.as_str())
    };
    Delivery {
        id: header("webhook-id"),
        timestamp: header("webhook-timestamp"),
        signature: header("webhook-signature"),
        body: sent.body.as_bytes(),
    }
}

fn judged(sent: &Sent, now: Timestamp) -> Result<Accepted, Refusal> {
    Receiver::new(Rules::default()).accept(&[KEY.into()], &received(sent), now)
}

/// Names that every spelling writes differently.
fn events() -> Vec<Event> {
    let standin = StandIn::start().unwrap();
    standin.artifact("web").target("web-a").content("a").ready();
    standin
        .artifact("web")
        .target("gr\u{fc}n \"\u{1f600}\"\\ \n")
        .content("b")
        .ready();
    standin.artifact("web").target("web-a").failed();
    standin.artifact("web").target("web-a").delete();
    let mut events = standin.events();
    assert_eq!(events.len(), 4);
    let data = Json::object([
        ("zeta", Json::text("\u{1f600} \u{fc} \u{2028} </script>")),
        (
            "alpha",
            Json::List(vec![Json::Null, Json::Bool(true), Json::count(7)]),
        ),
        ("empty", Json::Object(Vec::new())),
    ]);
    events.push(Event::new(
        "infrahub.branch.merged",
        None,
        data,
        standin.now(),
    ));
    events
}

#[test]
fn every_generation_since_1_2_6_is_recognised() {
    for event in events() {
        for generation in GENERATIONS {
            let sent = Sent::new(&event, Some(KEY), generation, event.occurred_at);
            let result = judged(&sent, event.occurred_at);
            assert!(
                matches!(result, Ok(Accepted::Fresh(_))),
                "{generation:?} {result:?}"
            );
        }
    }
}

/// Up to 1.2.5 the signature covers Python's own notation, which nobody can restore.
#[test]
fn the_oldest_generation_is_refused() {
    let event = events().swap_remove(0);
    let sent = Sent::new(&event, Some(KEY), Generation::Repr, event.occurred_at);
    assert_eq!(
        judged(&sent, event.occurred_at),
        Err(Refusal::WrongSignature)
    );
}

#[test]
fn tampered_webhooks_are_refused_in_every_generation() {
    let event = events().swap_remove(1);
    for generation in GENERATIONS {
        let good = Sent::new(&event, Some(KEY), generation, event.occurred_at);
        let other = Sent::new(&event, Some("other key"), generation, event.occurred_at);
        assert_eq!(
            judged(&other, event.occurred_at),
            Err(Refusal::WrongSignature)
        );
        let mut body = good.clone();
        body.body = body.body.replace("\"main\"", "\"evil\"");
        assert_ne!(body.body, good.body);
        assert_eq!(
            judged(&body, event.occurred_at),
            Err(Refusal::WrongSignature)
        );
        for name in ["webhook-id", "webhook-timestamp"] {
            let mut head = good.clone();
            let (_, value) = head
                .headers
                .iter_mut()
                .find(|(known, _)| *known == name)
                .unwrap();
            value.push('0');
            assert!(judged(&head, event.occurred_at).is_err(), "{name}");
        }
        let unsigned = Sent::new(&event, None, generation, event.occurred_at);
        assert_eq!(judged(&unsigned, event.occurred_at), Err(Refusal::Unsigned));
        let late = event.occurred_at + 10.minutes();
        assert_eq!(judged(&good, late), Err(Refusal::OutsideWindow));
    }
}

#[test]
fn further_attempts_for_one_event_are_repetitions() {
    let receiver = Receiver::new(Rules::default());
    let event = events().swap_remove(0);
    let results = (0..4).map(|_| {
        let sent = Sent::new(&event, Some(KEY), Generation::Compact, event.occurred_at);
        receiver
            .accept(&[KEY.into()], &received(&sent), event.occurred_at)
            .unwrap()
    });
    let repeated = results
        .filter(|result| *result == Accepted::Repeated)
        .count();
    assert_eq!(repeated, 3);
}

#[test]
fn a_hint_names_branch_artifact_and_definition() {
    let mut hints = events().into_iter().map(|event| {
        let sent = Sent::new(&event, Some(KEY), Generation::Dumps, event.occurred_at);
        match judged(&sent, event.occurred_at) {
            Ok(Accepted::Fresh(hint)) => (hint, event.primary_node.0),
            other => panic!("{other:?}"),
        }
    });
    let (created, artifact) = hints.next().unwrap();
    assert_eq!(created.event.as_deref(), Some("infrahub.artifact.created"));
    assert_eq!(created.branch.as_deref(), Some("main"));
    assert_eq!(created.artifact_id, Some(artifact));
    assert!(created.definition_id.is_some() && created.definition_name.is_some());
    let (failed, artifact) = hints.nth(1).unwrap();
    assert_eq!(failed.event.as_deref(), Some("infrahub.node.updated"));
    assert_eq!(failed.artifact_id, Some(artifact));
    let (deleted, _) = hints.next().unwrap();
    assert!(deleted.is_about_an_artifact());
    let (merged, _) = hints.next().unwrap();
    let event = Some("infrahub.branch.merged".to_owned());
    assert_eq!(
        merged,
        Hint {
            event,
            ..Hint::default()
        }
    );
}
