//! The developer's commands: `cargo demo`, `cargo lab …`, `cargo crds`.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use anyhow::{Context, bail};
use clap::{Args, Parser, Subcommand};
use vidra_lab::{controlplane::ControlPlane, demo, infrahub, large, latency, rehearsal, standin};

/// Tools for people who develop Vidra.
#[derive(Debug, Parser)]
#[command(name = "vidra-lab", bin_name = "cargo lab")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Raise a control plane and an Infrahub stand-in, run the operator and show what it does.
    Demo(demo::Options),
    /// Write the CRDs to deploy/crds, or check that they are current.
    Crds(Crds),
    /// Raise a control plane and keep it until Ctrl-C.
    Controlplane,
    /// Serve the Infrahub stand-in until Ctrl-C.
    Standin(StandIn),
    /// Raise and seed a real Infrahub and keep it until Ctrl-C.
    Infrahub(infrahub::Options),
    /// Raise a real Infrahub, run the contract suite against it and stop it.
    Contract(infrahub::Options),
    /// Run the operator with the stand-in or a real Infrahub, from a sync to objects.
    Rehearsal(rehearsal::Options),
    /// Apply the largest artifact that is promised to work, and print what it takes.
    Large(large::Options),
    /// Measure how long it takes from a webhook to the applied object.
    Latency(latency::Options),
}

#[derive(Debug, Args)]
struct Crds {
    /// Change nothing; fail if a file is not current.
    #[arg(long)]
    check: bool,
    /// Where the files are.
    #[arg(long, default_value = "deploy/crds")]
    directory: PathBuf,
}

#[derive(Debug, Args)]
struct StandIn {
    /// Where to listen; loopback only.
    #[arg(long, default_value = "127.0.0.1:8000")]
    address: SocketAddr,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            demo::say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the async runtime")?;
    runtime.block_on(async {
        match arguments.verb {
            Verb::Demo(options) => demo::run(options).await,
            Verb::Crds(crds) => write_crds(&crds),
            Verb::Controlplane => keep_control_plane().await,
            Verb::Standin(options) => serve_stand_in(options.address).await,
            Verb::Infrahub(options) => Ok(infrahub::run_until_ctrl_c(options).await?),
            Verb::Contract(options) => Ok(infrahub::run_contract(options).await?),
            Verb::Rehearsal(options) => rehearsal::run(options).await,
            Verb::Large(options) => large::run(options).await,
            Verb::Latency(options) => Box::pin(latency::run(options)).await,
        }
    })
}

fn write_crds(options: &Crds) -> anyhow::Result<()> {
    if options.check {
        let stale = vidra_api::crds::stale(&options.directory)?;
        if !stale.is_empty() {
            bail!("not current: {stale:?}; run `cargo crds`");
        }
        return Ok(());
    }
    for path in vidra_api::crds::write(&options.directory)? {
        demo::say(&format!("wrote {}", path.display()));
    }
    Ok(())
}

async fn keep_control_plane() -> anyhow::Result<()> {
    let plane = ControlPlane::start().await?;
    demo::say(&format!("{}  Ctrl-C ends it", plane.url()));
    demo::say(&format!(
        "export KUBECONFIG={}",
        plane.kubeconfig().display()
    ));
    tokio::signal::ctrl_c()
        .await
        .context("cannot wait for Ctrl-C")
}

async fn serve_stand_in(address: SocketAddr) -> anyhow::Result<()> {
    if !address.ip().is_loopback() {
        bail!("{address} is not a loopback address; the stand-in is for this machine only");
    }
    demo::say(&format!(
        "http://{address}  admin/infrahub  GET /_standin lists what can be scripted  Ctrl-C ends it"
    ));
    tokio::select! {
        served = standin::serve(address) => Ok(served?),
        pressed = tokio::signal::ctrl_c() => pressed.context("cannot wait for Ctrl-C"),
    }
}
