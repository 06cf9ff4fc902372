//! Kinds that come and go.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams},
};
use serde_json::json;
use vidra_cluster::hub::{BlindCause, WatchedKind};
use vidra_core::identity::{GroupKind, ObjectKey};
use vidra_lab::controlplane::{shared, unique};

use crate::support::{Scene, brisk, eventually, set};

/// A kind of its own for one test.
struct Definition {
    group: String,
    versions: Vec<&'static str>,
    client: Client,
}

impl Definition {
    fn new(client: Client, versions: &[&'static str]) -> Self {
        let group = format!("{}.example.com", unique("hub"));
        Self {
            group,
            versions: versions.to_vec(),
            client,
        }
    }

    fn watched(&self, version: &str) -> WatchedKind {
        let kind = GroupVersionKind::gvk(&self.group, version, "Order");
        WatchedKind::new(ApiResource::from_gvk(&kind))
    }

    fn kind(&self) -> GroupKind {
        GroupKind::new(&self.group, "Order")
    }

    fn definitions(&self) -> Api<CustomResourceDefinition> {
        Api::all(self.client.clone())
    }

    fn name(&self) -> String {
        format!("orders.{}", self.group)
    }

    fn orders(&self) -> Api<DynamicObject> {
        Api::all_with(
            self.client.clone(),
            &self.watched(self.versions[0]).resource,
        )
    }

    /// Returns when the API server serves the kind.
    async fn create(&self) {
        let version = |name: &&str| {
            json!({
                "name": name, "served": true, "storage": *name == self.versions[0],
                "schema": {"openAPIV3Schema": {"type": "object"}},
            })
        };
        let definition = json!({
            "metadata": {"name": self.name()},
            "spec": {
                "group": self.group, "scope": "Cluster",
                "names": {"plural": "orders", "singular": "order", "kind": "Order"},
                "versions": self.versions.iter().map(version).collect::<Vec<_>>(),
            },
        });
        let definition = serde_json::from_value(definition).unwrap();
        self.definitions()
            .create(&PostParams::default(), &definition)
            .await
            .unwrap();
        while self
            .orders()
            .list(&kube::api::ListParams::default())
            .await
            .is_err()
        {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// Returns when the definition is gone.
    async fn delete(&self) {
        let definitions = self.definitions();
        let _accepted = definitions
            .delete(&self.name(), &DeleteParams::default())
            .await
            .unwrap();
        while definitions.get_opt(&self.name()).await.unwrap().is_some() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    async fn create_order(&self, name: &str) -> ObjectKey {
        let resource = self.watched(self.versions[0]).resource;
        let mut order = DynamicObject::new(name, &resource);
        order.metadata.labels = Some([("managed-by".to_owned(), "vidra".to_owned())].into());
        self.orders()
            .create(&PostParams::default(), &order)
            .await
            .unwrap();
        ObjectKey::new(&self.group, "Order", None, name)
    }
}

#[tokio::test]
async fn a_kind_that_is_not_there_yet_is_watched_as_soon_as_somebody_says_that_it_is() {
    let plane = shared().await;
    let definition = Definition::new(plane.client().unwrap(), &["v1"]);
    // A pause that no test waits for: only the rearm can end it.
    let mut timing = brisk();
    timing.pause = (
        std::time::Duration::from_hours(1),
        std::time::Duration::from_hours(1),
    );
    let mut scene = Scene::new(plane.client().unwrap(), timing);
    scene.hub.need("one", set(&[&definition.watched("v1")]));
    assert_eq!(scene.blind(&definition.kind()).await, BlindCause::KindGone);

    definition.create().await;
    let key = definition.create_order("first").await;
    scene.hub.rearm(&definition.kind());
    scene.seen(&key).await;
    scene.sighted(&definition.kind()).await;
}

#[tokio::test]
async fn ten_deletions_and_creations_of_a_kind_leave_one_watch_that_sees_everything() {
    let plane = shared().await;
    let user = unique("cycler");
    let mark = plane.audit().mark().unwrap();
    let definition = Definition::new(plane.client().unwrap(), &["v1"]);
    definition.create().await;
    let client = plane.client_as(&user, &["system:masters"]).unwrap();
    let mut scene = Scene::new(client, brisk());
    scene.hub.need("one", set(&[&definition.watched("v1")]));
    scene.watching(&definition.kind()).await;

    for cycle in 0..10 {
        let key = definition.create_order(&format!("order-{cycle}")).await;
        let uid = scene.seen(&key).await.uid;
        definition.delete().await;
        assert_eq!(scene.gone(&key).await, uid);
        assert_eq!(scene.blind(&definition.kind()).await, BlindCause::KindGone);
        definition.create().await;
        scene.hub.rearm(&definition.kind());
        scene.sighted(&definition.kind()).await;
    }
    let key = definition.create_order("last").await;
    scene.seen(&key).await;
    assert_eq!((scene.hub.tasks(), scene.hub.state().len()), (1, 1));
    eventually("one stream is open", || {
        let entries = plane.audit().since(mark).unwrap();
        let own = || {
            entries
                .iter()
                .filter(|entry| entry.user == user && entry.verb == "watch")
        };
        let opened = own()
            .filter(|entry| entry.is_watch_start() && entry.code == 200)
            .count();
        let closed = own()
            .filter(|entry| entry.is_complete() && entry.code == 200)
            .count();
        opened == closed + 1
    })
    .await;
}

#[tokio::test]
async fn a_kind_in_two_versions_is_watched_once_through_the_one_that_is_served() {
    let plane = shared().await;
    let definition = Definition::new(plane.client().unwrap(), &["v1"]);
    definition.create().await;
    let mut scene = Scene::new(plane.client().unwrap(), brisk());
    // In the order of the names, `v0` would come first.
    scene.hub.need("old", set(&[&definition.watched("v0")]));
    scene.blind(&definition.kind()).await;
    scene.hub.need("new", set(&[&definition.watched("v1")]));
    scene.sighted(&definition.kind()).await;
    let key = definition.create_order("first").await;
    scene.seen(&key).await;
    assert_eq!(
        scene.state(&definition.kind()).unwrap().watched,
        definition.watched("v1")
    );
    assert_eq!(scene.hub.tasks(), 1);
}
