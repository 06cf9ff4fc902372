//! Scope, namespaces and identities.

use serde_json::json;
use vidra_core::manifest::{Resolution, Scope, resolve};

use crate::support::{compile, config_map, discovery, objects};

fn namespaces(resolution: &Resolution) -> Vec<Option<&str>> {
    resolution
        .known
        .iter()
        .map(|known| known.key.namespace.as_deref())
        .collect()
}

const DEFINITION: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets}
  scope: SCOPE
  versions:
  - {name: v1, served: true}
  - {name: v1alpha1, served: false}
";

fn widget(version: &str) -> String {
    format!("---\napiVersion: example.com/{version}\nkind: Widget\nmetadata: {{name: a}}\n")
}

#[test]
fn a_namespaced_object_without_namespace_gets_the_default_one() {
    let resolution = resolve(objects(&config_map("a", "")), Some("prod"), discovery).unwrap();
    assert_eq!(namespaces(&resolution), [Some("prod")]);
    assert_eq!(
        resolution.known[0].object.body()["metadata"],
        json!({"name": "a", "namespace": "prod"})
    );
}

#[test]
fn without_a_default_the_namespace_is_default() {
    for default in [None, Some("")] {
        let resolution = resolve(objects(&config_map("a", "")), default, discovery).unwrap();
        assert_eq!(namespaces(&resolution), [Some("default")]);
    }
}

#[test]
fn a_written_namespace_is_kept() {
    let text = config_map("a", "  namespace: own\n");
    let resolution = resolve(objects(&text), Some("prod"), discovery).unwrap();
    assert_eq!(namespaces(&resolution), [Some("own")]);
}

#[test]
fn a_cluster_scoped_object_loses_its_namespace() {
    let text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, namespace: b}\n";
    let resolution = compile(text).unwrap();
    assert_eq!(namespaces(&resolution), [None]);
    assert_eq!(
        resolution.known[0].object.body()["metadata"],
        json!({"name": "a"})
    );
}

#[test]
fn an_unknown_kind_waits_and_is_left_as_written() {
    let resolution = compile(&widget("v1")).unwrap();
    assert!(resolution.known.is_empty());
    assert_eq!(
        resolution.unknown[0].body()["metadata"],
        json!({"name": "a"})
    );
}

#[test]
fn a_definition_in_the_same_manifest_makes_its_kind_known() {
    for (scope, expected, namespace) in [
        ("Namespaced", Scope::Namespaced, Some("default")),
        ("Cluster", Scope::Cluster, None),
    ] {
        let text = format!("{}{}", DEFINITION.replace("SCOPE", scope), widget("v1"));
        let resolution = compile(&text).unwrap();
        let widget = &resolution.known[1];
        assert_eq!(
            (widget.scope, widget.key.namespace.as_deref()),
            (expected, namespace)
        );
        assert!(widget.awaits_definition && !resolution.known[0].awaits_definition);
    }
}

#[test]
fn a_definition_after_its_objects_counts_as_well() {
    let text = format!(
        "{}---\n{}",
        widget("v1"),
        DEFINITION.replace("SCOPE", "Cluster")
    );
    assert!(compile(&text).unwrap().unknown.is_empty());
}

#[test]
fn a_version_that_the_definition_does_not_serve_stays_unknown() {
    for version in ["v1alpha1", "v2"] {
        let text = format!(
            "{}{}",
            DEFINITION.replace("SCOPE", "Cluster"),
            widget(version)
        );
        assert_eq!(compile(&text).unwrap().unknown.len(), 1);
    }
}

#[test]
fn a_broken_definition_makes_nothing_known() {
    let broken = DEFINITION.replace("SCOPE", "Galactic");
    assert_eq!(
        compile(&format!("{broken}{}", widget("v1")))
            .unwrap()
            .unknown
            .len(),
        1
    );
}

#[test]
fn discovery_wins_over_a_definition() {
    let text = format!("{}{}", DEFINITION.replace("SCOPE", "Cluster"), widget("v1"));
    let resolution = resolve(objects(&text), None, |group, version, kind| {
        if kind == "Widget" {
            Some(Scope::Namespaced)
        } else {
            discovery(group, version, kind)
        }
    });
    let widget = &resolution.unwrap().known[1];
    assert_eq!(
        (widget.scope, widget.awaits_definition),
        (Scope::Namespaced, false)
    );
}

#[test]
fn equal_names_in_other_namespaces_kinds_and_groups_are_other_objects() {
    let text = [
        config_map("a", ""),
        config_map("a", "  namespace: b\n"),
        config_map("a", "").replace("ConfigMap", "Secret"),
        config_map("a", "").replace("apiVersion: v1", "apiVersion: example.com/v1"),
    ];
    let resolution = compile(&text.join("---\n")).unwrap();
    assert_eq!((resolution.known.len(), resolution.unknown.len()), (3, 1));
}

#[test]
fn an_unknown_version_of_a_known_kind_is_the_same_object() {
    let scaler =
        "apiVersion: autoscaling/VERSION\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\n";
    let text = format!(
        "{}---\n{}",
        scaler.replace("VERSION", "v9"),
        scaler.replace("VERSION", "v2")
    );
    assert_eq!(
        compile(&text).expect_err("one object").codes(),
        ["DuplicateObject"]
    );
}

#[test]
fn an_unknown_kind_with_and_without_namespace_is_two_objects() {
    let text = format!(
        "{}{}",
        widget("v1"),
        widget("v1").replace("name: a", "name: a, namespace: default")
    );
    assert_eq!(compile(&text).unwrap().unknown.len(), 2);
}
