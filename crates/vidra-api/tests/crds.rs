//! The generated CRD files: up to date, faithful, and with the spellings that users know.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

fn checked_in() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds")
}

fn schemas() -> Vec<Value> {
    let crds = vidra_api::crds().into_iter();
    crds.map(|crd| serde_json::to_value(&crd.spec.versions[0].schema).unwrap())
        .collect()
}

/// Calls `check` on every schema node.
fn visit(node: &Value, check: &mut impl FnMut(&Value)) {
    check(node);
    let properties = node["properties"].as_object().into_iter();
    properties
        .flat_map(|map| map.values())
        .chain(node.get("items"))
        .chain(node.get("additionalProperties"))
        .for_each(|child| visit(child, check));
}

#[test]
fn the_checked_in_files_are_up_to_date() {
    let stale = vidra_api::crds::stale(&checked_in()).unwrap();
    assert!(stale.is_empty(), "run `cargo crds`: {stale:?}");
}

#[test]
fn nothing_else_is_in_the_directory_of_the_files() {
    let mut found: Vec<String> = std::fs::read_dir(checked_in())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    let expected = [
        "infrahub.operators.com_infrahubsyncs.yaml",
        "infrahub.operators.com_vidraresources.yaml",
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_yaml_means_the_same_as_the_definition() {
    for (crd, (_, yaml)) in vidra_api::crds().iter().zip(vidra_api::crd_yaml().unwrap()) {
        let parsed: CustomResourceDefinition = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(&parsed, crd);
    }
}

#[test]
fn writing_makes_the_files_current_and_a_changed_file_is_stale() {
    let directory = tempfile::tempdir().unwrap();
    let written = vidra_api::crds::write(directory.path()).unwrap();
    assert!(vidra_api::crds::stale(directory.path()).unwrap().is_empty());
    std::fs::write(&written[1], "changed").unwrap();
    assert_eq!(
        vidra_api::crds::stale(directory.path()).unwrap(),
        written[1..]
    );
}

#[test]
fn no_field_has_a_default_or_is_nullable() {
    for schema in schemas() {
        visit(&schema["openAPIV3Schema"], &mut |node| {
            assert!(node.get("default").is_none(), "{node}");
            assert!(node.get("nullable").is_none(), "{node}");
        });
    }
}

#[test]
fn every_field_explains_itself() {
    for schema in schemas() {
        visit(&schema["openAPIV3Schema"], &mut |node| {
            for (name, property) in node["properties"].as_object().into_iter().flatten() {
                assert!(property["description"].is_string(), "{name}: {property}");
            }
        });
    }
}

#[test]
fn every_rule_says_what_to_write() {
    let mut rules = 0;
    for schema in schemas() {
        visit(&schema["openAPIV3Schema"], &mut |node| {
            for rule in node["x-kubernetes-validations"]
                .as_array()
                .into_iter()
                .flatten()
            {
                assert!(rule["message"].is_string(), "{rule}");
                rules += 1;
            }
        });
    }
    assert!(rules > 0);
}

#[test]
fn the_odd_spellings_are_kept() {
    let [sync, resource] = &schemas()[..] else {
        unreachable!("there are two kinds")
    };
    let source = &sync["openAPIV3Schema"]["properties"]["spec"]["properties"]["source"];
    for name in [
        "infrahubAPIURL",
        "artefactName",
        "artifactName",
        "targetBranch",
        "targetDate",
    ] {
        assert!(source["properties"][name].is_object(), "{name}");
    }
    let status = &resource["openAPIV3Schema"]["properties"]["status"]["properties"];
    for name in [
        "DeployState",
        "managedResources",
        "lastError",
        "lastSyncTime",
    ] {
        assert!(status[name].is_object(), "{name}");
    }
}

#[test]
fn both_kinds_are_cluster_scoped_with_short_names_and_a_category() {
    let crds = vidra_api::crds();
    let names = |crd: &CustomResourceDefinition| crd.spec.names.short_names.clone().unwrap();
    assert_eq!(names(&crds[0]), ["ihs"]);
    assert_eq!(names(&crds[1]), ["vr"]);
    for crd in crds {
        assert_eq!(crd.spec.scope, "Cluster");
        assert_eq!(crd.spec.names.categories.unwrap(), ["vidra"]);
        assert!(
            crd.spec.versions[0]
                .subresources
                .as_ref()
                .unwrap()
                .status
                .is_some()
        );
    }
}
