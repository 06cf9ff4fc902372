//! Kinds that come and go while the operator runs.

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use vidra_lab::controlplane::unique;

use crate::support::*;

const DEFINITION: (&str, &str, &str) = ("apiextensions.k8s.io", "v1", "CustomResourceDefinition");

fn definition(group: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gadgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    })
}

async fn define(world: &World, group: &str) {
    let api = dynamic(&world.client, DEFINITION, None);
    let params = PatchParams::apply("e2e").force();
    api.patch(
        &format!("gadgets.{group}"),
        &params,
        &Patch::Apply(definition(group)),
    )
    .await
    .unwrap();
}

#[tokio::test]
async fn an_object_whose_kind_was_removed_comes_back_with_the_kind() {
    let world = world().await;
    let namespace = world.plane.namespace("kinds").await.unwrap();
    let (group, name) = (format!("{}.example.com", unique("g")), unique("gadget"));
    define(&world, &group).await;
    let manifest = format!(
        "apiVersion: {group}/v1\nkind: Gadget\nmetadata: {{name: one, namespace: {namespace}}}\nspec: {{size: 1}}\n"
    ) + &config_map(&namespace, "other", "1");
    create(&world.client, &name, &manifest, json!({})).await;
    ready(&world.client, &name).await;

    let definitions = dynamic(&world.client, DEFINITION, None);
    definitions
        .delete(&format!("gadgets.{group}"), &DeleteParams::default())
        .await
        .unwrap();
    let resource = condition(&world.client, &name, "Ready", "False").await;
    let (reason, message) = said(&resource, "Ready");
    assert!(
        reason == "UnknownKind" || reason == "NotFound",
        "{reason}: {message}"
    );
    assert_eq!(names(&world.client, &namespace).await, ["other"]);

    define(&world, &group).await;
    ready(&world.client, &name).await;
    let gadgets = dynamic(&world.client, (&group, "v1", "Gadget"), Some(&namespace));
    assert_eq!(gadgets.get("one").await.unwrap().data["spec"]["size"], 1);
}
