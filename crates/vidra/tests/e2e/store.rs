//! Content that does not fit a custom resource: manifests and inventories in the store.

use std::{collections::BTreeSet, fmt::Write as _, time::Duration};

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{
    Api, Client, Config,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use vidra_api::{ManifestReference, VidraResource};
use vidra_cluster::{
    connect::Cluster,
    store::{Reference, Store},
};
use vidra_core::identity::ClusterId;
use vidra_lab::controlplane::unique;
use vidra_operator::settings::Settings;

use crate::support::*;

/// Where the operators of these tests keep their content.
const HOME: &str = "vidra-system";

fn store(config: Config, namespace: &str) -> Store {
    let timeout = Duration::from_secs(30);
    let cluster = Cluster::connect(ClusterId::local(), config, timeout).unwrap();
    Store::new(cluster, namespace.to_owned())
}

async fn ensure_home(client: &Client) {
    let api: Api<Namespace> = Api::all(client.clone());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}});
    let params = PatchParams::apply("e2e");
    api.patch(HOME, &params, &Patch::Apply(&namespace))
        .await
        .unwrap();
}

fn secrets(client: &Client) -> Api<Secret> {
    Api::namespaced(client.clone(), HOME)
}

/// The names of all chunks, the same way in which people find them.
async fn chunks(client: &Client) -> BTreeSet<String> {
    let params = ListParams::default().labels("vidra.infrahub.operators.com/content");
    let found = secrets(client).list(&params).await.unwrap();
    found
        .into_iter()
        .filter_map(|it| it.metadata.name)
        .collect()
}

fn chunk(reference: &Reference, number: u32) -> String {
    format!("{}-{number}", reference.stored_content().name)
}

async fn create_from(client: &Client, name: &str, reference: &Reference) {
    let from = ManifestReference::from(reference);
    let object = json!({
        "apiVersion": "infrahub.operators.com/v1alpha1", "kind": "VidraResource",
        "metadata": {"name": name}, "spec": {"destination": {}, "manifestFrom": from},
    });
    let resource: VidraResource = serde_json::from_value(object).unwrap();
    let params = PostParams::default();
    resources(client).create(&params, &resource).await.unwrap();
}

/// Waits until a resource is not ready for a reason.
async fn not_ready(client: &Client, name: &str, reason: &str) -> VidraResource {
    eventually(&format!("{name} says {reason}"), || async {
        let resource = resources(client).get(name).await.unwrap();
        resource.status.as_ref()?;
        (said(&resource, "Ready").0 == reason).then_some(resource)
    })
    .await
}

#[tokio::test]
async fn a_stored_manifest_is_applied_and_its_secrets_are_in_no_custom_resource() {
    let world = world().await;
    ensure_home(&world.client).await;
    let namespace = world.plane.namespace("store").await.unwrap();
    let name = unique("stored");
    let text = format!(
        "{}---\napiVersion: v1\nkind: Secret\nmetadata: {{name: login, namespace: {namespace}}}\n\
         stringData: {{password: hunter2}}\n",
        config_map(&namespace, "one", "1")
    );
    let stored = store(world.plane.config(), HOME).put(&text).await.unwrap();
    create_from(&world.client, &name, &stored.reference).await;
    let resource = ready(&world.client, &name).await;
    value_is(&world.client, &namespace, "one", "1").await;
    let api: Api<Secret> = Api::namespaced(world.client.clone(), &namespace);
    let login = api.get("login").await.unwrap();
    assert_eq!(login.data.unwrap()["password"].0, b"hunter2");
    let shown = serde_json::to_string(&resource).unwrap();
    assert!(!shown.contains("hunter2") && !shown.contains("aHVudGVyMg"));
}

