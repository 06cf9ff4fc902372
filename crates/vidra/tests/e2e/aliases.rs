//! One object that the API server serves under two groups.

use serde_json::json;
use vidra_lab::controlplane::unique;

use crate::support::*;

fn event(api_version: &str, namespace: &str) -> String {
    // Both groups serve the same stored object; each has its own name for the text.
    let text = if api_version == "v1" {
        "message"
    } else {
        "note"
    };
    let subject = if api_version == "v1" {
        "involvedObject"
    } else {
        "regarding"
    };
    format!(
        "---\napiVersion: {api_version}\nkind: Event\n\
         metadata: {{name: one, namespace: {namespace}}}\n\
         {subject}: {{kind: Namespace, name: {namespace}, namespace: {namespace}}}\n\
         {text}: hello\nreason: Tested\ntype: Normal\naction: Testing\n\
         eventTime: \"2026-11-16T00:00:00.000000Z\"\n\
         reportingController: example.com/test\nreportingInstance: test\n"
    ) + if api_version == "v1" {
        "reportingComponent: example.com/test\n"
    } else {
        ""
    }
}

/// A manifest that names an object by its other group is not a new object and an old one: deleting
/// the old one would delete what was just applied.
#[tokio::test]
async fn an_object_that_moves_to_another_group_of_the_same_storage_is_not_deleted() {
    let world = world().await;
    let namespace = world.plane.namespace("aliases").await.unwrap();
    let name = unique("alias");
    let keep = config_map(&namespace, "keep", "1");
    let core = event("v1", &namespace).replace("reportingController: example.com/test\n", "");
    create(&world.client, &name, &(core + &keep), json!({})).await;
    ready(&world.client, &name).await;
    let events = dynamic(&world.client, ("", "v1", "Event"), Some(&namespace));
    let before = events.get("one").await.unwrap().metadata.uid;

    let moved = event("events.k8s.io/v1", &namespace) + &keep;
    change(&world.client, &name, json!({"manifest": moved})).await;
    let resource = ready(&world.client, &name).await;
    assert_eq!(events.get("one").await.unwrap().metadata.uid, before);
    let kinds: Vec<String> = resource
        .status
        .unwrap()
        .managed_resources
        .into_iter()
        .map(|object| format!("{} {}", object.api_version, object.kind))
        .collect();
    assert_eq!(kinds, ["v1 ConfigMap", "events.k8s.io/v1 Event"]);
}
