//! In which order objects are applied.

use crate::identity::ObjectKey;

/// The three steps of an apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// What others need in order to be accepted at all.
    Foundation,
    /// Everything else.
    Rest,
    /// What judges or serves requests: applied before what it needs runs, it would stop the rest.
    Last,
}

const CORE: &str = "";
const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

/// Foundations, in their order.
const FOUNDATIONS: [(&str, &str); 12] = [
    (CORE, "Namespace"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("storage.k8s.io", "StorageClass"),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "VolumeAttributesClass"),
    ("networking.k8s.io", "IngressClass"),
    ("gateway.networking.k8s.io", "GatewayClass"),
    ("node.k8s.io", "RuntimeClass"),
    (RBAC, "ClusterRole"),
    (RBAC, "ClusterRoleBinding"),
    (CORE, "PersistentVolume"),
];

/// Kinds of the middle stage that others of it refer to, in their order; the rest follows.
const EARLY: [(&str, &str); 12] = [
    (CORE, "ResourceQuota"),
    (CORE, "LimitRange"),
    ("networking.k8s.io", "NetworkPolicy"),
    (CORE, "ServiceAccount"),
    (RBAC, "Role"),
    (RBAC, "RoleBinding"),
    (CORE, "Secret"),
    (CORE, "ConfigMap"),
    (CORE, "PersistentVolumeClaim"),
    (CORE, "Service"),
    ("policy", "PodDisruptionBudget"),
    ("gateway.networking.k8s.io", "Gateway"),
];

/// Kinds of the middle stage that refer to workloads, in their order.
const LATE: [(&str, &str); 2] = [
    ("autoscaling", "HorizontalPodAutoscaler"),
    ("networking.k8s.io", "Ingress"),
];

/// What comes last, in its order. A binding comes after its policy.
const LAST: [(&str, &str); 7] = [
    ("apiregistration.k8s.io", "APIService"),
    (ADMISSION, "MutatingAdmissionPolicy"),
    (ADMISSION, "ValidatingAdmissionPolicy"),
    (ADMISSION, "MutatingAdmissionPolicyBinding"),
    (ADMISSION, "ValidatingAdmissionPolicyBinding"),
    (ADMISSION, "MutatingWebhookConfiguration"),
    (ADMISSION, "ValidatingWebhookConfiguration"),
];

/// The stage of a kind.
pub fn stage_of(group: &str, kind: &str) -> Stage {
    if rank(&FOUNDATIONS, group, kind).is_some() {
        Stage::Foundation
    } else if rank(&LAST, group, kind).is_some() {
        Stage::Last
    } else {
        Stage::Rest
    }
}

/// Sorts objects into the order of applying; its reverse is the order of deleting.
///
/// Total over identities: two keys are equal only for one identity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OrderKey {
    stage: Stage,
    rank: usize,
    group: String,
    kind: String,
    namespace: Option<String>,
    name: String,
}

impl OrderKey {
    /// The stage.
    pub fn stage(&self) -> Stage {
        self.stage
    }
}

/// The sort key of an object.
pub fn order_key(key: &ObjectKey) -> OrderKey {
    OrderKey {
        stage: stage_of(&key.group, &key.kind),
        rank: rank_of(&key.group, &key.kind),
        group: key.group.clone(),
        kind: key.kind.clone(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
    }
}

fn rank_of(group: &str, kind: &str) -> usize {
    let ordered = rank(&FOUNDATIONS, group, kind)
        .or_else(|| rank(&LAST, group, kind))
        .or_else(|| rank(&EARLY, group, kind))
        // After all kinds that are not listed, which share the place behind the early ones.
        .or_else(|| rank(&LATE, group, kind).map(|place| EARLY.len() + 1 + place));
    ordered.unwrap_or(EARLY.len())
}

fn rank(kinds: &[(&str, &str)], group: &str, kind: &str) -> Option<usize> {
    kinds.iter().position(|listed| *listed == (group, kind))
}
