//! Making an object anew whose immutable field has to change, where that is asked.

use vidra_cluster::{
    apply::{Application, Applied},
    failure::Failure,
    part::Deletion,
};
use vidra_core::{
    change::Cause,
    class::Class,
    guard::is_protected,
    identity::ObjectKey,
    inventory::Entry,
    observed::Observed,
    ownership::{Parting, part_with},
};

use super::{decode::Desired, turn::Turn};

/// How often an object that is being deleted to be made again is looked at.
const RECREATE_POLLS: u32 = 40;

impl Turn<'_> {
    /// Deletes and makes again an object whose immutable field has to change, where that is asked.
    pub(crate) async fn recreate(
        &self,
        application: Application<'_>,
        desired: &Desired,
        entry: &Entry,
        failure: &Failure,
    ) -> Result<Applied, Cause> {
        let key = application.key;
        let is_asked = self.policy.recreates || desired.policy.recreate;
        if !is_asked || is_protected(key) {
            return Err(immutable(failure, key));
        }
        let found = self.cluster.look_at(application.resource, key).await;
        let Some(live) = found.map_err(|failure| failure.cause(key))? else {
            return self
                .cluster
                .apply(application)
                .await
                .map_err(|failure| failure.cause(key));
        };
        if part_with(entry, &live, &self.owner.id) != Parting::Delete {
            return Err(immutable(failure, key));
        }
        self.delete_and_wait(application, &live).await?;
        self.cluster
            .apply(application)
            .await
            .map_err(|failure| failure.cause(key))
    }

    async fn delete_and_wait(
        &self,
        application: Application<'_>,
        live: &Observed,
    ) -> Result<(), Cause> {
        let (resource, key) = (application.resource, application.key);
        let explain = |failure: Failure| failure.cause(key);
        if self.cluster.delete(resource, live).await.map_err(explain)? == Deletion::Gone {
            return Ok(());
        }
        for _ in 0..RECREATE_POLLS {
            tokio::time::sleep(std::time::Duration::from_millis(250)).await;
            match self.cluster.look_at(resource, key).await.map_err(explain)? {
                Some(found) if found.uid == live.uid => {}
                _ => return Ok(()),
            }
        }
        Err(Cause {
            class: Class::Waiting,
            reason: "Terminating",
            message: "waiting for finalizers before it can be made again".to_owned(),
        })
    }
}

fn immutable(failure: &Failure, key: &ObjectKey) -> Cause {
    let cause = failure.cause(key);
    let advice = "recreate it by hand, or allow it with spec.immutableFields: Recreate or the \
                  annotation vidra.infrahub.operators.com/recreate: enabled";
    Cause {
        message: format!("{}; {advice}", cause.message),
        ..cause
    }
}
