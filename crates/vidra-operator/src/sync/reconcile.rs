//! The reconcile of one sync, step by step.
//!
//! ```text
//!   resolve   pure   server, branch, date, credentials
//!   poll      I/O    one query for all syncs with the same source
//!   select    pure   the artifacts of this sync; nothing at all is asked about once more
//!   deliver   pure   which resources to make, to change, to keep; which are stale
//!   fetch     I/O    only content that changed, checked
//!   write     I/O    only resources that changed
//!   remove    I/O    what is confirmed to be gone, when all else is ready
//! ```

use std::{collections::BTreeMap, sync::Arc};

use futures::{StreamExt, stream};
use kube::ResourceExt;
use tokio::time::Instant;
use vidra_api::VidraResource;
use vidra_core::delivery::{Assignment, Listed, Own, Stale, Step, deliver, is_usable_id};
use vidra_infrahub::{Artifact, Error, Source as Selected, Trust, trust};

use super::{
    failure::SyncError,
    memory::{State, Written},
    outcome::{Delivered, Outcome},
    poll::Answer,
    resource::{artifact_of, is_free, own},
    source::{Firsts, Source, resolve},
    turn::Turn,
};
use crate::lock;

/// Contents that one sync asks for at once; how many all syncs may is the session's to say.
const CONCURRENCY: usize = 8;

/// Why a sync ended early, and when to try again.
pub(crate) struct Ended {
    /// Why.
    pub(crate) error: SyncError,
    /// When all syncs with the same source try again.
    pub(crate) retry_at: Option<Instant>,
}

/// The resources of a sync by name.
pub(crate) type Owned = BTreeMap<String, (Arc<VidraResource>, Own)>;

/// What the steps of one reconcile hand on.
pub(crate) struct Round {
    /// Where the sync reads from.
    pub(crate) source: Source,
    /// What Infrahub answered.
    pub(crate) answer: Answer,
    /// The resources of the sync before anything is written.
    pub(crate) own: Owned,
    /// Those of artifacts that are not listed.
    pub(crate) stale: Vec<Stale>,
}

impl From<SyncError> for Ended {
    fn from(error: SyncError) -> Self {
        Self {
            error,
            retry_at: None,
        }
    }
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        SyncError::from(error).into()
    }
}

