//! Content is written before it is referred to: a crash in between leaves garbage at worst.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use serde_json::json;
use vidra_lab::{
    controlplane::unique,
    proxy::{Callback, Effect, Fault, Rule, Seen},
};
use vidra_operator::settings::Settings;

use crate::{
    rig::Rig,
    support::{
        change, config_map, create, delete, eventually, names, quick_settings, ready, resources,
    },
};

/// Long names and a long comment: an inventory that has no room beside its manifest.
fn tight(namespace: &str, count: usize) -> String {
    let long = "x".repeat(230);
    let object = |number| config_map(namespace, &format!("{number:03}-{long}"), "1");
    let objects: String = (0..count).map(object).collect();
    let line = format!("# {}\n", "y".repeat(120));
    let missing = 1_340_000_usize.saturating_sub(objects.len());
    objects + &line.repeat(missing / line.len())
}

async fn make_namespace(client: &Client, name: &str) {
    let api: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    api.create(&PostParams::default(), &namespace)
        .await
        .unwrap();
}

async fn chunks(client: &Client, home: &str) -> BTreeSet<String> {
    let api: Api<Secret> = Api::namespaced(client.clone(), home);
    let found = api.list(&ListParams::default()).await.unwrap();
    found
        .into_iter()
        .filter_map(|it| it.metadata.name)
        .collect()
}

/// The chunks that a resource refers to.
async fn referred(client: &Client, name: &str) -> BTreeSet<String> {
    let status = resources(client).get(name).await.unwrap().status;
    let stored = status.and_then(|status| status.inventory?.stored_in);
    let chunks = stored.map(|it| (0..it.chunks).map(move |number| format!("{}-{number}", it.name)));
    chunks.into_iter().flatten().collect()
}

/// One crash: at the write of the inventory ahead of the applies, or of the one after them.
struct Crash {
    /// Which content, counted from 1.
    content: usize,
    fault: fn(Callback) -> Fault,
    /// How much content is there afterwards.
    left: usize,
}

const BEFORE: fn(Callback) -> Fault = |kill| Fault::Request(Effect::Call(kill));
const DURING: fn(Callback) -> Fault = |kill| Fault::Reply(Effect::Call(kill));
const AFTER: fn(Callback) -> Fault = Fault::Afterwards;

const CRASHES: [Crash; 5] = [
    Crash::at(1, BEFORE, 0),
    Crash::at(1, DURING, 1),
    Crash::at(1, AFTER, 1),
    Crash::at(2, BEFORE, 1),
    Crash::at(2, AFTER, 2),
];

impl Crash {
    const fn at(content: usize, fault: fn(Callback) -> Fault, left: usize) -> Self {
        Self {
            content,
            fault,
            left,
        }
    }

    async fn happens(&self, rig: &Rig, home: &str) {
        let path = format!("/api/v1/namespaces/{home}/secrets");
        let is_content = move |seen: &Seen| seen.is_mutation() && seen.path.starts_with(&path);
        let rule = Rule::every(is_content, (self.fault)(rig.killer())).nth(self.content);
        let strikes = rig.proxy.add(rule);
        rig.start(&["--resync", "0", "--namespace", home]);
        rig.until_dead(&strikes).await;
    }

    /// What the crash left is as it was written: content first, then the reference, then objects.
    async fn is_in_order(&self, rig: &Rig, home: &str, tag: &str) -> BTreeSet<String> {
        let left = chunks(&rig.client, home).await;
        assert_eq!(left.len(), self.left, "{left:?}");
        let used = referred(&rig.client, tag).await;
        assert_eq!(used.len(), self.content - 1);
        assert!(used.is_subset(&left), "{used:?} of {left:?}");
        let is_applied = !names(&rig.client, tag).await.is_empty();
        assert_eq!(is_applied, self.content == 2);
        left
    }
}

#[tokio::test]
async fn a_kill_between_content_and_reference_leaves_nothing_dangling_and_the_garbage_is_collected()
{
    let rig = Arc::new(Rig::take().await);
    for crash in &CRASHES {
        rig.proxy.clear();
        let (home, tag) = (unique("home"), unique("content"));
        make_namespace(&rig.client, &home).await;
        make_namespace(&rig.client, &tag).await;
        create(&rig.client, &tag, &tight(&tag, 140), json!({})).await;
        crash.happens(&rig, &home).await;
        let left = crash.is_in_order(&rig, &home, &tag).await;

        // Less is wanted now: only the inventory that was written ahead knows of the last object.
        change(&rig.client, &tag, json!({"manifest": tight(&tag, 139)})).await;
        let settings = Settings {
            namespace: home.clone(),
            collect_content_after: Duration::from_secs(1),
            ..quick_settings()
        };
        let operator = rig.start_within(settings);
        ready(&rig.client, &tag).await;
        assert_eq!(names(&rig.client, &tag).await.len(), 139);
        eventually("exactly the content in use is left", || async {
            let used = referred(&rig.client, &tag).await;
            let is_new = !used.is_empty() && used.is_disjoint(&left);
            (is_new && chunks(&rig.client, &home).await == used).then_some(())
        })
        .await;
        delete(&rig.client, &tag).await;
        assert!(names(&rig.client, &tag).await.is_empty());
        drop(operator);
    }
}
