//! Webhooks: signatures as recorded from a real server, and the forms of all generations.

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
};
use jiff::Timestamp;
use serde::Deserialize;
use tokio::{
    net::TcpListener,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};
use vidra_lab::standin::{
    Delivery, Event, Generation, Json, StandIn, Style, Subscription, signature,
};

/// The key that the recorded webhooks were signed with.
const KEY: &str = "s3cret";

/// Deliveries of Infrahub 1.4.13 with httpx 0.27, recorded in our lab.
const RECORDED: &str = include_str!("fixtures/webhooks.jsonl");

#[derive(Deserialize)]
struct Recorded {
    id: String,
    timestamp: String,
    signature: String,
    body: String,
}

fn recorded() -> Vec<Recorded> {
    RECORDED
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn recorded_signatures_are_reproduced() {
    assert_eq!(recorded().len(), 5);
    for one in recorded() {
        let body: Json = serde_json::from_str(&one.body).unwrap();
        let payload = Generation::Dumps.signed(&body);
        assert_eq!(payload, one.body, "our spelling is the recorded one");
        assert_eq!(
            signature(KEY, &one.id, &one.timestamp, &payload),
            one.signature
        );
        assert_ne!(
            signature("other", &one.id, &one.timestamp, &payload),
            one.signature
        );
    }
}

fn event(text: &str) -> Event {
    let data = Json::object([("text", Json::text(text)), ("none", Json::Null)]);
    let at: Timestamp = "2026-11-16T00:26:42.951777Z".parse().unwrap();
    let mut event = Event::new("infrahub.artifact.updated", None, data, at);
    "386160f8".clone_into(&mut event.id);
    event
}

#[test]
fn every_generation_has_its_own_spelling() {
    let body = event("ü \"it's\" 🚀\n").body();
    let tail = "\"account_id\":\"\",\"occured_at\":\"2026-11-16 00:26:42.951777+00:00\",\
                \"event\":\"infrahub.artifact.updated\"}";
    let escaped = format!(
        "{{\"data\":{{\"text\":\"\\u00fc \\\"it's\\\" \\ud83d\\ude80\\n\",\"none\":null}},\
         \"id\":\"386160f8\",\"branch\":null,{tail}"
    );
    assert_eq!(Generation::Compact.signed(&body), escaped);
    let raw = escaped
        .replace("\\u00fc", "ü")
        .replace("\\ud83d\\ude80", "🚀");
    assert_eq!(Generation::Compact.sent(&body), raw);
    assert_eq!(Generation::Mismatch.sent(&body), raw);
    let spaced =
        "{\"data\": {\"text\": \"\\u00fc \\\"it's\\\" \\ud83d\\ude80\\n\", \"none\": null}, ";
    for generation in [Generation::Dumps, Generation::Mismatch] {
        assert!(
            generation.signed(&body).starts_with(spaced),
            "{}",
            generation.signed(&body)
        );
    }
    assert!(Generation::Repr.sent(&body).starts_with(spaced));
    let repr =
        "{'data': {'text': 'ü \"it\\'s\" 🚀\\n', 'none': None}, 'id': '386160f8', 'branch': None, ";
    assert!(
        Generation::Repr.signed(&body).starts_with(repr),
        "{}",
        Generation::Repr.signed(&body)
    );
}

#[test]
fn only_some_generations_sign_what_they_send() {
    let signs_what_it_sends = |generation: Generation, text: &str| {
        let body = event(text).body();
        generation.signed(&body) == generation.sent(&body)
    };
    assert!(!signs_what_it_sends(Generation::Repr, "plain"));
    assert!(signs_what_it_sends(Generation::Dumps, "ü"));
    assert!(!signs_what_it_sends(Generation::Mismatch, "plain"));
    assert!(signs_what_it_sends(Generation::Compact, "plain"));
    assert!(!signs_what_it_sends(Generation::Compact, "ü"));
}

#[test]
fn without_a_key_nothing_is_signed() {
    let delivery = Delivery::new(&event("x"), None, Generation::Dumps, Timestamp::UNIX_EPOCH);
    assert!(
        delivery
            .headers
            .iter()
            .all(|(name, _)| !name.starts_with("webhook-"))
    );
}

type Received = (HeaderMap, String);

/// A receiver that answers `status` and hands over what it got.
async fn receiver(status: StatusCode) -> (String, UnboundedReceiver<Received>) {
    async fn take(
        State((sender, status)): State<(UnboundedSender<Received>, StatusCode)>,
        headers: HeaderMap,
        body: Bytes,
    ) -> StatusCode {
        sender
            .send((headers, String::from_utf8(body.to_vec()).unwrap()))
            .unwrap();
        status
    }
    let (sender, received) = unbounded_channel();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let router = Router::new().fallback(take).with_state((sender, status));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, received)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers[name].to_str().unwrap()
}