impl Turn<'_> {
    /// Makes the resources of this sync equal to the artifacts in Infrahub.
    pub(crate) async fn reconcile(
        &self,
        state: &mut State,
        asked_at: Instant,
    ) -> Result<Outcome, Ended> {
        let source = self.resolve()?;
        let name = self.sync.spec.source.artifact_name();
        let polled = self.controller.poll(&source, name, asked_at).await;
        let answer = polled.result.clone().map_err(|error| Ended {
            error,
            retry_at: polled.retry_at,
        })?;
        let artifacts = self.select(&source, &answer).await?;
        let mut round = Round {
            own: self.own(state, &artifacts),
            source,
            answer,
            stale: Vec::new(),
        };
        let mut outcome = self.deliver(state, &mut round, artifacts).await;
        self.remove(state, &round, &mut outcome).await;
        outcome.is_plaintext = round.answer.session.is_plaintext();
        Ok(outcome)
    }

    fn resolve(&self) -> Result<Source, SyncError> {
        let controller = self.controller;
        let firsts = Firsts::of(lock(&controller.syncs).values());
        let secrets = controller.secrets.get();
        let namespace = &controller.settings.get().namespace;
        resolve(self.sync, secrets.as_deref(), &firsts, namespace)
    }

    /// The artifacts of this sync. An answer without any is believed only if somebody said that
    /// it may be, and never if the name means nothing to Infrahub.
    async fn select(&self, source: &Source, answer: &Answer) -> Result<Vec<Artifact>, SyncError> {
        let spec = &self.sync.spec.source;
        let name = spec.artifact_name();
        let listed = answer.listing.artifacts.get(name);
        let artifacts = listed.cloned().unwrap_or_default();
        if !artifacts.is_empty() {
            return Ok(artifacts);
        }
        let known = answer.session.name_is_known(&source.view(), name).await?;
        let (name, branch) = (name.to_owned(), source.branch.clone());
        if !known.is_known() {
            return Err(SyncError::UnknownName { name, branch });
        }
        if known.artifacts > 0 && answer.listing.source == Selected::Own {
            return Err(Error::ListChanged.into());
        }
        if spec.allow_empty {
            return Ok(artifacts);
        }
        if known.artifacts > 0 {
            return Err(SyncError::NothingSelected {
                name,
                branch,
                artifacts: known.artifacts,
            });
        }
        Err(SyncError::NoArtifacts {
            name,
            branch,
            definitions: known.definitions,
        })
    }

    /// The resources of this sync, and those that belong to nobody and were made from one of its
    /// artifacts.
    fn own(&self, state: &mut State, artifacts: &[Artifact]) -> Owned {
        let known = &self.controller.resources;
        let mut own_ones = known.of_sync(&self.uid());
        // How the sync calls what it makes. A label can be edited, a name cannot.
        let mut artifact_by_name = BTreeMap::new();
        for artifact in artifacts {
            let second = vidra_core::delivery::second_name(&artifact.id, &self.name);
            let names = [artifact.id.clone(), second];
            // One resource is enough: what is free stays free if there is one already.
            let has_one = own_ones.iter().any(|it| names.contains(&it.name_any()));
            for name in names {
                let free = known.get(&name).filter(|it| !has_one && is_free(it));
                own_ones.extend(free);
                artifact_by_name.insert(name, &artifact.id);
            }
        }
        // Last, because it is newer than what the watch has shown.
        state.written.retain(|it| it.is_unseen(known));
        own_ones.extend(state.written.iter().map(|it| it.resource.clone()));
        own_ones
            .into_iter()
            .map(|resource| {
                let name = resource.name_any();
                let artifact = artifact_by_name.get(&name).map(|id| (*id).clone());
                let artifact = artifact.unwrap_or_else(|| artifact_of(&resource));
                let own = own(self.sync, &resource, &artifact, known.digest_of(&resource));
                (name, (resource, own))
            })
            .collect()
    }

    async fn deliver(
        &self,
        state: &mut State,
        round: &mut Round,
        artifacts: Vec<Artifact>,
    ) -> Outcome {
        let (own, answer) = (&round.own, &round.answer);
        let mut outcome = Outcome::default();
        let listed: Vec<Listed> = artifacts.iter().map(|it| listed(state, it)).collect();
        let owned: Vec<Own> = own.values().map(|(_, own)| own.clone()).collect();
        let is_taken = |name: &str| {
            let taken = self.controller.resources.get(name).is_some();
            taken && !own.contains_key(name)
        };
        let delivery = deliver(&self.name, &listed, &owned, is_taken);
        let mut steps = delivery.assignments.iter();
        if steps.any(|it| it.step == Step::Create) && self.has_ended().await {
            return outcome;
        }
        let jobs = artifacts.into_iter().zip(delivery.assignments);
        let jobs = jobs.map(|(artifact, assignment)| async move {
            let known = assignment.resource.as_ref().and_then(|name| own.get(name));
            let result = self.write(answer, &artifact, &assignment, known).await;
            (artifact, assignment, result)
        });
        let mut results = stream::iter(jobs).buffered(CONCURRENCY);
        while let Some((artifact, assignment, result)) = results.next().await {
            let carried = carried(own, &assignment);
            outcome.note(state, artifact, (assignment, carried), result);
        }
        drop(results);
        round.stale = delivery.stale;
        outcome
    }

    /// Does what has to be done about one artifact.
    async fn write(
        &self,
        answer: &Answer,
        artifact: &Artifact,
        assignment: &Assignment,
        known: Option<&(Arc<VidraResource>, Own)>,
    ) -> Result<Option<VidraResource>, SyncError> {
        let Trust::Trusted {
            storage_id,
            checksum,
        } = trust(artifact)
        else {
            return Ok(None);
        };
        let fetch = || {
            self.controller
                .fetch(&answer.session, &storage_id, &checksum)
        };
        match (assignment.step, &assignment.resource, known) {
            (Step::Create, Some(name), _) => {
                let content = fetch().await?;
                self.create(name, artifact, &content).await.map(Some)
            }
            (Step::Update, _, Some((resource, own))) => {
                let is_same = own.checksum.as_ref() == Some(&checksum);
                let content = if is_same { None } else { Some(fetch().await?) };
                let updated = self.update(resource, artifact, content.as_ref());
                updated.await.map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// What the list says about an artifact. Content that was refused is not asked for again until
/// it changes.
fn listed(state: &State, artifact: &Artifact) -> Listed {
    let checksum = match trust(artifact) {
        Trust::Trusted { checksum, .. } => Some(checksum),
        Trust::Untrusted(_) => None,
    };
    let is_refused = state.refusal(&artifact.id, checksum.as_deref()).is_some();
    let is_usable = is_usable_id(&artifact.id);
    Listed {
        id: artifact.id.clone(),
        checksum: checksum.filter(|_| is_usable && !is_refused),
    }
}

/// The checksum of what the resource of an artifact carried before.
fn carried(own: &Owned, assignment: &Assignment) -> Option<String> {
    let (_, own) = own.get(assignment.resource.as_ref()?)?;
    own.checksum.clone()
}

impl Outcome {
    fn note(
        &mut self,
        state: &mut State,
        artifact: Artifact,
        (assignment, carried): (Assignment, Option<String>),
        result: Result<Option<VidraResource>, SyncError>,
    ) {
        let is_written = matches!(assignment.step, Step::Create | Step::Update) && result.is_ok();
        self.created += usize::from(is_written && assignment.step == Step::Create);
        self.updated += usize::from(is_written && assignment.step == Step::Update);
        let fresh = match trust(&artifact) {
            Trust::Trusted { checksum, .. } => Some(checksum),
            Trust::Untrusted(_) => None,
        };
        let has_resource = assignment.step != Step::Create || result.is_ok();
        let error = match result {
            Ok(written) => {
                state.written.extend(written.map(Written::now));
                None
            }
            Err(error) => Some(error),
        };
        let is_of_source = match &error {
            Some(error) => error.is_of_source(),
            None => fresh.is_some() && !is_usable_id(&artifact.id),
        };
        let problem = state.problem_of(&artifact, error);
        if is_of_source {
            self.unread = self.unread.take().or_else(|| problem.clone());
        }
        self.delivered.push(Delivered {
            resource: assignment.resource.filter(|_| has_resource),
            checksum: if is_written { fresh } else { carried },
            artifact,
            problem,
        });
    }
}
