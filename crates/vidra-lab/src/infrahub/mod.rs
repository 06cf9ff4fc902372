//! A real Infrahub with its task worker on this machine, from ordinary packages.
//!
//! ```text
//!   packages, tools    find or install programs (Debian, PyPI, Maven)
//!   ports, layout      choose ports and directories
//!   environment,
//!   services           describe the processes                            (pure)
//!   fleet, guardian    start them, wait for them, end them in any case
//!   api, seed          fill Infrahub and change its content
//! ```
//!
//! ```text
//!   neo4j   redis   postgres   epmd -- rabbitmq
//!      \       \        |              /
//!       +-------+--- prefect ---------+
//!                 \     |     /
//!                infrahub   worker
//! ```

mod api;
mod command;
mod environment;
mod error;
mod fleet;
mod guardian;
mod layout;
mod packages;
mod ports;
mod progress;
mod run;
mod seed;
mod services;
mod tools;

use std::path::{Path, PathBuf};

pub use self::{
    api::{Api, Artifact, Credentials},
    error::Error,
    progress::Progress,
    run::{run_contract, run_until_ctrl_c},
    seed::{ARTIFACT_NAME, BRANCH, DEFINITION, QUERY, Seeded, TARGET_KIND, TARGETS, seed},
};
use self::{
    fleet::Fleet, guardian::Guardian, layout::Layout, packages::Programs, ports::Ports,
    services::Plan, tools::Tools,
};

/// The release that is raised.
pub const VERSION: &str = "1.4.13";

/// How to raise an Infrahub.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Options {
    /// First of ten ports in a row; without it a free block is chosen.
    #[arg(long)]
    pub base_port: Option<u16>,
    /// Keep data and logs when the server stops.
    #[arg(long)]
    pub keep_data: bool,
    /// Where downloaded programs are kept [default: vidra/infrahub in the user's cache].
    #[arg(long)]
    pub cache: Option<PathBuf>,
    /// Below which the data goes [default: the build directory of this program].
    #[arg(long)]
    pub target: Option<PathBuf>,
    /// Settings for Infrahub, which win over those of the lab.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    pub settings: Vec<(String, String)>,
}

fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE, such as INFRAHUB_ALLOW_ANONYMOUS_ACCESS=false".to_owned()),
    }
}

/// A running Infrahub. Dropping it ends its processes and removes its data, and so does the end of
/// this process, however it comes about.
#[derive(Debug)]
pub struct RealInfrahub {
    fleet: Fleet,
    api: Api,
    url: String,
    credentials: Credentials,
    plan: Plan,
    progress: Progress,
}

impl RealInfrahub {
    /// Installs what is missing, starts everything, and waits until it answers.
    pub async fn start(options: Options, progress: Progress) -> Result<Self, Error> {
        let plan = prepare(&options, &progress).await?;
        let mut fleet = fleet(&plan, options.keep_data, &progress)?;
        raise(&plan, &mut fleet).await?;
        let url = environment::url(&plan.ports);
        let credentials = Credentials {
            username: environment::ADMIN.to_owned(),
            password: environment::PASSWORD.to_owned(),
            token: environment::TOKEN.to_owned(),
        };
        progress.say(format_args!("Infrahub {VERSION} answers at {url}"));
        Ok(Self {
            fleet,
            api: Api::new(&url, credentials.clone())?,
            url,
            credentials,
            plan,
            progress,
        })
    }

    /// Where the server listens, without a slash at its end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The administrator's account.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Calls as the administrator.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// Where the progress lines go.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Where the server keeps everything.
    pub fn data_directory(&self) -> &Path {
        &self.plan.layout.data
    }

    /// The log of one process, such as `infrahub` or `worker`.
    pub fn log(&self, process: &str) -> PathBuf {
        self.plan.layout.log(process)
    }

    /// An error when one of the processes has died.
    pub fn check_alive(&mut self) -> Result<(), Error> {
        self.fleet.check_alive()
    }

    /// Ends everything; the same as dropping it, but says so.
    pub fn stop(self) {
        let progress = self.progress.clone();
        progress.say("stopping Infrahub");
        drop(self);
        progress.say("stopped");
    }

    fn git(&self) -> &Path {
        &self.plan.programs.git
    }
}

async fn prepare(options: &Options, progress: &Progress) -> Result<Plan, Error> {
    let cache = match &options.cache {
        Some(cache) => cache.clone(),
        None => tools::default_cache()?,
    };
    std::fs::create_dir_all(&cache).map_err(Error::file("create", &cache))?;
    let programs = Programs::provide(&cache.join("debian.log"), progress).await?;
    let tools = Tools::provide(&cache, &programs, progress).await?;
    let target = options.target.clone();
    Ok(Plan {
        ports: Ports::claim(options.base_port)?,
        layout: Layout::plan(&target.unwrap_or_else(layout::default_target))?,
        programs,
        tools,
        extra: options.settings.clone(),
    })
}

/// The guardian comes first: from here on nothing can be left behind.
fn fleet(plan: &Plan, keep_data: bool, progress: &Progress) -> Result<Fleet, Error> {
    let layout = &plan.layout;
    let directories = [layout.data.as_path(), layout.postgres.as_path()];
    let doomed = if keep_data { &[][..] } else { &directories[..] };
    let guardian = Guardian::start(doomed).map_err(|source| Error::Guardian { source })?;
    layout.fill()?;
    progress.say(format_args!("data is in {}", layout.data.display()));
    let http = api::http_client()?;
    Ok(Fleet::new(guardian, layout.clone(), http, progress.clone()))
}

/// Starts as much as possible at once, but nothing before what it needs.
async fn raise(plan: &Plan, fleet: &mut Fleet) -> Result<(), Error> {
    let (mut graph, mut redis, mut epmd) = (plan.graph(), plan.redis(), plan.epmd());
    let (mut postgres, mut rabbitmq) = (plan.postgres(), plan.rabbitmq());
    fleet.launch(&mut graph)?;
    fleet.launch(&mut redis)?;
    fleet.launch(&mut epmd)?;
    plan.configure_rabbitmq()?;
    fleet.await_ready(&epmd).await?;
    fleet.launch(&mut rabbitmq)?;
    for step in plan.initdb() {
        let log = plan.layout.log("initdb");
        command::run("making the PostgreSQL database", &mut step.into(), &log).await?;
    }
    fleet.launch(&mut postgres)?;
    fleet.await_ready(&redis).await?;
    fleet.await_ready(&postgres).await?;
    fleet.await_ready(&rabbitmq).await?;

    let (mut prefect, mut server, mut worker) = (plan.prefect(), plan.api(), plan.worker());
    fleet.launch(&mut prefect)?;
    fleet.await_ready(&graph).await?;
    fleet.await_ready(&prefect).await?;
    fleet.launch(&mut server)?;
    fleet.await_ready(&server).await?;
    fleet.launch(&mut worker)?;
    fleet.await_ready(&worker).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_split_at_the_first_equals_sign() {
        let parsed = setting("INFRAHUB_X=a=b").unwrap();
        assert_eq!(parsed, ("INFRAHUB_X".to_owned(), "a=b".to_owned()));
        assert!(setting("INFRAHUB_X").is_err());
        assert!(setting("=1").is_err());
    }
}
