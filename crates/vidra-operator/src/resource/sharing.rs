//! An object that other owners have too: whoever has the higher precedence decides, and whoever
//! leaves it does not tear out what the others go on from.

use std::collections::BTreeMap;

use kube::api::ApiResource;
use vidra_cluster::{
    apply::{Application, Applied},
    failure::Failure,
};
use vidra_core::{
    change::Cause,
    class::Class,
    fields::FieldPath,
    inventory::Entry,
    manifest::ApplyMode,
    observed::Observed,
    ownership::{co_owners, marks},
    rivalry::Rivalry,
};

use super::{apply::Job, turn::Turn};

impl Turn<'_> {
    /// Applies with regard to other owners of Vidra: whoever has the higher precedence decides.
    pub(crate) async fn apply_shared(
        &self,
        application: Application<'_>,
        job: Job<'_>,
        entry: &Entry,
        before: Option<&Observed>,
    ) -> Result<(Applied, Option<Cause>), Failure> {
        let is_shared = before.is_some_and(|live| !co_owners(live, &self.owner.id).is_empty())
            || self.owner.sight(job.key).is_shared;
        if application.is_forced && !is_shared {
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
        // What was known of the object is too old to decide by.
        let Some(live) = self.cluster.look_at(job.resource, job.key).await? else {
            return Err(failure);
        };
        self.settle_conflict(application, job, entry, (&live, failure))
            .await
    }

    /// Leaves to others what they decide, and takes the rest.
    async fn settle_conflict(
        &self,
        application: Application<'_>,
        job: Job<'_>,
        entry: &Entry,
        (live, failure): (&Observed, Failure),
    ) -> Result<(Applied, Option<Cause>), Failure> {
        let stronger = self.stronger_owners(live);
        let is_merge = job.desired.policy.apply == ApplyMode::Merge;
        let conflicts = failure.conflicting();
        let (left, rest): (Vec<_>, Vec<_>) = conflicts
            .iter()
            .partition(|(manager, _)| is_merge || stronger.contains_key(manager));
        let mut body = application.body.clone();
        for (_, field) in &left {
            if let Some(path) = FieldPath::of_conflict(field, application.body) {
                path.remove_from(&mut body);
            }
        }
        let deciding = left.iter().find_map(|(manager, _)| stronger.get(manager));
        if deciding.is_some() {
            self.put_mark(&mut body, job.desired, entry, true);
        }
        let is_only_with_vidra = rest.iter().all(|(by, _)| by.starts_with("vidra/"));
        let settled = Application {
            body: &body,
            is_forced: application.is_forced || is_only_with_vidra && !rest.is_empty(),
            ..application
        };
        let remark = conflict_remark(deciding.map(String::as_str), &left, &rest);
        Ok((self.cluster.apply(settled).await?, remark))
    }

    /// Leaves an object to its other owners.
    ///
    /// Fields that only we wanted are withdrawn. But owners that yield to us have left out what
    /// they want otherwise: withdrawn, that would fall back to a default or vanish until they have
    /// noticed. So it is handed to them as it is, in the write that takes our mark off, and their
    /// next apply turns it into what they want, whenever that is. Nobody has to wait for it.
    pub(crate) async fn leave(
        &self,
        resource: &ApiResource,
        live: &Observed,
    ) -> Result<(), Failure> {
        let (cluster, me) = (self.cluster, &self.owner.id);
        let heirs = Rivalry::over(live, me).weaker;
        if heirs.is_empty() {
            match cluster.withdraw(resource, live, &self.manager).await {
                // The object cannot be without our fields, so they stay.
                Err(failure) if failure.is_content_refused() => {}
                other => return other,
            }
        }
        cluster.bequeath(resource, live, me, &heirs).await
    }

    /// The field managers of other owners that decide when we want other content, with names.
    fn stronger_owners(&self, live: &Observed) -> BTreeMap<String, String> {
        let id = &self.owner.id;
        marks(live)
            .into_iter()
            .filter(|rival| rival.is_stronger_than(self.policy.precedence, id))
            .map(|rival| (rival.owner.field_manager(), rival.owner.name().to_owned()))
            .collect()
    }
}

fn conflict_remark(
    deciding: Option<&str>,
    left: &[&(String, String)],
    rest: &[&(String, String)],
) -> Option<Cause> {
    let remark = |reason, message| Cause {
        class: Class::Conflict,
        reason,
        message,
    };
    let fields: Vec<&str> = left.iter().map(|(_, field)| field.as_str()).collect();
    let fields = fields.join(", ");
    if let Some(name) = deciding {
        let message = format!("VidraResource {name} decides {fields}");
        return Some(remark("PrecedenceLost", message));
    }
    if let Some((manager, _)) = left.first() {
        let message = format!("{fields} left to {manager}: the annotation says ssa: Merge");
        return Some(remark("LeftToOthers", message));
    }
    let (manager, _) = rest.iter().find(|(by, _)| by.starts_with("vidra/"))?;
    let message = format!("other content is wanted by {manager}; ours decides");
    Some(remark("PrecedenceWon", message))
}
