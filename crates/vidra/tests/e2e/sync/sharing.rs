//! Several syncs: one destination for two, and two destinations for one artifact.

use kube::{ResourceExt, api::DeleteParams};
use serde_json::json;
use vidra_core::delivery::second_name;
use vidra_lab::controlplane::unique;

use super::{Stage, ensure_namespace, request, resources_of, sync_condition, syncs};
use crate::support::{config_map, config_maps, delete, is_gone, names, show, value_is};

const OTHER: &str = "other";

impl Stage {
    fn render_other(&self, target: &str, text: &str) -> String {
        let artifact = self.infrahub.artifact(OTHER).target(target);
        artifact.content(text.as_bytes().to_vec()).ready().id
    }
}

#[tokio::test]
async fn two_syncs_with_one_destination_delete_nothing_in_twenty_rounds() {
    let stage = Stage::new().await;
    let namespace = stage.name.clone();
    let other = unique("other");
    let shared = |round: usize| config_map(&namespace, "shared", &round.to_string());
    let both = |own: &str, round: usize| {
        config_map(&namespace, own, &round.to_string()) + &shared(round / 4)
    };
    let mut ids = vec![
        stage.render_text("web", &both("web", 0)).id,
        stage.render_other("db", &both("db", 0)),
    ];
    stage.sync(json!({"interval": "0s"})).await;
    let source = json!({"artifactName": OTHER, "interval": "0s"});
    stage.sync_as(&other, source, json!({})).await;
    stage.ready().await;
    sync_condition(stage.client(), &other, "Ready", "True").await;
    let mark = stage.mark().await;
    for round in 1..=20 {
        let value = round.to_string();
        stage.render_text("web", &both("web", round));
        if round % 2 == 0 {
            stage.render_other("db", &both("db", round));
        }
        // In turns, or both at once.
        if round % 3 == 0 {
            tokio::join!(stage.look(), request(stage.client(), &other));
        } else {
            stage.look().await;
            request(stage.client(), &other).await;
        }
        value_is(stage.client(), &namespace, "web", &value).await;
        if round == 10 {
            ids.push(stage.render("late", "one").id);
        }
    }
    value_is(stage.client(), &namespace, "db", "20").await;
    value_is(stage.client(), &namespace, "shared", "5").await;
    stage.ready().await;
    sync_condition(stage.client(), &other, "Ready", "True").await;
    let known = ["db", "late", "shared", "web"];
    assert_eq!(names(stage.client(), &namespace).await, known);
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let deletions = stage.deletions(mark, &ids).await;
    assert!(deletions.is_empty(), "{}", show(&deletions));
}

#[tokio::test]
async fn the_same_artifact_goes_to_two_destinations_and_one_of_them_can_end() {
    let stage = Stage::new().await;
    let (first, second) = (stage.name.clone(), unique("second"));
    ensure_namespace(stage.client(), &second).await;
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {key: one}\n";
    let id = stage.render_text("web", text).id;
    let source = json!({"interval": "0s"});
    let destination = |namespace: &str| json!({"namespace": namespace});
    stage
        .sync_as(&first, source.clone(), destination(&first))
        .await;
    stage.ready().await;
    stage.sync_as(&second, source, destination(&second)).await;
    sync_condition(stage.client(), &second, "Ready", "True").await;
    for namespace in [&first, &second] {
        value_is(stage.client(), namespace, "web", "one").await;
    }
    let has = |sync: &str| {
        let (client, sync) = (stage.client().clone(), sync.to_owned());
        async move {
            let found = resources_of(&client, &sync).await;
            found.into_keys().collect::<Vec<_>>()
        }
    };
    assert_eq!(has(&first).await, [id.as_str()]);
    assert_eq!(has(&second).await, [second_name(&id, &second)]);

    // Both follow.
    stage.render_text("web", &text.replace("one", "two"));
    stage.look().await;
    request(stage.client(), &second).await;
    for namespace in [&first, &second] {
        value_is(stage.client(), namespace, "web", "two").await;
    }

    // The one that had the plain name ends; there is no garbage collector here.
    let before = config_maps(stage.client(), &second)
        .get("web")
        .await
        .unwrap();
    let api = syncs(stage.client());
    api.delete(&first, &DeleteParams::default()).await.unwrap();
    delete(stage.client(), &id).await;
    is_gone(stage.client(), &first, "web").await;
    request(stage.client(), &second).await;
    sync_condition(stage.client(), &second, "Ready", "True").await;
    let after = config_maps(stage.client(), &second)
        .get("web")
        .await
        .unwrap();
    assert_eq!(after.uid(), before.uid());
    assert_eq!(has(&second).await, [second_name(&id, &second)]);
}

#[tokio::test]
async fn two_syncs_of_one_artifact_and_one_destination_share_the_objects() {
    let stage = Stage::new().await;
    let second = unique("second");
    let id = stage.render("web", "one").id;
    let source = json!({"interval": "0s"});
    // At once: both want the same name.
    tokio::join!(
        stage.sync(source.clone()),
        stage.sync_as(&second, source.clone(), json!({}))
    );
    stage.ready().await;
    sync_condition(stage.client(), &second, "Ready", "True").await;
    let owned = [
        resources_of(stage.client(), &stage.name).await,
        resources_of(stage.client(), &second).await,
    ];
    let mut all: Vec<&String> = owned.iter().flat_map(|it| it.keys()).collect();
    all.sort();
    assert_eq!(all.len(), 2, "{}", show(&all));
    assert_eq!(*all[0], id);
    let mark = stage.mark().await;
    let api = syncs(stage.client());
    api.delete(&second, &DeleteParams::default()).await.unwrap();
    for name in owned[1].keys() {
        delete(stage.client(), name).await;
    }
    stage.look().await;
    stage.ready().await;
    value_is(stage.client(), &stage.name, "web", "one").await;
    let deletions = stage.deletions(mark, &[&id]).await;
    assert!(deletions.is_empty(), "{}", show(&deletions));
}
