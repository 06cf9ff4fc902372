//! The whole way from Infrahub to objects, played on a real control plane with the operator in
//! this process, and with either the stand-in or a real Infrahub.
//!
//! ```text
//!               +---- relay <---- sync, content ----+
//!               v                                   |
//!   Infrahub (stand-in or real)                  operator ----> control plane
//!               |                                   ^                 ^
//!               +---- webhooks ----> relay ---------+                 |
//!                                                        kubectl -----+
//! ```
//!
//! The relays pass everything on unchanged and count it.

mod hub;
pub(crate) mod kubectl;
pub(crate) mod operator;
mod relay;
mod scenes;
mod world;

use std::{
    fmt,
    io::Write,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use clap::Args;

use self::{
    hub::{Hub, Server},
    world::World,
};
use crate::{
    contract::Target,
    infrahub::{self, Credentials, Progress, RealInfrahub},
    standin::StandIn,
};

/// With which Infrahub to rehearse.
// The flattened options have a group of the same name.
#[derive(Debug, Clone, Args)]
#[group(id = "rehearsal")]
pub struct Options {
    /// Use the stand-in.
    #[arg(long, conflicts_with = "real")]
    standin: bool,
    /// Raise and seed a real Infrahub, or use the one that `VIDRA_INFRAHUB_URL` names.
    #[arg(long, required_unless_present = "standin")]
    real: bool,
    #[command(flatten)]
    infrahub: infrahub::Options,
}

/// How long anything may take, and where the progress lines go.
#[derive(Debug, Clone)]
pub struct Limits {
    /// How long one thing may be waited for.
    pub patience: Duration,
    /// Where the progress lines go.
    pub progress: Progress,
}

/// How a scene ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// What it claims is so; what was seen.
    Passed(String),
    /// What it claims is not so; what was seen instead.
    Failed(String),
    /// A scene before it failed.
    NotTried,
}

/// One scene.
#[derive(Debug, Clone)]
pub struct Scene {
    /// What it claims.
    pub claim: &'static str,
    /// How it ended.
    pub ending: Ending,
    /// How long it took.
    pub took: Duration,
}

impl fmt::Display for Scene {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let claim = self.claim;
        let took = self.took.as_secs_f64();
        match &self.ending {
            Ending::Passed(seen) => write!(formatter, "ok      {claim}: {seen} [{took:.1} s]"),
            Ending::Failed(seen) => write!(formatter, "FAILED  {claim}: {seen} [{took:.1} s]"),
            Ending::NotTried => write!(formatter, "-       {claim}: not tried"),
        }
    }
}

/// All scenes, in order.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// One entry per scene.
    pub scenes: Vec<Scene>,
}

impl Report {
    /// Whether there were scenes and all of them passed.
    pub fn is_success(&self) -> bool {
        let mut scenes = self.scenes.iter();
        let all = scenes.all(|scene| matches!(scene.ending, Ending::Passed(_)));
        all && !self.scenes.is_empty()
    }

    /// Plays a scene, unless one before it failed, and tells how it ended.
    async fn play(
        &mut self,
        claim: &'static str,
        scene: impl Future<Output = anyhow::Result<String>>,
    ) {
        let start = Instant::now();
        let ending = if self.scenes.is_empty() || self.is_success() {
            match Box::pin(scene).await {
                Ok(seen) => Ending::Passed(seen),
                Err(error) => Ending::Failed(format!("{error:#}")),
            }
        } else {
            Ending::NotTried
        };
        let scene = Scene {
            claim,
            ending,
            took: start.elapsed(),
        };
        tell(&format!("{scene}\n"));
        self.scenes.push(scene);
    }
}

/// Rehearses as the options say; an error if a scene failed.
pub async fn run(options: Options) -> anyhow::Result<()> {
    tokio::select! {
        ended = Box::pin(choose(options)) => ended,
        pressed = tokio::signal::ctrl_c() => pressed.context("cannot wait for Ctrl-C"),
    }
}

