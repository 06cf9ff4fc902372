//! One turn of one owner: what every step needs.

use vidra_api::VidraResource;
use vidra_cluster::connect::Cluster;
use vidra_core::{change::Cause, class::Class};

use super::{Controller, memory::Owner, policy::Policy};

/// The surroundings of a turn.
pub(crate) struct Turn<'a> {
    /// The controller.
    pub(crate) controller: &'a Controller,
    /// The cluster that the objects are in.
    pub(crate) cluster: &'a Cluster,
    /// The owner.
    pub(crate) owner: &'a Owner,
    /// Its custom resource, as last seen.
    pub(crate) resource: &'a VidraResource,
    /// What it asks for.
    pub(crate) policy: Policy,
    /// The name under which it applies.
    pub(crate) manager: String,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(
        controller: &'a Controller,
        owner: &'a Owner,
        resource: &'a VidraResource,
    ) -> Self {
        Self {
            controller,
            cluster: &controller.cluster,
            owner,
            resource,
            policy: Policy::of(resource, &controller.settings.get()),
            manager: owner.id.field_manager(),
        }
    }

    /// The name of the custom resource.
    pub(crate) fn name(&self) -> &str {
        self.owner.id.name()
    }
    /// Refuses a destination that this operator cannot reach, before anything is touched: objects
    /// meant for another cluster must never end up in this one.
    pub(crate) fn refuse_remote(&self) -> Result<(), Cause> {
        let Some(server) = self.resource.spec.destination.remote_server() else {
            return Ok(());
        };
        let message = format!(
            "destination.server is {server:?}, and only the cluster that Vidra runs in is supported yet"
        );
        Err(Cause {
            class: Class::Invalid,
            reason: "RemoteCluster",
            message,
        })
    }
}
