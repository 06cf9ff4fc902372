//! From the custom resource to what is known and what is desired.

use std::sync::Arc;

use vidra_cluster::{
    discovery::Kinds,
    failure::Failure,
    store::{Packed, Reference},
};
use vidra_core::{
    change::Cause,
    class::Class,
    identity::ObjectKey,
    inventory::{Entry, Inventory, Origin},
    manifest::ManifestError,
};

use super::{
    decode::{Compiled, compile},
    memory::State,
    spill::broken,
    turn::Turn,
};

impl Turn<'_> {
    /// Begins a turn: what is known of another resource of this name does not count, and until
    /// the inventory has been read the status stands as it is, however the turn ends.
    pub(crate) fn meet(&self, state: &mut State) {
        let uid = self.resource.metadata.uid.clone().unwrap_or_default();
        if state.uid != uid {
            *state = State {
                uid,
                ..State::default()
            };
        }
        if !state.is_loaded {
            state.status = self.resource.status.clone().unwrap_or_default();
        }
    }

    /// Reads the inventory, once per process and uid.
    pub(crate) async fn load(&self, state: &mut State) -> Result<(), Cause> {
        if state.is_loaded {
            return Ok(());
        }
        match &state.status.inventory {
            Some(stored) if stored.stored_in.is_some() => {
                let (inventory, base) = self.read_spilled(stored).await?;
                state.inventory = inventory;
                state.base = Some(base);
            }
            _ => state.inventory = inline_inventory(&state.status)?,
        }
        state.is_loaded = true;
        self.owner.settle(&state.inventory);
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
        let source = self.source(state).await?;
        let kinds = self
            .controller
            .catalogue
            .kinds(self.cluster)
            .await
            .map_err(|failure| no_discovery(&failure))?;
        let compiled = self.decode(source.clone(), kinds).await?;
        let compiled = if compiled.is_incomplete() {
            let fresh = self
                .controller
                .catalogue
                .fresh(self.cluster)
                .await
                .map_err(|failure| no_discovery(&failure))?;
            self.decode(source, fresh).await?
        } else {
            compiled
        };
        let compiled = Arc::new(compiled);
        state.compiled = Some(compiled.clone());
        Ok(compiled)
    }

    /// The text of the manifest. Stored content is asked for once per digest.
    async fn source(&self, state: &mut State) -> Result<Source, Cause> {
        let spec = &self.resource.spec;
        let Some(from) = &spec.manifest_from else {
            state.content = None;
            let text = spec.manifest.as_deref().ok_or_else(no_manifest)?;
            return Ok(Source::Text(text.into()));
        };
        let reference = Reference::from(from);
        let known = state.content.as_ref();
        if let Some(packed) = known.filter(|packed| *packed.reference() == reference) {
            return Ok(Source::Packed(packed.clone()));
        }
        let fetched = self.controller.store.fetch(&reference).await;
        let (packed, text) = fetched.map_err(|error| error.cause())?;
        state.content = Some(packed);
        Ok(Source::Text(text))
    }

    /// Decodes the manifest where nobody waits for it: a large one takes a while.
    async fn decode(&self, source: Source, kinds: Arc<Kinds>) -> Result<Compiled, Cause> {
        let spec = &self.resource.spec;
        let namespace = spec.destination.default_namespace().map(str::to_owned);
        let generation = self.resource.metadata.generation.unwrap_or_default();
        let terms = (generation, spec.precedence);
        let decoding = tokio::task::spawn_blocking(move || {
            let text = source.text()?;
            let compiled = compile(&text, namespace.as_deref(), terms, &kinds);
            compiled.map_err(|error| invalid(&error))
        });
        let compiled = match decoding.await {
            Ok(compiled) => compiled?,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        if compiled.objects.is_empty() {
            return Err(empty_manifest());
        }
        Ok(compiled)
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
        if is_settled(&compiled) {
            state.compiled = Some(compiled.clone());
            return Ok(compiled);
        }
        let source = self.source(state).await?;
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
            compiled = Arc::new(self.decode(source.clone(), kinds).await?);
        }
        state.compiled = Some(compiled.clone());
        Ok(compiled)
    }
}

/// The text of a manifest, or what it can be made from.
#[derive(Clone)]
enum Source {
    Text(Arc<str>),
    Packed(Packed),
}

impl Source {
    fn text(&self) -> Result<Arc<str>, Cause> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::Packed(packed) => {
                let text = packed.text().map_err(|error| error.cause())?;
                Ok(text.into())
            }
        }
    }
}

fn no_manifest() -> Cause {
    Cause {
        class: Class::Invalid,
        reason: "ManifestInvalid",
        message: "give either spec.manifest or spec.manifestFrom".to_owned(),
    }
}

fn invalid(error: &ManifestError) -> Cause {
    Cause {
        class: Class::Invalid,
        reason: error.reason(),
        message: error.to_string(),
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

/// The inventory in a status, or the Go operator's list of managed resources.
pub(crate) fn inline_inventory(
    status: &vidra_api::VidraResourceStatus,
) -> Result<Inventory, Cause> {
    if let Some(stored) = &status.inventory {
        let lines = stored.entries.iter().map(String::as_str);
        return Inventory::decode(lines).map_err(|error| broken(&error.to_string()));
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
