//! A user of the Go operator installs our definitions over theirs. Every object stays readable and
//! writable, also those with values that we would refuse in a new object: Kubernetes checks a
//! changed object, but forgives what was not changed (validation ratcheting).

use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use vidra_api::{InfrahubSync, State, VidraResource};
use vidra_lab::controlplane::ControlPlane;

use crate::support::{api_of, checked_in_definitions, install, object, verdict};

/// Begins the names of second copies, which one test writes to and deletes.
const COPY: &str = "copy-of-";

fn is_copy(object: &Value) -> bool {
    object["metadata"]["name"]
        .as_str()
        .unwrap()
        .starts_with(COPY)
}

/// The control plane, and every object as it was before the upgrade.
struct Upgraded {
    plane: ControlPlane,
    before: Vec<Value>,
}

/// A control plane of its own, because definitions are global: filled under the definitions of the
/// Go operator, then upgraded.
async fn upgraded() -> (Client, &'static [Value]) {
    static UPGRADED: OnceCell<Upgraded> = OnceCell::const_new();
    let upgraded = UPGRADED.get_or_init(upgrade).await;
    (upgraded.plane.client().unwrap(), &upgraded.before)
}

async fn upgrade() -> Upgraded {
    let plane = ControlPlane::start().await.unwrap();
    let client = plane.client().unwrap();
    for yaml in [
        include_str!("go/infrahubsyncs.yaml"),
        include_str!("go/vidraresources.yaml"),
    ] {
        install(&client, &serde_saphyr::from_str(yaml).unwrap()).await;
    }
    let mut before = Vec::new();
    for mut object in go_objects() {
        before.push(store(&client, &object).await);
        let name = object["metadata"]["name"].as_str().unwrap();
        object["metadata"]["name"] = json!(format!("{COPY}{name}"));
        before.push(store(&client, &object).await);
    }
    for definition in checked_in_definitions() {
        install(&client, &definition).await;
    }
    wait_until_our_rules_are_in_force(&client).await;
    Upgraded { plane, before }
}

fn go_objects() -> Vec<Value> {
    serde_saphyr::from_multiple(include_str!("go/objects.yaml")).unwrap()
}

/// Stores an object and its status as the Go operator does, and returns what is in the cluster.
async fn store(client: &Client, object: &Value) -> Value {
    let api = api_of(client, object);
    let name = object["metadata"]["name"].as_str().unwrap();
    let parsed: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let mut stored = api.create(&PostParams::default(), &parsed).await.unwrap();
    if object.get("status").is_some() {
        stored.data["status"] = object["status"].clone();
        stored = api
            .replace_status(name, &PostParams::default(), &stored)
            .await
            .unwrap();
    }
    serde_json::to_value(stored).unwrap()
}

/// The API server takes up a changed definition a moment after it has stored it.
async fn wait_until_our_rules_are_in_force(client: &Client) {
    let sync = object::<InfrahubSync>(json!({ "source": {
        "infrahubAPIURL": "https://infrahub", "artefactName": "a", "targetDate": "now+2h"
    } }));
    let resource = object::<VidraResource>(json!({}));
    for probe in [sync, resource] {
        for _ in 0..300 {
            if verdict(client, &probe).await.is_err() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        verdict(client, &probe)
            .await
            .expect_err("our rules are in force");
    }
}

/// What the API server says to a change, without storing it.
async fn try_merge(client: &Client, object: &Value, patch: Value) -> Result<Value, String> {
    let parameters = PatchParams::default().dry_run();
    let name = object["metadata"]["name"].as_str().unwrap();
    let patched = api_of(client, object)
        .patch(name, &parameters, &Patch::Merge(patch))
        .await;
    match patched {
        Ok(object) => Ok(serde_json::to_value(object).unwrap()),
        Err(error) => Err(error.to_string()),
    }
}

fn find<'a>(before: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let is_it = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
    before.iter().find(is_it).unwrap()
}

#[tokio::test]
async fn the_go_definitions_accept_what_we_refuse_in_new_objects() {
    let (client, _) = upgraded().await;
    for name in ["future-date", "date-in-days", "placeholder-server"] {
        let all = go_objects();
        let mut copy = find(&all, "InfrahubSync", name).clone();
        copy["metadata"]["name"] = json!(format!("new-{name}"));
        copy.as_object_mut().unwrap().remove("status");
        verdict(&client, &copy).await.expect_err(name);
    }
}

#[tokio::test]
async fn no_object_changes_through_the_upgrade() {
    let (client, before) = upgraded().await;
    for old in before.iter().filter(|old| !is_copy(old)) {
        let name = old["metadata"]["name"].as_str().unwrap();
        let new = serde_json::to_value(api_of(&client, old).get(name).await.unwrap()).unwrap();
        assert_eq!(&new, old);
    }
}

