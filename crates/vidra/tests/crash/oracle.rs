//! What must be true after every crash.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams},
};
use serde_json::Value;
use vidra_core::{
    fields::FieldsEntry,
    identity::ObjectKey,
    inventory::{Inventory, Origin},
    owner::{OwnerId, installation_from_uid},
};

use crate::{
    scenario::{Scenario, Wanted},
    support::{dynamic, resources},
};

const CANARIES: [&str; 2] = ["canary-alike", "canary-plain"];

/// What is none of Vidra's business, as it was.
pub(crate) struct Canaries(BTreeMap<String, DynamicObject>);

impl Canaries {
    pub(crate) async fn look(client: &Client, tag: &str) -> Self {
        let mut all = config_maps(client, tag).await;
        all.retain(|name, _| CANARIES.contains(&name.as_str()));
        assert_eq!(all.len(), CANARIES.len());
        Self(all)
    }

    pub(crate) async fn are_untouched(&self, client: &Client, tag: &str) {
        let now = Self::look(client, tag).await;
        assert_eq!(self.0, now.0, "foreign objects were touched");
    }
}

/// The cluster is as desired: all of it, no more, and the inventory says the same.
pub(crate) async fn is_as_desired(client: &Client, tag: &str, scenario: Scenario) {
    let wanted = scenario.wanted(tag);
    let manager = manager(client, tag).await;
    let mut live = BTreeMap::new();
    for it in &wanted {
        let found = it.api(client, tag).get_opt(&it.name).await.unwrap();
        let found = found.unwrap_or_else(|| panic!("{} is missing", it.name));
        content_is_ours(it, &found, &manager);
        live.insert(key(it, tag), (it, found));
    }
    nothing_else_is_there(client, tag, &wanted).await;
    if scenario == Scenario::Delete {
        return;
    }
    if !wanted.iter().any(|it| it.name == "adopted") {
        adopted_is_released(client, tag).await;
    }
    inventory_is(client, tag, &live, &manager).await;
}

/// Nothing is left but what was there before.
pub(crate) async fn nothing_is_left(client: &Client, tag: &str) {
    nothing_else_is_there(client, tag, &[]).await;
    adopted_is_released(client, tag).await;
}

fn content_is_ours(wanted: &Wanted, live: &DynamicObject, manager: &str) {
    let content = serde_json::to_value(live).unwrap();
    assert!(
        contains(&content, &wanted.content),
        "{} is {content:#}",
        wanted.name
    );
    assert_eq!(
        live.labels().get("managed-by").map(String::as_str),
        Some("vidra"),
        "{}",
        wanted.name
    );
    let ours = entries(live)
        .into_iter()
        .filter(|it| it.is_apply_of(manager));
    assert_eq!(ours.count(), 1, "{} has our fields once", wanted.name);
    if wanted.origin == Origin::Adopted {
        assert_eq!(live.data["data"]["other"], "kept", "their field stays");
    }
}

async fn nothing_else_is_there(client: &Client, tag: &str, wanted: &[Wanted]) {
    let mut expected: Vec<&str> = CANARIES.to_vec();
    // It was there before us, so it stays whatever happens.
    expected.push("adopted");
    expected.extend(of_kind(wanted, "ConfigMap").filter(|name| *name != "adopted"));
    expected.sort_unstable();
    let found: Vec<String> = config_maps(client, tag).await.into_keys().collect();
    assert_eq!(found, expected, "ConfigMaps");
    let secrets = dynamic(client, ("", "v1", "Secret"), Some(tag));
    let found = secrets.list(&ListParams::default()).await.unwrap();
    let found: Vec<String> = found.iter().map(ResourceExt::name_any).collect();
    let expected: Vec<&str> = of_kind(wanted, "Secret").collect();
    assert_eq!(found, expected, "Secrets");
    let roles = dynamic(
        client,
        ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
        None,
    );
    let is_there = roles.get_opt(tag).await.unwrap().is_some();
    let is_wanted = of_kind(wanted, "ClusterRole").next().is_some();
    assert_eq!(is_there, is_wanted, "the ClusterRole is there");
}

fn of_kind<'a>(wanted: &'a [Wanted], kind: &'a str) -> impl Iterator<Item = &'a str> {
    let of_kind = wanted.iter().filter(move |it| it.kind.2 == kind);
    of_kind.map(|it| it.name.as_str())
}

async fn adopted_is_released(client: &Client, tag: &str) {
    let adopted = config_maps(client, tag).await.remove("adopted").unwrap();
    let text = serde_json::to_string(&adopted).unwrap();
    assert!(!text.contains("vidra"), "our marks are gone from {text}");
    assert_eq!(adopted.data["data"]["other"], "kept");
    assert_eq!(adopted.data["data"]["key"], "ours", "values stay");
}

async fn inventory_is(
    client: &Client,
    tag: &str,
    live: &BTreeMap<ObjectKey, (&Wanted, DynamicObject)>,
    manager: &str,
) {
    let status = resources(client).get(tag).await.unwrap().status.unwrap();
    let stored = status.inventory.unwrap();
    let inventory = Inventory::decode(stored.entries.iter().map(String::as_str)).unwrap();
    let keys: Vec<&ObjectKey> = inventory.iter().map(|entry| &entry.key).collect();
    assert_eq!(keys, live.keys().collect::<Vec<_>>(), "inventory");
    assert_eq!(status.managed_resources.len(), live.len());
    for (key, (wanted, object)) in live {
        let entry = inventory.get(key).unwrap();
        assert_eq!(entry.uid, object.uid(), "{key}");
        assert_eq!(entry.origin, wanted.origin, "{key}");
        let ours = entries(object)
            .into_iter()
            .find(|it| it.is_apply_of(manager));
        assert_eq!(entry.hash, ours.map(|it| it.hash()), "{key}");
    }
}

async fn config_maps(client: &Client, tag: &str) -> BTreeMap<String, DynamicObject> {
    let api = dynamic(client, ("", "v1", "ConfigMap"), Some(tag));
    let found = api.list(&ListParams::default()).await.unwrap();
    found.into_iter().map(|it| (it.name_any(), it)).collect()
}

async fn manager(client: &Client, tag: &str) -> String {
    let api: Api<Namespace> = Api::all(client.clone());
    let system = api.get("kube-system").await.unwrap();
    let installation = installation_from_uid(&system.uid().unwrap());
    OwnerId::new(&installation, tag).field_manager()
}

fn key(wanted: &Wanted, tag: &str) -> ObjectKey {
    let namespace = (!wanted.is_cluster_scoped()).then_some(tag);
    ObjectKey::new(wanted.kind.0, wanted.kind.2, namespace, &wanted.name)
}

fn entries(object: &DynamicObject) -> Vec<FieldsEntry> {
    let fields = serde_json::to_value(object.managed_fields()).unwrap();
    serde_json::from_value(fields).unwrap()
}

/// Whether every value of one document is in the other.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part
            .iter()
            .all(|(key, part)| whole.get(key).is_some_and(|whole| contains(whole, part))),
        _ => whole == part,
    }
}
