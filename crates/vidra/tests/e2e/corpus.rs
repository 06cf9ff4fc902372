//! A manifest that cannot be read changes and deletes nothing, whatever is wrong with it.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use kube::{
    Client,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;
use vidra_api::VidraResource;
use vidra_lab::controlplane::unique;

use crate::support::*;

/// The corpus of the decoder: every file names what is wrong with it.
fn bad_files() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vidra-core/tests/manifests/bad");
    let mut files: Vec<(String, String)> = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            (
                path.file_name().unwrap().to_string_lossy().into_owned(),
                text,
            )
        })
        .collect();
    files.sort();
    files
}

async fn versions(client: &Client, namespace: &str) -> BTreeMap<String, String> {
    let found = config_maps(client, namespace)
        .list(&ListParams::default())
        .await
        .unwrap();
    let version = |it: k8s_openapi::api::core::v1::ConfigMap| {
        (
            it.metadata.name.unwrap(),
            it.metadata.resource_version.unwrap(),
        )
    };
    found.items.into_iter().map(version).collect()
}

/// Waits, without the pause that other tests can afford, until a generation has been dealt with.
async fn observed(client: &Client, name: &str, generation: Option<i64>) -> VidraResource {
    let begin = Instant::now();
    loop {
        let resource = resources(client).get(name).await.unwrap();
        let status = resource.status.as_ref();
        if status.is_some_and(|it| it.observed_generation >= generation) {
            return resource;
        }
        assert!(
            begin.elapsed() < PATIENCE,
            "generation {generation:?} was never observed"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn no_file_of_the_bad_corpus_changes_or_deletes_anything() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("corpus").await.unwrap();
    let name = unique("corpus");
    let good: String = ["one", "two", "three", "four", "five", "six"]
        .iter()
        .map(|name| config_map(&namespace, name, "good"))
        .collect();
    create(client, &name, &good, json!({})).await;
    let inventory = ready(client, &name).await.status.unwrap().inventory;
    let before = versions(client, &namespace).await;
    assert_eq!(before.len(), 6);
    let mark = world.plane.audit().mark().unwrap();

    let files = bad_files();
    assert!(files.len() >= 200, "only {} bad files", files.len());
    for (file, text) in &files {
        let patch = json!({"spec": {"manifest": text}});
        let changed = resources(client)
            .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
        let resource = observed(client, &name, changed.metadata.generation).await;
        let (reason, message) = said(&resource, "Ready");
        assert!(
            reason.starts_with("Manifest"),
            "{file}: {reason}: {message}"
        );
        assert!(
            message.contains("document"),
            "{file}: no place in: {message}"
        );
        let status = resource.status.unwrap();
        assert_eq!(status.inventory, inventory, "{file}");
    }
    assert_eq!(versions(client, &namespace).await, before);
    let writes = writes_in(world.plane, mark, &namespace).await;
    assert!(writes.is_empty(), "{}", show(&writes));

    change(
        client,
        &name,
        json!({"manifest": good.replace("\"good\"", "\"better\"")}),
    )
    .await;
    ready(client, &name).await;
    value_is(client, &namespace, "six", "better").await;
    delete(client, &name).await;
}
