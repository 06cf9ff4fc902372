//! Applying one object: everything between "this object has to be applied" and its new entry.

use kube::api::ApiResource;
use serde_json::Value;
use vidra_cluster::{
    apply::{Application, Applied},
    failure::Failure,
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
    owner::{OwnerId, Terms},
    ownership::{may_take, origin_of, standing},
    takeover::Takeover,
};

use super::{decode::Desired, turn::Turn};

/// One object to be applied.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    /// What it should be.
    pub(crate) desired: &'a Desired,
    /// How its kind is addressed.
    pub(crate) resource: &'a ApiResource,
    /// Which one it is.
    pub(crate) key: &'a ObjectKey,
}

/// An object after its apply.
#[derive(Debug)]
pub(crate) struct Done {
    /// Its new inventory entry.
    pub(crate) entry: Entry,
    /// What happened to it.
    pub(crate) action: Action,
    /// Whose fields were put back or taken.
    pub(crate) attribution: Option<Attribution>,
    /// What people should know although it worked.
    pub(crate) remarks: Vec<Cause>,
}

impl Turn<'_> {
    /// Applies one object. `before` is what is known of the live object, if it is known to exist.
    pub(crate) async fn apply(
        &self,
        desired: &Desired,
        entry: Entry,
        before: Option<Observed>,
    ) -> Result<Done, Cause> {
        let Some(resource) = &desired.resource else {
            return Err(unknown_kind(&entry.key, desired));
        };
        let look = || async {
            let found = self.cluster.look_at(resource, &entry.key).await;
            found.map_err(|failure| failure.cause(&entry.key))
        };
        let before = match before {
            // What is there must not be changed, and what we know of it may be old.
            None if desired.policy.apply == ApplyMode::IfNotPresent => look().await?,
            known => known,
        };
        if let Some(why) = left_alone(desired, before.as_ref()) {
            return Ok(Done::skipped(entry, why));
        }
        let job = Job {
            desired,
            resource,
            key: &entry.key,
        };
        if before.is_some() {
            return self.apply_seen(job, entry.clone(), before).await;
        }
        if let Some(result) = self.apply_unseen(job, &entry).await {
            return result;
        }
        self.apply_seen(job, entry.clone(), look().await?).await
    }

    /// Applies an object that we have not seen: it should not be there, but it may have been made
    /// meanwhile, or only have lost its label. `None`: it is there, and has to be looked at first.
    async fn apply_unseen(&self, job: Job<'_>, entry: &Entry) -> Option<Result<Done, Cause>> {
        let body = self.body(job.desired, entry, None);
        let unforced = Application {
            is_forced: false,
            ..self.application(job, &body)
        };
        match self.cluster.apply(unforced).await {
            Ok(applied) => {
                let done = self.done(job.desired, entry.clone(), None, applied);
                Some(self.correct_mark(job, entry.origin, done).await)
            }
            Err(failure) if failure.reason == "FieldConflict" || failure.is_immutable() => None,
            Err(failure) => Some(Err(failure.cause(job.key))),
        }
    }

    /// Applies an object that we have looked at.
    async fn apply_seen(
        &self,
        job: Job<'_>,
        mut entry: Entry,
        before: Option<Observed>,
    ) -> Result<Done, Cause> {
        self.may_write(&entry, before.as_ref())?;
        let before = self
            .take_over(job, &entry, before)
            .await
            .map_err(|failure| failure.cause(job.key))?;
        settle_origin(&mut entry, before.as_ref(), &self.owner.id);
        let body = self.body(job.desired, &entry, before.as_ref());
        let application = self.application(job, &body);
        let origin = entry.origin;
        let (applied, remark) = match self
            .apply_shared(application, job, &entry, before.as_ref())
            .await
        {
            Err(failure) if failure.is_immutable() => {
                let made = self.recreate(application, job.desired, &entry, &failure);
                (made.await?, None)
            }
            other => other.map_err(|failure| self.explain(&failure, job.key))?,
        };
        let mut done = self.done(job.desired, entry, before, applied);
        done.remarks.extend(remark);
        self.correct_mark(job, origin, done).await
    }

    fn application<'a>(&'a self, job: Job<'a>, body: &'a Value) -> Application<'a> {
        Application {
            resource: job.resource,
            key: job.key,
            body,
            manager: &self.manager,
            is_forced: self.policy.is_forced && job.desired.policy.apply != ApplyMode::Merge,
        }
    }

    /// An object that is not the one that we know may be somebody else's by now.
    fn may_write(&self, entry: &Entry, before: Option<&Observed>) -> Result<(), Cause> {
        let unknown = before.filter(|live| entry.uid.as_ref() != Some(&live.uid));
        let Some(live) = unknown else {
            return Ok(());
        };
        may_take(&standing(live, &self.owner.id), self.policy.adoption)
            .map(|_| ())
            .map_err(|why| claimed(&why))
    }

    /// The mark was written before it was known whether we made the object. If it says the wrong
    /// thing, owners that join later would delete what was there before Vidra.
    async fn correct_mark(&self, job: Job<'_>, said: Origin, done: Done) -> Result<Done, Cause> {
        let is_adopted = |origin| origin == Origin::Adopted;
        if is_adopted(said) == is_adopted(done.entry.origin) {
            return Ok(done);
        }
        let body = self.body(job.desired, &done.entry, None);
        let application = Application {
            is_forced: false,
            ..self.application(job, &body)
        };
        let applied = self.cluster.apply(application).await;
        let applied = applied.map_err(|failure| self.explain(&failure, job.key))?;
        let corrected = self.done(job.desired, done.entry, None, applied);
        Ok(Done {
            entry: corrected.entry,
            ..done
        })
    }

    /// The body as sent: without ignored paths and yielded fields, with our mark.
    fn body(&self, desired: &Desired, entry: &Entry, before: Option<&Observed>) -> Value {
        let mut body = desired.body.clone();
        strip(&mut body, &desired.policy.ignore);
        let is_autoscaled = self.owner.sight(&entry.key).is_autoscaled;
        if is_autoscaled || before.is_some_and(drift::autoscaler_holds_replicas) {
            drift::replicas().remove_from(&mut body);
        }
        self.put_mark(&mut body, desired, entry, false);
        body
    }

    /// Puts our mark on a body.
    pub(crate) fn put_mark(
        &self,
        body: &mut Value,
        desired: &Desired,
        entry: &Entry,
        yields: bool,
    ) {
        let terms = Terms {
            precedence: self.policy.precedence,
            origin: entry.origin,
            yields,
            content: desired.digest.get(..8).unwrap_or_default(),
        };
        let mark = self.owner.id.mark(&entry.key, terms);
        body["metadata"]["annotations"][mark.key] = Value::String(mark.value);
    }

    async fn take_over(
        &self,
        job: Job<'_>,
        entry: &Entry,
        before: Option<Observed>,
    ) -> Result<Option<Observed>, Failure> {
        let Some(live) = &before else {
            return Ok(before);
        };
        let is_ours_already = live.entry_of(&self.manager).is_some();
        // Moving somebody's fields is taking them: not where conflicts are to be reported.
        let is_allowed = self.application(job, &Value::Null).is_forced;
        if is_ours_already || !(is_allowed || entry.origin == Origin::Inherited) {
            return Ok(before);
        }
        match Takeover::plan(live, &self.owner.id) {
            Some(takeover) => self
                .cluster
                .take_over(job.resource, live, &takeover)
                .await
                .map(Some),
            None => Ok(before),
        }
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
        applied: Applied,
    ) -> Done {
        let Applied { is_created, live } = applied;
        if is_created {
            entry.origin = Origin::Created;
        } else if is_unsettled(&entry, before.as_ref(), &live) {
            entry.origin = origin_of(&live, &self.owner.id);
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
        let taken = before
            .iter()
            .flat_map(|before| drift::taken(before, &live, &self.manager));
        let remarks = taken.filter_map(|taken| taken_remark(&taken)).collect();
        let attribution = before.map(|before| attribute(&before, &live, &self.manager));
        Done {
            entry,
            action,
            attribution,
            remarks,
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
            remarks: vec![remark],
        }
    }
}

