//! The scenes, in the order in which they are played: each takes up where the one before ended.
//!
//! A scene answers what was seen. What it claims, it checks; times are information only.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use kube::api::DeleteParams;
use serde_json::json;
use vidra_api::{State, names::credential_keys};
use vidra_infrahub::{Address, Credentials, Policy, Sessions, Source, View};

use super::{
    hub::Hub,
    kubectl::{is_ready, said},
    relay::{Passed, counted},
    world::{SYNC, World, artifact_of},
};
use crate::infrahub::{ARTIFACT_NAME, QUERY, TARGETS};

/// The target whose artifact changes.
const CHANGING: &str = TARGETS[0].0;
/// The target whose artifact goes and comes.
const LEAVING: &str = TARGETS[1].0;
/// How often a webhook is timed.
const ROUNDS: usize = 3;
/// Longer than hints are held back after one was followed.
const CALM: Duration = Duration::from_millis(1_100);
/// A new webhook acts after a while; what happens before is not told.
const WEBHOOK_DELAY: Duration = Duration::from_secs(30);
/// Begins the user agent of everything that the operator asks of the API server.
const OPERATOR: &str = "vidra/";

/// Says the same as Vidra's own query.
const SAME: &str = "query ArtifactIDs($artifactname: String!) {
  CoreArtifact(name__value: $artifactname) {
    edges { node { id name { value } checksum { value } storage_id { id value } status { value } } }
  }
}";
/// Selects by something else as well, so that it has to be asked.
const OTHER: &str = "query ArtifactIDs($artifactname: String!) {
  CoreArtifact(name__value: $artifactname, content_type__value: \"application/yaml\") {
    edges { node { id } }
  }
}";

/// How long one change took.
struct Round {
    /// Until Infrahub called.
    called: Duration,
    /// From there to the object.
    applied: Duration,
    /// Infrahub's part of that.
    answers: Duration,
}

impl<H: Hub> World<H> {
    /// The client's questions, on their own.
    pub(super) async fn questions(&self) -> anyhow::Result<String> {
        let (user, password) = self.hub.account();
        let address = Address::parse(&self.infrahub.url())?;
        let credentials = Credentials::password(&user, &password.into())?;
        let session = Sessions::new(Policy::default()).session(&address, &credentials, None)?;
        let view = View {
            branch: "main",
            at: None,
        };
        let mark = self.infrahub.mark();
        let names = BTreeSet::from([ARTIFACT_NAME.to_owned()]);
        let listing = session.list_artifacts(&view, &names, Some(QUERY)).await?;
        ensure!(listing.source == Source::Own, "the query is not understood");
        let artifacts = &listing.artifacts[ARTIFACT_NAME];
        ensure!(artifacts.len() == TARGETS.len(), "listed: {artifacts:?}");
        let asked = counted(&self.infrahub.since(mark));
        ensure!(asked == "1 login, 1 query", "asked: {asked}");
        let nobody = "18000000-0000-4000-8000-000000000000";
        let ids = BTreeSet::from([artifacts[0].id.clone(), nobody.to_owned()]);
        let found = session.look_up(&view, &ids).await?;
        ensure!(
            found.keys().eq([&artifacts[0].id]),
            "found by id: {found:?}"
        );
        let known = session.name_is_known(&view, ARTIFACT_NAME).await?;
        ensure!(known.definitions == 1, "known: {known:?}");
        let misspelt = session.name_is_known(&view, "no-such-name").await?;
        ensure!(!misspelt.is_known(), "known: {misspelt:?}");
        Ok(format!(
            "{} artifacts and the text of {QUERY} in one answer; by ids 1 of 2; {} definition \
             makes the name, 0 a misspelt one",
            artifacts.len(),
            known.definitions
        ))
    }

    pub(super) async fn delivered(&self) -> anyhow::Result<String> {
        let mark = self.infrahub.mark();
        self.password(&self.hub.account().1).await?;
        self.sync(SYNC, ARTIFACT_NAME).await?;
        let sync = self.ready().await?;
        for (target, _) in TARGETS {
            self.deployments().get(target).await?;
            self.services().get(target).await?;
        }
        let artifacts = sync.status.map_or(0, |status| status.artifacts.len());
        let resources = self.kubectl.resources(SYNC).await?.len();
        ensure!(artifacts == TARGETS.len() && resources == artifacts);
        Ok(format!(
            "{artifacts} artifacts, {resources} resources, {} objects{}",
            2 * TARGETS.len(),
            self.asked(mark)
        ))
    }

    pub(super) async fn rests(&self) -> anyhow::Result<String> {
        // Events that are still to be told after the delivery are not counted.
        self.polls(self.infrahub.mark(), 1).await?;
        let audit = self.plane.audit();
        let (mark, writes) = (self.infrahub.mark(), audit.mark()?);
        let asked = self.polls(mark, 3).await?;
        let is_poll = |passed: &Passed| passed.path.starts_with("/graphql");
        ensure!(asked.iter().all(is_poll), "asked: {}", counted(&asked));
        self.plane.audit_fence().await?;
        let writes = audit.mutations(writes, OPERATOR)?;
        ensure!(writes.is_empty(), "written: {writes:?}");
        Ok(format!(
            "{} polls, {} requests to Infrahub, 0 writes to the cluster",
            asked.len(),
            asked.len()
        ))
    }

