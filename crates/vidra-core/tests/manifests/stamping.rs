//! Our marks, the author's policy, and fields that are left out.

use serde_json::{Value, json};
use vidra_core::manifest::{
    ApplyMode, FieldPath, Marks, ObjectPolicy, refuse_reserved, stamp, strip,
};

use crate::support::{RESERVED, config_map, objects};

const MARKS: Marks<'_> = Marks {
    labels: &[("team", "net")],
    annotations: &[("vidra.infrahub.operators.com/owner.x", "y")],
    reserved: &RESERVED,
};

fn stamped(metadata: &str) -> Value {
    let mut object = objects(&config_map("a", metadata)).remove(0);
    stamp(&mut object, &MARKS).unwrap();
    object.into_body()["metadata"].take()
}

#[test]
fn marks_are_added_where_there_are_no_maps() {
    let expected = json!({
        "name": "a",
        "labels": {"managed-by": "vidra", "team": "net"},
        "annotations": {"managed-by": "vidra", "vidra.infrahub.operators.com/owner.x": "y"},
    });
    assert_eq!(stamped(""), expected);
    assert_eq!(stamped("  labels:\n  annotations:\n"), expected);
}

#[test]
fn the_authors_own_labels_and_annotations_stay() {
    let metadata = stamped("  labels: {app: web}\n  annotations: {note: hello}\n");
    assert_eq!(
        metadata["labels"],
        json!({"app": "web", "managed-by": "vidra", "team": "net"})
    );
    assert_eq!(metadata["annotations"]["note"], "hello");
}

#[test]
fn a_foreign_managed_by_is_replaced() {
    assert_eq!(
        stamped("  labels: {managed-by: helm}\n")["labels"]["managed-by"],
        "vidra"
    );
}

#[test]
fn reserved_keys_are_refused_and_nothing_is_changed() {
    let text = config_map("a", "  labels: {vidra.infrahub.operators.com/owner.z: x}\n");
    let mut object = objects(&text).remove(0);
    let before = object.clone();
    let error = stamp(&mut object, &MARKS).expect_err("a reserved key");
    assert_eq!(error.codes(), ["ReservedKey"]);
    assert_eq!(object, before);
}

#[test]
fn all_reserved_keys_of_a_manifest_are_reported_together() {
    let owned = "  annotations: {vidra.infrahub.operators.com/owner: x, vidra.infrahub.operators.com/owner2: z}\n";
    let text = format!("{}---\n{}", config_map("a", owned), config_map("b", owned));
    let error = refuse_reserved(&objects(&text), &RESERVED).expect_err("reserved keys");
    assert_eq!(error.problems().len(), 4);
}

fn policy(annotations: &str) -> ObjectPolicy {
    let text = config_map("a", &format!("  annotations:\n{annotations}"));
    objects(&text)[0].policy().clone()
}

#[test]
fn without_annotations_the_manifest_wins_and_prunes() {
    let policy = objects(&config_map("a", ""))[0].policy().clone();
    assert!(policy.prune && !policy.recreate && policy.ignore.is_empty());
    assert_eq!(policy.apply, ApplyMode::Override);
}

#[test]
fn annotations_are_read_into_the_policy() {
    let prefix = "    vidra.infrahub.operators.com/";
    let policy = policy(&format!(
        "{prefix}prune: disabled\n{prefix}recreate: enabled\n{prefix}ssa: Merge\n{prefix}ignore: /spec/replicas, /data/a~1b\n"
    ));
    assert!(!policy.prune && policy.recreate);
    assert_eq!(policy.apply, ApplyMode::Merge);
    let paths: Vec<String> = policy.ignore.iter().map(ToString::to_string).collect();
    assert_eq!(paths, ["/spec/replicas", "/data/a~1b"]);
    assert_eq!(policy.ignore[1].segments(), ["data", "a/b"]);
}

#[test]
fn every_apply_mode_has_its_word() {
    for (word, mode) in [
        ("Override", ApplyMode::Override),
        ("Merge", ApplyMode::Merge),
        ("IfNotPresent", ApplyMode::IfNotPresent),
        ("Ignore", ApplyMode::Ignore),
    ] {
        assert_eq!(
            policy(&format!("    vidra.infrahub.operators.com/ssa: {word}\n")).apply,
            mode
        );
    }
}

fn without(body: &Value, paths: &[&str]) -> Value {
    let paths: Vec<FieldPath> = paths
        .iter()
        .map(|path| FieldPath::parse(path).unwrap())
        .collect();
    let mut body = body.clone();
    strip(&mut body, &paths);
    body
}

#[test]
fn stripping_removes_fields_and_leaves_their_parents() {
    let body = json!({"spec": {"replicas": 1}, "a/b": {"c~d": 1, "e": 2}});
    assert_eq!(without(&body, &["/spec/replicas"])["spec"], json!({}));
    assert_eq!(without(&body, &["/a~1b/c~0d"])["a/b"], json!({"e": 2}));
}

#[test]
fn stripping_several_members_of_a_list_removes_the_ones_that_were_meant() {
    let body = json!({"l": (0..12).collect::<Vec<i32>>()});
    let expected = json!({"l": [1, 3, 4, 5, 6, 7, 8, 9, 11]});
    assert_eq!(without(&body, &["/l/0", "/l/2", "/l/10", "/l/2"]), expected);
}

#[test]
fn stripping_a_member_and_a_field_inside_another_does_not_mix_them_up() {
    let body = json!({"l": [{"a": 1, "b": 2}, {"a": 3, "b": 4}]});
    assert_eq!(
        without(&body, &["/l/0", "/l/1/a"]),
        json!({"l": [{"b": 4}]})
    );
}

#[test]
fn paths_that_lead_nowhere_change_nothing() {
    let body = json!({"l": [1], "s": "text"});
    for path in [
        "/x", "/l/1", "/l/-", "/l/00", "/l/a", "/s/0", "/s/x/y", "/l/+0",
    ] {
        assert_eq!(without(&body, &[path]), body, "{path}");
    }
}
