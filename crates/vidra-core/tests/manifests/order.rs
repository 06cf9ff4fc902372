//! The order of applying.

use vidra_core::{
    identity::ObjectKey,
    manifest::{Stage, order_key, stage_of},
};

fn key(group: &str, kind: &str, namespace: Option<&str>, name: &str) -> ObjectKey {
    ObjectKey {
        group: group.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    }
}

#[test]
fn foundations_come_first_and_admission_last() {
    let admission = "admissionregistration.k8s.io";
    let rbac = "rbac.authorization.k8s.io";
    for (group, kind, stage) in [
        ("", "Namespace", Stage::Foundation),
        (
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            Stage::Foundation,
        ),
        (rbac, "ClusterRole", Stage::Foundation),
        (rbac, "ClusterRoleBinding", Stage::Foundation),
        ("scheduling.k8s.io", "PriorityClass", Stage::Foundation),
        ("storage.k8s.io", "StorageClass", Stage::Foundation),
        ("networking.k8s.io", "IngressClass", Stage::Foundation),
        ("node.k8s.io", "RuntimeClass", Stage::Foundation),
        ("", "ConfigMap", Stage::Rest),
        ("apps", "Deployment", Stage::Rest),
        (rbac, "Role", Stage::Rest),
        ("example.com", "Namespace", Stage::Rest),
        (admission, "ValidatingWebhookConfiguration", Stage::Last),
        (admission, "MutatingWebhookConfiguration", Stage::Last),
        (admission, "ValidatingAdmissionPolicy", Stage::Last),
        (admission, "ValidatingAdmissionPolicyBinding", Stage::Last),
        ("apiregistration.k8s.io", "APIService", Stage::Last),
    ] {
        assert_eq!(stage_of(group, kind), stage, "{group} {kind}");
        assert_eq!(order_key(&key(group, kind, None, "a")).stage(), stage);
    }
}

#[test]
fn what_others_refer_to_comes_before_them() {
    let rbac = "rbac.authorization.k8s.io";
    let order = [
        key("", "Namespace", None, "z"),
        key(
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            None,
            "z",
        ),
        key(rbac, "ClusterRole", None, "z"),
        key(rbac, "ClusterRoleBinding", None, "a"),
        key("", "ServiceAccount", Some("a"), "z"),
        key(rbac, "Role", Some("a"), "z"),
        key(rbac, "RoleBinding", Some("a"), "a"),
        key("", "Secret", Some("a"), "z"),
        key("", "ConfigMap", Some("a"), "a"),
        key("", "ConfigMap", Some("a"), "b"),
        key("", "ConfigMap", Some("b"), "a"),
        key("", "Service", Some("a"), "a"),
        key("apps", "Deployment", Some("a"), "a"),
        key("autoscaling", "HorizontalPodAutoscaler", Some("a"), "a"),
        key("networking.k8s.io", "Ingress", Some("a"), "a"),
        key(
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicy",
            None,
            "z",
        ),
        key(
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicyBinding",
            None,
            "a",
        ),
        key(
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration",
            None,
            "a",
        ),
    ];
    let mut sorted = order.to_vec();
    sorted.reverse();
    sorted.sort_by_key(order_key);
    assert_eq!(sorted, order);
}
