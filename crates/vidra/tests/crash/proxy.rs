//! The fault proxy itself: what passes, what is struck, and when.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams, WatchEvent, WatchParams},
};
use vidra_lab::{
    controlplane::shared,
    proxy::{Callback, Effect, Fault, FaultProxy, Gate, Rule, Seen},
};

use crate::rig::until;

/// Long enough to see that nothing happens.
const MOMENT: Duration = Duration::from_millis(200);

struct Through {
    proxy: FaultProxy,
    /// Through the proxy.
    there: Api<ConfigMap>,
    /// Past the proxy.
    straight: Api<ConfigMap>,
}

async fn through() -> Through {
    let plane = shared().await;
    let proxy = FaultProxy::start(plane).unwrap();
    let namespace = plane.namespace("proxy").await.unwrap();
    let mut config = proxy.config();
    // kube would try a failed call again by itself.
    config.default_retry = false;
    let client = Client::try_from(config).unwrap();
    Through {
        proxy,
        there: Api::namespaced(client, &namespace),
        straight: Api::namespaced(plane.client().unwrap(), &namespace),
    }
}

fn named(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

async fn create(api: &Api<ConfigMap>, name: &str) -> Result<ConfigMap, kube::Error> {
    api.create(&PostParams::default(), &named(name)).await
}

async fn exists(api: &Api<ConfigMap>, name: &str) -> bool {
    api.get_opt(name).await.unwrap().is_some()
}

fn counter() -> (Arc<AtomicUsize>, Callback) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let callback: Callback = Arc::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    (count, callback)
}

#[tokio::test]
async fn without_a_rule_everything_passes_and_is_written_down() {
    let it = through().await;
    create(&it.there, "one").await.unwrap();
    assert!(exists(&it.straight, "one").await);
    let journal = it.proxy.journal();
    assert_eq!(journal.len(), 1);
    assert!(journal[0].is_mutation() && journal[0].mentions("one"));
}

#[tokio::test]
async fn nobody_passes_without_the_token() {
    let it = through().await;
    let mut config = it.proxy.config();
    config.auth_info = kube::config::AuthInfo::default();
    let api: Api<ConfigMap> = Api::namespaced(Client::try_from(config).unwrap(), "default");
    let Err(kube::Error::Api(status)) = api.get("one").await else {
        panic!("it passed");
    };
    assert_eq!(status.code, 401);
}

#[tokio::test]
async fn a_call_before_the_request_keeps_it_from_the_api_server() {
    let it = through().await;
    let (count, callback) = counter();
    let fault = Fault::Request(Effect::Call(callback));
    let strikes = it.proxy.add(Rule::every(Seen::is_mutation, fault).nth(2));
    create(&it.there, "one").await.unwrap();
    create(&it.there, "two").await.unwrap_err();
    create(&it.there, "three").await.unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 1);
    assert_eq!((strikes.matched(), strikes.struck()), (3, 1));
    assert!(!exists(&it.straight, "two").await);
    assert!(exists(&it.straight, "three").await);
}

#[tokio::test]
async fn a_call_before_the_reply_comes_when_the_api_server_has_done_it() {
    let it = through().await;
    let (count, callback) = counter();
    let fault = Fault::Reply(Effect::Call(callback));
    it.proxy.add(Rule::every(Seen::is_mutation, fault));
    create(&it.there, "one").await.unwrap_err();
    assert_eq!(count.load(Ordering::SeqCst), 1);
    assert!(exists(&it.straight, "one").await);
}

#[tokio::test]
async fn a_call_after_the_reply_leaves_the_client_its_answer() {
    let it = through().await;
    let (count, callback) = counter();
    let fault = Fault::Afterwards(callback);
    it.proxy.add(Rule::every(Seen::is_mutation, fault));
    create(&it.there, "one").await.unwrap();
    until(
        || "the call".to_owned(),
        || count.load(Ordering::SeqCst) == 1,
    )
    .await;
}

#[tokio::test]
async fn an_answer_is_given_instead_of_the_real_one() {
    let it = through().await;
    let fault = Fault::Request(Effect::Answer {
        status: 429,
        headers: vec![("retry-after".to_owned(), "1".to_owned())],
        body: "Too many requests, please try again later.\n".to_owned(),
    });
    it.proxy.add(Rule::every(Seen::is_mutation, fault).times(1));
    let Err(kube::Error::Api(status)) = create(&it.there, "one").await else {
        panic!("it passed");
    };
    assert_eq!(status.code, 429);
    assert!(!exists(&it.straight, "one").await);
    create(&it.there, "one").await.unwrap();
}

#[tokio::test]
async fn a_held_request_goes_on_when_the_gate_opens() {
    let it = through().await;
    let gate = Gate::closed();
    let fault = Fault::Request(Effect::Hold(gate.clone()));
    let strikes = it.proxy.add(Rule::every(Seen::is_mutation, fault));
    let mut call = pin!(create(&it.there, "one"));
    tokio::time::timeout(MOMENT, &mut call).await.unwrap_err();
    assert_eq!(strikes.struck(), 1);
    assert!(!exists(&it.straight, "one").await);
    gate.open();
    call.await.unwrap();
}

#[tokio::test]
async fn a_watch_streams_and_stands_still_while_its_gate_is_closed() {
    let it = through().await;
    let gate = Gate::opened();
    let fault = Fault::Piece(Effect::Hold(gate.clone()));
    it.proxy.add(Rule::every(Seen::is_watch, fault));
    let params = WatchParams::default()
        .fields("metadata.name!=kube-root-ca.crt")
        .disable_bookmarks();
    let mut events = it.there.watch(&params, "0").await.unwrap().boxed();
    create(&it.straight, "one").await.unwrap();
    assert_eq!(added(&mut events).await, "one");
    gate.close();
    create(&it.straight, "two").await.unwrap();
    tokio::time::timeout(MOMENT, events.next())
        .await
        .expect_err("the gate is closed");
    gate.open();
    assert_eq!(added(&mut events).await, "two");
}

async fn added(
    events: &mut (impl futures::Stream<Item = kube::Result<WatchEvent<ConfigMap>>> + Unpin),
) -> String {
    match events.try_next().await.unwrap().unwrap() {
        WatchEvent::Added(object) => object.metadata.name.unwrap(),
        other => panic!("{other:?}"),
    }
}
