//! Which content is in use: a complete, fresh list of everything that can refer to any.

use std::collections::BTreeSet;

use kube::api::{ApiResource, ListParams};
use serde::Deserialize;
use vidra_api::{ManifestReference, StoredContent, names};

use super::reference::{DIGEST_PREFIX, hex_in};
use crate::{connect::Cluster, failure::Failure, read::address};

/// Resources per page: each can have more than a megabyte.
const PAGE: u32 = 20;
/// A list whose continue token expires is begun anew this often.
const ATTEMPTS: usize = 3;

/// As much of a `VidraResource` as refers to content. What is there and cannot be read is an
/// error: a reference that is not understood is still a reference.
#[derive(Deserialize)]
struct Referrer {
    spec: Option<Spec>,
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    manifest_from: Option<ManifestReference>,
}

#[derive(Deserialize)]
struct Status {
    inventory: Option<Inventory>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Inventory {
    digest: Option<String>,
    stored_in: Option<StoredContent>,
}

#[derive(Deserialize)]
struct Page {
    kind: String,
    metadata: PageMetadata,
    items: Vec<Referrer>,
}

#[derive(Deserialize)]
struct PageMetadata {
    #[serde(rename = "continue")]
    token: Option<String>,
}

/// The digests in use, as hexadecimal digits. Complete, or an error.
pub(super) async fn in_use(cluster: &Cluster) -> Result<BTreeSet<String>, Failure> {
    let mut failure = None;
    for _ in 0..ATTEMPTS {
        match list(cluster).await {
            Err(expired) if expired.code == 410 => failure = Some(expired),
            other => return other,
        }
    }
    Err(failure.unwrap_or_else(Failure::contended))
}

async fn list(cluster: &Cluster) -> Result<BTreeSet<String>, Failure> {
    // Without a resource version the answer is not older than the question.
    let mut params = ListParams::default().limit(PAGE);
    let mut found = BTreeSet::new();
    loop {
        let request = address(&resources(), None)
            .list(&params)
            .map_err(|error| Failure::unbuildable(&error))?;
        let page = decode(&cluster.call(request).await?.body)?;
        found.extend(page.items.iter().flat_map(digests));
        match page.metadata.token.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(found),
        }
    }
}

fn decode(body: &[u8]) -> Result<Page, Failure> {
    let page: Page = serde_json::from_slice(body).map_err(|error| Failure::undecodable(&error))?;
    if page.kind != "VidraResourceList" {
        let error = std::io::Error::other(format!("expected a list, got kind {:?}", page.kind));
        return Err(Failure::undecodable(&error));
    }
    Ok(page)
}

fn digests(referrer: &Referrer) -> Vec<String> {
    let hex = |digest: &String| digest.strip_prefix(DIGEST_PREFIX).map(str::to_owned);
    let spec = referrer.spec.iter();
    let manifests = spec.filter_map(|spec| hex(&spec.manifest_from.as_ref()?.digest));
    let status = referrer.status.iter();
    let inventories = status
        .filter_map(|status| status.inventory.as_ref())
        .flat_map(|inventory| {
            let by_name = inventory
                .stored_in
                .as_ref()
                .and_then(|stored| hex_in(&stored.name).map(str::to_owned));
            [inventory.digest.as_ref().and_then(hex), by_name]
        });
    manifests.chain(inventories.flatten()).collect()
}

fn resources() -> ApiResource {
    ApiResource {
        group: names::GROUP.to_owned(),
        version: names::VERSION.to_owned(),
        api_version: names::API_VERSION.to_owned(),
        kind: "VidraResource".to_owned(),
        plural: "vidraresources".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page(items: &serde_json::Value) -> Result<Vec<String>, Failure> {
        let body = json!({"kind": "VidraResourceList", "metadata": {}, "items": items});
        decode(body.to_string().as_bytes())
            .map(|page| page.items.iter().flat_map(digests).collect())
    }

    #[test]
    fn manifests_and_inventories_refer_to_content() {
        let (one, two, three) = ("1a".repeat(32), "2b".repeat(32), "3c".repeat(32));
        let items = json!([
            {"metadata": {"name": "a"}, "spec": {"manifest": "x"}},
            {"spec": {"manifestFrom": {"digest": format!("sha256:{one}"), "chunks": 1}},
             "status": {"inventory": {"digest": format!("sha256:{two}"),
                "storedIn": {"name": format!("vidra-content-{three}"), "chunks": 2}}}},
        ]);
        assert_eq!(page(&items).ok(), Some(vec![one, two, three]));
    }

    #[test]
    fn what_is_not_understood_is_an_error_and_not_unused() {
        assert!(page(&json!([{"spec": {"manifestFrom": "sha256:00"}}])).is_err());
        assert!(page(&json!([{"status": {"inventory": {"storedIn": 7}}}])).is_err());
        assert!(decode(b"{}").is_err());
        assert!(decode(br#"{"kind":"Status","metadata":{},"items":[]}"#).is_err());
        assert!(decode(br#"{"kind":"VidraResourceList","metadata":{},"items":null}"#).is_err());
    }
}
