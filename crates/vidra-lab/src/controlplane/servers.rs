//! What the three servers are called and how they are run.

use std::{fmt, path::Path};

use super::Tool;

/// One of the processes of a control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Server {
    /// The store behind the API server.
    Etcd,
    /// The API server.
    Apiserver,
    /// The controllers of Kubernetes itself.
    ControllerManager,
}

impl Server {
    /// The name that files and the guardian know it by.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Apiserver => "apiserver",
            Self::ControllerManager => "controller_manager",
        }
    }

    pub(super) fn tool(self) -> Tool {
        match self {
            Self::Etcd => Tool::Etcd,
            Self::Apiserver => Tool::KubeApiserver,
            Self::ControllerManager => Tool::KubeControllerManager,
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tool().fmt(formatter)
    }
}

/// The audit policy: who did what, for everything, without bodies.
pub(super) const AUDIT_POLICY: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\n\
    omitStages: [RequestReceived]\nrules:\n- level: Metadata\n";

/// Name of the audit log in the directory.
pub(super) const AUDIT_LOG: &str = "audit.log";

pub(super) fn etcd(directory: &Path, port: u16) -> Vec<String> {
    let url = format!("http://127.0.0.1:{port}");
    vec![
        format!("--data-dir={}", directory.join("etcd").display()),
        format!("--listen-client-urls={url}"),
        format!("--advertise-client-urls={url}"),
        // There is no peer: any port will do.
        "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
        // The data dies with the process.
        "--unsafe-no-fsync=true".to_owned(),
        "--quota-backend-bytes=4294967296".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}

pub(super) fn apiserver(directory: &Path, port: u16, etcd_port: u16) -> Vec<String> {
    let file = |name: &str| directory.join(name).display().to_string();
    vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        // A loopback address is refused as an endpoint of the Service `kubernetes`.
        "--endpoint-reconciler-type=none".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        format!("--cert-dir={}", file("certificates")),
        format!("--tls-cert-file={}", file("serving.crt")),
        format!("--tls-private-key-file={}", file("serving.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-signing-key-file={}", file("tokens.key")),
        format!("--service-account-key-file={}", file("tokens.pub")),
        "--authorization-mode=RBAC".to_owned(),
        // Without the controller that makes ServiceAccounts it would refuse every Pod.
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        "--allow-privileged=true".to_owned(),
        format!("--audit-policy-file={}", file("audit-policy.yaml")),
        format!("--audit-log-path={}", file(AUDIT_LOG)),
        // One file, never rotated (the size is in megabytes).
        "--audit-log-maxsize=100000".to_owned(),
        "--max-requests-inflight=4000".to_owned(),
        "--max-mutating-requests-inflight=2000".to_owned(),
        "--profiling=false".to_owned(),
    ]
}

pub(super) fn controller_manager(directory: &Path, controllers: &[&str]) -> Vec<String> {
    let file = |name: &str| directory.join(name).display().to_string();
    vec![
        format!("--kubeconfig={}", file(CONTROLLER_MANAGER_KUBECONFIG)),
        format!("--controllers={}", controllers.join(",")),
        "--leader-elect=false".to_owned(),
        // It serves nothing that we need, so it needs no port.
        "--secure-port=0".to_owned(),
        format!("--cert-dir={}", file("certificates")),
        "--kube-api-qps=500".to_owned(),
        "--kube-api-burst=1000".to_owned(),
    ]
}

/// Name of the controller manager's kubeconfig in the directory.
pub(super) const CONTROLLER_MANAGER_KUBECONFIG: &str = "controller-manager.kubeconfig";
/// Its user name, as in every cluster.
pub(super) const CONTROLLER_MANAGER_USER: &str = "system:kube-controller-manager";