    /// Waits until Infrahub was asked so often.
    async fn polls(&self, mark: usize, count: usize) -> anyhow::Result<Vec<Passed>> {
        self.until("Infrahub is asked by the timer", async || {
            let asked = self.infrahub.since(mark);
            Ok(Some(asked).filter(|asked| asked.len() >= count))
        })
        .await
    }

    pub(super) async fn rerendered(&self) -> anyhow::Result<String> {
        let before = self.replicas(CHANGING).await?;
        let mark = self.infrahub.mark();
        let start = Instant::now();
        self.hub.render(CHANGING, before + 1).await?;
        let applied = self.applied(CHANGING, Some(before + 1)).await?;
        self.ready().await?;
        Ok(format!(
            "replicas {before} -> {} after {}{}",
            before + 1,
            seconds(applied - start),
            self.asked(mark)
        ))
    }

    pub(super) async fn locked_out(&self) -> anyhow::Result<String> {
        let uid = self.uid(CHANGING).await?;
        let mark = self.infrahub.mark();
        self.password("not the password").await?;
        let is_rejected = |sync: &_| said(sync, "Ready").0 == "CredentialsRejected";
        let what = "the credentials are rejected";
        let sync = self.until_sync(SYNC, what, is_rejected).await?;
        let state = sync.status.as_ref().and_then(|status| status.sync_state);
        ensure!(state == Some(State::Stale), "the state is {state:?}");
        let (reason, message) = said(&sync, "Ready");
        let asked = self.asked(mark);
        self.password(&self.hub.account().1).await?;
        let start = Instant::now();
        self.ready().await?;
        let took = seconds(start.elapsed());
        ensure!(uid == self.uid(CHANGING).await?, "the object was replaced");
        Ok(format!(
            "Stale, {reason}: \"{message}\"{asked}; ready {took} after the Secret was corrected"
        ))
    }

    pub(super) async fn by_token(&self) -> anyhow::Result<String> {
        let token = self.hub.token().await?;
        let mark = self.infrahub.mark();
        self.credentials(&[(credential_keys::TOKEN, &token)])
            .await?;
        let what = "Infrahub is asked with the token";
        let by_token = |mark| {
            let asked = self.infrahub.since(mark).into_iter();
            asked.filter(|it| it.is_token).collect::<Vec<_>>()
        };
        self.until(what, async || Ok(by_token(mark).pop())).await?;
        let mark = self.infrahub.mark();
        let sync = self.look().await?;
        ensure!(is_ready(&sync), "{:?}", said(&sync, "Ready"));
        let asked = self.infrahub.since(mark);
        ensure!(asked.len() == by_token(mark).len(), "{}", counted(&asked));
        Ok(format!("no login{}", self.asked(mark)))
    }

