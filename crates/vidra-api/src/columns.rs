//! What `kubectl get` prints.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceColumnDefinition as Column;

const READY: &str = r#".status.conditions[?(@.type=="Ready")]"#;

/// The columns of `kubectl get infrahubsyncs`.
pub(crate) fn infrahub_sync() -> Vec<Column> {
    // The path is a union, because the name has two spellings.
    let artifact = ".spec.source['artefactName','artifactName']";
    vec![
        text("Artifact", artifact, "Name of the artifact in Infrahub"),
        text(
            "Branch",
            ".spec.source.targetBranch",
            "Branch in Infrahub; empty means main",
        ),
        text("State", ".status.syncState", "State of the last sync"),
        text(
            "Ready",
            &format!("{READY}.status"),
            "Whether every artifact is delivered",
        ),
        text(
            "Reason",
            &format!("{READY}.reason"),
            "Why it is ready or not",
        ),
        age(),
        wide(text(
            "URL",
            ".spec.source.infrahubAPIURL",
            "The Infrahub server",
        )),
        wide(text(
            "Date",
            ".spec.source.targetDate",
            "Point in time in Infrahub; empty means now",
        )),
        wide(text(
            "Cluster",
            ".spec.destination.server",
            "Target cluster; empty means this one",
        )),
        wide(column(
            "Suspended",
            "boolean",
            ".spec.suspend",
            "Whether the sync is paused",
        )),
        wide(column(
            "Last Sync",
            "date",
            ".status.lastSyncTime",
            "Time since the last change",
        )),
        wide(text(
            "Message",
            &format!("{READY}.message"),
            "What to know or to do",
        )),
    ]
}

/// The columns of `kubectl get vidraresources`.
pub(crate) fn vidra_resource() -> Vec<Column> {
    vec![
        text(
            "State",
            ".status.DeployState",
            "State of the last reconcile",
        ),
        text(
            "Ready",
            &format!("{READY}.status"),
            "Whether every object is as desired",
        ),
        number(
            "Objects",
            ".status.counts.desired",
            "Number of objects in the manifest",
        ),
        text(
            "Reason",
            &format!("{READY}.reason"),
            "Why it is ready or not",
        ),
        age(),
        wide(number(
            "Failed",
            ".status.counts.failed",
            "Objects that could not be applied",
        )),
        wide(number(
            "Held",
            ".status.held.total",
            "Objects whose deletion waits for a release",
        )),
        wide(text(
            "Cluster",
            ".spec.destination.server",
            "Target cluster; empty means this one",
        )),
        wide(column(
            "Suspended",
            "boolean",
            ".spec.suspend",
            "Whether it is paused",
        )),
        wide(column(
            "Last Sync",
            "date",
            ".status.lastSyncTime",
            "Time since the last change",
        )),
        wide(text(
            "Message",
            &format!("{READY}.message"),
            "What to know or to do",
        )),
    ]
}

fn column(name: &str, type_: &str, path: &str, description: &str) -> Column {
    Column {
        name: name.to_owned(),
        type_: type_.to_owned(),
        json_path: path.to_owned(),
        description: Some(description.to_owned()),
        ..Column::default()
    }
}

fn text(name: &str, path: &str, description: &str) -> Column {
    column(name, "string", path, description)
}

fn number(name: &str, path: &str, description: &str) -> Column {
    column(name, "integer", path, description)
}

fn age() -> Column {
    column(
        "Age",
        "date",
        ".metadata.creationTimestamp",
        "Time since the creation",
    )
}

/// Only with `-o wide`.
fn wide(column: Column) -> Column {
    Column {
        priority: Some(1),
        ..column
    }
}
