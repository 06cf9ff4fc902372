//! Limits hold before and while a text is read.

use vidra_core::manifest::{Limits, parse};

use crate::support::config_map;

fn codes(text: &str, limits: &Limits) -> Vec<&'static str> {
    parse(text, limits).map_or_else(|error| error.codes(), |_| Vec::new())
}

fn many(count: usize) -> String {
    (0..count)
        .map(|index| config_map(&format!("a{index}"), "---\n"))
        .collect()
}

#[test]
fn a_text_of_exactly_the_limit_is_read_and_one_byte_more_is_not() {
    let text = config_map("a", "");
    let limits = |bytes| Limits {
        bytes,
        ..Limits::default()
    };
    assert!(codes(&text, &limits(text.len())).is_empty());
    assert_eq!(codes(&text, &limits(text.len() - 1)), ["TooLarge"]);
}

#[test]
fn documents_are_counted_without_the_empty_ones() {
    let limits = Limits {
        documents: 3,
        ..Limits::default()
    };
    assert!(codes(&format!("---\n# x\n---\n{}", many(3)), &limits).is_empty());
    assert_eq!(codes(&many(4), &limits), ["TooManyDocuments"]);
}

#[test]
fn objects_are_counted_after_lists_are_flattened() {
    let member = "{apiVersion: v1, kind: A, metadata: {name: a}}";
    let list = |count| {
        format!(
            "apiVersion: v1\nkind: List\nitems: [{}]\n",
            vec![member; count].join(", ")
        )
    };
    let limits = Limits {
        objects: 3,
        ..Limits::default()
    };
    assert!(codes(&list(3), &limits).is_empty());
    assert_eq!(codes(&list(4), &limits), ["TooManyObjects"]);
}

#[test]
fn values_are_counted_over_all_documents() {
    let limits = Limits {
        nodes: 30,
        ..Limits::default()
    };
    assert!(codes(&many(3), &limits).is_empty());
    assert_eq!(codes(&many(4), &limits), ["TooManyNodes"]);
}

#[test]
fn values_of_json_are_counted_too() {
    let text = r#"{"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}, "l": [1, 2, 3, 4]}"#;
    let limits = |nodes| Limits {
        nodes,
        ..Limits::default()
    };
    assert!(codes(text, &limits(15)).is_empty());
    assert_eq!(codes(text, &limits(14)), ["TooManyNodes"]);
}

#[test]
fn a_long_text_behind_many_aliases_is_refused_before_it_fills_the_memory() {
    let aliases = vec!["*a"; 5_000].join(", ");
    let text = config_map(
        "a",
        &format!("a: &a {}\nb: [{aliases}]\n", "x".repeat(100_000)),
    );
    assert_eq!(codes(&text, &Limits::default()), ["ExpandsTooLarge"]);
}

#[test]
fn the_bytes_of_strings_are_counted_over_all_documents_of_both_formats() {
    let limits = Limits {
        expanded_bytes: 1_000,
        ..Limits::default()
    };
    let text = "x".repeat(600);
    let yaml = config_map("a", &format!("a: {text}\n"));
    let json = format!(
        r#"{{"apiVersion": "v1", "kind": "A", "metadata": {{"name": "a"}}, "a": "{text}"}}"#
    );
    for document in [yaml, json] {
        assert!(codes(&document, &limits).is_empty());
        let twice = format!("{document}\n---\n{document}");
        assert_eq!(codes(&twice, &limits), ["ExpandsTooLarge"]);
    }
}

#[test]
fn aliases_anchors_and_merge_keys_are_counted() {
    let limits = Limits {
        aliases: 10,
        ..Limits::default()
    };
    let aliases = |count| {
        config_map(
            "a",
            &format!("a: &a 1\nb: [{}]\n", vec!["*a"; count].join(", ")),
        )
    };
    assert!(codes(&aliases(10), &limits).is_empty());
    assert_eq!(codes(&aliases(11), &limits), ["TooManyAliases"]);
    let lines = |line: &str| -> String {
        let lines: Vec<String> = (0..11)
            .map(|index| line.replace('#', &index.to_string()))
            .collect();
        lines.concat()
    };
    let anchors = lines("k#: &a# 1\n");
    assert_eq!(
        codes(&config_map("a", &anchors), &limits),
        ["TooManyAliases"]
    );
    let merges = lines("k#: {<<: {a: 1}}\n");
    assert_eq!(
        codes(&config_map("a", &merges), &limits),
        ["TooManyAliases"]
    );
}

#[test]
fn the_deepest_allowed_nesting_is_read_in_yaml_and_json() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let yaml = |depth| config_map("a", &format!("a: {}\n", nested(depth)));
    let json = |depth| {
        let head = r#"{"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}, "a": "#;
        format!("{head}{}}}", nested(depth))
    };
    for text in [yaml(99), json(99)] {
        assert!(codes(&text, &Limits::default()).is_empty());
    }
    for text in [yaml(100), json(100)] {
        assert_eq!(codes(&text, &Limits::default()), ["TooDeep"]);
    }
}

#[test]
fn no_caller_can_ask_for_a_depth_that_endangers_the_stack() {
    let limits = Limits {
        depth: usize::MAX,
        ..Limits::default()
    };
    for text in [
        "[".repeat(200_000),
        "{\"a\":".repeat(200_000),
        "- ".repeat(50_000),
    ] {
        assert_eq!(codes(&text, &limits), ["TooDeep"]);
    }
}

#[test]
fn a_large_ordinary_manifest_is_within_the_default_limits() {
    let text = many(3_000);
    let objects = parse(&text, &Limits::default()).expect("an ordinary manifest");
    assert_eq!(objects.len(), 3_000);
}
