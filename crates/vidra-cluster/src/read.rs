//! Reading metadata of live objects, never the objects themselves.

use std::collections::BTreeMap;

use http::Request;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, ObjectMeta};
use kube::{
    api::{ApiResource, DynamicObject, GetParams, ListParams, Resource},
    core::Request as Address,
};
use serde::Deserialize;
use vidra_core::{
    identity::{GroupKind, ObjectKey},
    observed::Observed,
};

use crate::{connect::Cluster, failure::Failure, observe::observe};

/// Objects per page of a list.
const PAGE: u32 = 500;
/// A list whose continue token expires is begun anew this often.
const ATTEMPTS: usize = 3;

#[derive(Deserialize)]
struct Item {
    metadata: ObjectMeta,
}

#[derive(Deserialize)]
struct Page {
    kind: String,
    #[serde(default)]
    metadata: ListMeta,
    /// While a definition is being removed, an empty list of its kind is written as null.
    items: Option<Vec<Item>>,
}

/// Reads a page. Anything but a list is an error: what is not understood is not empty.
fn decode_page(body: &[u8]) -> Result<Page, Failure> {
    let page: Page = serde_json::from_slice(body).map_err(|error| Failure::undecodable(&error))?;
    if page.kind != "PartialObjectMetadataList" {
        let error = std::io::Error::other(format!("expected a list, got kind {:?}", page.kind));
        return Err(Failure::undecodable(&error));
    }
    Ok(page)
}

impl Cluster {
    /// The metadata of one object, or `None` if it does not exist.
    pub async fn look_at(
        &self,
        resource: &ApiResource,
        key: &ObjectKey,
    ) -> Result<Option<Observed>, Failure> {
        let request = address(resource, key.namespace.as_deref())
            .get_metadata(&key.name, &GetParams::default())
            .map_err(|error| Failure::unbuildable(&error))?;
        match self.call(request).await {
            Ok(reply) => decode(&reply.body, &key.group_kind()).map(Some),
            Err(failure) if failure.is_not_found() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// The metadata of all objects of a kind that carry a label, from a consistent list.
    ///
    /// The answer is complete or an error: a list whose pages no longer fit together is begun
    /// anew.
    pub async fn list(
        &self,
        resource: &ApiResource,
        selector: &str,
    ) -> Result<BTreeMap<ObjectKey, Observed>, Failure> {
        let params = ListParams::default().labels(selector);
        self.list_in(resource, None, &params).await
    }

    /// The metadata of all objects of a kind that are in a namespace, or in any, and match
    /// selectors; complete or an error as well.
    pub(crate) async fn list_in(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        params: &ListParams,
    ) -> Result<BTreeMap<ObjectKey, Observed>, Failure> {
        let mut failure = None;
        for _ in 0..ATTEMPTS {
            match self.list_once(resource, namespace, params).await {
                Err(expired) if expired.code == 410 => failure = Some(expired),
                other => return other,
            }
        }
        Err(failure.unwrap_or_else(|| Failure::timeout(self.timeout)))
    }

    async fn list_once(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        params: &ListParams,
    ) -> Result<BTreeMap<ObjectKey, Observed>, Failure> {
        let kind = GroupKind::new(&resource.group, &resource.kind);
        let mut params = params.clone().limit(PAGE);
        let mut found = BTreeMap::new();
        loop {
            let page = self.page(resource, namespace, &params).await?;
            found.extend(page.items.iter().flatten().map(|item| {
                let observed = observe(&kind, &item.metadata);
                (observed.key.clone(), observed)
            }));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(found),
            }
        }
    }

    async fn page(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        params: &ListParams,
    ) -> Result<Page, Failure> {
        let request: Request<Vec<u8>> = address(resource, namespace)
            .list_metadata(params)
            .map_err(|error| Failure::unbuildable(&error))?;
        let reply = self.call(request).await?;
        decode_page(&reply.body)
    }
}

/// The address of a kind, in a namespace or across all.
pub(crate) fn address(resource: &ApiResource, namespace: Option<&str>) -> Address {
    Address::new(DynamicObject::url_path(resource, namespace))
}

/// Reads the metadata in an answer.
pub(crate) fn decode(body: &[u8], kind: &GroupKind) -> Result<Observed, Failure> {
    let item: Item = serde_json::from_slice(body).map_err(|error| Failure::undecodable(&error))?;
    Ok(observe(kind, &item.metadata))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_may_be_null_but_what_is_no_list_is_an_error() {
        let null = br#"{"kind":"PartialObjectMetadataList","metadata":{},"items":null}"#;
        assert!(decode_page(null).is_ok_and(|page| page.items.is_none()));
        for odd in [
            &b"{}"[..],
            b"null",
            b"<html>",
            br#"{"kind":"Status","items":[]}"#,
        ] {
            assert!(decode_page(odd).is_err());
        }
    }
}