#[tokio::test]
async fn missing_content_deletes_nothing_and_is_applied_once_it_is_there() {
    let world = world().await;
    ensure_home(&world.client).await;
    let namespace = world.plane.namespace("store").await.unwrap();
    let name = unique("missing");
    let store = store(world.plane.config(), HOME);
    let one = config_map(&namespace, "one", "1");
    let stored = store.put(&one).await.unwrap();
    create_from(&world.client, &name, &stored.reference).await;
    ready(&world.client, &name).await;
    let two = config_map(&namespace, "two", "2");
    let next = store.put(&two).await.unwrap().reference;
    let lost = chunk(&next, 0);
    let params = DeleteParams::default();
    secrets(&world.client).delete(&lost, &params).await.unwrap();
    let from = ManifestReference::from(&next);
    change(&world.client, &name, json!({"manifestFrom": from})).await;
    let resource = not_ready(&world.client, &name, "ContentMissing").await;
    assert!(said(&resource, "Ready").1.contains(&lost));
    // What was applied before is still kept as it was.
    let edit = json!({"data": {"key": "bad"}});
    let maps = config_maps(&world.client, &namespace);
    let params = PatchParams::default();
    maps.patch("one", &params, &Patch::Merge(&edit))
        .await
        .unwrap();
    value_is(&world.client, &namespace, "one", "1").await;
    assert_eq!(names(&world.client, &namespace).await, ["one"]);
    store.put(&two).await.unwrap();
    ready(&world.client, &name).await;
    assert_eq!(names(&world.client, &namespace).await, ["two"]);
}

#[tokio::test]
async fn damaged_content_applies_nothing_until_it_is_restored() {
    let world = world().await;
    ensure_home(&world.client).await;
    let namespace = world.plane.namespace("store").await.unwrap();
    let name = unique("damaged");
    let store = store(world.plane.config(), HOME);
    let text = config_map(&namespace, "one", "1");
    let reference = store.put(&text).await.unwrap().reference;
    let other = config_map(&namespace, "other", "1");
    let foreign = store.put(&other).await.unwrap().reference;
    // Under the name of one content, another that is sound in itself.
    let api = secrets(&world.client);
    let mut forged = api.get(&chunk(&foreign, 0)).await.unwrap();
    api.delete(&chunk(&reference, 0), &DeleteParams::default())
        .await
        .unwrap();
    forged.metadata.name = Some(chunk(&reference, 0));
    forged.metadata.uid = None;
    forged.metadata.resource_version = None;
    api.create(&PostParams::default(), &forged).await.unwrap();
    create_from(&world.client, &name, &reference).await;
    let resource = not_ready(&world.client, &name, "ContentMissing").await;
    assert!(said(&resource, "Ready").1.contains("damaged"));
    assert!(names(&world.client, &namespace).await.is_empty());
    store.put(&text).await.unwrap();
    ready(&world.client, &name).await;
    assert_eq!(names(&world.client, &namespace).await, ["one"]);
}

/// A text that cannot be compressed well.
fn noise(size: usize) -> String {
    let mut number = 1_u64;
    let mut text = String::new();
    while text.len() < size {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let _ = write!(text, "{number:016x}");
    }
    text
}

#[tokio::test]
async fn content_is_collected_when_two_looks_found_nothing_that_refers_to_it() {
    let world = world().await;
    ensure_home(&world.client).await;
    let namespace = world.plane.namespace("store").await.unwrap();
    let store = store(world.plane.config(), &namespace);
    let used = store.put("used").await.unwrap().reference;
    let unused = store.put(&noise(4 << 20)).await.unwrap().reference;
    assert!(unused.chunks > 1, "{unused:?}");
    create_from(&world.client, &unique("user"), &used).await;
    let nothing = BTreeSet::new();
    let (at_once, later) = (Duration::ZERO, Duration::from_hours(1));
    assert_eq!(store.collect(&nothing, at_once).await.unwrap(), 0);
    assert_eq!(store.collect(&nothing, later).await.unwrap(), 0);
    let collected = store.collect(&nothing, at_once).await.unwrap();
    assert_eq!(collected, unused.chunks as usize);
    assert_eq!(&*store.get(&used).await.unwrap(), "used");
    assert!(store.get(&unused).await.unwrap_err().is_spoilt());
}

