//! One turn of one sync: what every step needs.

use std::sync::Arc;

use kube::ResourceExt;
use vidra_api::{InfrahubSync, VidraResource};

use super::{Controller, memory::State};

/// The surroundings of a turn.
pub(crate) struct Turn<'a> {
    /// The controller.
    pub(crate) controller: &'a Controller,
    /// The custom resource, as last seen.
    pub(crate) sync: &'a InfrahubSync,
    /// Its name.
    pub(crate) name: String,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(controller: &'a Controller, sync: &'a InfrahubSync) -> Self {
        Self {
            controller,
            sync,
            name: sync.name_any(),
        }
    }

    /// The uid of the sync.
    pub(crate) fn uid(&self) -> String {
        self.sync.uid().unwrap_or_default()
    }

    /// The value of an annotation of the sync.
    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.sync.annotations().get(key).map(String::as_str)
    }
    /// A resource as it is now: as the watch has shown it, or as it was written after that.
    pub(crate) fn newest(&self, state: &State, name: &str) -> Option<Arc<VidraResource>> {
        let known = &self.controller.resources;
        let mut written = state.written.iter().filter(|it| it.is_unseen(known));
        let written = written.rfind(|it| it.resource.name_any() == name);
        written.map_or_else(|| known.get(name), |it| Some(it.resource.clone()))
    }
}
