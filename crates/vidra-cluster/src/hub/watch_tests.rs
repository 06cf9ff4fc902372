//! Scripted conversations between a watch and an API server.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use futures::stream;
use tokio::{sync::watch, task::JoinHandle};
use vidra_core::identity::GroupKind;

use super::{
    super::{orders::Orders, registry::tests::watched, source::Page},
    *,
};

const PATIENCE: Duration = Duration::from_secs(10);

/// One answer of the API server.
enum Answer {
    List(Result<Page, Failure>),
    Version(&'static str),
    Watch(Result<Vec<Result<Change, Failure>>, Failure>),
    /// A stream that says this and then nothing more.
    Quiet(Vec<Change>),
}

/// An API server that knows its answers beforehand; after the last one it never answers.
#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    /// `list <version of the API> <token>` or `watch <version of the API> <resource version>`.
    requests: Arc<Mutex<Vec<String>>>,
}

impl Script {
    fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let answers = Arc::new(Mutex::new(answers.into_iter().collect()));
        Self {
            answers,
            ..Self::default()
        }
    }

    fn requests(&self) -> Vec<String> {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    async fn answer(&self, request: String) -> Answer {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(request);
        let answer = self
            .answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        match answer {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}

impl Source for Script {
    async fn list(&self, resource: &ApiResource, token: Option<String>) -> Result<Page, Failure> {
        let token = token.unwrap_or_default();
        match self
            .answer(format!("list {} {token}", resource.version))
            .await
        {
            Answer::List(page) => page,
            _ => panic!("the script expected something else than a list"),
        }
    }

    async fn version(&self, resource: &ApiResource) -> Result<String, Failure> {
        match self.answer(format!("version {}", resource.version)).await {
            Answer::Version(version) => Ok(version.to_owned()),
            _ => panic!("the script expected something else than a question for the version"),
        }
    }

    async fn watch(&self, resource: &ApiResource, version: &str) -> Result<Changes, Failure> {
        match self
            .answer(format!("watch {} {version}", resource.version))
            .await
        {
            Answer::Watch(changes) => changes.map(|changes| stream::iter(changes).boxed()),
            Answer::Quiet(changes) => {
                let said = stream::iter(changes.into_iter().map(Ok));
                Ok(said.chain(stream::pending()).boxed())
            }
            _ => panic!("the script expected something else than a watch"),
        }
    }
}

struct Stage {
    script: Script,
    sightings: mpsc::Receiver<Sighting>,
    orders: watch::Sender<Orders>,
    record: Record,
    task: JoinHandle<()>,
}

impl Stage {
    fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self::of(vec![watched("v1", "Order")], 1, answers)
    }

    fn of(
        candidates: Vec<WatchedKind>,
        capacity: usize,
        answers: impl IntoIterator<Item = Answer>,
    ) -> Self {
        let script = Script::new(answers);
        let (sink, sightings) = mpsc::channel(capacity);
        let first = candidates.first().expect("a candidate").clone();
        let record = Record::new(first.clone());
        let (orders, receiver) = watch::channel(Orders::new(candidates));
        let timing = Arc::new(Timing {
            idle: Duration::from_millis(200),
            pause: (Duration::from_millis(1), Duration::from_millis(2)),
            ..Timing::default()
        });
        let watch = Watch::new(first, script.clone(), sink, timing, record.clone());
        let task = tokio::spawn(watch.run(Mailbox::new(receiver)));
        Self {
            script,
            sightings,
            orders,
            record,
            task,
        }
    }

    async fn next(&mut self) -> String {
        let sighting = timeout(PATIENCE, self.sightings.recv())
            .await
            .expect("a sighting in time");
        words(&sighting.expect("a running watch"))
    }

    async fn told(&mut self, expected: &[&str]) {
        for sighting in expected {
            assert_eq!(self.next().await, *sighting);
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn words(sighting: &Sighting) -> String {
    match sighting {
        Sighting::Seen { object, .. } => format!("seen {} {}", object.key.name, object.uid),
        Sighting::Gone { key, uid } => format!("gone {} {uid}", key.name),
        Sighting::Listed { keys, .. } => {
            let names: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
            format!("listed {}", names.join(" "))
        }
        Sighting::Blind { cause, .. } => format!("blind {}", cause.reason()),
        Sighting::Sighted { kind } => format!("sighted {}", kind.kind),
    }
}

fn object(name: &str, uid: &str, version: &str) -> ObjectMeta {
    ObjectMeta {
        namespace: Some("shop".to_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        resource_version: Some(version.to_owned()),
        ..ObjectMeta::default()
    }
}

fn page(names: &[&str], version: &str, next: Option<&str>) -> Answer {
    let objects = names
        .iter()
        .map(|name| object(name, "1", version))
        .collect();
    let next = next.map(ToOwned::to_owned);
    Answer::List(Ok(Page {
        objects,
        version: version.to_owned(),
        next,
    }))
}

fn list(names: &[&str], version: &str) -> Answer {
    page(names, version, None)
}

fn seen(name: &str, version: &str) -> Change {
    Change::Seen(object(name, "1", version))
}

fn broken() -> Failure {
    Failure::Broken {
        message: "connection reset".to_owned(),
    }
}

#[tokio::test]
async fn objects_of_a_list_are_seen_before_the_list_is_complete_and_events_follow() {
    let changes = vec![seen("c", "6"), Change::Gone(object("a", "1", "7"))];
    let mut stage = Stage::new([list(&["a", "b"], "5"), Answer::Quiet(changes)]);
    stage
        .told(&["seen a 1", "seen b 1", "listed a b", "seen c 1", "gone a 1"])
        .await;
    assert_eq!(
        stage.record.state(1).watched.kind,
        GroupKind::new("shop.example.com", "Order")
    );
}

#[tokio::test]
async fn an_expired_watch_start_leads_to_a_list_which_finds_the_lost_delete() {
    let expired = Answer::Watch(Err(Failure::Expired));
    let mut stage = Stage::new([list(&["a", "b"], "5"), expired, list(&["b"], "9")]);
    stage
        .told(&[
            "seen a 1",
            "seen b 1",
            "listed a b",
            "seen b 1",
            "gone a 1",
            "listed b",
        ])
        .await;
}

#[tokio::test]
async fn an_expired_stream_leads_to_a_list() {
    let expired = Answer::Watch(Ok(vec![Ok(seen("a", "6")), Err(Failure::Expired)]));
    let mut stage = Stage::new([list(&[], "5"), expired, list(&[], "9")]);
    stage
        .told(&["listed ", "seen a 1", "gone a 1", "listed "])
        .await;
}

#[tokio::test]
async fn a_stream_that_breaks_is_resumed_after_the_last_event() {
    let breaks = Answer::Watch(Ok(vec![
        Ok(seen("a", "6")),
        Ok(Change::Bookmark("8".to_owned())),
        Err(broken()),
    ]));
    let mut stage = Stage::new([list(&[], "5"), breaks, Answer::Quiet(vec![seen("b", "9")])]);
    stage.told(&["listed ", "seen a 1", "seen b 1"]).await;
    assert_eq!(
        stage.script.requests(),
        ["list v1 ", "watch v1 5", "watch v1 8"]
    );
}

#[tokio::test]
async fn a_list_in_pages_is_one_list() {
    let mut stage = Stage::new([
        page(&["a"], "5", Some("2")),
        page(&["b"], "5", Some("3")),
        list(&["c"], "5"),
    ]);
    stage
        .told(&["seen a 1", "seen b 1", "seen c 1", "listed a b c"])
        .await;
    assert_eq!(
        stage.script.requests()[..3],
        ["list v1 ", "list v1 2", "list v1 3"]
    );
}

#[tokio::test]
async fn a_list_that_fails_half_way_proves_no_absence() {
    let mut stage = Stage::new([
        list(&["a", "b"], "5"),
        Answer::Watch(Err(Failure::Expired)),
        page(&["a"], "9", Some("2")),
        Answer::List(Err(Failure::Expired)),
        list(&["a", "b"], "10"),
    ]);
    stage.told(&["seen a 1", "seen b 1", "listed a b"]).await;
    stage
        .told(&["seen a 1", "seen a 1", "seen b 1", "listed a b"])
        .await;
}

#[tokio::test]
async fn another_object_under_a_known_name_means_that_the_first_one_is_gone() {
    let replaced = Answer::Quiet(vec![Change::Seen(object("a", "2", "9"))]);
    let mut stage = Stage::new([list(&["a"], "5"), replaced]);
    stage
        .told(&["seen a 1", "listed a", "gone a 1", "seen a 2"])
        .await;
}

#[tokio::test]
async fn a_kind_that_is_gone_makes_blind_but_tells_no_object_gone_until_it_is_listed() {
    let gone = || Answer::List(Err(Failure::KindGone));
    let mut stage = Stage::new([
        list(&["a"], "5"),
        Answer::Watch(Err(Failure::KindGone)),
        gone(),
        gone(),
        list(&[], "9"),
        Answer::Quiet(vec![]),
    ]);
    stage
        .told(&["seen a 1", "listed a", "blind KindGone"])
        .await;
    stage.told(&["gone a 1", "listed ", "sighted Order"]).await;
}

#[tokio::test]
async fn the_right_to_list_alone_is_not_enough() {
    let forbidden = || Answer::Watch(Err(Failure::Forbidden));
    let granted = Answer::Quiet(vec![seen("b", "8")]);
    let mut stage = Stage::new([list(&["a"], "5"), forbidden(), forbidden(), granted]);
    stage
        .told(&[
            "seen a 1",
            "listed a",
            "blind Forbidden",
            "sighted Order",
            "seen b 1",
        ])
        .await;
}

#[tokio::test]
async fn silent_streams_are_resumed_without_a_list() {
    let mut stage = Stage::new([
        list(&[], "5"),
        Answer::Quiet(vec![seen("a", "6")]),
        Answer::Quiet(vec![]),
        Answer::Version("9"),
        Answer::Quiet(vec![seen("b", "8")]),
    ]);
    stage.told(&["listed ", "seen a 1", "seen b 1"]).await;
    let expected = [
        "list v1 ",
        "watch v1 5",
        "watch v1 6",
        "version v1",
        "watch v1 6",
    ];
    assert_eq!(stage.script.requests(), expected);
}

#[tokio::test]
async fn a_watch_that_is_ahead_of_a_restored_cluster_lists_anew() {
    let restored = [Answer::Quiet(vec![]), Answer::Version("3"), list(&[], "4")];
    let mut stage = Stage::new([list(&["a"], "5")].into_iter().chain(restored));
    stage
        .told(&["seen a 1", "listed a", "gone a 1", "listed "])
        .await;
}

#[tokio::test]
async fn a_consumer_that_takes_one_at_a_time_misses_nothing() {
    let changes = (0..500)
        .map(|number| seen(&format!("{number:03}"), "6"))
        .collect();
    let mut stage = Stage::new([list(&[], "5"), Answer::Quiet(changes)]);
    stage.told(&["listed "]).await;
    for number in 0..500 {
        tokio::task::yield_now().await;
        assert_eq!(stage.next().await, format!("seen {number:03} 1"));
    }
}

#[tokio::test]
async fn a_version_that_is_not_served_is_replaced_by_another_one_that_is_needed() {
    let candidates = vec![watched("v1", "Order"), watched("v1beta1", "Order")];
    let answers = [Answer::List(Err(Failure::KindGone)), list(&["a"], "5")];
    let mut stage = Stage::of(candidates, 1, answers);
    stage.told(&["seen a 1", "listed a"]).await;
    assert_eq!(stage.script.requests()[..2], ["list v1 ", "list v1beta1 "]);
}

#[tokio::test]
async fn a_watch_that_nobody_needs_in_its_version_moves_and_notices_what_it_missed() {
    let both = vec![watched("v1", "Order"), watched("v1beta1", "Order")];
    let answers = [
        list(&["a", "b"], "5"),
        Answer::Quiet(vec![]),
        list(&["b"], "6"),
    ];
    let mut stage = Stage::of(both, 1, answers);
    stage.told(&["seen a 1", "seen b 1", "listed a b"]).await;
    stage
        .orders
        .send_modify(|orders| orders.candidates = vec![watched("v1beta1", "Order")]);
    stage.told(&["seen b 1", "gone a 1", "listed b"]).await;
    assert_eq!(stage.record.state(1).watched, watched("v1beta1", "Order"));
}

#[tokio::test]
async fn a_watch_without_a_consumer_ends() {
    let mut stage = Stage::new([list(&["a"], "5")]);
    stage.sightings.close();
    timeout(PATIENCE, &mut stage.task)
        .await
        .expect("an end in time")
        .expect("no panic");
}