/// A name that makes the inventory large with few objects.
fn long_name(number: usize) -> String {
    format!("{number:03}-{}", "x".repeat(230))
}

/// A manifest that leaves little room for a status beside it.
fn tight(namespace: &str, count: usize) -> String {
    let objects: String = (0..count)
        .map(|number| config_map(namespace, &long_name(number), "1"))
        .collect();
    let line = format!("# {}\n", "y".repeat(120));
    let missing = 1_300_000_usize.saturating_sub(objects.len());
    objects + &line.repeat(missing / line.len())
}

fn collecting() -> Settings {
    Settings {
        collect_content_after: Duration::from_secs(1),
        ..quick_settings()
    }
}

/// What the status of a resource says about its inventory.
async fn inventory(client: &Client, name: &str) -> Value {
    let resource = resources(client).get(name).await.unwrap();
    serde_json::to_value(resource.status.unwrap().inventory).unwrap()
}

#[tokio::test]
async fn a_stored_inventory_survives_heals_restarts_and_prunes_and_ends_with_its_resource() {
    let (plane, client) = own_plane().await;
    ensure_home(&client).await;
    let operator = Operator::start(plane.config(), collecting());
    let namespace = plane.namespace("store").await.unwrap();
    let name = unique("tight");
    let prune = json!({"prune": {"maxPercent": 100, "maxCount": 1_000}});
    create(&client, &name, &tight(&namespace, 200), prune).await;
    ready(&client, &name).await;
    let first = inventory(&client, &name).await;
    assert!(first["storedIn"]["name"].is_string(), "{first:#}");
    assert!(first["entries"].is_null(), "{first:#}");

    // One heal: the stored inventory stays, one line goes beside it.
    let (one, two) = (long_name(1), long_name(2));
    let edit = json!({"data": {"key": "bad"}});
    let maps = config_maps(&client, &namespace);
    let params = PatchParams::default();
    maps.patch(&one, &params, &Patch::Merge(&edit))
        .await
        .unwrap();
    value_is(&client, &namespace, &one, "1").await;
    let healed = eventually("the healed entry is written", || async {
        let now = inventory(&client, &name).await;
        now["entries"].is_array().then_some(now)
    })
    .await;
    assert_eq!(healed["storedIn"], first["storedIn"]);
    assert_eq!(healed["entries"].as_array().unwrap().len(), 1);

    // A restart: what happened meanwhile is put right, and the rest is known.
    operator.stop();
    maps.delete(&two, &DeleteParams::default()).await.unwrap();
    let mark = plane.audit().mark().unwrap();
    let operator = Operator::start(plane.config(), collecting());
    value_is(&client, &namespace, &two, "1").await;
    ready(&client, &name).await;
    let writes = writes_in(&plane, mark, &namespace).await;
    assert_eq!(writes.len(), 1, "{writes:#?}");

    // What leaves the manifest is pruned.
    change(&client, &name, json!({"manifest": tight(&namespace, 150)})).await;
    eventually("50 objects are pruned", || async {
        (names(&client, &namespace).await.len() == 150).then_some(())
    })
    .await;
    ready(&client, &name).await;
    eventually("only the content in use is left", || async {
        let current = inventory(&client, &name).await;
        let content = current["storedIn"]["name"].as_str()?;
        (chunks(&client).await == BTreeSet::from([format!("{content}-0")])).then_some(())
    })
    .await;
    delete(&client, &name).await;
    assert!(names(&client, &namespace).await.is_empty());
    eventually("no content is left", || async {
        chunks(&client).await.is_empty().then_some(())
    })
    .await;
    operator.stop();
}

