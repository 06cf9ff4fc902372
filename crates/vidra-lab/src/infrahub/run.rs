//! What a developer calls: `cargo lab infrahub` and `cargo lab contract`.

use std::io::Write;

use super::{
    ARTIFACT_NAME, Artifact, BRANCH, Credentials, Error, Options, Progress, QUERY, RealInfrahub,
    Seeded, seed,
};
use crate::contract;

/// Raises and seeds an Infrahub, says how to use it, and stops it on Ctrl-C.
pub async fn run_until_ctrl_c(options: Options) -> Result<(), Error> {
    let progress = Progress::stderr();
    let work = async {
        let infrahub = RealInfrahub::start(options, progress.clone()).await?;
        let seeded = seed(&infrahub).await?;
        tell(&instructions(&infrahub, &seeded));
        std::future::pending::<()>().await;
        Ok(())
    };
    interruptible(work, &progress).await
}

/// Raises and seeds an Infrahub, runs the contract suite against it, and stops it. When
/// `VIDRA_INFRAHUB_URL` names a server that is seeded already, the suite runs against that one.
pub async fn run_contract(options: Options) -> Result<(), Error> {
    if let Some(target) = contract::Target::from_env() {
        return check(&target).await;
    }
    let progress = Progress::stderr();
    let work = async {
        let infrahub = RealInfrahub::start(options, progress.clone()).await?;
        seed(&infrahub).await?;
        let target = target(&infrahub);
        let suite = Box::pin(check(&target));
        let result = progress.during("running the contract suite", suite).await;
        infrahub.stop();
        result
    };
    interruptible(work, &progress).await
}

/// Runs the suite and prints its report.
async fn check(target: &contract::Target) -> Result<(), Error> {
    let report = contract::run(target).await;
    tell(&format!("{report}\n"));
    if report.is_success() {
        return Ok(());
    }
    Err(Error::Contract {
        failed: report.failures().count(),
        total: report.results.len(),
    })
}

fn target(infrahub: &RealInfrahub) -> contract::Target {
    let Credentials {
        username,
        password,
        token,
    } = infrahub.credentials().clone();
    contract::Target {
        base_url: infrahub.url().to_owned(),
        username,
        password,
        api_token: token,
        artifact_name: ARTIFACT_NAME.to_owned(),
        branch: BRANCH.to_owned(),
        query: QUERY.to_owned(),
    }
}

/// Ends `work` on Ctrl-C; what it owns is dropped, which stops the server.
async fn interruptible(
    work: impl Future<Output = Result<(), Error>>,
    progress: &Progress,
) -> Result<(), Error> {
    tokio::select! {
        result = work => return result,
        _ = tokio::signal::ctrl_c() => progress.say("interrupted; stopping"),
    }
    // By now the work is dropped.
    progress.say("stopped");
    Ok(())
}

fn instructions(infrahub: &RealInfrahub, seeded: &Seeded) -> String {
    let account = infrahub.credentials();
    let artifacts: Vec<_> = seeded.artifacts.iter().map(describe).collect();
    format!(
        "\nInfrahub: {url}\nlog in as {username} with password {password}\n{artifacts}\n\n\
         export INFRAHUB_ADDRESS={url} VIDRA_INFRAHUB_URL={url}\n\
         export INFRAHUB_API_TOKEN={token} VIDRA_INFRAHUB_TOKEN={token}\n\n\
         Ctrl-C stops it and removes its data.\n",
        url = infrahub.url(),
        username = account.username,
        password = account.password,
        token = account.token,
        artifacts = artifacts.join("\n"),
    )
}

fn describe(artifact: &Artifact) -> String {
    format!("  {}: artifact {}", artifact.target, artifact.id)
}

fn tell(text: &str) {
    // Nobody is left to tell when standard output is closed.
    let _ = std::io::stdout().write_all(text.as_bytes());
}
