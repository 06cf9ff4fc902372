//! Log lines on stderr; `RUST_LOG` chooses which.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::arguments::LogFormat;

/// Starts logging.
pub(crate) fn start(format: LogFormat) {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,kube=warn"));
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // Colours are for people at a terminal, not for files.
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => logs.with_target(false).init(),
        LogFormat::Json => logs.json().init(),
    }
}
