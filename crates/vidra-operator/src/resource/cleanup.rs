//! The end of a `VidraResource`: parting with everything, then letting it go.

use std::collections::BTreeSet;

use serde_json::json;
use vidra_api::{DeletionPolicy, VidraResource, names::FINALIZER};
use vidra_core::{
    change::{Action, Cause},
    class::Class,
    identity::ObjectKey,
    inventory::Inventory,
    ownership::co_owners,
};

use super::{memory::State, outcome::Outcome, turn::Turn};

impl Turn<'_> {
    /// Makes sure that the finalizer is there before the first side effect.
    pub(crate) async fn ensure_finalizer(&self) -> Result<(), Cause> {
        let mut finalizers = self
            .resource
            .metadata
            .finalizers
            .clone()
            .unwrap_or_default();
        if finalizers.iter().any(|name| name == FINALIZER) {
            return Ok(());
        }
        finalizers.push(FINALIZER.to_owned());
        self.set_finalizers(&finalizers).await
    }

    /// Parts with every object and removes the finalizer when none is left.
    ///
    /// Deleting the resource is an explicit wish, so the deletion budget does not apply. The
    /// manifest is not read: a defect in it never keeps a resource from going.
    pub(crate) async fn cleanup(&self, state: &mut State) -> Result<Outcome, Cause> {
        let mut outcome = Outcome::default();
        if !self.has_finalizer() {
            return Ok(outcome);
        }
        self.load(state).await?;
        if !state.inventory.is_empty()
            && self.resource.spec.deletion_policy == DeletionPolicy::Delete
        {
            self.refuse_remote()?;
        }
        match self.resource.spec.deletion_policy {
            DeletionPolicy::Delete => {
                let keys: Vec<ObjectKey> = state
                    .inventory
                    .iter()
                    .map(|entry| entry.key.clone())
                    .collect();
                self.part_with_all(state, keys, &BTreeSet::new(), &mut outcome)
                    .await;
            }
            DeletionPolicy::Orphan => self.release_all(state, &mut outcome).await,
        }
        let is_waiting = |cause: &Cause| cause.reason == "Terminating";
        let is_free = outcome
            .changes
            .failures()
            .all(|failure| failure.cause.as_ref().is_some_and(is_waiting));
        if is_free {
            state.inventory = Inventory::default();
            let kept: Vec<String> = self.other_finalizers();
            self.set_finalizers(&kept).await?;
        }
        Ok(outcome)
    }

    fn has_finalizer(&self) -> bool {
        self.resource
            .metadata
            .finalizers
            .iter()
            .flatten()
            .any(|name| name == FINALIZER)
    }

    fn other_finalizers(&self) -> Vec<String> {
        let all = self.resource.metadata.finalizers.iter().flatten();
        all.filter(|name| *name != FINALIZER).cloned().collect()
    }

    async fn release_all(&self, state: &mut State, outcome: &mut Outcome) {
        if self.refuse_remote().is_err() {
            // Objects in a cluster that we cannot reach stay as they are; that is what was asked.
            return;
        }
        let entries: Vec<_> = state.inventory.iter().cloned().collect();
        for entry in entries {
            match self.let_go(&entry).await {
                Ok(()) => {
                    state.inventory.remove(&entry.key);
                    outcome.changes.record(entry.key, Action::Skipped);
                }
                Err(cause) => outcome.changes.explain(entry.key, Action::Failed, cause),
            }
        }
    }

    async fn let_go(&self, entry: &vidra_core::inventory::Entry) -> Result<(), Cause> {
        let key = &entry.key;
        let kinds = self.controller.catalogue.kinds(self.cluster).await;
        let kinds = kinds.map_err(|failure| failure.cause(key))?;
        let Some(served) = kinds.any(&key.group_kind(), &entry.version) else {
            return Ok(());
        };
        let found = self.cluster.look_at(&served.resource, key).await;
        let Some(live) = found.map_err(|failure| failure.cause(key))? else {
            return Ok(());
        };
        if live.entry_of(&self.manager).is_none() {
            return Ok(());
        }
        let (cluster, resource, me) = (self.cluster, &served.resource, &self.owner.id);
        let parted = if co_owners(&live, me).is_empty() {
            cluster.release(resource, &live, me).await
        } else {
            self.leave(resource, &live).await
        };
        parted.map_err(|failure| failure.cause(key))
    }

    async fn set_finalizers(&self, finalizers: &[String]) -> Result<(), Cause> {
        let patch = json!({"metadata": {
            "finalizers": finalizers, "resourceVersion": self.resource.metadata.resource_version,
        }});
        let api: kube::Api<VidraResource> = kube::Api::all(self.controller.cluster.client.clone());
        let params = kube::api::PatchParams::default();
        let patch = kube::api::Patch::Merge(&patch);
        let call = api.patch_metadata(self.name(), &params, &patch);
        match tokio::time::timeout(self.controller.cluster.timeout, call).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => Ok(()),
            Ok(Err(error)) => Err(finalizer_failed(&error.to_string())),
            Err(_) => Err(finalizer_failed("no answer in time")),
        }
    }
}

fn finalizer_failed(why: &str) -> Cause {
    let message = format!("cannot write the finalizer: {why}");
    Cause {
        class: Class::Transient,
        reason: "ClusterUnreachable",
        message,
    }
}
