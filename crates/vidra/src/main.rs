//! The one binary of Vidra.
//!
//! ```text
//!   vidra operator     keeps clusters equal to their VidraResources, until it is told to end
//! ```

mod arguments;
mod logging;

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::arguments::{Arguments, Verb};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Before logging is set up, or after it has ended, stderr is all there is.
            let _ = std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!("vidra: {error:#}\n"),
            );
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the async runtime")?;
    match arguments.verb {
        Verb::Operator(operator) => runtime.block_on(async {
            logging::start(operator.log_format);
            let settings = operator.settings();
            tracing::info!(namespace = settings.namespace, "this is Vidra");
            vidra_operator::run(settings, until_told()?).await?;
            Ok(())
        }),
    }
}

/// A token that is cancelled by SIGTERM or Ctrl-C.
fn until_told() -> anyhow::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let token = CancellationToken::new();
    let told = token.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        told.cancel();
    });
    Ok(token)
}
