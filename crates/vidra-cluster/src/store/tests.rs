//! The store on an API server that knows Secrets and lists of `VidraResource`s, and no more.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use vidra_core::{class::Class, identity::ClusterId};

use super::*;

const SETTLED: Duration = Duration::from_mins(10);

/// The Secrets of the server, and what it answers to a list of resources.
#[derive(Default)]
struct Server {
    secrets: BTreeMap<String, Value>,
    resources: Option<Value>,
    writes: usize,
    born: usize,
}

type Shared = Arc<Mutex<Server>>;

fn lock(server: &Shared) -> std::sync::MutexGuard<'_, Server> {
    server.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    fn answer(&mut self, method: &Method, path: &str, body: &[u8]) -> (u16, Value) {
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        match (method, name.as_str()) {
            (&Method::GET, "vidraresources") => match &self.resources {
                Some(list) => (200, list.clone()),
                None => (503, json!({"message": "away"})),
            },
            (&Method::GET, "secrets") => {
                let items: Vec<_> = self.secrets.values().cloned().collect();
                let kind = "PartialObjectMetadataList";
                (200, json!({"kind": kind, "metadata": {}, "items": items}))
            }
            (&Method::POST, _) => self.create(body),
            (&Method::GET, name) => match self.secrets.get(name) {
                Some(secret) => (200, secret.clone()),
                None => (404, json!({"message": "not found"})),
            },
            (&Method::DELETE, name) => {
                let wanted: Value = serde_json::from_slice(body).unwrap();
                let found = self
                    .secrets
                    .get(name)
                    .map(|it| it["metadata"]["uid"].clone());
                if found.as_ref() != Some(&wanted["preconditions"]["uid"]) {
                    return (409, json!({"message": "precondition"}));
                }
                self.writes += 1;
                self.secrets.remove(name);
                (200, json!({"kind": "Status"}))
            }
            _ => (405, json!({})),
        }
    }

    fn create(&mut self, body: &[u8]) -> (u16, Value) {
        let mut secret: Value = serde_json::from_slice(body).unwrap();
        let name = secret["metadata"]["name"].as_str().unwrap().to_owned();
        if self.secrets.contains_key(&name) {
            return (409, json!({"reason": "AlreadyExists"}));
        }
        self.writes += 1;
        self.born += 1;
        secret["metadata"]["uid"] = json!(self.born.to_string());
        secret["metadata"]["resourceVersion"] = json!("1");
        self.secrets.insert(name, secret.clone());
        (201, secret)
    }

    fn refer_to(&mut self, digests: &[&str]) {
        let items: Vec<_> = digests
            .iter()
            .map(|digest| json!({"spec": {"manifestFrom": {"digest": digest, "chunks": 1}}}))
            .collect();
        let list = json!({"kind": "VidraResourceList", "metadata": {}, "items": items});
        self.resources = Some(list);
    }
}

fn store() -> (Store, Shared) {
    let server = Shared::default();
    let shared = server.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let server = shared.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let (code, value) = lock(&server).answer(&parts.method, parts.uri.path(), &body);
            let body = Body::from(value.to_string().into_bytes());
            Ok::<_, std::convert::Infallible>(Response::builder().status(code).body(body).unwrap())
        }
    });
    let cluster = Cluster {
        id: ClusterId::local(),
        client: Client::new(service, "default"),
        timeout: Duration::from_secs(5),
    };
    (Store::new(cluster, "vidra-system".to_owned()), server)
}

/// A text that cannot be compressed well.
fn noise(size: usize) -> String {
    let mut number = 0x2545_f491_4f6c_dd1d_u64;
    let mut text = String::with_capacity(size + 16);
    while text.len() < size {
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        let _ = write!(text, "{number:016x}");
    }
    text
}

fn first_name(server: &Shared) -> String {
    lock(server).secrets.keys().next().unwrap().clone()
}

#[tokio::test]
async fn content_in_several_chunks_is_read_back_and_each_chunk_is_immutable_and_small() {
    let (store, server) = store();
    let text = noise(5 << 20);
    let stored = store.put(&text).await.unwrap();
    assert!(stored.reference.chunks > 1, "{:?}", stored.reference);
    assert_eq!(&*store.get(&stored.reference).await.unwrap(), text);
    for secret in lock(&server).secrets.values() {
        assert_eq!(secret["immutable"], true);
        assert_eq!(secret["type"], "vidra.infrahub.operators.com/content");
        assert!(secret["data"]["gzip"].as_str().unwrap().len() < 1_300_000);
    }
}

#[tokio::test]
async fn what_is_there_already_is_not_written_again() {
    let (store, server) = store();
    let first = store.put("kind: List").await.unwrap();
    let second = store.put("kind: List").await.unwrap();
    assert_eq!(first.reference, second.reference);
    assert_eq!(lock(&server).writes, 1);
}

#[tokio::test]
async fn a_missing_chunk_is_said_to_be_missing_and_written_again_by_the_next_put() {
    let (store, server) = store();
    let text = noise(3 << 20);
    let reference = store.put(&text).await.unwrap().reference;
    let last = lock(&server).secrets.keys().next_back().unwrap().clone();
    lock(&server).secrets.remove(&last);
    let error = store.get(&reference).await.unwrap_err();
    assert!(matches!(&error, StoreError::Missing { secret } if secret.contains(&last)));
    assert_eq!(
        (error.class(), error.reason()),
        (Class::Waiting, "ContentMissing")
    );
    store.put(&text).await.unwrap();
    assert_eq!(&*store.get(&reference).await.unwrap(), text);
}

