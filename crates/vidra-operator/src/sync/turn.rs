//! One turn of one sync: what every step needs.

use kube::ResourceExt;
use vidra_api::InfrahubSync;

use super::Controller;

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
}
