//! The requests of a watch, and nothing else: metadata only, our label only, all namespaces.

use std::{future::Future, sync::Arc};

use futures::{StreamExt, stream::BoxStream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams, PartialObjectMeta, WatchEvent, WatchParams},
};
use tokio::time::timeout;
use vidra_api::names::{MANAGED_BY, MANAGED_BY_VIDRA};

use super::{
    failure::Failure,
    timing::{Timing, random_share},
};

/// A part of a list.
#[derive(Debug, Clone, Default)]
pub(super) struct Page {
    pub(super) objects: Vec<ObjectMeta>,
    /// The resource version of the whole list.
    pub(super) version: String,
    /// The token of the next page.
    pub(super) next: Option<String>,
}

/// What a stream tells.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Seen(ObjectMeta),
    Gone(ObjectMeta),
    /// Nothing has changed up to this resource version.
    Bookmark(String),
}

/// Changes until the first failure.
pub(super) type Changes = BoxStream<'static, Result<Change, Failure>>;

/// Where lists and watches come from.
pub(super) trait Source: Send + Sync + 'static {
    /// One page of a consistent list.
    fn list(
        &self,
        resource: &ApiResource,
        token: Option<String>,
    ) -> impl Future<Output = Result<Page, Failure>> + Send;

    /// The present resource version.
    fn version(
        &self,
        resource: &ApiResource,
    ) -> impl Future<Output = Result<String, Failure>> + Send;

    /// What happens after a resource version.
    fn watch(
        &self,
        resource: &ApiResource,
        version: &str,
    ) -> impl Future<Output = Result<Changes, Failure>> + Send;
}

/// A real API server.
#[derive(Clone)]
pub(super) struct ApiServer {
    pub(super) client: Client,
    pub(super) timing: Arc<Timing>,
}

impl ApiServer {
    fn api(&self, resource: &ApiResource) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), resource)
    }

    async fn within<T>(
        &self,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Failure> {
        let limit = self.timing.call;
        let answer = timeout(limit, call)
            .await
            .map_err(|_late| Failure::late(limit))?;
        answer.map_err(|error| Failure::of(&error))
    }
}

impl Source for ApiServer {
    async fn list(&self, resource: &ApiResource, token: Option<String>) -> Result<Page, Failure> {
        // Without a resource version the list is consistent, not some cache's idea of it.
        let mut parameters = ListParams::default()
            .labels(&selector())
            .limit(self.timing.page);
        parameters.continue_token = token;
        let list = self
            .within(self.api(resource).list_metadata(&parameters))
            .await?;
        Ok(Page {
            objects: list
                .items
                .into_iter()
                .map(|object| object.metadata)
                .collect(),
            version: list.metadata.resource_version.unwrap_or_default(),
            next: list.metadata.continue_.filter(|token| !token.is_empty()),
        })
    }

    async fn version(&self, resource: &ApiResource) -> Result<String, Failure> {
        // A consistent list of nothing: no label has two values.
        let nothing = format!("{},{MANAGED_BY}!={MANAGED_BY_VIDRA}", selector());
        let parameters = ListParams::default().labels(&nothing).limit(1);
        let list = self
            .within(self.api(resource).list_metadata(&parameters))
            .await?;
        Ok(list.metadata.resource_version.unwrap_or_default())
    }

    async fn watch(&self, resource: &ApiResource, version: &str) -> Result<Changes, Failure> {
        let seconds = self.timing.stream_seconds(random_share());
        let parameters = WatchParams::default().labels(&selector()).timeout(seconds);
        let api = self.api(resource);
        let stream = self
            .within(api.watch_metadata(&parameters, version))
            .await?;
        Ok(stream.map(change).boxed())
    }
}

fn selector() -> String {
    format!("{MANAGED_BY}={MANAGED_BY_VIDRA}")
}

fn change(
    event: Result<WatchEvent<PartialObjectMeta<DynamicObject>>, kube::Error>,
) -> Result<Change, Failure> {
    match event.map_err(|error| Failure::of(&error))? {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => {
            Ok(Change::Seen(object.metadata))
        }
        WatchEvent::Deleted(object) => Ok(Change::Gone(object.metadata)),
        WatchEvent::Bookmark(bookmark) => Ok(Change::Bookmark(bookmark.metadata.resource_version)),
        WatchEvent::Error(status) => Err(Failure::of_status(&status)),
    }
}
