//! Applying one object: everything between "this object has to be applied" and its new entry.

use serde_json::Value;
use vidra_cluster::{
    apply::{Application, Applied},
    failure::Failure,
    part::Deletion,
};
use vidra_core::{
    change::{Action, Cause},
    class::Class,
    drift::{self, Attribution, attribute},
    fields::FieldsEntry,
    identity::ObjectKey,
    inventory::{Entry, Origin},
    manifest::{ApplyMode, strip},
    observed::Observed,
    ownership::{Parting, co_owners, marks, part_with},
    takeover::Takeover,
};

use super::{decode::Desired, turn::Turn};

/// How often an object that is being deleted to be made again is looked at.
const RECREATE_POLLS: u32 = 40;

/// An object after its apply.
#[derive(Debug)]
pub(crate) struct Done {
    /// Its new inventory entry.
    pub(crate) entry: Entry,
    /// What happened to it.
    pub(crate) action: Action,
    /// Whose fields were put back or taken.
    pub(crate) attribution: Option<Attribution>,
    /// Something that people should know although it worked.
    pub(crate) remark: Option<Cause>,
}

impl Turn<'_> {
    /// Applies one object. `before` is what is known of the live object, if it exists.
    pub(crate) async fn apply(
        &self,
        desired: &Desired,
        mut entry: Entry,
        before: Option<Observed>,
    ) -> Result<Done, Cause> {
        let key = entry.key.clone();
        let Some(resource) = &desired.resource else {
            return Err(unknown_kind(&key, desired));
        };
        if let Some(why) = left_alone(desired, before.as_ref()) {
            return Ok(Done::skipped(entry, why));
        }
        let before = self
            .take_over(desired, before)
            .await
            .map_err(|failure| failure.cause(&key))?;
        settle_origin(&mut entry, before.as_ref(), &self.manager);
        let body = self.body(desired, &entry, before.as_ref());
        let application = Application {
            resource,
            key: &key,
            body: &body,
            manager: &self.manager,
            is_forced: self.policy.is_forced,
        };
        let (applied, remark) = match self.apply_shared(application, before.as_ref()).await {
            Err(failure) if failure.is_immutable() => (
                self.recreate(application, desired, &entry, &failure)
                    .await?,
                None,
            ),
            other => other.map_err(|failure| self.explain(&failure, &key))?,
        };
        Ok(self.done(desired, entry, before, (applied, remark)))
    }

    /// The body as sent: without ignored paths and yielded fields, with our mark.
    fn body(&self, desired: &Desired, entry: &Entry, before: Option<&Observed>) -> Value {
        let mut body = desired.body.clone();
        strip(&mut body, &desired.policy.ignore);
        if before.is_some_and(drift::autoscaler_holds_replicas) {
            drift::replicas().remove_from(&mut body);
        }
        let mark = self
            .owner
            .id
            .mark(&entry.key, self.policy.precedence, entry.origin);
        body["metadata"]["annotations"][mark.key] = Value::String(mark.value);
        body
    }

    async fn take_over(
        &self,
        desired: &Desired,
        before: Option<Observed>,
    ) -> Result<Option<Observed>, Failure> {
        let (Some(live), Some(resource)) = (&before, &desired.resource) else {
            return Ok(before);
        };
        let is_ours_already = live.entry_of(&self.manager).is_some();
        if is_ours_already || desired.policy.apply == ApplyMode::Merge {
            return Ok(before);
        }
        match Takeover::plan(live, &self.owner.id) {
            Some(takeover) => self
                .cluster
                .take_over(resource, live, &takeover)
                .await
                .map(Some),
            None => Ok(before),
        }
    }

    /// Applies with regard to other owners of Vidra: whoever has the higher precedence decides.
    async fn apply_shared(
        &self,
        application: Application<'_>,
        before: Option<&Observed>,
    ) -> Result<(Applied, Option<Cause>), Failure> {
        let is_shared = before.is_some_and(|live| !co_owners(live, &self.owner.id).is_empty());
        if !is_shared {
            return Ok((self.cluster.apply(application).await?, None));
        }
        let unforced = Application {
            is_forced: false,
            ..application
        };
        let failure = match self.cluster.apply(unforced).await {
            Ok(applied) => return Ok((applied, None)),
            Err(failure) if failure.reason == "FieldConflict" => failure,
            Err(failure) => return Err(failure),
        };
        self.settle_conflict(application, before, failure).await
    }

    async fn settle_conflict(
        &self,
        application: Application<'_>,
        before: Option<&Observed>,
        failure: Failure,
    ) -> Result<(Applied, Option<Cause>), Failure> {
        let stronger = self.stronger_owner(before, &failure);
        let Some(stronger) = stronger else {
            let is_forced = self.policy.is_forced || is_only_with_vidra(&failure);
            let applied = self
                .cluster
                .apply(Application {
                    is_forced,
                    ..application
                })
                .await?;
            return Ok((applied, Some(won(&failure))));
        };
        let mut body = application.body.clone();
        let lost: Vec<String> = failure
            .conflicting()
            .into_iter()
            .map(|(_, field)| field)
            .collect();
        for field in &lost {
            vidra_core::fields::FieldPath::parse_conflict(field).remove_from(&mut body);
        }
        let yielded = Application {
            body: &body,
            is_forced: false,
            ..application
        };
        let applied = self.cluster.apply(yielded).await?;
        Ok((applied, Some(yielded_to(&stronger, &lost))))
    }

    /// The other owner of Vidra that decides, if it is not us.
    fn stronger_owner(&self, before: Option<&Observed>, failure: &Failure) -> Option<String> {
        let holders = failure.conflicting();
        let mine = (
            self.policy.precedence,
            std::cmp::Reverse(self.owner.id.name()),
        );
        let rivals = before.map(marks).unwrap_or_default();
        rivals
            .iter()
            .filter(|rival| {
                holders
                    .iter()
                    .any(|(by, _)| *by == rival.owner.field_manager())
            })
            .filter(|rival| (rival.precedence, std::cmp::Reverse(rival.owner.name())) > mine)
            .map(|rival| rival.owner.name().to_owned())
            .next()
    }

    /// Deletes and makes again an object whose immutable field has to change, where that is asked.
    async fn recreate(
        &self,
        application: Application<'_>,
        desired: &Desired,
        entry: &Entry,
        failure: &Failure,
    ) -> Result<Applied, Cause> {
        let key = application.key;
        let is_asked = self.policy.recreates || desired.policy.recreate;
        if !is_asked || vidra_core::guard::is_protected(key) {
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

    fn explain(&self, failure: &Failure, key: &ObjectKey) -> Cause {
        let mut cause = failure.cause(key);
        if failure.reason == "FieldConflict" && !self.policy.is_forced {
            let holders: Vec<String> = failure
                .conflicting()
                .into_iter()
                .map(|(manager, field)| format!("{field} is held by {manager}"))
                .collect();
            cause.message = format!("{}; fieldConflicts is Report", holders.join(", "));
        }
        cause
    }

    fn done(
        &self,
        desired: &Desired,
        mut entry: Entry,
        before: Option<Observed>,
        (applied, remark): (Applied, Option<Cause>),
    ) -> Done {
        let Applied { is_created, live } = applied;
        if is_created {
            entry.origin = Origin::Created;
        } else if is_unsettled(&entry, before.as_ref(), &live) {
            let is_born = live.was_born_of(&self.manager);
            entry.origin = if is_born {
                Origin::Created
            } else {
                Origin::Adopted
            };
        }
        entry.version.clone_from(&desired.version);
        entry.uid = Some(live.uid.clone());
        entry.hash = live.entry_of(&self.manager).map(FieldsEntry::hash);
        entry.desired = Some(desired.digest.clone());
        self.owner.expect(&entry, &live);
        let is_same = before
            .as_ref()
            .is_some_and(|old| old.resource_version == live.resource_version);
        let action = match (is_created, is_same) {
            (true, _) => Action::Created,
            (false, true) => Action::Unchanged,
            (false, false) => Action::Configured,
        };
        let attribution = before.map(|before| attribute(&before, &live, &self.manager));
        Done {
            entry,
            action,
            attribution,
            remark,
        }
    }
}

impl Done {
    fn skipped(entry: Entry, why: &str) -> Self {
        let remark = Cause {
            class: Class::Waiting,
            reason: "LeftAlone",
            message: why.to_owned(),
        };
        Self {
            entry,
            action: Action::Skipped,
            attribution: None,
            remark: Some(remark),
        }
    }
}

/// After a crash, or when somebody replaced the object, find out whose it is before we write.
fn settle_origin(entry: &mut Entry, before: Option<&Observed>, manager: &str) {
    let Some(live) = before else { return };
    let is_ours = live.entry_of(manager).is_some();
    let is_replaced = entry.uid.as_ref().is_some_and(|uid| *uid != live.uid);
    match entry.origin {
        Origin::Announced if is_ours && live.was_born_of(manager) => entry.origin = Origin::Created,
        Origin::Announced => entry.origin = Origin::Adopted,
        Origin::Created if is_replaced && !is_ours && marks(live).is_empty() => {
            entry.origin = Origin::Adopted;
        }
        _ => {}
    }
}

/// Nobody told us that we made it, and we did not see it before we wrote.
fn is_unsettled(entry: &Entry, before: Option<&Observed>, live: &Observed) -> bool {
    let is_other = before.is_none() && entry.uid.as_ref().is_some_and(|uid| *uid != live.uid);
    entry.origin == Origin::Announced || (entry.origin == Origin::Created && is_other)
}

fn left_alone(desired: &Desired, before: Option<&Observed>) -> Option<&'static str> {
    match desired.policy.apply {
        ApplyMode::Ignore => Some("its annotation says ssa: Ignore"),
        ApplyMode::IfNotPresent if before.is_some() => {
            Some("it exists and its annotation says ssa: IfNotPresent")
        }
        _ => None,
    }
}

fn is_only_with_vidra(failure: &Failure) -> bool {
    failure
        .conflicting()
        .iter()
        .all(|(manager, _)| manager.starts_with("vidra/"))
}

pub(crate) fn unknown_kind(key: &ObjectKey, desired: &Desired) -> Cause {
    let kind = key.group_kind();
    let version = &desired.version;
    Cause {
        class: Class::Waiting,
        reason: "UnknownKind",
        message: format!(
            "the cluster does not serve {kind} in version {version}; install its CRD or correct apiVersion"
        ),
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

fn won(failure: &Failure) -> Cause {
    let mut others: Vec<String> = failure
        .conflicting()
        .into_iter()
        .map(|(manager, _)| manager)
        .collect();
    others.sort();
    others.dedup();
    Cause {
        class: Class::Conflict,
        reason: "PrecedenceWon",
        message: format!(
            "other content is wanted by {}; ours decides",
            others.join(", ")
        ),
    }
}

fn yielded_to(stronger: &str, fields: &[String]) -> Cause {
    Cause {
        class: Class::Conflict,
        reason: "PrecedenceLost",
        message: format!("VidraResource {stronger} decides {}", fields.join(", ")),
    }
}
