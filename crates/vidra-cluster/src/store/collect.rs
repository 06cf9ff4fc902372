//! Collecting content that nothing refers to.
//!
//! A chunk is deleted if it was unused in two looks that are far enough apart, the second of them
//! at a list that was asked for after the chunk was seen, and if nobody has leased its content
//! since. In doubt it stays: garbage costs little.

use std::{collections::BTreeSet, time::Duration};

use kube::api::ListParams;
use tracing::{debug, info};
use vidra_api::names::CONTENT_TYPE;
use vidra_core::observed::Observed;

use super::{
    Store, StoreError,
    chunk::secrets,
    ledger::Suspect,
    reference::{DIGEST_PREFIX, hex_in},
    usage::in_use,
};
use crate::failure::Failure;

impl Store {
    /// Looks at all chunks once and deletes those that have been unused for `settled`; answers
    /// how many were deleted.
    ///
    /// `known` are digests that are believed to be in use. They spare the list of everything that
    /// could refer to content; only a chunk that is not among them is ever looked at more closely.
    pub async fn collect(
        &self,
        known: &BTreeSet<String>,
        settled: Duration,
    ) -> Result<usize, StoreError> {
        let chunks = self.chunks().await?;
        if chunks.is_empty() {
            return Ok(0);
        }
        self.ledger.note_use();
        let is_known =
            |suspect: &Suspect| known.contains(&format!("{DIGEST_PREFIX}{}", suspect.hex));
        let suspects = chunks.iter().map(|(suspect, _)| suspect.clone());
        let suspects = suspects.filter(|suspect| !is_known(suspect)).collect();
        let ripe = self.ledger.look(suspects, settled);
        if ripe.is_empty() {
            return Ok(0);
        }
        let used = in_use(&self.cluster)
            .await
            .map_err(|failure| unlisted("VidraResources", failure))?;
        let mut deleted = 0;
        for (suspect, seen) in chunks.iter().filter(|(suspect, _)| ripe.contains(suspect)) {
            if used.contains(&suspect.hex) {
                self.ledger.acquit(&suspect.hex);
            } else if self.delete_unused(suspect, seen).await? {
                deleted += 1;
            }
        }
        Ok(deleted)
    }

    /// The chunks in the namespace, from a consistent list.
    async fn chunks(&self) -> Result<Vec<(Suspect, Observed)>, StoreError> {
        let params = ListParams::default().fields(&format!("type={CONTENT_TYPE}"));
        let found = self
            .cluster
            .list_in(&secrets(), Some(&self.namespace), &params)
            .await
            .map_err(|failure| unlisted("Secrets", failure))?;
        let chunks = found.into_values().filter_map(|seen| {
            let hex = hex_in(&seen.key.name)?.to_owned();
            let uid = seen.uid.clone();
            Some((Suspect { hex, uid }, seen))
        });
        Ok(chunks.collect())
    }

    async fn delete_unused(&self, suspect: &Suspect, seen: &Observed) -> Result<bool, StoreError> {
        let Some(_condemned) = self.ledger.condemn(suspect) else {
            return Ok(false);
        };
        let secret = self.place(&seen.key.name);
        match self.cluster.delete(&secrets(), seen).await {
            Ok(_) => {
                info!(secret, "deleted stored content that nothing refers to");
                Ok(true)
            }
            Err(failure) if failure.is_conflict() => {
                debug!(
                    secret,
                    "unused content was changed meanwhile and stays for now"
                );
                Ok(false)
            }
            Err(failure) => Err(StoreError::Delete {
                secret,
                source: Box::new(failure),
            }),
        }
    }
}

fn unlisted(what: &'static str, failure: Failure) -> StoreError {
    StoreError::List {
        what,
        source: Box::new(failure),
    }
}