#[tokio::test]
async fn a_rendering_is_told_to_subscribers_with_a_signature_that_verifies() {
    let standin = StandIn::start().unwrap();
    let (url, mut received) = receiver(StatusCode::OK).await;
    let generation = Generation::Mismatch;
    let event = "infrahub.artifact.created".to_owned();
    standin.subscribe(Subscription {
        url,
        key: Some(KEY.to_owned()),
        generation,
        event,
    });
    let rendered = standin.artifact("a").target("web-ü").content("x").ready();

    let (headers, body) = received.recv().await.unwrap();
    let told: Json = serde_json::from_str(&body).unwrap();
    let data = told.get("data").unwrap();
    assert_eq!(
        data.get("node_id").unwrap().as_str(),
        Some(rendered.id.as_str())
    );
    assert_eq!(data.get("checksum_previous"), Some(&Json::Null));
    let (id, timestamp) = (
        text(&headers, "webhook-id"),
        text(&headers, "webhook-timestamp"),
    );
    let expected = signature(KEY, id, timestamp, &told.write(Style::PythonDefault));
    assert_eq!(text(&headers, "webhook-signature"), expected);
}

#[tokio::test]
async fn a_failing_receiver_gets_four_attempts_of_the_same_event() {
    let standin = StandIn::start().unwrap();
    let (url, mut received) = receiver(StatusCode::INTERNAL_SERVER_ERROR).await;
    let (generation, event) = (Generation::Dumps, "all".to_owned());
    standin.subscribe(Subscription {
        url,
        key: Some(KEY.to_owned()),
        generation,
        event,
    });
    standin.artifact("a").content("x").ready();

    let (first, body) = received.recv().await.unwrap();
    for _ in 0..3 {
        let (headers, again) = received.recv().await.unwrap();
        assert_eq!(again, body);
        assert_ne!(headers["webhook-id"], first["webhook-id"]);
    }
    standin.artifact("a").content("y").ready();
    let (_, next) = received.recv().await.unwrap();
    assert_ne!(next, body, "the fifth delivery is another event");
}

#[tokio::test]
async fn one_webhook_can_be_sent_by_hand() {
    let standin = StandIn::start().unwrap();
    let (url, mut received) = receiver(StatusCode::ACCEPTED).await;
    let event = event("by hand");
    let status = standin
        .send_webhook(&url, KEY, Generation::Compact, &event)
        .await
        .unwrap();
    assert_eq!(status, 202);
    assert_eq!(
        received.recv().await.unwrap().1,
        Generation::Compact.sent(&event.body())
    );
}

#[tokio::test]
async fn nothing_is_told_of_a_rendering_that_changes_nothing() {
    let standin = StandIn::start().unwrap();
    standin.artifact("a").content("x").ready();
    standin.artifact("a").content("x").ready();
    standin.artifact("a").failed();
    standin.artifact("a").content("y").ready();
    standin.artifact("a").delete();
    let names: Vec<_> = standin
        .events()
        .into_iter()
        .map(|event| event.name)
        .collect();
    assert_eq!(
        names,
        [
            "infrahub.artifact.created",
            "infrahub.node.updated",
            "infrahub.artifact.updated",
            "infrahub.node.deleted",
        ]
    );
}
