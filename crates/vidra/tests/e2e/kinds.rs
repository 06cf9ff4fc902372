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
    eventually("the kind is said to be unknown", || async {
        let resource = resources(&world.client).get(&name).await.unwrap();
        (said(&resource, "Ready").0 == "UnknownKind").then_some(())
    })
    .await;
    assert_eq!(names(&world.client, &namespace).await, ["other"]);

    define(&world, &group).await;
    ready(&world.client, &name).await;
    let gadgets = dynamic(&world.client, (&group, "v1", "Gadget"), Some(&namespace));
    assert_eq!(gadgets.get("one").await.unwrap().data["spec"]["size"], 1);
}

/// A definition whose objects are stored as v1 and asked for as v2, with nobody to convert them.
fn inconvertible(group: &str) -> Value {
    let mut definition = definition(group);
    let schema = definition["spec"]["versions"][0]["schema"].clone();
    definition["spec"]["versions"] = json!([
        {"name": "v1", "served": true, "storage": true, "schema": schema.clone()},
        {"name": "v2", "served": true, "storage": false, "schema": schema},
    ]);
    definition["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:1/convert"}}});
    definition
}

#[tokio::test]
async fn a_kind_that_cannot_be_converted_fails_alone() {
    let world = world().await;
    let namespace = world.plane.namespace("kinds").await.unwrap();
    let group = format!("{}.example.com", unique("g"));
    let definitions = dynamic(&world.client, DEFINITION, None);
    let params = PatchParams::apply("e2e").force();
    let name = format!("gadgets.{group}");
    definitions
        .patch(&name, &params, &Patch::Apply(inconvertible(&group)))
        .await
        .unwrap();
    let gadget = format!(
        "apiVersion: {group}/v2\nkind: Gadget\nmetadata: {{name: one, namespace: {namespace}}}\nspec: {{size: 1}}\n"
    );
    let (bad, good) = (unique("bad"), unique("good"));
    let mixed = gadget + &config_map(&namespace, "beside", "1");
    create(&world.client, &bad, &mixed, json!({})).await;
    create(
        &world.client,
        &good,
        &config_map(&namespace, "apart", "1"),
        json!({}),
    )
    .await;
    condition(&world.client, &bad, "Ready", "False").await;
    ready(&world.client, &good).await;
    value_is(&world.client, &namespace, "beside", "1").await;

    let edit = json!({"data": {"key": "bad"}});
    for object in ["beside", "apart"] {
        let api = config_maps(&world.client, &namespace);
        api.patch(object, &PatchParams::default(), &Patch::Merge(&edit))
            .await
            .unwrap();
        value_is(&world.client, &namespace, object, "1").await;
    }
    definitions
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    delete(&world.client, &bad).await;
}
