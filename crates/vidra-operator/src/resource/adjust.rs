//! Changes of the settings while the controller runs.

use kube::ResourceExt;
use vidra_core::trigger::Trigger;

use super::Controller;
use crate::{queue::Work, settings::Changes};

impl Controller {
    /// Lets changes of the settings take effect at once, for ever. What is asked for anew in each
    /// turn, such as the budget, needs nothing more.
    pub(crate) async fn follow_settings(&self, mut changes: Changes) {
        while let Some((before, after)) = changes.next().await {
            if before.requeue_resources_after != after.requeue_resources_after {
                self.plan_passes();
            }
            if before.event_based_reconcile != after.event_based_reconcile {
                self.follow_anew();
            }
        }
    }

    /// Plans the next pass of every resource that has no interval of its own.
    fn plan_passes(&self) {
        let resources = self.resources.all();
        let concerned = resources
            .iter()
            .filter(|it| it.spec.interval.is_none() && !it.spec.suspend);
        for resource in concerned {
            self.plan_pass(resource, &resource.name_any());
        }
    }

    /// Lets every resource that has no wish of its own begin or cease to act on events. It looks
    /// at its objects once as well: what happened before nobody has told it.
    fn follow_anew(&self) {
        let resources = self.resources.all();
        let concerned = resources
            .iter()
            .filter(|it| it.spec.destination.reconcile_on_events.is_none());
        for resource in concerned {
            let work = Work::reconcile(Trigger::Daemon);
            self.queue.add(&resource.name_any(), work);
        }
    }
}
