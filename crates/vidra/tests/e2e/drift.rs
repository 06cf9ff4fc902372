//! Drift of every sort: each is seen in the metadata and put back by one apply, without a timer.

use futures::{StreamExt, stream};
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use vidra_lab::controlplane::unique;

use crate::support::*;

/// Who changes objects behind our back.
const DRIFTER: &str = "drifter";

/// A kind, an object of it, a change to that object, and where the change is to be seen.
struct Case {
    kind: (&'static str, &'static str, &'static str),
    is_namespaced: bool,
    body: &'static str,
    patch: &'static str,
    field: &'static str,
}

const fn namespaced(
    kind: (&'static str, &'static str, &'static str),
    body: &'static str,
    patch: &'static str,
    field: &'static str,
) -> Case {
    Case {
        kind,
        is_namespaced: true,
        body,
        patch,
        field,
    }
}

const fn global(
    kind: (&'static str, &'static str, &'static str),
    body: &'static str,
    patch: &'static str,
    field: &'static str,
) -> Case {
    Case {
        kind,
        is_namespaced: false,
        body,
        patch,
        field,
    }
}

const LABEL: &str = r#"{"metadata": {"labels": {"tier": "drift"}}}"#;
const LABEL_FIELD: &str = "/metadata/labels/tier";
const REPLICAS: &str = r#"{"spec": {"replicas": 5}}"#;
const REPLICAS_FIELD: &str = "/spec/replicas";

const WORKLOADS: &[Case] = &[
    namespaced(
        ("apps", "v1", "Deployment"),
        "spec: {replicas: 2, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}",
        REPLICAS,
        REPLICAS_FIELD,
    ),
    namespaced(
        ("apps", "v1", "StatefulSet"),
        "spec: {replicas: 2, serviceName: s, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}",
        REPLICAS,
        REPLICAS_FIELD,
    ),
    namespaced(
        ("apps", "v1", "DaemonSet"),
        "spec: {minReadySeconds: 3, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}",
        r#"{"spec": {"minReadySeconds": 9}}"#,
        "/spec/minReadySeconds",
    ),
    namespaced(
        ("apps", "v1", "ReplicaSet"),
        "spec: {replicas: 2, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}",
        REPLICAS,
        REPLICAS_FIELD,
    ),
    namespaced(
        ("apps", "v1", "ControllerRevision"),
        "revision: 1\ndata: {a: b}",
        r#"{"revision": 7}"#,
        "/revision",
    ),
    namespaced(
        ("", "v1", "ReplicationController"),
        "spec: {replicas: 2, selector: {a: b}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}",
        REPLICAS,
        REPLICAS_FIELD,
    ),
    namespaced(
        ("", "v1", "Pod"),
        "spec: {automountServiceAccountToken: false, containers: [{name: c, image: i}]}",
        r#"{"spec": {"containers": [{"name": "c", "image": "drift"}]}}"#,
        "/spec/containers/0/image",
    ),
    namespaced(
        ("", "v1", "PodTemplate"),
        "template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}",
        r#"{"template": {"metadata": {"labels": {"a": "drift"}}}}"#,
        "/template/metadata/labels/a",
    ),
    namespaced(
        ("batch", "v1", "Job"),
        "spec: {suspend: true, parallelism: 1, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}",
        r#"{"spec": {"parallelism": 4}}"#,
        "/spec/parallelism",
    ),
    namespaced(
        ("batch", "v1", "CronJob"),
        "spec: {suspend: true, schedule: '0 1 * * *', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}",
        r#"{"spec": {"schedule": "* * * * *"}}"#,
        "/spec/schedule",
    ),
    namespaced(
        ("autoscaling", "v2", "HorizontalPodAutoscaler"),
        "spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: x}}",
        r#"{"spec": {"maxReplicas": 99}}"#,
        "/spec/maxReplicas",
    ),
    namespaced(
        ("policy", "v1", "PodDisruptionBudget"),
        "spec: {minAvailable: 1, selector: {matchLabels: {a: b}}}",
        r#"{"spec": {"minAvailable": 0}}"#,
        "/spec/minAvailable",
    ),
];

const BASICS: &[Case] = &[
    namespaced(
        ("", "v1", "ConfigMap"),
        "data: {key: good}",
        r#"{"data": {"key": "drift"}}"#,
        "/data/key",
    ),
    namespaced(
        ("", "v1", "Secret"),
        "stringData: {key: good}",
        r#"{"data": {"key": "ZHJpZnQ="}}"#,
        "/data/key",
    ),
    namespaced(
        ("", "v1", "ServiceAccount"),
        "automountServiceAccountToken: false",
        r#"{"automountServiceAccountToken": true}"#,
        "/automountServiceAccountToken",
    ),
    namespaced(
        ("", "v1", "Service"),
        "spec: {selector: {a: b}, ports: [{port: 80, targetPort: 8080}]}",
        r#"{"spec": {"selector": {"a": "drift"}}}"#,
        "/spec/selector/a",
    ),
    namespaced(
        ("", "v1", "PersistentVolumeClaim"),
        "spec: {accessModes: [ReadWriteOnce], storageClassName: s, resources: {requests: {storage: 1Gi}}}",
        LABEL,
        LABEL_FIELD,
    ),
    global(
        ("", "v1", "PersistentVolume"),
        "spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], persistentVolumeReclaimPolicy: Retain, hostPath: {path: /x}}",
        r#"{"spec": {"persistentVolumeReclaimPolicy": "Delete"}}"#,
        "/spec/persistentVolumeReclaimPolicy",
    ),
    namespaced(
        ("", "v1", "ResourceQuota"),
        "spec: {hard: {pods: '10'}}",
        r#"{"spec": {"hard": {"pods": "99"}}}"#,
        "/spec/hard/pods",
    ),
    namespaced(
        ("", "v1", "LimitRange"),
        "spec: {limits: [{type: Container, max: {cpu: '1'}}]}",
        r#"{"spec": {"limits": [{"type": "Container", "max": {"cpu": "9"}}]}}"#,
        "/spec/limits/0/max/cpu",
    ),
    global(("", "v1", "Namespace"), "", LABEL, LABEL_FIELD),
    namespaced(
        ("coordination.k8s.io", "v1", "Lease"),
        "spec: {leaseDurationSeconds: 15}",
        r#"{"spec": {"leaseDurationSeconds": 99}}"#,
        "/spec/leaseDurationSeconds",
    ),
    namespaced(
        ("discovery.k8s.io", "v1", "EndpointSlice"),
        "addressType: IPv4\nendpoints: [{addresses: [10.1.2.3]}]",
        r#"{"endpoints": [{"addresses": ["10.9.9.9"]}]}"#,
        "/endpoints/0/addresses/0",
    ),
    namespaced(
        ("networking.k8s.io", "v1", "Ingress"),
        "spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}",
        r#"{"spec": {"defaultBackend": {"service": {"name": "drift"}}}}"#,
        "/spec/defaultBackend/service/name",
    ),
    namespaced(
        ("networking.k8s.io", "v1", "NetworkPolicy"),
        "spec: {podSelector: {matchLabels: {a: b}}, policyTypes: [Ingress]}",
        r#"{"spec": {"podSelector": {"matchLabels": {"a": "drift"}}}}"#,
        "/spec/podSelector/matchLabels/a",
    ),
    namespaced(
        ("rbac.authorization.k8s.io", "v1", "Role"),
        "rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]",
        r#"{"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]}]}"#,
        "/rules/0/verbs/0",
    ),
    namespaced(
        ("rbac.authorization.k8s.io", "v1", "RoleBinding"),
        "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}\nsubjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: good}]",
        r#"{"subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "drift"}]}"#,
        "/subjects/0/name",
    ),
];

const GLOBALS: &[Case] = &[
    global(
        ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
        "rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]",
        r#"{"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]}]}"#,
        "/rules/0/verbs/0",
    ),
    global(
        ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding"),
        "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: none}\nsubjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: good}]",
        r#"{"subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "drift"}]}"#,
        "/subjects/0/name",
    ),
    global(
        ("storage.k8s.io", "v1", "StorageClass"),
        "provisioner: p.example.com\nallowVolumeExpansion: false",
        r#"{"allowVolumeExpansion": true}"#,
        "/allowVolumeExpansion",
    ),
    global(
        ("storage.k8s.io", "v1", "CSIDriver"),
        "spec: {requiresRepublish: false, attachRequired: false}",
        r#"{"spec": {"requiresRepublish": true}}"#,
        "/spec/requiresRepublish",
    ),
    global(
        ("scheduling.k8s.io", "v1", "PriorityClass"),
        "value: 7\ndescription: good",
        r#"{"description": "drift"}"#,
        "/description",
    ),
    global(
        ("node.k8s.io", "v1", "RuntimeClass"),
        "handler: h\noverhead: {podFixed: {cpu: 1m}}",
        r#"{"overhead": {"podFixed": {"cpu": "9m"}}}"#,
        "/overhead/podFixed/cpu",
    ),
    global(
        ("networking.k8s.io", "v1", "IngressClass"),
        "spec: {controller: example.com/c, parameters: {kind: Good, name: p}}",
        r#"{"spec": {"parameters": {"kind": "Drift"}}}"#,
        "/spec/parameters/kind",
    ),
    global(
        (
            "admissionregistration.k8s.io",
            "v1",
            "ValidatingAdmissionPolicy",
        ),
        "spec: {failurePolicy: Ignore, matchConstraints: {resourceRules: [{apiGroups: [none.example.com], apiVersions: [v1], operations: [CREATE], resources: [nothings]}]}, validations: [{expression: 'true'}]}",
        r#"{"spec": {"failurePolicy": "Fail"}}"#,
        "/spec/failurePolicy",
    ),
    global(
        (
            "admissionregistration.k8s.io",
            "v1",
            "ValidatingWebhookConfiguration",
        ),
        "webhooks: [{name: w.example.com, failurePolicy: Ignore, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: 'https://127.0.0.1:1/x'}, rules: [{apiGroups: [none.example.com], apiVersions: [v1], operations: [CREATE], resources: [nothings]}]}]",
        r#"{"webhooks": [{"name": "w.example.com", "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/x"}, "rules": [{"apiGroups": ["none.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothings"]}]}]}"#,
        "/webhooks/0/failurePolicy",
    ),
    global(
        ("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema"),
        "spec: {matchingPrecedence: 9000, priorityLevelConfiguration: {name: none}}",
        r#"{"spec": {"matchingPrecedence": 9999}}"#,
        "/spec/matchingPrecedence",
    ),
];

#[tokio::test]
async fn drift_in_one_field_of_every_workload_kind_is_put_back() {
    put_back(WORKLOADS).await;
}

#[tokio::test]
async fn drift_in_one_field_of_every_basic_kind_is_put_back() {
    put_back(BASICS).await;
}

#[tokio::test]
async fn drift_in_one_field_of_every_cluster_scoped_kind_is_put_back() {
    put_back(GLOBALS).await;
}

/// Goes through a table of kinds, some at a time, and says which did not come back.
async fn put_back(cases: &[Case]) {
    let world = world().await;
    let failures: Vec<String> = stream::iter(cases)
        .map(|case| async {
            let problem = drift_and_heal(&world, case).await.err()?;
            Some(format!("{}: {problem}", case.kind.2))
        })
        .buffer_unordered(4)
        .filter_map(|problem| async move { problem })
        .collect()
        .await;
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

async fn drift_and_heal(world: &World, case: &Case) -> Result<(), String> {
    let (namespace, name) = apply_case(world, case).await;
    let scope = case.is_namespaced.then_some(namespace.as_str());
    let api = dynamic(&world.client, case.kind, scope);
    let good = fetch(&api, &name).await.ok_or("was not made")?;
    let mark = world.plane.audit().mark().unwrap();
    let patch: Value = serde_json::from_str(case.patch).unwrap();
    let params = manager(DRIFTER);
    // Lists of containers are merged by name only in this sort of patch.
    let patched = match case.kind.2 {
        "Pod" => api.patch(&name, &params, &Patch::Strategic(&patch)).await,
        _ => api.patch(&name, &params, &Patch::Merge(&patch)).await,
    };
    let patched = serde_json::to_value(patched.map_err(|error| error.to_string())?).unwrap();
    if patched.pointer(case.field) == good.pointer(case.field) {
        return Err(format!("the patch did not change {}", case.field));
    }
    eventually(&format!("the {} is healed", case.kind.2), || async {
        let live = fetch(&api, &name).await?;
        (essence(&live) == essence(&good)).then_some(())
    })
    .await;
    told(&world.client, &name, &[case.kind.2, DRIFTER]).await;
    one_apply(world, mark, &name).await
}

async fn apply_case(world: &World, case: &Case) -> (String, String) {
    let (group, version, kind) = case.kind;
    let namespace = world.plane.namespace("drift").await.unwrap();
    let name = unique("drift");
    let api_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    let manifest = format!(
        "apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: {name}, labels: {{tier: good}}}}\n{}\n",
        case.body
    );
    let spec = json!({"destination": {"namespace": namespace}});
    create(&world.client, &name, &manifest, spec).await;
    ready(&world.client, &name).await;
    (namespace, name)
}

/// Healing is one apply of the object: no read before it and no second write after it.
async fn one_apply(
    world: &World,
    mark: vidra_lab::controlplane::Mark,
    name: &str,
) -> Result<(), String> {
    world.plane.audit_fence().await.unwrap();
    let ours: Vec<String> = world
        .plane
        .audit()
        .since(mark)
        .unwrap()
        .into_iter()
        .filter(|entry| entry.user_agent.starts_with("vidra/") && entry.is_complete())
        .filter(|entry| entry.name == name && entry.resource != "vidraresources")
        .map(|entry| format!("{} {} {}", entry.verb, entry.uri, entry.code))
        .collect();
    match &ours[..] {
        [only] if only.starts_with("patch ") => Ok(()),
        _ => Err(format!("not one apply but {ours:#?}")),
    }
}

/// A Deployment with everything that can drift, and the resource that keeps it.
struct Web {
    world: World,
    name: String,
    api: Api<DynamicObject>,
    good: Value,
}

async fn web() -> Web {
    let world = world().await;
    let namespace = world.plane.namespace("drift").await.unwrap();
    let name = unique("web");
    let manifest = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {tier: good}
  annotations: {note: good}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: one
        image: one:1
        env: [{name: A, value: good}, {name: B, value: good}]
      - {name: two, image: two:1}
";
    let spec = json!({"destination": {"namespace": namespace}});
    create(&world.client, &name, manifest, spec).await;
    ready(&world.client, &name).await;
    let api = dynamic(
        &world.client,
        ("apps", "v1", "Deployment"),
        Some(&namespace),
    );
    let good = fetch(&api, "web").await.unwrap();
    Web {
        world,
        name,
        api,
        good,
    }
}

impl Web {
    /// Waits until every field is as it was first, and an Event says these words.
    async fn is_healed(&self, words: &[&str]) {
        let good = essence(&self.good);
        eventually("the deployment is healed", || async {
            let live = fetch(&self.api, "web").await?;
            (essence(&live) == good).then_some(())
        })
        .await;
        told(&self.world.client, &self.name, words).await;
    }

    async fn merge(&self, patch: Value) {
        self.api
            .patch("web", &manager(DRIFTER), &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    async fn json(&self, patch: Value) {
        let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).unwrap());
        self.api
            .patch("web", &manager(DRIFTER), &patch)
            .await
            .unwrap();
    }

    async fn replace(&self, mut object: Value, by: &str) {
        object["metadata"]["managedFields"] = Value::Null;
        let params = PostParams {
            field_manager: Some(by.to_owned()),
            ..PostParams::default()
        };
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.api.replace("web", &params, &object).await.unwrap();
    }

    /// The name under which the operator applies this object.
    fn our_manager(&self) -> String {
        let entries = self.good["metadata"]["managedFields"].as_array().unwrap();
        let names = entries.iter().filter_map(|entry| entry["manager"].as_str());
        names
            .into_iter()
            .find(|name| name.starts_with("vidra/"))
            .unwrap()
            .to_owned()
    }
}

#[tokio::test]
async fn a_changed_label_is_put_back() {
    let web = web().await;
    web.merge(json!({"metadata": {"labels": {"tier": "bad"}}}))
        .await;
    web.is_healed(&["metadata.labels.tier of", DRIFTER]).await;
}

#[tokio::test]
async fn a_removed_annotation_is_put_back() {
    let web = web().await;
    web.merge(json!({"metadata": {"annotations": {"note": null}}}))
        .await;
    web.is_healed(&["metadata.annotations.note of"]).await;
}

#[tokio::test]
async fn a_changed_item_of_a_list_is_put_back() {
    let web = web().await;
    let path = "/spec/template/spec/containers/0/env/1/value";
    web.json(json!([{"op": "replace", "path": path, "value": "bad"}]))
        .await;
    let field = "spec.template.spec.containers[name=one].env[name=B].value of";
    web.is_healed(&[field, DRIFTER]).await;
}

#[tokio::test]
async fn a_removed_item_of_a_list_is_put_back() {
    let web = web().await;
    web.json(json!([{"op": "remove", "path": "/spec/template/spec/containers/0"}]))
        .await;
    web.is_healed(&["spec.template.spec.containers[name=one]"])
        .await;
}

#[tokio::test]
async fn scaling_by_hand_through_the_subresource_is_put_back() {
    let web = web().await;
    let patch = json!({"spec": {"replicas": 7}});
    web.api
        .patch_scale("web", &manager("kubectl"), &Patch::Merge(&patch))
        .await
        .unwrap();
    web.is_healed(&["spec.replicas of", "kubectl"]).await;
}

#[tokio::test]
async fn a_replace_with_other_content_is_put_back() {
    let web = web().await;
    let mut other = fetch(&web.api, "web").await.unwrap();
    other["spec"]["replicas"] = json!(9);
    other["metadata"]["labels"]["tier"] = json!("bad");
    web.replace(other, "kubectl-replace").await;
    web.is_healed(&["metadata.labels.tier", "spec.replicas", "kubectl-replace"])
        .await;
}

#[tokio::test]
async fn a_reset_of_managed_fields_is_noticed_and_the_fields_are_ours_again() {
    let web = web().await;
    web.merge(json!({"metadata": {"managedFields": [{}]}, "spec": {"replicas": 9}}))
        .await;
    web.is_healed(&["Deployment"]).await;
    let ours = web.our_manager();
    let live = fetch(&web.api, "web").await.unwrap();
    let entries = live["metadata"]["managedFields"].as_array().unwrap();
    let entry = entries
        .iter()
        .find(|entry| entry["manager"] == ours.as_str() && entry["operation"] == "Apply");
    let entry = entry.unwrap_or_else(|| panic!("no entry of ours in {}", show(&live)));
    assert!(entry["fieldsV1"]["f:spec"]["f:replicas"].is_object());
}

#[tokio::test]
async fn an_update_under_our_own_name_is_put_back() {
    let web = web().await;
    let mut other = fetch(&web.api, "web").await.unwrap();
    other["spec"]["replicas"] = json!(9);
    let ours = web.our_manager();
    web.replace(other, &ours).await;
    web.is_healed(&["spec.replicas of", &ours]).await;
}

#[tokio::test]
async fn an_apply_of_other_values_under_our_own_name_is_put_back() {
    let web = web().await;
    // The time of an entry has full seconds: within the same one, only a deep pass could tell.
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    let mut other = essence(&web.good);
    other["spec"]["replicas"] = json!(9);
    let params = PatchParams::apply(&web.our_manager()).force();
    let applied = web
        .api
        .patch("web", &params, &Patch::Apply(&other))
        .await
        .unwrap();
    assert_eq!(applied.data["spec"]["replicas"], 9);
    let good = essence(&web.good);
    eventually("the deployment is healed", || async {
        let live = fetch(&web.api, "web").await?;
        (essence(&live)["spec"] == good["spec"]).then_some(())
    })
    .await;
    told(&web.world.client, &web.name, &["Deployment"]).await;
}

#[tokio::test]
async fn a_deleted_object_comes_back() {
    let web = web().await;
    web.api
        .delete("web", &DeleteParams::default())
        .await
        .unwrap();
    web.is_healed(&["Deployment", "was deleted"]).await;
}

#[tokio::test]
async fn an_object_that_lost_our_label_gets_it_back_and_what_was_changed_with_it() {
    let web = web().await;
    web.merge(json!({"metadata": {"labels": {"managed-by": null}}, "spec": {"replicas": 9}}))
        .await;
    web.is_healed(&["label", "removed"]).await;
}

#[tokio::test]
async fn an_object_that_was_deleted_and_made_again_with_other_content_is_put_right() {
    let web = web().await;
    let mut other = essence(&web.good);
    other["spec"]["replicas"] = json!(9);
    web.api
        .delete("web", &DeleteParams::default())
        .await
        .unwrap();
    let object: DynamicObject = serde_json::from_value(other).unwrap();
    // The operator may be quicker and have it made again already: then this is the same as an
    // update, and the object has to be put right all the same.
    let made = web.api.create(&PostParams::default(), &object).await;
    if made.is_err() {
        web.merge(json!({"spec": {"replicas": 9}})).await;
    }
    // Not the mark: it says whether we made the object.
    eventually("the deployment is healed", || async {
        let live = fetch(&web.api, "web").await?;
        (live["spec"] == web.good["spec"]).then_some(())
    })
    .await;
    told(&web.world.client, &web.name, &["Deployment"]).await;
}

#[tokio::test]
async fn an_object_that_was_replaced_by_a_stranger_without_our_marks_is_put_right() {
    let web = web().await;
    let mut other = essence(&web.good);
    other["spec"]["replicas"] = json!(9);
    other["metadata"]["labels"] = json!({});
    other["metadata"]["annotations"] = json!({});
    let object: DynamicObject = serde_json::from_value(other).unwrap();
    change(&web.world.client, &web.name, json!({"suspend": true})).await;
    condition(&web.world.client, &web.name, "Ready", "Unknown").await;
    web.api
        .delete("web", &DeleteParams::default())
        .await
        .unwrap();
    web.api
        .create(&PostParams::default(), &object)
        .await
        .unwrap();
    change(&web.world.client, &web.name, json!({"suspend": false})).await;
    eventually("the deployment is healed", || async {
        let live = fetch(&web.api, "web").await?;
        (live["spec"] == web.good["spec"]).then_some(())
    })
    .await;
    ready(&web.world.client, &web.name).await;
}

#[tokio::test]
async fn every_heal_is_told_even_if_another_one_was_told_before() {
    let web = web().await;
    web.merge(json!({"spec": {"replicas": 9}})).await;
    web.is_healed(&["spec.replicas of", DRIFTER]).await;
    web.merge(json!({"metadata": {"labels": {"tier": "bad"}}}))
        .await;
    web.is_healed(&["metadata.labels.tier of", DRIFTER]).await;
    web.merge(json!({"spec": {"replicas": 8}})).await;
    let counted = eventually("the repeat is counted", || async {
        let events = heal_events(&web.world.client, &web.name).await;
        let repeated = events.iter().find_map(|event| event.series.clone())?;
        Some((events.len(), repeated.count))
    })
    .await;
    assert_eq!(counted, (2, 2));
}

/// An object without what the API server adds: what its manifest and its defaults amount to.
pub(crate) fn essence(object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = object["metadata"].as_object_mut().unwrap();
    for key in [
        "managedFields",
        "resourceVersion",
        "generation",
        "uid",
        "creationTimestamp",
    ] {
        metadata.remove(key);
    }
    let map = object.as_object_mut().unwrap();
    map.remove("status");
    // Given by the server anew to every object.
    if let Some(spec) = map.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("nodeName");
    }
    object
}

pub(crate) fn manager(name: &str) -> PatchParams {
    PatchParams {
        field_manager: Some(name.to_owned()),
        ..PatchParams::default()
    }
}

/// Waits until an Event about a heal has all the words.
pub(crate) async fn told(client: &Client, name: &str, words: &[&str]) -> String {
    let start = std::time::Instant::now();
    loop {
        let events = heal_events(client, name).await;
        let notes: Vec<String> = events.into_iter().filter_map(|event| event.note).collect();
        let has_all = |note: &&String| words.iter().all(|word| note.contains(word));
        if let Some(found) = notes.iter().find(has_all) {
            return found.clone();
        }
        let is_late = start.elapsed() > PATIENCE;
        assert!(!is_late, "no Event about {name} says {words:?}: {notes:#?}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// The Events about heals of a resource.
pub(crate) async fn heal_events(client: &Client, name: &str) -> Vec<Event> {
    let mut events = events_about(client, name).await;
    events.retain(|event| event.reason.as_deref() == Some("Healed"));
    events
}

pub(crate) async fn events_about(client: &Client, name: &str) -> Vec<Event> {
    let api: Api<Event> = Api::namespaced(client.clone(), "default");
    let fields = format!("regarding.kind=VidraResource,regarding.name={name}");
    let found = api.list(&ListParams::default().fields(&fields)).await;
    found.unwrap().items
}
