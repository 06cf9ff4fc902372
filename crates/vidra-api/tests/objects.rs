//! Objects as users have them, read and written through the Rust types.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use serde_json::json;
use vidra_api::{
    Adoption, DeletionPolicy, FieldConflicts, ImmutableFields, InfrahubSync, InfrahubSyncSpec,
    PrunePolicy, State, VidraResource, VidraResourceSpec, VidraResourceStatus,
};

const SYNC: &str = r#"
apiVersion: infrahub.operators.com/v1alpha1
kind: InfrahubSync
metadata:
  name: webservers
  labels:
    app.kubernetes.io/name: vidra
spec:
  source:
    infrahubAPIURL: "https://infrahub.example.com"
    targetBranch: "release"
    targetDate: "2025-04-09T00:00:00Z"
    artefactName: "Webserver_Manifest"
  destination:
    server: https://cluster.example.com:6443
    namespace: 'default'
    reconcileOnEvents: true
"#;

const RESOURCE: &str = r#"
apiVersion: infrahub.operators.com/v1alpha1
kind: VidraResource
metadata:
  name: 17fb0c1a-3a0c-4d0e-9c1f-0d1d6c1b2a3e
  finalizers:
  - vidraresource.infrahub.operators.com/finalizer
spec:
  manifest: '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "example"}}'
  destination:
    server: 'https://kubernetes.default.svc'
    namespace: 'default'
    reconcileOnEvents: false
  reconciledAt: "2025-06-01T10:00:00Z"
status:
  DeployState: Succeeded
  lastSyncTime: "2025-06-01T10:00:01Z"
  managedResources:
  - kind: ConfigMap
    apiVersion: v1
    name: example
    namespace: default
"#;

#[test]
fn a_sync_of_a_go_user_survives_a_round_trip_unchanged() {
    let sync: InfrahubSync = serde_saphyr::from_str(SYNC).unwrap();
    let before: serde_json::Value = serde_saphyr::from_str(SYNC).unwrap();
    assert_eq!(serde_json::to_value(&sync).unwrap(), before);
    assert_eq!(sync.spec.source.artifact_name(), "Webserver_Manifest");
    assert_eq!(sync.spec.source.branch(), "release");
    assert_eq!(sync.spec.source.date(), Some("2025-04-09T00:00:00Z"));
    assert_eq!(sync.spec.destination.default_namespace(), Some("default"));
}

#[test]
fn a_resource_of_a_go_user_survives_a_round_trip_unchanged() {
    let resource: VidraResource = serde_saphyr::from_str(RESOURCE).unwrap();
    let before: serde_json::Value = serde_saphyr::from_str(RESOURCE).unwrap();
    assert_eq!(serde_json::to_value(&resource).unwrap(), before);
    assert_eq!(
        resource.status.unwrap().deploy_state,
        Some(State::Succeeded)
    );
}

#[test]
fn what_a_sync_leaves_out_has_a_default() {
    let spec: InfrahubSyncSpec = serde_json::from_value(json!({
        "source": { "infrahubAPIURL": "http://infrahub", "artifactName": "x", "targetDate": "" }
    }))
    .unwrap();
    assert_eq!(spec.source.artifact_name(), "x");
    assert_eq!(spec.source.branch(), "main");
    assert_eq!(spec.source.date(), None);
    assert_eq!(spec.source.interval, None);
    assert!(!spec.source.allow_empty);
    assert!(!spec.suspend);
    assert_eq!(spec.destination.reconcile_on_events, None);
    assert_eq!(spec.destination.remote_server(), None);
}

#[test]
fn what_a_resource_leaves_out_has_a_default() {
    let spec: VidraResourceSpec = serde_json::from_value(json!({ "manifest": "" })).unwrap();
    assert_eq!(spec.adoption, Adoption::IfUnowned);
    assert_eq!(spec.field_conflicts, FieldConflicts::Force);
    assert_eq!(spec.deletion_policy, DeletionPolicy::Delete);
    assert_eq!(spec.immutable_fields, ImmutableFields::Report);
    assert_eq!(spec.precedence, 0);
    assert!(spec.prune.is_enabled());
    assert_eq!(spec.prune.max_percent(), 50);
    assert_eq!(spec.prune.max_count(), 25);
}

#[test]
fn a_zero_budget_is_kept_and_not_taken_for_the_default() {
    let prune: PrunePolicy =
        serde_json::from_value(json!({ "enabled": false, "maxPercent": 0, "maxCount": 0 }))
            .unwrap();
    assert!(!prune.is_enabled());
    assert_eq!(prune.max_percent(), 0);
    assert_eq!(prune.max_count(), 0);
}

#[test]
fn an_interval_is_read_in_go_syntax() {
    let spec: VidraResourceSpec =
        serde_json::from_value(json!({ "manifest": "", "interval": "1h30m" })).unwrap();
    assert_eq!(spec.interval.unwrap().get(), Duration::from_mins(90));
}

#[test]
fn unknown_fields_are_tolerated() {
    let resource: VidraResource = serde_json::from_value(json!({
        "apiVersion": "infrahub.operators.com/v1alpha1", "kind": "VidraResource",
        "metadata": { "name": "a" },
        "spec": { "manifest": "", "reconcileOnEvents": false, "fromTheFuture": { "a": 1 } },
        "status": { "fromTheFuture": true }
    }))
    .unwrap();
    assert_eq!(resource.status.unwrap(), VidraResourceStatus::default());
}

#[test]
fn a_strange_state_or_time_in_a_status_does_not_make_the_object_unreadable() {
    let status: VidraResourceStatus =
        serde_json::from_value(json!({ "DeployState": "Paused", "lastSyncTime": "yesterday" }))
            .unwrap();
    assert_eq!(status.deploy_state, None);
    assert_eq!(status.last_sync_time, None);
}

#[test]
fn null_times_as_the_go_operator_sends_them_are_absent() {
    let status: VidraResourceStatus =
        serde_json::from_value(json!({ "lastSyncTime": null })).unwrap();
    assert_eq!(status.last_sync_time, None);
}

#[test]
fn an_empty_status_is_written_as_nothing() {
    let status = serde_json::to_value(VidraResourceStatus::default()).unwrap();
    assert_eq!(status, json!({}));
}