    pub(super) async fn called(&self) -> anyhow::Result<String> {
        self.timer_off().await?;
        self.first_call().await?;
        self.calls.open(true);
        let artifact = artifact_of(&self.ready().await?, CHANGING)?;
        let mark = self.infrahub.mark();
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            tokio::time::sleep(CALM).await;
            rounds.push(self.round(&artifact).await?);
        }
        Ok(format!(
            "webhook to applied object {}; of that Infrahub's answers {}; render to webhook {}{}",
            listed(&rounds, |round| millis(round.applied)),
            listed(&rounds, |round| millis(round.answers)),
            listed(&rounds, |round| seconds(round.called)),
            self.asked(mark)
        ))
    }

    /// One change that Infrahub calls about.
    async fn round(&self, artifact: &str) -> anyhow::Result<Round> {
        let replicas = self.replicas(CHANGING).await? + 1;
        let (calls, mark) = (self.calls.mark(), self.infrahub.mark());
        let start = Instant::now();
        let (rendered, applied) = tokio::join!(
            self.hub.render(CHANGING, replicas),
            self.applied(CHANGING, Some(replicas))
        );
        rendered?;
        let event = "infrahub.artifact.updated";
        let call = self.call(calls, event, artifact).await?;
        ensure!(call.status == 202, "the call was answered {}", call.status);
        let answers = self.infrahub.since(mark);
        Ok(Round {
            called: call.at - start,
            applied: applied?.saturating_duration_since(call.at),
            answers: answers.iter().map(|it| it.took).sum(),
        })
    }

    /// Leaves calls as the only reason to look.
    async fn timer_off(&self) -> anyhow::Result<()> {
        let patch = json!({"spec": {"source": {"interval": "0s"}}});
        self.kubectl.change_sync(SYNC, &patch).await?;
        self.ready().await?;
        Ok(())
    }

    /// Waits until the webhooks act.
    async fn first_call(&self) -> anyhow::Result<()> {
        let mut since = Instant::now();
        self.until("Infrahub acts on its webhooks", async || {
            if self.calls.mark() == 0 && since.elapsed() > WEBHOOK_DELAY {
                since = Instant::now();
                let replicas = self.replicas(CHANGING).await? + 1;
                self.hub.render(CHANGING, replicas).await?;
                self.look().await?;
            }
            Ok((self.calls.mark() > 0).then_some(()))
        })
        .await
    }

    pub(super) async fn deleted(&self) -> anyhow::Result<String> {
        tokio::time::sleep(CALM).await;
        let artifact = artifact_of(&self.ready().await?, LEAVING)?;
        let kept = self.uid(CHANGING).await?;
        let (calls, mark) = (self.calls.mark(), self.infrahub.mark());
        let (deleted, gone) = tokio::join!(self.hub.delete(LEAVING), self.applied(LEAVING, None));
        deleted?;
        let call = self.call(calls, "infrahub.node.deleted", &artifact).await?;
        let asked = self.asked(mark);
        self.until("the resource is gone as well", async || {
            let left = self.kubectl.resources(SYNC).await?.len();
            Ok((left == 1).then_some(()))
        })
        .await?;
        let service = self.services().get_opt(LEAVING).await?;
        ensure!(service.is_none(), "the Service is still there");
        ensure!(kept == self.uid(CHANGING).await?, "the other was replaced");
        let took = gone?.saturating_duration_since(call.at);
        Ok(format!(
            "2 objects and their resource are gone, those of {CHANGING} untouched; webhook to \
             removal {}{asked}",
            millis(took)
        ))
    }

    pub(super) async fn restored(&self) -> anyhow::Result<String> {
        tokio::time::sleep(CALM).await;
        let (calls, mark) = (self.calls.mark(), self.infrahub.mark());
        self.hub.restore(LEAVING).await?;
        let what = "the object is back";
        let back = self.until(what, async || {
            Ok(self
                .deployments()
                .get_opt(LEAVING)
                .await?
                .map(|_| Instant::now()))
        });
        let back = back.await?;
        let sync = self.ready().await?;
        let artifact = artifact_of(&sync, LEAVING)?;
        let call = self
            .call(calls, "infrahub.artifact.created", &artifact)
            .await?;
        Ok(format!(
            "as artifact {artifact}; webhook to object {}{}",
            millis(back.saturating_duration_since(call.at)),
            self.asked(mark)
        ))
    }

    pub(super) async fn misspelt(&self) -> anyhow::Result<String> {
        let name = "misspelt";
        self.sync(name, "webserver-manifset").await?;
        let is_unknown = |sync: &_| said(sync, "Ready").0 == "ArtifactUnknown";
        let what = "the name is not known";
        let sync = self.until_sync(name, what, is_unknown).await?;
        let state = sync.status.as_ref().and_then(|status| status.sync_state);
        ensure!(state == Some(State::Failed), "the state is {state:?}");
        self.kubectl
            .syncs()
            .delete(name, &DeleteParams::default())
            .await?;
        let (reason, message) = said(&sync, "Ready");
        Ok(format!("{reason}: \"{message}\""))
    }

    pub(super) async fn registered(&self) -> anyhow::Result<String> {
        let mut seen = Vec::new();
        for (how, text, is_asked) in [
            ("absent", None, false),
            ("selecting otherwise", Some(OTHER), true),
        ] {
            self.hub.register(text).await?;
            let mark = self.infrahub.mark();
            let sync = self.look().await?;
            ensure!(is_ready(&sync), "{how}: {:?}", said(&sync, "Ready"));
            let asked = self.infrahub.since(mark);
            let mut registered = asked.iter().map(|it| it.path.as_str());
            let was_asked = registered.any(|path| path.starts_with("/api/query/"));
            ensure!(was_asked == is_asked, "{how}: {}", counted(&asked));
            let artifacts = sync.status.map_or(0, |status| status.artifacts.len());
            ensure!(artifacts == TARGETS.len(), "{how}: {artifacts} artifacts");
            seen.push(format!("{how}: {}", counted(&asked)));
        }
        self.hub
            .register(Some(SAME))
            .await
            .context("the query could not be put back")?;
        Ok(seen.join("; "))
    }

    fn asked(&self, mark: usize) -> String {
        let asked = self.infrahub.since(mark);
        let took = asked.iter().map(|it| it.took).sum();
        let (asked, took) = (counted(&asked), millis(took));
        format!("; requests to Infrahub: {asked}, answered in {took}")
    }
}

fn listed(rounds: &[Round], show: impl Fn(&Round) -> String) -> String {
    rounds.iter().map(show).collect::<Vec<_>>().join(", ")
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

fn millis(duration: Duration) -> String {
    format!("{} ms", duration.as_millis())
}