async fn choose(options: Options) -> anyhow::Result<()> {
    let progress = Progress::stderr();
    if options.standin {
        let standin = StandIn::start_seeded()?;
        return judge(&with_stand_in(standin, quick(progress)).await?);
    }
    let limits = Limits {
        patience: Duration::from_mins(5),
        progress: progress.clone(),
    };
    if let Some(target) = Target::from_env() {
        let credentials = Credentials {
            username: target.username,
            password: target.password,
            token: target.api_token,
        };
        return judge(&with_server(&target.base_url, credentials, limits).await?);
    }
    let infrahub = RealInfrahub::start(options.infrahub, progress).await?;
    infrahub::seed(&infrahub).await?;
    let credentials = infrahub.credentials().clone();
    let report = with_server(infrahub.url(), credentials, limits).await;
    infrahub.stop();
    judge(&report?)
}

/// The limits for an Infrahub that answers at once.
fn quick(progress: Progress) -> Limits {
    Limits {
        patience: Duration::from_mins(1),
        progress,
    }
}

fn judge(report: &Report) -> anyhow::Result<()> {
    if !report.is_success() {
        bail!("the rehearsal failed; the line that begins with FAILED says where and why");
    }
    tell(&format!("all {} scenes passed\n", report.scenes.len()));
    Ok(())
}

/// Rehearses with a stand-in that is seeded like the lab.
pub async fn with_stand_in(standin: StandIn, limits: Limits) -> anyhow::Result<Report> {
    tell("rehearsal with the stand-in\n");
    rehearse(standin, limits).await
}

/// Rehearses with a real Infrahub that is seeded like the lab.
pub async fn with_server(
    url: &str,
    credentials: Credentials,
    limits: Limits,
) -> anyhow::Result<Report> {
    tell(&format!("rehearsal with the Infrahub at {url}\n"));
    rehearse(Server::new(url, credentials)?, limits).await
}

async fn rehearse<H: Hub>(hub: H, limits: Limits) -> anyhow::Result<Report> {
    let world = Box::pin(World::raise(hub, limits)).await?;
    let mut report = Report::default();
    Box::pin(play_delivery(&world, &mut report)).await;
    Box::pin(play_events(&world, &mut report)).await;
    world.end().await.context("Infrahub could not be tidied")?;
    Ok(report)
}

async fn play_delivery<H: Hub>(world: &World<H>, report: &mut Report) {
    let claim = "Infrahub understands what the client asks";
    report.play(claim, world.questions()).await;
    let claim = "a sync makes resources, and these make objects";
    report.play(claim, world.delivered()).await;
    let claim = "at rest a poll is one request and no write";
    report.play(claim, world.rests()).await;
    let claim = "a new rendering is applied by the timer";
    report.play(claim, world.rerendered()).await;
    let claim = "a wrong password is said, removes nothing, and is forgotten once corrected";
    report.play(claim, world.locked_out()).await;
    let claim = "an API token takes the place of a password";
    report.play(claim, world.by_token()).await;
}

async fn play_events<H: Hub>(world: &World<H>, report: &mut Report) {
    let claim = "a signed webhook applies a new rendering without a timer";
    report.play(claim, world.called()).await;
    let claim = "a deleted artifact takes its objects along, and no others";
    report.play(claim, world.deleted()).await;
    let claim = "an artifact that is rendered anew is delivered anew";
    report.play(claim, world.restored()).await;
    let claim = "a misspelt name is told apart from an empty answer";
    report.play(claim, world.misspelt()).await;
    let claim = "a registered query is used where it matters, and not missed where it is absent";
    report.play(claim, world.registered()).await;
}

fn tell(text: &str) {
    // Nobody is left to tell when standard output is closed.
    let _ = std::io::stdout().write_all(text.as_bytes());
}
