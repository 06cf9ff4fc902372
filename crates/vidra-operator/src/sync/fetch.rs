//! The content of an artifact, checked and ready to be written.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use vidra_api::ManifestReference;
use vidra_cluster::store::Lease;
use vidra_core::manifest::{Limits, contains_secret, digest, parse};
use vidra_infrahub::Session;

use super::{Controller, failure::SyncError, resource::content_mark};
use crate::stack::on_large_stack;

/// Larger texts are not put into a custom resource: spec and status share what the API server
/// takes.
const LARGEST_INLINE: usize = 512 << 10;

/// Where content is: in the custom resource, or in the store.
pub(crate) enum Place {
    /// In `spec.manifest`.
    Inline(Arc<str>),
    /// In the store, kept from collection until this is dropped.
    Stored {
        /// What it is.
        reference: ManifestReference,
        /// Held only for what it prevents.
        _lease: Lease,
    },
}

/// Content that can be delivered.
pub(crate) struct Content {
    /// Where it is.
    pub(crate) place: Place,
    /// The annotation that tells it from other content.
    pub(crate) mark: String,
    /// Held until it is written, for what it prevents.
    _hand: Option<OwnedSemaphorePermit>,
}

impl Controller {
    /// Fetches the content of an artifact, and puts it where it belongs.
    pub(crate) async fn fetch(
        &self,
        session: &Session,
        storage_id: &str,
        checksum: &str,
    ) -> Result<Content, SyncError> {
        let text = session.content(storage_id, checksum).await?;
        // The semaphore is never closed; if it were, the limit would be gone, not the content.
        let hand = self.hands.clone().acquire_owned().await.ok();
        let checked = text.clone();
        // Reading a large manifest takes a while, and others should not wait for it.
        let check = tokio::task::spawn_blocking(move || on_large_stack(|| check(&checked)));
        let has_secrets = match check.await {
            Ok(checked) => checked?,
            // It is never cancelled, so it can only have panicked.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        let mark = |digest: &str| content_mark(checksum, digest);
        if !has_secrets && text.len() <= LARGEST_INLINE {
            return Ok(Content {
                mark: mark(&digest(&text)),
                place: Place::Inline(text),
                _hand: hand,
            });
        }
        let stored = self.store.put(&text).await.map_err(Arc::new)?;
        let reference = ManifestReference::from(&stored.reference);
        Ok(Content {
            mark: mark(&reference.digest),
            place: Place::Stored {
                reference,
                _lease: stored.lease,
            },
            _hand: hand,
        })
    }
}

/// Whether a text is a manifest that can be delivered, and whether there are Secrets in it.
fn check(text: &str) -> Result<bool, SyncError> {
    let objects =
        parse(text, &Limits::default()).map_err(|source| SyncError::Manifest { source })?;
    if objects.is_empty() {
        return Err(SyncError::NoObjects);
    }
    Ok(contains_secret(&objects))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_no_manifest_or_has_no_objects_is_refused() {
        for text in [
            "",
            "# nothing",
            "---\n---\n",
            "hello",
            "a: 1",
            "<html></html>",
        ] {
            assert!(check(text).is_err(), "{text}");
        }
    }

    #[test]
    fn secrets_are_seen_wherever_they_are() {
        let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
        let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: b}\n";
        let list = "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Secret, metadata: {name: b}}]\n";
        assert!(matches!(check(map), Ok(false)));
        assert!(matches!(check(&format!("{map}---\n{secret}")), Ok(true)));
        assert!(matches!(check(list), Ok(true)));
    }
}
