//! What exactly is downloaded or built.

use sha2::{Digest as _, Sha256};

use super::{
    Tool,
    cache::hex,
    download::{Archive, Digest},
};

/// The version that is built.
pub(super) const KUBERNETES: &str = "v1.36.4";

/// A Go module whose only purpose is to pin the sources of a server.
pub(super) struct Module {
    pub(super) name: &'static str,
    pub(super) go_mod: &'static str,
    pub(super) go_sum: &'static str,
    pub(super) tools: &'static str,
}

pub(super) const KUBERNETES_MODULE: Module = Module {
    name: "kubernetes",
    go_mod: include_str!("../../../controlplane/kubernetes/go.mod"),
    go_sum: include_str!("../../../controlplane/kubernetes/go.sum"),
    tools: include_str!("../../../controlplane/kubernetes/tools.go"),
};

pub(super) const ETCD_MODULE: Module = Module {
    name: "etcd",
    go_mod: include_str!("../../../controlplane/etcd/go.mod"),
    go_sum: include_str!("../../../controlplane/etcd/go.sum"),
    tools: include_str!("../../../controlplane/etcd/tools.go"),
};

/// The newest release of Kubernetes 1.36 whose digest we know from its changelog, which has
/// SHA-512 only. It is older than what we build: only a digest that somebody has seen published
/// may be pinned, and a patch release makes no difference to the tests.
const SERVER_ARCHIVES: [(&str, &str); 2] = [
    (
        "amd64",
        "1c64da92575451c2c7ff97c79b772e603995f8e76da1371a6b0746aaa27b65dce81c4d734cbb50f40e71486a8e08df36f14e12974f97d4d29e41f23a172a6a25",
    ),
    (
        "arm64",
        "7f95e451baedd9368a2fa637afa84c9ed1b958736540ca27a379e5e292e1a10c5d9a29539f833047574bf5d3b6f907f32dee5735acecc11aa4686f078108dcf8",
    ),
];

/// From the `SHA256SUMS` of the release v3.6.6. For arm64 no published digest is known here:
/// there etcd is built.
const ETCD_ARCHIVES: [(&str, &str); 1] = [(
    "amd64",
    "887afaa4a99f22d802ccdfbe65730a5e79aa5c9ce2c8799c67e9d804c50ecedb",
)];

/// The releases for a platform, in Rust's words for it. There are servers for Linux only.
pub(super) fn archives(os: &str, architecture: &str) -> Vec<Archive> {
    let architecture = match architecture {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let is_wanted = |(candidate, _): &&(&str, &str)| os == "linux" && *candidate == architecture;
    let server = SERVER_ARCHIVES.iter().find(is_wanted);
    let etcd = ETCD_ARCHIVES.iter().find(is_wanted);
    let mut archives = Vec::new();
    archives.extend(server.map(|(architecture, digest)| server_archive(architecture, digest)));
    archives.extend(etcd.map(|(architecture, digest)| etcd_archive(architecture, digest)));
    archives
}

fn server_archive(architecture: &str, digest: &str) -> Archive {
    let member = |tool: Tool| (tool, format!("kubernetes/server/bin/{tool}"));
    Archive {
        url: format!("https://dl.k8s.io/v1.36.0/kubernetes-server-linux-{architecture}.tar.gz"),
        digest: Digest::Sha512(digest.to_owned()),
        members: vec![
            member(Tool::KubeApiserver),
            member(Tool::KubeControllerManager),
        ],
    }
}

fn etcd_archive(architecture: &str, digest: &str) -> Archive {
    let name = format!("etcd-v3.6.6-linux-{architecture}");
    Archive {
        url: format!("https://github.com/etcd-io/etcd/releases/download/v3.6.6/{name}.tar.gz"),
        digest: Digest::Sha256(digest.to_owned()),
        members: vec![(Tool::Etcd, format!("{name}/etcd"))],
    }
}

/// Changes whenever other binaries would be made.
pub(super) fn key() -> String {
    let mut hash = Sha256::new();
    for module in [KUBERNETES_MODULE, ETCD_MODULE] {
        for part in [module.name, module.go_mod, module.go_sum, module.tools] {
            hash.update(part);
            hash.update([0]);
        }
    }
    for (architecture, digest) in SERVER_ARCHIVES.iter().chain(&ETCD_ARCHIVES) {
        hash.update(format!("{architecture} {digest} "));
    }
    let platform = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    hash.update(format!("{KUBERNETES} {platform}"));
    format!("{platform}-{}", &hex(&hash.finalize())[..16])
}
