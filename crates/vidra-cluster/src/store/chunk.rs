//! One chunk: an immutable Secret.

use std::collections::BTreeMap;

use http::{HeaderValue, header};
use k8s_openapi::{
    ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::api::{ApiResource, GetParams, PostParams, Resource};
use vidra_api::names::{
    CONTENT_CHUNKS_ANNOTATION, CONTENT_KEY, CONTENT_LABEL, CONTENT_TYPE, FIELD_MANAGER_PREFIX,
};
use vidra_core::identity::GroupKind;

use super::{Store, StoreError, reference::chunk_name};
use crate::{apply::METADATA, failure::Failure, observe::observe, part::Deletion, read::address};

/// Label values end at 63 characters, so the label has the beginning of the digest only. It serves
/// people; nothing is decided by it.
const LABEL_DIGITS: usize = 32;
/// How often a damaged chunk is replaced that somebody else writes at the same time.
const ATTEMPTS: usize = 3;

impl Store {
    /// The content of a chunk.
    pub(super) async fn read_chunk(&self, hex: &str, index: u32) -> Result<Vec<u8>, StoreError> {
        let name = chunk_name(hex, index);
        let missing = || StoreError::Missing {
            secret: self.place(&name),
        };
        let secret = self.secret(&name).await?.ok_or_else(missing)?;
        Ok(content(secret))
    }

    /// How many chunks there are, according to the first of them; `None` if it is not there.
    pub(super) async fn claimed_chunks(&self, hex: &str) -> Result<Option<u32>, StoreError> {
        let secret = self.secret(&chunk_name(hex, 0)).await?;
        Ok(secret.and_then(|secret| {
            let annotations = secret.metadata.annotations?;
            annotations.get(CONTENT_CHUNKS_ANNOTATION)?.parse().ok()
        }))
    }

    /// Writes a chunk. One that is there and not what it should be is replaced, if it is ours.
    pub(super) async fn write_chunk(
        &self,
        hex: &str,
        (index, total): (u32, u32),
        part: &[u8],
    ) -> Result<(), StoreError> {
        let wanted = self.chunk(hex, (index, total), part);
        let name = chunk_name(hex, index);
        for _ in 0..ATTEMPTS {
            match self.create(&name, &wanted).await {
                Err(failure) if failure.is_conflict() => {}
                Err(failure) => return Err(self.unwritten(&name, failure)),
                Ok(()) => return Ok(()),
            }
            match self.secret(&name).await? {
                Some(found) if is_as_written(&found, &wanted) => return Ok(()),
                Some(found) => self.clear(&name, &found).await?,
                None => {}
            }
        }
        Err(self.unwritten(&name, Failure::contended()))
    }

    /// Deletes a chunk of ours that cannot be trusted.
    async fn clear(&self, name: &str, found: &Secret) -> Result<(), StoreError> {
        if found.type_.as_deref() != Some(CONTENT_TYPE) {
            return Err(StoreError::Foreign {
                secret: self.place(name),
            });
        }
        let seen = observe(&GroupKind::new("", "Secret"), &found.metadata);
        match self.cluster.delete(&secrets(), &seen).await {
            Ok(Deletion::Gone) => Ok(()),
            Ok(Deletion::Terminating) => Err(self.unwritten(name, Failure::contended())),
            // Somebody else was faster; the next attempt shows what they left.
            Err(failure) if failure.is_conflict() => Ok(()),
            Err(failure) => Err(self.unwritten(name, failure)),
        }
    }

    async fn create(&self, name: &str, wanted: &Secret) -> Result<(), Failure> {
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER_PREFIX.trim_end_matches('/').to_owned()),
            ..PostParams::default()
        };
        let body = serde_json::to_vec(wanted).map_err(|error| Failure::unbuildable(&error))?;
        let mut request = address(&secrets(), Some(&self.namespace))
            .create(&params, body)
            .map_err(|error| Failure::unbuildable(&error))?;
        // The answer would otherwise be the whole Secret.
        let accept = HeaderValue::from_static(METADATA);
        request.headers_mut().insert(header::ACCEPT, accept);
        tracing::debug!(secret = name, "storing content");
        self.cluster.call(request).await.map(|_| ())
    }

    async fn secret(&self, name: &str) -> Result<Option<Secret>, StoreError> {
        let unread = |source: Failure| StoreError::Read {
            secret: self.place(name),
            source: Box::new(source),
        };
        let request = address(&secrets(), Some(&self.namespace))
            .get(name, &GetParams::default())
            .map_err(|error| unread(Failure::unbuildable(&error)))?;
        match self.cluster.call(request).await {
            Err(failure) if failure.is_not_found() => Ok(None),
            Err(failure) => Err(unread(failure)),
            Ok(reply) => serde_json::from_slice(&reply.body)
                .map(Some)
                .map_err(|error| unread(Failure::undecodable(&error))),
        }
    }

    fn chunk(&self, hex: &str, (index, total): (u32, u32), part: &[u8]) -> Secret {
        let label = hex.get(..LABEL_DIGITS).unwrap_or(hex).to_owned();
        let metadata = ObjectMeta {
            name: Some(chunk_name(hex, index)),
            namespace: Some(self.namespace.clone()),
            labels: Some(BTreeMap::from([(CONTENT_LABEL.to_owned(), label)])),
            annotations: Some(BTreeMap::from([(
                CONTENT_CHUNKS_ANNOTATION.to_owned(),
                total.to_string(),
            )])),
            ..ObjectMeta::default()
        };
        Secret {
            metadata,
            type_: Some(CONTENT_TYPE.to_owned()),
            immutable: Some(true),
            data: Some(BTreeMap::from([(
                CONTENT_KEY.to_owned(),
                ByteString(part.to_vec()),
            )])),
            string_data: None,
        }
    }

    fn unwritten(&self, name: &str, failure: Failure) -> StoreError {
        StoreError::Write {
            secret: self.place(name),
            source: Box::new(failure),
        }
    }

    /// A Secret's name with its namespace, for people.
    pub(super) fn place(&self, name: &str) -> String {
        format!("{}/{name}", self.namespace)
    }
}

/// How Secrets are addressed.
pub(super) fn secrets() -> ApiResource {
    ApiResource {
        group: Secret::group(&()).into_owned(),
        version: Secret::version(&()).into_owned(),
        api_version: Secret::api_version(&()).into_owned(),
        kind: Secret::kind(&()).into_owned(),
        plural: Secret::plural(&()).into_owned(),
    }
}

fn content(secret: Secret) -> Vec<u8> {
    let mut data = secret.data.unwrap_or_default();
    data.remove(CONTENT_KEY)
        .map(|bytes| bytes.0)
        .unwrap_or_default()
}

/// Whether a Secret is what we would write. Others may add labels and annotations.
fn is_as_written(found: &Secret, wanted: &Secret) -> bool {
    let has_all = |found: &Option<BTreeMap<String, String>>, wanted: &Option<BTreeMap<_, _>>| {
        let found = found.clone().unwrap_or_default();
        let mut wanted = wanted.iter().flatten();
        wanted.all(|(key, value)| found.get(key) == Some(value))
    };
    found.type_ == wanted.type_
        && found.immutable == wanted.immutable
        && found.data == wanted.data
        && has_all(&found.metadata.labels, &wanted.metadata.labels)
        && has_all(&found.metadata.annotations, &wanted.metadata.annotations)
}
