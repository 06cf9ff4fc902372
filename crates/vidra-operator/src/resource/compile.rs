//! From the custom resource to what is known and what is desired.

use std::sync::Arc;

use vidra_cluster::{discovery::Kinds, failure::Failure};
use vidra_core::{
    change::Cause,
    class::Class,
    identity::ObjectKey,
    inventory::{Entry, Inventory, Origin},
};

use super::{
    decode::{Compiled, compile},
    memory::State,
    turn::Turn,
};

impl Turn<'_> {
    /// Reads the inventory, once per process and uid.
    pub(crate) fn load(&self, state: &mut State) -> Result<(), Cause> {
        let uid = self.resource.metadata.uid.clone().unwrap_or_default();
        if state.uid == uid {
            return Ok(());
        }
        let status = self.resource.status.clone().unwrap_or_default();
        let inventory = read_inventory(&status)?;
        *state = State {
            uid,
            inventory,
            status,
            ..State::default()
        };
        self.owner.expect_inventory(&state.inventory);
        Ok(())
    }

    /// The desired set, decoded anew only if the resource or the kinds have changed.
    pub(crate) async fn compile(&self, state: &mut State) -> Result<Arc<Compiled>, Cause> {
        let generation = self.resource.metadata.generation.unwrap_or_default();
        let edition = self.controller.catalogue.edition();
        let is_current = std::mem::replace(&mut state.edition, edition) == edition;
        let known = state
            .compiled
            .clone()
            .filter(|known| is_current && known.generation == generation);
        if let Some(known) = known.filter(|known| !known.is_incomplete()) {
            return Ok(known);
        }
        let kinds = self
            .controller
            .catalogue
            .kinds(self.cluster)
            .await
            .map_err(|failure| no_discovery(&failure))?;
        let compiled = self.decode(&kinds)?;
        let compiled = if compiled.is_incomplete() {
            let fresh = self
                .controller
                .catalogue
                .fresh(self.cluster)
                .await
                .map_err(|failure| no_discovery(&failure))?;
            self.decode(&fresh)?
        } else {
            compiled
        };
        let compiled = Arc::new(compiled);
        state.compiled = Some(compiled.clone());
        Ok(compiled)
    }

    fn decode(&self, kinds: &Kinds) -> Result<Compiled, Cause> {
        let spec = &self.resource.spec;
        let text = spec.manifest.as_deref().ok_or_else(no_manifest)?;
        let generation = self.resource.metadata.generation.unwrap_or_default();
        compile(
            text,
            spec.destination.default_namespace(),
            (generation, spec.precedence),
            kinds,
        )
        .map_err(|error| Cause {
            class: Class::Invalid,
            reason: error.reason(),
            message: error.to_string(),
        })
        .and_then(|compiled| {
            if compiled.objects.is_empty() {
                Err(empty_manifest())
            } else {
                Ok(compiled)
            }
        })
    }

    /// After the foundations: waits until the CRDs of this manifest are served.
    pub(crate) async fn await_definitions(
        &self,
        state: &mut State,
        compiled: Arc<Compiled>,
    ) -> Result<Arc<Compiled>, Cause> {
        const POLLS: u32 = 60;
        let is_settled = |compiled: &Compiled| {
            compiled
                .objects
                .values()
                .all(|desired| desired.resource.is_some() || !desired.is_placed)
        };
        let mut compiled = compiled;
        for poll in 0..POLLS {
            if is_settled(&compiled) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(
                u64::from(poll.min(10)) * 25,
            ))
            .await;
            let kinds = self
                .controller
                .catalogue
                .now(self.cluster)
                .await
                .map_err(|failure| no_discovery(&failure))?;
            compiled = Arc::new(self.decode(&kinds)?);
        }
        state.compiled = Some(compiled.clone());
        Ok(compiled)
    }
}

fn no_manifest() -> Cause {
    Cause {
        class: Class::Invalid,
        reason: "ContentMissing",
        message: "spec.manifestFrom is not supported yet; give the manifest in spec.manifest"
            .to_owned(),
    }
}

/// An empty text is more often an accident than a wish, and it would delete everything.
fn empty_manifest() -> Cause {
    Cause {
        class: Class::Invalid,
        reason: "EmptyManifest",
        message: "the manifest has no objects and nothing is deleted because of it; delete this \
                  VidraResource if all its objects should go"
            .to_owned(),
    }
}

fn no_discovery(failure: &Failure) -> Cause {
    let message = format!("cannot tell which kinds the cluster serves: {failure}");
    Cause {
        class: Class::Transient,
        reason: "ClusterUnreachable",
        message,
    }
}

/// The stored inventory, or the Go operator's list of managed resources.
pub(crate) fn read_inventory(status: &vidra_api::VidraResourceStatus) -> Result<Inventory, Cause> {
    if let Some(stored) = &status.inventory {
        return Inventory::decode(stored.entries.iter().map(String::as_str)).map_err(|error| {
            Cause {
                class: Class::Fatal,
                reason: "InventoryUnreadable",
                message: format!("{error}; nothing is applied or deleted until it is repaired"),
            }
        });
    }
    let mut inventory = Inventory::default();
    for object in &status.managed_resources {
        let (group, version) = object
            .api_version
            .split_once('/')
            .unwrap_or(("", &object.api_version));
        let namespace = object
            .namespace
            .as_deref()
            .filter(|namespace| !namespace.is_empty());
        let key = ObjectKey::new(group, &object.kind, namespace, &object.name);
        inventory.put(Entry::announced(key, version, Origin::Inherited));
    }
    Ok(inventory)
}
