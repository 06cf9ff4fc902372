//! Content that does not fit a custom resource, or that not everybody may read.
//!
//! ```text
//!   text --sha256--> digest          the name: equal text is stored once
//!        --gzip----> bytes --split-> vidra-content-<digest>-0, -1, ...   immutable Secrets
//! ```
//!
//! Content is written before anything refers to it and verified whenever it is read, so a crash
//! leaves garbage at worst. Garbage is found by [`Store::collect`].

mod chunk;
mod codec;
mod collect;
mod error;
mod ledger;
mod reference;
mod usage;

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use vidra_core::manifest::digest;

use self::codec::{CHUNK, MOST_CHUNKS, pack, unpack};
pub use self::{
    codec::LARGEST,
    error::StoreError,
    ledger::Lease,
    reference::{DIGEST_PREFIX, Reference},
};
use self::{error::Damage, ledger::Ledger};
use crate::connect::Cluster;

/// Chunks of one content that are read or written at once.
const CONCURRENCY: usize = 4;

/// The store in Vidra's namespace. Clones share their leases; a process needs exactly one store
/// and clones of it, or else one would collect what another is about to refer to.
#[derive(Clone)]
pub struct Store {
    cluster: Cluster,
    namespace: String,
    ledger: Arc<Ledger>,
}

/// Content that is in the store, and stays there at least as long as this value lives. Drop it
/// once the reference is written.
#[derive(Debug)]
pub struct Stored {
    /// Where the content is.
    pub reference: Reference,
    /// Keeps it from being collected.
    pub lease: Lease,
}

/// Content as it is stored: compressed, and known to be what its reference says.
#[derive(Clone)]
pub struct Packed {
    reference: Reference,
    bytes: Arc<[u8]>,
}

impl Packed {
    /// What it is.
    pub fn reference(&self) -> &Reference {
        &self.reference
    }

    /// The text. Takes a while for large content; do not call it where others wait.
    pub fn text(&self) -> Result<String, StoreError> {
        let limit = self.reference.limit();
        unpack(&self.bytes, limit).map_err(|damage| self.reference.spoilt(damage))
    }
}

impl Store {
    /// The store in a namespace of a cluster. Nothing is asked before the first use.
    pub fn new(cluster: Cluster, namespace: String) -> Self {
        Self {
            cluster,
            namespace,
            ledger: Arc::default(),
        }
    }

    /// Stores a text, unless it is there already. What is there under its name but damaged is
    /// replaced.
    pub async fn put(&self, text: &str) -> Result<Stored, StoreError> {
        if text.len() > LARGEST {
            return Err(StoreError::TooLarge { limit: LARGEST });
        }
        let text: Arc<str> = Arc::from(text);
        let named = text.clone();
        let hex = blocking(move || digest(&named)).await;
        // Before the first look: what is leased is not collected under our eyes.
        let lease = self.ledger.lease(&hex).await;
        if let Some(reference) = self.find(&hex, text.len()).await? {
            return Ok(Stored { reference, lease });
        }
        let size = text.len();
        let bytes = blocking(move || pack(&text)).await;
        let reference = self.write(&hex, &bytes, size).await?;
        Ok(Stored { reference, lease })
    }

    /// Reads a text. It is exactly what was stored, or an error.
    pub async fn get(&self, reference: &Reference) -> Result<Arc<str>, StoreError> {
        let (_, text) = self.fetch(reference).await?;
        Ok(text)
    }

    /// Reads a text, and keeps its compressed form to be read again without asking anybody.
    pub async fn fetch(&self, reference: &Reference) -> Result<(Packed, Arc<str>), StoreError> {
        let hex = reference.hex()?.to_owned();
        if reference.chunks == 0 {
            return Err(reference.spoilt(Damage::Undecodable));
        }
        if reference.chunks > MOST_CHUNKS || reference.limit() > LARGEST {
            return Err(StoreError::TooLarge { limit: LARGEST });
        }
        self.ledger.note_use();
        let reads = (0..reference.chunks).map(|index| self.read_chunk(&hex, index));
        let reads: Vec<_> = reads.collect();
        let chunks: Vec<Vec<u8>> = stream::iter(reads)
            .buffered(CONCURRENCY)
            .try_collect()
            .await?;
        let packed = Packed {
            reference: reference.clone(),
            bytes: chunks.concat().into(),
        };
        blocking(move || verified(packed, &hex)).await
    }

    /// Whether this process has had to do with any content.
    pub fn is_used(&self) -> bool {
        self.ledger.is_used()
    }

    /// Content that is in the store already, if it is sound.
    async fn find(&self, hex: &str, size: usize) -> Result<Option<Reference>, StoreError> {
        let Some(chunks) = self.claimed_chunks(hex).await? else {
            return Ok(None);
        };
        let reference = Reference::new(hex, chunks, size);
        match self.fetch(&reference).await {
            Ok(_) => Ok(Some(reference)),
            Err(error) if error.is_spoilt() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn write(&self, hex: &str, bytes: &[u8], size: usize) -> Result<Reference, StoreError> {
        let parts: Vec<&[u8]> = bytes.chunks(CHUNK).collect();
        let total = u32::try_from(parts.len()).unwrap_or(u32::MAX);
        let writes = (0..total)
            .zip(parts)
            .map(|(index, part)| self.write_chunk(hex, (index, total), part));
        let writes: Vec<_> = writes.collect();
        stream::iter(writes)
            .buffer_unordered(CONCURRENCY)
            .try_collect::<()>()
            .await?;
        Ok(Reference::new(hex, total, size))
    }
}

fn verified(packed: Packed, hex: &str) -> Result<(Packed, Arc<str>), StoreError> {
    let text = packed.text()?;
    let reference = &packed.reference;
    if reference.size.is_some_and(|size| size != text.len() as u64) {
        return Err(reference.spoilt(Damage::OtherSize));
    }
    if digest(&text) != hex {
        return Err(reference.spoilt(Damage::OtherDigest));
    }
    Ok((packed, text.into()))
}

/// Does something that takes a while where nobody waits for it.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // It is never cancelled, so it can only have panicked.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

#[cfg(test)]
mod tests;
