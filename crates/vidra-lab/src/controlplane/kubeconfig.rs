//! Access for one identity: as a `kube::Config` and as a kubeconfig file.

use std::{fs, io, io::Write, os::unix::fs::OpenOptionsExt, path::Path};

use axum::http::uri::InvalidUri;
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::json;

use super::certificates::{Authority, Identity};

/// Access by client certificate, without any file.
pub(super) fn config(
    port: u16,
    authority: &Authority,
    identity: &Identity,
) -> Result<kube::Config, kube::Error> {
    let url = url(port)
        .parse()
        .map_err(|error: InvalidUri| kube::Error::HttpError(error.into()))?;
    let mut config = kube::Config::new(url);
    config.root_cert = Some(vec![authority.der()]);
    config.auth_info = serde_json::from_value(auth(identity)).map_err(kube::Error::SerdeError)?;
    Ok(config)
}

/// The same as a file that every Kubernetes tool reads. JSON is YAML.
pub(super) fn write(
    path: &Path,
    port: u16,
    authority: &Authority,
    identity: &Identity,
) -> io::Result<()> {
    let content = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "lab", "cluster": {
            "server": url(port),
            "certificate-authority-data": STANDARD.encode(authority.pem()),
        }}],
        "users": [{ "name": "lab", "user": auth(identity) }],
        "contexts": [{ "name": "lab", "context": { "cluster": "lab", "user": "lab" } }],
        "current-context": "lab",
    });
    write_private(path, format!("{content:#}\n").as_bytes())
}

/// Writes a file that only its owner may read.
pub(super) fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)?.write_all(content)
}

pub(super) fn url(port: u16) -> String {
    format!("https://127.0.0.1:{port}")
}

fn auth(identity: &Identity) -> serde_json::Value {
    json!({
        "client-certificate-data": STANDARD.encode(&identity.certificate),
        "client-key-data": STANDARD.encode(&identity.key),
    })
}