#[tokio::test]
async fn every_object_is_readable_through_our_types() {
    let (client, _) = upgraded().await;
    let syncs: Api<InfrahubSync> = Api::all(client.clone());
    let syncs = syncs.list(&ListParams::default()).await.unwrap().items;
    let resources: Api<VidraResource> = Api::all(client);
    let resources = resources.list(&ListParams::default()).await.unwrap().items;
    let names = syncs.iter().map(ResourceExt::name_any);
    let names = names.chain(resources.iter().map(ResourceExt::name_any));
    let originals = names.filter(|name| !name.starts_with(COPY)).count();
    assert_eq!(originals, go_objects().len());

    let full = syncs
        .iter()
        .find(|sync| sync.metadata.name.as_deref() == Some("full"));
    let status = full.unwrap().status.as_ref().unwrap();
    assert_eq!(status.sync_state, Some(State::Succeeded));
    assert_eq!(status.checksums.len(), 2);
    let deployed = |resource: &&VidraResource| {
        let status = resource.status.as_ref();
        status.is_some_and(|status| status.deploy_state == Some(State::Succeeded))
    };
    let status = resources
        .iter()
        .find(deployed)
        .unwrap()
        .status
        .as_ref()
        .unwrap();
    assert_eq!(status.managed_resources.len(), 2);
}

/// The Go definitions write `false` into every destination that says nothing. It stays there and
/// cannot be told from a choice; without a destination there is nothing to write it into.
#[tokio::test]
async fn defaults_of_the_go_definitions_stay_in_the_objects() {
    let (client, _) = upgraded().await;
    let syncs: Api<InfrahubSync> = Api::all(client);
    let plain = syncs.get("plain").await.unwrap();
    assert_eq!(plain.spec.source.target_branch.as_deref(), Some("main"));
    assert_eq!(plain.spec.destination.reconcile_on_events, None);
    let future = syncs.get("future-date").await.unwrap();
    assert_eq!(future.spec.destination.reconcile_on_events, Some(false));
}

#[tokio::test]
async fn every_object_stays_writable_until_its_end() {
    let (client, before) = upgraded().await;
    for old in before.iter().filter(|old| is_copy(old)) {
        let api = api_of(&client, old);
        let name = old["metadata"]["name"].as_str().unwrap();
        let parameters = PatchParams::default();
        let annotation = json!({ "metadata": {
            "annotations": { "vidra.infrahub.operators.com/reconcile-requested-at": "now" },
            "finalizers": ["vidraresource.infrahub.operators.com/finalizer"]
        } });
        api.patch(name, &parameters, &Patch::Merge(annotation))
            .await
            .unwrap();

        let mut stored = api.get(name).await.unwrap();
        stored.data["status"] = json!({ "lastError": "new", "lastSyncTime": null });
        let stored = api
            .replace_status(name, &PostParams::default(), &stored)
            .await
            .unwrap();
        assert_eq!(stored.data["status"], json!({ "lastError": "new" }));

        api.delete(name, &DeleteParams::default()).await.unwrap();
        let no_finalizer = json!({ "metadata": { "finalizers": [] } });
        api.patch(name, &parameters, &Patch::Merge(no_finalizer))
            .await
            .unwrap();
        assert_eq!(api.get_opt(name).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_refused_value_may_stay_while_other_fields_change() {
    let (client, before) = upgraded().await;
    let future = find(before, "InfrahubSync", "future-date");
    for change in [
        json!({ "spec": { "destination": { "namespace": "other" } } }),
        json!({ "spec": { "source": { "artefactName": "other" } } }),
        json!({ "spec": { "suspend": true } }),
    ] {
        let changed = try_merge(&client, future, change).await.unwrap();
        assert_eq!(changed["spec"]["source"]["targetDate"], "now+2h");
    }
    let server = find(before, "InfrahubSync", "placeholder-server");
    let change = json!({ "spec": { "destination": { "reconcileOnEvents": true } } });
    try_merge(&client, server, change).await.unwrap();
}

#[tokio::test]
async fn a_refused_value_can_be_corrected_but_not_exchanged_for_another() {
    let (client, before) = upgraded().await;
    let future = find(before, "InfrahubSync", "future-date");
    let date = |date: Value| json!({ "spec": { "source": { "targetDate": date } } });
    for good in [json!("now-2h"), Value::Null] {
        try_merge(&client, future, date(good)).await.unwrap();
    }
    let message = try_merge(&client, future, date(json!("now+3h")))
        .await
        .unwrap_err();
    assert!(message.contains("Infrahub ignores the sign"), "{message}");
}

/// A rule about two fields belongs to the whole spec, so it is checked again when any part of the
/// spec changes. Metadata and status are free, and giving the object a manifest is the way out.
#[tokio::test]
async fn a_resource_without_a_manifest_needs_one_at_the_next_change_of_its_spec() {
    let (client, before) = upgraded().await;
    let empty = find(before, "VidraResource", "without-manifest");
    let message = try_merge(&client, empty, json!({ "spec": { "suspend": true } })).await;
    let message = message.unwrap_err();
    assert!(
        message.contains("set exactly one of manifest and manifestFrom"),
        "{message}"
    );
    try_merge(&client, empty, json!({ "spec": { "manifest": "" } }))
        .await
        .unwrap();
}

/// A program built against the Go types sends whole objects, with `null` for a time that is unset.
#[tokio::test]
async fn a_whole_object_from_a_go_program_is_accepted() {
    let (client, before) = upgraded().await;
    for old in before.iter().filter(|old| !is_copy(old)) {
        let name = old["metadata"]["name"].as_str().unwrap();
        let mut sent = old.clone();
        sent["status"]["lastSyncTime"] = Value::Null;
        if old["kind"] == "VidraResource" {
            sent["spec"]["reconciledAt"] = Value::Null;
        }
        let sent: DynamicObject = serde_json::from_value(sent).unwrap();
        let parameters = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        api_of(&client, old)
            .replace(name, &parameters, &sent)
            .await
            .unwrap();
    }
}