#[tokio::test]
async fn a_damaged_chunk_is_never_trusted_and_replaced_by_the_next_put() {
    let (store, server) = store();
    let reference = store.put("kind: List").await.unwrap().reference;
    let other = store.put("kind: Lost").await.unwrap().reference;
    {
        let mut server = lock(&server);
        let data = server.secrets.values().map(|it| it["data"].clone());
        let data: Vec<Value> = data.collect();
        for (secret, data) in server.secrets.values_mut().zip(data.iter().rev()) {
            secret["data"] = data.clone();
        }
    }
    for reference in [&reference, &other] {
        let error = store.get(reference).await.unwrap_err();
        assert!(matches!(
            error,
            StoreError::Damaged {
                damage: Damage::OtherDigest,
                ..
            }
        ));
    }
    store.put("kind: List").await.unwrap();
    assert_eq!(&*store.get(&reference).await.unwrap(), "kind: List");
}

#[tokio::test]
async fn a_secret_that_is_not_ours_is_neither_trusted_nor_deleted() {
    let (store, server) = store();
    let reference = store.put("kind: List").await.unwrap().reference;
    let name = first_name(&server);
    lock(&server).secrets.get_mut(&name).unwrap()["type"] = json!("Opaque");
    lock(&server).secrets.get_mut(&name).unwrap()["data"] = json!({"gzip": "AAAA"});
    assert!(store.get(&reference).await.unwrap_err().is_spoilt());
    let error = store.put("kind: List").await.unwrap_err();
    assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
    assert_eq!(lock(&server).secrets[&name]["type"], "Opaque");
}

#[tokio::test]
async fn a_reference_that_claims_another_size_or_too_many_chunks_is_refused() {
    let (store, _server) = store();
    let reference = store.put("kind: List").await.unwrap().reference;
    for size in [1, 9, 11, u64::MAX] {
        let other = Reference {
            size: Some(size),
            ..reference.clone()
        };
        assert!(store.get(&other).await.unwrap_err().is_spoilt(), "{size}");
    }
    for chunks in [0, 2, 4_096] {
        let other = Reference {
            chunks,
            ..reference.clone()
        };
        assert!(store.get(&other).await.unwrap_err().is_spoilt(), "{chunks}");
    }
}

#[tokio::test]
async fn content_over_the_limit_is_refused_before_anything_is_asked() {
    let (store, server) = store();
    let error = store.put(&"0".repeat(LARGEST + 1)).await.unwrap_err();
    assert_eq!(
        (error.class(), error.reason()),
        (Class::Invalid, "TooLarge")
    );
    assert_eq!(lock(&server).writes, 0);
}

#[tokio::test(start_paused = true)]
async fn only_what_is_unused_in_two_looks_is_deleted() {
    let (store, server) = store();
    let used = store.put("used").await.unwrap().reference;
    let unused = store.put("unused").await.unwrap().reference;
    lock(&server).refer_to(&[&used.digest]);
    let nothing = BTreeSet::new();
    assert_eq!(store.collect(&nothing, SETTLED).await.unwrap(), 0);
    tokio::time::advance(SETTLED).await;
    assert_eq!(store.collect(&nothing, SETTLED).await.unwrap(), 1);
    assert_eq!(&*store.get(&used).await.unwrap(), "used");
    assert!(store.get(&unused).await.unwrap_err().is_spoilt());
}

#[tokio::test(start_paused = true)]
async fn without_a_complete_list_of_what_refers_to_content_nothing_is_deleted() {
    let (store, server) = store();
    drop(store.put("unused").await.unwrap());
    let nothing = BTreeSet::new();
    store.collect(&nothing, SETTLED).await.unwrap();
    tokio::time::advance(SETTLED).await;
    for answer in [
        None,
        Some(json!({"kind": "VidraResourceList", "metadata": {}})),
        Some(json!({"kind": "Status", "metadata": {}, "items": []})),
    ] {
        lock(&server).resources = answer;
        let error = store.collect(&nothing, SETTLED).await.unwrap_err();
        assert!(matches!(error, StoreError::List { .. }), "{error}");
    }
    assert_eq!(lock(&server).secrets.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_leased_is_not_deleted_and_its_time_begins_with_the_end_of_the_lease() {
    let (store, server) = store();
    lock(&server).refer_to(&[]);
    let stored = store.put("soon used").await.unwrap();
    let nothing = BTreeSet::new();
    for _ in 0..3 {
        tokio::time::advance(SETTLED).await;
        assert_eq!(store.collect(&nothing, SETTLED).await.unwrap(), 0);
    }
    drop(stored);
    assert_eq!(store.collect(&nothing, SETTLED).await.unwrap(), 0);
    tokio::time::advance(SETTLED).await;
    assert_eq!(store.collect(&nothing, SETTLED).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_known_to_be_used_costs_one_list() {
    let (store, server) = store();
    let reference = store.put("used").await.unwrap().reference;
    let known = BTreeSet::from([reference.digest.clone()]);
    // The list of resources would fail.
    assert!(lock(&server).resources.is_none());
    for _ in 0..3 {
        tokio::time::advance(SETTLED).await;
        assert_eq!(store.collect(&known, SETTLED).await.unwrap(), 0);
    }
}
