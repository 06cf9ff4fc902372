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

/// Kills the operator at the write of the first content.
async fn kill_at_first_content(rig: &Rig, home: &str, fault: fn(Callback) -> Fault) {
    let path = format!("/api/v1/namespaces/{home}/secrets");
    let is_content = move |seen: &Seen| seen.is_mutation() && seen.path.starts_with(&path);
    let rule = Rule::every(is_content, fault(rig.killer())).nth(1);
    let strikes = rig.proxy.add(rule);
    rig.start(&["--resync", "0", "--namespace", home]);
    rig.until_dead(&strikes).await;
}

#[tokio::test]
async fn a_kill_between_content_and_reference_leaves_nothing_dangling_and_the_garbage_is_collected()
{
    let rig = Arc::new(Rig::take().await);
    let faults: [fn(Callback) -> Fault; 3] = [
        |kill| Fault::Request(Effect::Call(kill)),
        |kill| Fault::Reply(Effect::Call(kill)),
        Fault::Afterwards,
    ];
    for (fault, is_written) in faults.into_iter().zip([false, true, true]) {
        rig.proxy.clear();
        let (home, tag) = (unique("home"), unique("content"));
        make_namespace(&rig.client, &home).await;
        make_namespace(&rig.client, &tag).await;
        let release = json!({"prune": {"maxPercent": 100, "maxCount": 1_000}});
        create(&rig.client, &tag, &tight(&tag, 140), release).await;
        kill_at_first_content(&rig, &home, fault).await;
        let left = chunks(&rig.client, &home).await;
        assert_eq!(left.len(), usize::from(is_written), "{left:?}");
        assert!(referred(&rig.client, &tag).await.is_empty());
        assert!(names(&rig.client, &tag).await.is_empty());

        // What was about to be applied is not what is wanted now: nothing will ever refer to it.
        change(&rig.client, &tag, json!({"manifest": tight(&tag, 139)})).await;
        let settings = Settings {
            namespace: home.clone(),
            collect_content_after: Duration::from_secs(1),
            ..quick_settings()
        };
        let operator = rig.start_within(settings);
        ready(&rig.client, &tag).await;
        assert_eq!(names(&rig.client, &tag).await.len(), 139);
        let used = referred(&rig.client, &tag).await;
        assert!(!used.is_empty());
        eventually("exactly the content in use is left", || async {
            (chunks(&rig.client, &home).await == used).then_some(())
        })
        .await;
        assert!(used.is_disjoint(&left));
        delete(&rig.client, &tag).await;
        assert!(names(&rig.client, &tag).await.is_empty());
        drop(operator);
    }
}
