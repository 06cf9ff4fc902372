//! The status of both kinds: a subresource, bounded, with words that are checked.

use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use vidra_api::{InfrahubSync, InfrahubSyncStatus, VidraResource, VidraResourceStatus};

use crate::support::{client, object};

async fn stored_resource() -> Api<VidraResource> {
    Api::all(client().await)
}

async fn create(api: &Api<VidraResource>) -> String {
    let resource = object::<VidraResource>(json!({ "manifest": "" }));
    let resource = serde_json::from_value(resource).unwrap();
    let stored = api.create(&PostParams::default(), &resource).await.unwrap();
    stored.metadata.name.unwrap()
}

async fn patch_status(
    api: &Api<VidraResource>,
    name: &str,
    status: Value,
) -> Result<VidraResourceStatus, String> {
    let patch = Patch::Merge(json!({ "status": status }));
    match api
        .patch_status(name, &PatchParams::default(), &patch)
        .await
    {
        Ok(resource) => Ok(resource.status.unwrap_or_default()),
        Err(error) => Err(error.to_string()),
    }
}

fn condition(kind: &str) -> Value {
    json!({
        "type": kind, "status": "True", "reason": "Succeeded", "message": "",
        "lastTransitionTime": "2025-06-01T10:00:00Z", "observedGeneration": 1
    })
}

#[tokio::test]
async fn every_field_of_a_resource_status_is_stored_and_read_back() {
    let api = stored_resource().await;
    let name = create(&api).await;
    let status = json!({
        "managedResources": [
            { "kind": "ConfigMap", "apiVersion": "v1", "name": "a", "namespace": "b" },
            { "kind": "Namespace", "apiVersion": "v1", "name": "b" }
        ],
        "DeployState": "Stale",
        "lastError": "e",
        "lastSyncTime": "2025-06-01T10:00:00Z",
        "conditions": [condition("Ready"), condition("Reconciling")],
        "observedGeneration": 1,
        "inventory": {
            "entries": ["a b c"], "digest": "d", "storedIn": { "name": "n", "chunks": 2 }
        },
        "counts": { "desired": 1, "applied": 2, "failed": 3, "pruned": 4, "adopted": 5, "held": 6 },
        "failures": [{ "object": "o", "reason": "r", "message": "m" }],
        "lastTrigger": ["Event", "Timer"],
        "held": { "hash": "h", "objects": ["o"], "total": 1 },
        "lastHandledReconcileAt": "x",
        "lastAppliedDigest": "y"
    });
    let stored = patch_status(&api, &name, status.clone()).await.unwrap();
    assert_eq!(serde_json::to_value(&stored).unwrap(), status);
}

#[tokio::test]
async fn every_field_of_a_sync_status_is_stored_and_read_back() {
    let api: Api<InfrahubSync> = Api::all(client().await);
    let source = json!({ "infrahubAPIURL": "https://infrahub", "artefactName": "a" });
    let sync = object::<InfrahubSync>(json!({ "source": source }));
    let sync = serde_json::from_value(sync).unwrap();
    let mut sync: InfrahubSync = api.create(&PostParams::default(), &sync).await.unwrap();
    let status = json!({
        "checksums": ["c"],
        "syncState": "Running",
        "lastError": "e",
        "lastSyncTime": "2025-06-01T10:00:00Z",
        "conditions": [condition("Ready")],
        "observedGeneration": 1,
        "artifacts": [{
            "id": "i", "name": "n", "target": "t", "checksum": "c", "state": "Ready",
            "resource": "r", "resourceState": "Succeeded"
        }],
        "lastTrigger": ["Webhook"],
        "lastHandledReconcileAt": "x"
    });
    let written: InfrahubSyncStatus = serde_json::from_value(status.clone()).unwrap();
    sync.status = Some(written);
    let name = sync.metadata.name.clone().unwrap();
    let stored = api
        .replace_status(&name, &PostParams::default(), &sync)
        .await
        .unwrap();
    assert_eq!(serde_json::to_value(&stored.status).unwrap(), status);
}

#[tokio::test]
async fn a_write_of_the_object_does_not_touch_the_status_nor_the_reverse() {
    let api = stored_resource().await;
    let name = create(&api).await;
    let patch = Patch::Merge(json!({
        "spec": { "precedence": 1 }, "status": { "lastError": "from the spec" }
    }));
    let parameters = PatchParams::default();
    let stored = api.patch(&name, &parameters, &patch).await.unwrap();
    assert_eq!((stored.spec.precedence, stored.status), (1, None));
    let patch = Patch::Merge(json!({
        "spec": { "precedence": 2 }, "status": { "lastError": "from the status" }
    }));
    let stored = api.patch_status(&name, &parameters, &patch).await.unwrap();
    assert_eq!(stored.spec.precedence, 1);
    assert_eq!(stored.metadata.generation, Some(2));
    assert!(stored.status.unwrap().last_error.is_some());
}

#[tokio::test]
async fn an_unknown_state_is_refused() {
    let api = stored_resource().await;
    let name = create(&api).await;
    let refusal = patch_status(&api, &name, json!({ "DeployState": "Done" })).await;
    let message = refusal.unwrap_err();
    assert!(
        message.contains("supported values: \"Pending\", \"Running\""),
        "{message}"
    );
}

#[tokio::test]
async fn a_condition_has_one_entry_per_type() {
    let api = stored_resource().await;
    let name = create(&api).await;
    let conditions = json!({ "conditions": [condition("Ready"), condition("Ready")] });
    let message = patch_status(&api, &name, conditions).await.unwrap_err();
    assert!(message.contains("Duplicate value"), "{message}");
}

#[tokio::test]
async fn the_lists_for_people_are_bounded() {
    let api = stored_resource().await;
    let name = create(&api).await;
    let failure = json!({ "object": "o", "reason": "r", "message": "m" });
    let most = VidraResourceStatus::MAX_FAILURES;
    for (length, accepted) in [(most, true), (most + 1, false)] {
        let failures = json!({ "failures": vec![&failure; length] });
        assert_eq!(patch_status(&api, &name, failures).await.is_ok(), accepted);
        let held = json!({ "held": { "hash": "h", "total": 99, "objects": vec!["o"; length] } });
        assert_eq!(patch_status(&api, &name, held).await.is_ok(), accepted);
    }
}