#[tokio::test]
async fn an_inventory_that_cannot_be_read_is_kept_and_nothing_is_applied_or_deleted() {
    let (plane, client) = own_plane().await;
    ensure_home(&client).await;
    let operator = Operator::start(plane.config(), quick_settings());
    let namespace = plane.namespace("store").await.unwrap();
    let (small, large) = (unique("small"), unique("large"));
    let text = config_map(&namespace, "one", "1");
    create(&client, &small, &text, json!({})).await;
    create(&client, &large, &tight(&namespace, 200), json!({})).await;
    let before = ready(&client, &small).await.status.unwrap().inventory;
    ready(&client, &large).await;
    operator.stop();

    let stored = inventory(&client, &large).await;
    let lost = format!("{}-0", stored["storedIn"]["name"].as_str().unwrap());
    let mut chunk = secrets(&client).get(&lost).await.unwrap();
    let params = DeleteParams::default();
    secrets(&client).delete(&lost, &params).await.unwrap();
    let rubbish = json!({"status": {"inventory": {"entries": ["rubbish"]}}});
    let params = PatchParams::default();
    resources(&client)
        .patch_status(&small, &params, &Patch::Merge(&rubbish))
        .await
        .unwrap();
    let other = config_map(&namespace, "two", "2");
    change(&client, &small, json!({"manifest": other})).await;
    change(&client, &large, json!({"manifest": other})).await;

    let mark = plane.audit().mark().unwrap();
    let operator = Operator::start(plane.config(), quick_settings());
    for name in [&small, &large] {
        not_ready(&client, name, "InventoryUnreadable").await;
        // A second try reads what the first one reported.
        request(&client, name).await;
        not_ready(&client, name, "InventoryUnreadable").await;
    }
    assert_eq!(writes_in(&plane, mark, &namespace).await, []);
    assert_eq!(inventory(&client, &large).await, stored);
    let kept = inventory(&client, &small).await;
    assert_eq!(kept["entries"], json!(["rubbish"]));

    // Once it can be read again, it goes on by itself.
    chunk.metadata.uid = None;
    chunk.metadata.resource_version = None;
    let params = PostParams::default();
    secrets(&client).create(&params, &chunk).await.unwrap();
    let repaired = json!({"status": {"inventory": before}});
    let params = PatchParams::default();
    resources(&client)
        .patch_status(&small, &params, &Patch::Merge(&repaired))
        .await
        .unwrap();
    is_gone(&client, &namespace, "one").await;
    value_is(&client, &namespace, "two", "2").await;
    condition(&client, &large, "PruneHeld", "True").await;
    operator.stop();
}

/// So many ConfigMaps of about 54 KB, different in every line.
fn large(namespace: &str, count: usize) -> String {
    let filler = "the value of a setting that nobody ever reads ".repeat(20);
    let mut text = String::new();
    for number in 0..count {
        let object = config_map(namespace, &long_name(number), "1");
        text.push_str(&object.replace("data: {key: \"1\"}", "data:\n  key: \"1\""));
        for line in 0..57 {
            let noise = (number * 57 + line).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let _ = writeln!(text, "  setting-{line}: \"{noise:x} {filler}\"");
        }
    }
    text
}

/// As large as it gets, with fewer objects than `cargo lab large` has, to be quick.
#[tokio::test]
async fn forty_mebibytes_are_applied_from_the_store_and_their_inventory_is_stored_as_well() {
    let (plane, client) = own_plane().await;
    ensure_home(&client).await;
    let operator = Operator::start(plane.config(), quick_settings());
    let namespace = plane.namespace("store").await.unwrap();
    let name = unique("large");
    let text = large(&namespace, 800);
    assert!(text.len() > 40 << 20, "{} bytes", text.len());
    let stored = store(plane.config(), HOME).put(&text).await.unwrap();
    create_from(&client, &name, &stored.reference).await;
    let status = ready(&client, &name).await.status.unwrap();
    assert_eq!(status.counts.unwrap().applied, 800);
    assert!(status.inventory.unwrap().stored_in.is_some());
    assert_eq!(names(&client, &namespace).await.len(), 800);
    operator.stop();
}
