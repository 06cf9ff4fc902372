//! Deleting stored content that nothing refers to any longer, in the background.

use std::{collections::BTreeSet, time::Duration};

use tracing::warn;
use vidra_api::VidraResource;
use vidra_core::schedule::jittered;

use crate::shared::Shared;

/// While no content is known at all, only one look in so many is made.
const IDLE_LOOKS: u32 = 6;

/// Looks for unused content now and then, for ever.
pub(crate) async fn collect(shared: Shared) {
    let settled = shared.settings.get().collect_content_after;
    if settled.is_zero() {
        return;
    }
    let mut told = String::new();
    for round in 0_u32.. {
        tokio::time::sleep(pause(settled, &shared.installation)).await;
        if !shared.store.is_used() && !round.is_multiple_of(IDLE_LOOKS) {
            continue;
        }
        let problem = match shared.store.collect(&known(&shared), settled).await {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
        if problem != told && !problem.is_empty() {
            warn!("unused content was not collected: {problem}");
        }
        told = problem;
    }
}

fn pause(settled: Duration, installation: &str) -> Duration {
    let chance = installation.bytes().map(u64::from).sum();
    jittered(settled, chance)
}

/// The digests of content that the resources are known to use.
fn known(shared: &Shared) -> BTreeSet<String> {
    let resources = shared.resources.all();
    resources.iter().flat_map(|it| digests(it)).collect()
}

fn digests(resource: &VidraResource) -> impl Iterator<Item = String> {
    let manifest = resource.spec.manifest_from.as_ref();
    let status = resource.status.as_ref();
    let inventory = status.and_then(|status| status.inventory.as_ref());
    let manifest = manifest.map(|from| from.digest.clone());
    let inventory = inventory.and_then(|stored| stored.digest.clone());
    manifest.into_iter().chain(inventory)
}
