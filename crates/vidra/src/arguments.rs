//! What can be typed.

use std::{net::SocketAddr, path::Path, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use vidra_operator::settings::{Budget, Settings};

/// Where a Pod finds the namespace that it runs in.
const SERVICE_ACCOUNT_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Keeps Kubernetes clusters equal to the artifacts that Infrahub renders.
#[derive(Debug, Parser)]
#[command(name = "vidra", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run the operator until SIGTERM or Ctrl-C. Uses KUBECONFIG, or the service account of the
    /// Pod.
    Operator(Operator),
}

#[derive(Debug, Args)]
pub(crate) struct Operator {
    /// The namespace of Vidra's own Secrets and ConfigMaps [default: `POD_NAMESPACE`, else the
    /// service account's, else vidra-system]
    #[arg(long)]
    namespace: Option<String>,
    /// How log lines are written.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) log_format: LogFormat,
    /// How often all objects of a resource are checked beside events, in seconds; 0 turns it off.
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    resync: u64,
    /// How often everything is applied again, whatever the metadata says, in seconds; 0 turns it
    /// off.
    #[arg(long, default_value_t = 86_400, value_name = "SECONDS")]
    deep_pass: u64,
    /// The largest share of a resource's objects that may be deleted in one go, in percent, where
    /// the resource does not say otherwise.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=100), value_name = "PERCENT")]
    prune_max_percent: u8,
    /// The largest number of objects that may be deleted in one go, where the resource does not
    /// say otherwise.
    #[arg(long, default_value_t = 25, value_name = "COUNT")]
    prune_max_count: usize,
    /// Where probes, metrics and webhooks are served; `off` for nowhere.
    #[arg(long, default_value = "0.0.0.0:8080", value_parser = address)]
    http_address: HttpAddress,
}

/// An address, or none by wish.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HttpAddress(Option<SocketAddr>);

fn address(text: &str) -> Result<HttpAddress, String> {
    if text == "off" {
        return Ok(HttpAddress(None));
    }
    let parsed = text
        .parse()
        .map_err(|_| "expected <ip>:<port>, or off".to_owned())?;
    Ok(HttpAddress(Some(parsed)))
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

impl Operator {
    pub(crate) fn settings(&self) -> Settings {
        let defaults = Settings::default();
        Settings {
            namespace: self.namespace(),
            http_address: self.http_address.0,
            requeue_resources_after: Duration::from_secs(self.resync),
            deep_pass: Duration::from_secs(self.deep_pass),
            budget: Budget {
                max_percent: self.prune_max_percent,
                max_count: self.prune_max_count,
                ..defaults.budget.clone()
            },
            ..defaults
        }
    }

    /// The namespace of Vidra's own objects; the first source that names one wins.
    fn namespace(&self) -> String {
        let of_pod = || std::env::var("POD_NAMESPACE").ok();
        let of_account = || std::fs::read_to_string(Path::new(SERVICE_ACCOUNT_NAMESPACE)).ok();
        let named = |text: String| Some(text.trim().to_owned()).filter(|name| !name.is_empty());
        self.namespace
            .clone()
            .and_then(named)
            .or_else(|| of_pod().and_then(named))
            .or_else(|| of_account().and_then(named))
            .unwrap_or_else(|| "vidra-system".to_owned())
    }
}