/// After a crash, or when somebody replaced the object, find out whose it is before we write.
fn settle_origin(entry: &mut Entry, before: Option<&Observed>, me: &OwnerId) {
    let Some(live) = before else { return };
    let is_ours = live.entry_of(&me.field_manager()).is_some();
    let is_replaced = entry.uid.as_ref().is_some_and(|uid| *uid != live.uid);
    match entry.origin {
        Origin::Announced => entry.origin = origin_of(live, me),
        Origin::Created if is_replaced && !is_ours => entry.origin = origin_of(live, me),
        _ => {}
    }
}

/// Nobody told us that we made it, and we did not see it before we wrote.
fn is_unsettled(entry: &Entry, before: Option<&Observed>, live: &Observed) -> bool {
    let is_other = before.is_none() && entry.uid.as_ref().is_some_and(|uid| *uid != live.uid);
    entry.origin == Origin::Announced || (entry.origin == Origin::Created && is_other)
}

pub(crate) fn left_alone(desired: &Desired, before: Option<&Observed>) -> Option<&'static str> {
    match desired.policy.apply {
        ApplyMode::Ignore => Some("its annotation says ssa: Ignore"),
        ApplyMode::IfNotPresent if before.is_some() => {
            Some("it exists and its annotation says ssa: IfNotPresent")
        }
        _ => None,
    }
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

pub(crate) fn claimed(why: &str) -> Cause {
    Cause {
        class: Class::Denied,
        reason: "ClaimedByOther",
        message: format!("left untouched: {why}"),
    }
}

/// What we took from somebody who is not an owner of Vidra.
fn taken_remark(taken: &Attribution) -> Option<Cause> {
    let by = taken.by.as_deref().filter(|by| !by.starts_with("vidra/"))?;
    let fields: Vec<String> = taken.fields.iter().map(ToString::to_string).collect();
    Some(Cause {
        class: Class::Conflict,
        reason: "FieldsTaken",
        message: format!(
            "{} was held by {by} and is taken from it",
            fields.join(", ")
        ),
    })
}
