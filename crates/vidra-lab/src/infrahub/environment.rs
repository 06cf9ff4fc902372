//! The settings of Infrahub and Prefect, all of them environment variables.

use super::{layout::Layout, ports::Ports};

/// Name of the first account.
pub(super) const ADMIN: &str = "admin";
/// Its password. The server listens on loopback only and lives for minutes.
pub(super) const PASSWORD: &str = "infrahub";
/// Its API token; Infrahub wants the form of a UUID.
pub(super) const TOKEN: &str = "7a6c1d52-90b4-4f0e-8d1b-52b7c06e1f3a";
/// What the task worker uses to call back.
const WORKER_TOKEN: &str = "c58f0b9e-3d27-4a61-b6f4-0e9a87d2c415";
/// Without it every process would sign its sessions with a key of its own.
const SIGNING_KEY: &str = "e1b0a4d7-6f38-4c95-a2d0-9b7153f6c8ea";
/// User and password at the message broker.
pub(super) const BROKER: &str = "infrahub";
/// The first user of Postgres, and the database every fresh cluster has.
pub(super) const DATABASE_USER: &str = "prefect";
const DATABASE: &str = "postgres";

type Variables = Vec<(&'static str, String)>;

/// What API server, task worker and Prefect server have in common.
pub(super) fn variables(layout: &Layout, ports: &Ports) -> Variables {
    [
        stores(ports),
        prefect(layout, ports),
        accounts(ports),
        files(layout),
    ]
    .concat()
}

/// Where the API server listens.
pub(super) fn url(ports: &Ports) -> String {
    format!("http://127.0.0.1:{}", ports.api)
}

fn stores(ports: &Ports) -> Variables {
    let address = || "127.0.0.1".to_owned();
    vec![
        ("INFRAHUB_DB_ADDRESS", address()),
        ("INFRAHUB_DB_PORT", ports.bolt.to_string()),
        ("INFRAHUB_DB_USERNAME", "neo4j".to_owned()),
        ("INFRAHUB_DB_PASSWORD", "neo4j".to_owned()),
        ("INFRAHUB_CACHE_ADDRESS", address()),
        ("INFRAHUB_CACHE_PORT", ports.redis.to_string()),
        ("INFRAHUB_BROKER_ADDRESS", address()),
        ("INFRAHUB_BROKER_PORT", ports.amqp.to_string()),
        ("INFRAHUB_BROKER_USERNAME", BROKER.to_owned()),
        ("INFRAHUB_BROKER_PASSWORD", BROKER.to_owned()),
        ("INFRAHUB_WORKFLOW_ADDRESS", address()),
        ("INFRAHUB_WORKFLOW_PORT", ports.prefect.to_string()),
    ]
}

fn prefect(layout: &Layout, ports: &Ports) -> Variables {
    let home = layout.data.join("prefect").display().to_string();
    let api = format!("http://127.0.0.1:{}/api", ports.prefect);
    let database = format!(
        "postgresql+asyncpg://{DATABASE_USER}@127.0.0.1:{}/{DATABASE}",
        ports.postgres
    );
    vec![
        ("PREFECT_MEMO_STORE_PATH", format!("{home}/memo_store.toml")),
        ("PREFECT_HOME", home),
        ("PREFECT_API_URL", api),
        ("PREFECT_API_DATABASE_CONNECTION_URL", database),
        ("PREFECT_UI_ENABLED", "false".to_owned()),
        ("PREFECT_SERVER_ANALYTICS_ENABLED", "false".to_owned()),
        ("PREFECT_WORKER_WEBSERVER_HOST", "127.0.0.1".to_owned()),
        (
            "PREFECT_WORKER_WEBSERVER_PORT",
            ports.worker_health.to_string(),
        ),
    ]
}

fn accounts(ports: &Ports) -> Variables {
    vec![
        ("INFRAHUB_ADDRESS", url(ports)),
        ("INFRAHUB_INTERNAL_ADDRESS", url(ports)),
        ("INFRAHUB_INITIAL_ADMIN_PASSWORD", PASSWORD.to_owned()),
        ("INFRAHUB_INITIAL_ADMIN_TOKEN", TOKEN.to_owned()),
        ("INFRAHUB_INITIAL_AGENT_TOKEN", WORKER_TOKEN.to_owned()),
        ("INFRAHUB_API_TOKEN", WORKER_TOKEN.to_owned()),
        ("INFRAHUB_SECURITY_SECRET_KEY", SIGNING_KEY.to_owned()),
        ("INFRAHUB_METRICS_PORT", ports.worker_metrics.to_string()),
        ("INFRAHUB_TELEMETRY_OPTOUT", "true".to_owned()),
        ("INFRAHUB_ANALYTICS_ENABLE", "false".to_owned()),
    ]
}

fn files(layout: &Layout) -> Variables {
    let below = |name| layout.data.join(name).display().to_string();
    vec![
        ("INFRAHUB_STORAGE_LOCAL_PATH", below("storage")),
        ("INFRAHUB_GIT_REPOSITORIES_DIRECTORY", below("git")),
        (
            "GIT_CONFIG_GLOBAL",
            layout.gitconfig().display().to_string(),
        ),
        ("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::infrahub::services::tests::plan;

    fn all() -> Variables {
        let plan = plan();
        variables(&plan.layout, &plan.ports)
    }

    #[test]
    fn no_variable_is_set_twice() {
        let names: BTreeMap<_, _> = all().into_iter().collect();
        assert_eq!(names.len(), all().len());
    }

    #[test]
    fn each_store_is_reached_at_its_own_port() {
        let values: BTreeMap<_, _> = all().into_iter().collect();
        assert_eq!(values["INFRAHUB_DB_PORT"], "28002");
        assert_eq!(values["INFRAHUB_CACHE_PORT"], "28003");
        assert_eq!(values["INFRAHUB_BROKER_PORT"], "28004");
        assert_eq!(
            values["PREFECT_API_DATABASE_CONNECTION_URL"],
            "postgresql+asyncpg://prefect@127.0.0.1:28007/postgres"
        );
    }

    #[test]
    fn every_path_lies_in_the_data_directory() {
        let paths: Vec<_> = all()
            .into_iter()
            .filter(|(_, value)| value.starts_with('/'))
            .collect();
        assert_eq!(paths.len(), 5);
        for (name, path) in paths {
            assert!(path.starts_with("/data/"), "{name}={path}");
        }
    }
}
