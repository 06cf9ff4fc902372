//! What an error tells.

use vidra_core::manifest::{Refusal, digest};

use crate::support::{compile, config_map, error, objects};

#[test]
fn a_position_counts_lines_of_the_whole_text_and_documents_with_content() {
    let text = format!(
        "# head\n---\n{}---\n# nothing\n---\nkind: [\n",
        config_map("a", "")
    );
    let error = error(&text);
    let position = &error.problems()[0].position;
    assert_eq!((position.line, position.document), (10, 2));
}

#[test]
fn an_end_marker_counts_as_a_line() {
    let text = format!("{}...\nkind: [\n", config_map("a", ""));
    assert_eq!(error(&text).problems()[0].position.line, 6);
}

#[test]
fn a_duplicate_key_is_reported_where_the_second_one_stands() {
    let error = error("apiVersion: v1\nkind: A\nmetadata:\n  name: x\n  name: y\n");
    let position = &error.problems()[0].position;
    assert_eq!((position.line, position.column), (5, 3));
    assert_eq!(error.problems()[0].snippet.as_deref(), Some("'name: y'"));
}

#[test]
fn a_duplicate_key_that_only_kubectl_sees_has_its_line_too() {
    let error = error("apiVersion: v1\nspec:\n  on: 1\n  yes: 2\n");
    assert_eq!(error.problems()[0].position.line, 4);
}

#[test]
fn a_list_member_has_its_own_line() {
    let text = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: A, metadata: {name: a}}\n\n- kind: B\n";
    let error = error(text);
    let position = &error.problems()[0].position;
    assert_eq!((position.line, position.item.as_str()), (6, "items[1]"));
}

#[test]
fn objects_of_a_json_stream_have_their_own_lines() {
    let one = r#"{"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}}"#;
    let text = format!("---\n{one}\n\n  {}", one.replace("\"a\"", "\"b\""));
    let lines: Vec<(usize, usize)> = objects(&text)
        .iter()
        .map(|object| (object.position().line, object.position().column))
        .collect();
    assert_eq!(lines, [(2, 1), (4, 3)]);
}

#[test]
fn a_json_error_is_placed_in_the_whole_text() {
    let error = error("# head\n---\n\n{\"a\": 1,\n \"a\": 2}");
    assert_eq!(error.codes(), ["DuplicateKey"]);
    assert_eq!(error.problems()[0].position.line, 5);
}

#[test]
fn all_problems_are_collected_but_no_more_than_twenty() {
    let nameless = "apiVersion: v1\nkind: A\nmetadata: {}\n";
    assert_eq!(error(&[nameless; 7].join("---\n")).problems().len(), 7);
    assert_eq!(error(&[nameless; 50].join("---\n")).problems().len(), 20);
}

#[test]
fn a_good_document_does_not_save_a_manifest_with_a_bad_one() {
    let error = error(&format!("{}---\nkind: A\n", config_map("a", "")));
    assert!(error.codes().contains(&"MissingName") || error.codes().contains(&"MissingMetadata"));
}

#[test]
fn a_duplicate_names_both_places() {
    let text = format!("{}---\n{}", config_map("a", ""), config_map("a", ""));
    let error = compile(&text).expect_err("the same object twice");
    let problem = &error.problems()[0];
    let Refusal::DuplicateObject { first, object } = &problem.refusal else {
        panic!("{problem}")
    };
    assert_eq!((first.line, problem.position.line), (1, 6));
    assert_eq!(object, "ConfigMap default/a");
}

#[test]
fn the_second_of_two_duplicates_is_the_one_reported_even_if_only_its_version_is_known() {
    let scaler = |version| {
        format!(
            "apiVersion: autoscaling/{version}\nkind: HorizontalPodAutoscaler\nmetadata: {{name: a}}\n"
        )
    };
    let error = compile(&format!("{}---\n{}", scaler("v9"), scaler("v2"))).expect_err("twice");
    assert_eq!(error.problems()[0].position.line, 5);
}

#[test]
fn a_manifest_that_is_too_much_has_another_reason_than_a_wrong_one() {
    assert_eq!(error(&"[".repeat(300)).reason(), "ManifestTooLarge");
    assert_eq!(error("kind: A").reason(), "ManifestInvalid");
}

#[test]
fn an_error_is_one_line_of_bounded_length() {
    let key = "k".repeat(900);
    let text = format!("apiVersion: v1\nspec:\n  {key}: 1\n  {key}: 2\n");
    let message = error(&text).to_string();
    assert!(!message.contains('\n'));
    assert!(message.len() < 500, "{message}");
}

#[test]
fn the_digest_is_sha_256_in_hex() {
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(digest(""), empty);
    assert_ne!(digest("a"), digest("b"));
}
