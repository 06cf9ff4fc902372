//! Nothing to do means nothing done: what the operator asks of the API server at rest, in a
//! periodic pass and when it starts over intact objects.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kube::Client;
use serde_json::json;
use vidra_lab::controlplane::{ControlPlane, Entry, Mark};
use vidra_operator::settings::Settings;

use crate::support::*;

const OWNERS: usize = 5;
/// Of each kind, in each owner: 500 objects in all.
const EACH: usize = 20;
const KINDS: [&str; 5] = [
    "configmaps",
    "serviceaccounts",
    "roles",
    "rolebindings",
    "deployments",
];
const PASS: Duration = Duration::from_secs(3);

fn documents(namespace: &str, owner: usize) -> String {
    let mut text = String::new();
    for number in 0..EACH {
        let name = format!("o{owner}-{number}");
        let head = |api: &str, kind: &str| {
            format!(
                "---\napiVersion: {api}\nkind: {kind}\nmetadata: {{name: {name}, namespace: {namespace}}}\n"
            )
        };
        text += &head("v1", "ConfigMap");
        text += "data: {key: value}\n";
        text += &head("v1", "ServiceAccount");
        text += &head("rbac.authorization.k8s.io/v1", "Role");
        text += "rules: [{apiGroups: [\"\"], resources: [pods], verbs: [get]}]\n";
        let binding = format!(
            "roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: {name}}}\n\
             subjects: [{{kind: ServiceAccount, name: {name}}}]\n"
        );
        text += &head("rbac.authorization.k8s.io/v1", "RoleBinding");
        text += &binding;
        text += &head("apps/v1", "Deployment");
        text += "spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, \
                 spec: {containers: [{name: c, image: registry.example/c:1}]}}}\n";
    }
    text
}

async fn make_owners(client: &Client, namespace: &str) {
    for owner in 0..OWNERS {
        let name = format!("owner-{owner}");
        create(client, &name, &documents(namespace, owner), json!({})).await;
    }
    for owner in 0..OWNERS {
        let resource = ready(client, &format!("owner-{owner}")).await;
        assert_eq!(resource.status.unwrap().managed_resources.len(), 100);
    }
}

/// What the operator asked for after a mark.
async fn asked(plane: &ControlPlane, mark: Mark) -> Vec<Entry> {
    plane.audit_fence().await.unwrap();
    let mut entries = plane.audit().since(mark).unwrap();
    entries.retain(|entry| entry.user_agent.starts_with("vidra/") && entry.is_complete());
    entries
}

/// Everything that changes something: nothing of that is excused.
fn changes(entries: &[Entry]) -> Vec<&Entry> {
    entries.iter().filter(|entry| entry.is_mutation()).collect()
}

/// Reads of single objects of the managed kinds.
fn reads(entries: &[Entry]) -> Vec<&Entry> {
    let is_read = |entry: &&Entry| entry.verb == "get" && KINDS.contains(&entry.resource.as_str());
    entries.iter().filter(is_read).collect()
}

/// How often each of the managed kinds was listed. Vidra's own namespace is another matter: its
/// watches of the configuration and of credentials begin with a list as well.
fn lists(entries: &[Entry]) -> BTreeMap<&str, usize> {
    let own = Settings::default().namespace;
    let is_list = |entry: &&Entry| entry.verb == "list" && entry.namespace != own;
    let mut counts = BTreeMap::new();
    for entry in entries.iter().filter(is_list) {
        if KINDS.contains(&entry.resource.as_str()) {
            *counts.entry(entry.resource.as_str()).or_default() += 1;
        }
    }
    counts
}

/// Half a minute stands for the five minutes of daily life: with a pass every three seconds it
/// sees as many passes as most clusters see in an hour and a half.
#[tokio::test]
async fn at_rest_nothing_is_written_nothing_is_read_and_a_pass_is_one_list_per_kind() {
    let (plane, client) = own_plane().await;
    let namespace = plane.namespace("rest").await.unwrap();
    let settings = Settings {
        requeue_resources_after: PASS,
        ..Settings::default()
    };
    let operator = Operator::start(plane.config(), settings.clone());
    let start = plane.audit().mark().unwrap();
    make_owners(&client, &namespace).await;
    until_told(&plane, start).await;

    let window = Duration::from_secs(32);
    let mark = plane.audit().mark().unwrap();
    tokio::time::sleep(window).await;
    let entries = asked(&plane, mark).await;
    assert_eq!(changes(&entries), Vec::<&Entry>::new());
    assert_eq!(reads(&entries), Vec::<&Entry>::new());
    let passes = usize::try_from(window.as_secs() / PASS.as_secs()).unwrap() + 1;
    let counts = lists(&entries);
    assert_eq!(
        counts.len(),
        KINDS.len(),
        "every kind is looked at: {counts:?}"
    );
    for (kind, count) in counts {
        assert!((1..=passes).contains(&count), "{kind}: {count} lists");
    }
    operator.stop();

    let mark = plane.audit().mark().unwrap();
    let quiet = Settings {
        requeue_resources_after: Duration::ZERO,
        ..settings
    };
    let operator = Operator::start(plane.config(), quiet);
    until_looked(&plane, mark).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let entries = asked(&plane, mark).await;
    assert_eq!(changes(&entries), Vec::<&Entry>::new());
    assert_eq!(reads(&entries), Vec::<&Entry>::new());
    // The list with which each watch begins is all that a start needs.
    for (kind, count) in lists(&entries) {
        assert!(count <= 1, "{kind} was listed {count} times at the start");
    }
    operator.stop();
}

/// Waits until every owner has told in an Event that it is done: that comes after its status.
async fn until_told(plane: &ControlPlane, start: Mark) {
    eventually("every owner has told its Event", || async {
        let entries = asked(plane, start).await;
        let told = entries
            .iter()
            .filter(|it| it.resource == "events" && it.verb == "create");
        (told.count() >= OWNERS).then_some(())
    })
    .await;
}

/// Waits until a fresh operator has looked at every kind and watches it.
async fn until_looked(plane: &ControlPlane, mark: Mark) {
    eventually("every kind is looked at and watched", || async {
        let entries = plane.audit().since(mark).unwrap();
        let of = |verb: &str| -> BTreeSet<String> {
            entries
                .iter()
                .filter(|entry| entry.user_agent.starts_with("vidra/") && entry.verb == verb)
                .map(|entry| entry.resource.clone())
                .collect()
        };
        let (listed, watched) = (of("list"), of("watch"));
        KINDS
            .iter()
            .all(|kind| listed.contains(*kind) && watched.contains(*kind))
            .then_some(())
    })
    .await;
}
