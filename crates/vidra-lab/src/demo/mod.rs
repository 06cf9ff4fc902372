//! The demo: everything real except Infrahub, raised, used and shown in one terminal.
//!
//! ```text
//!   stage   control plane, stand-in, the two kinds, operator
//!   story   a sync delivers; Infrahub changes, goes away and comes back; somebody edits
//!   show    what the audience sees
//! ```

mod show;
mod stage;
mod story;

use std::time::Instant;

use anyhow::Context;
use clap::Args;

pub use self::show::say;
use self::{show::Show, stage::Stage};

/// How the demo ends.
#[derive(Debug, Clone, Copy, Args)]
pub struct Options {
    /// End after the last step instead of waiting for Ctrl-C.
    #[arg(long)]
    once: bool,
}

/// Runs the demo; an error if any step failed.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let start = Instant::now();
    let mut show = Show::default();
    let told = Box::pin(async {
        let stage = Stage::set(&mut show).await?;
        story::tell(&stage, &mut show).await?;
        anyhow::Ok(stage)
    });
    let stage = tokio::select! {
        told = told => told.context("the demo stopped")?,
        pressed = tokio::signal::ctrl_c() => return pressed.context("cannot wait for Ctrl-C"),
    };
    say(&format!(
        "\nAll of it worked, in {:.1} s.",
        start.elapsed().as_secs_f64()
    ));
    if !options.once {
        stage.invite();
        tokio::signal::ctrl_c()
            .await
            .context("cannot wait for Ctrl-C")?;
    }
    stage.strike().await;
    Ok(())
}
