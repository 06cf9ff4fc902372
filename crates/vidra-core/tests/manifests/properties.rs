//! Claims that hold for every input.

use std::collections::BTreeSet;

use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::{Map, Value};
use vidra_core::{
    identity::ObjectKey,
    manifest::{
        FieldPath, Limits, Resolution, normalise, order_key, parse, parse_bytes, resolve, strip,
    },
};

use crate::support::{compile, discovery, objects};

/// Text that is more likely than chance to be almost a manifest.
fn near_manifest() -> impl Strategy<Value = String> {
    let token = select(vec![
        "apiVersion: v1",
        "kind: Secret",
        "kind: List",
        "items:",
        "metadata:",
        "  name: a",
        "\n",
        "\n---\n",
        "\n...\n",
        "- ",
        "  ",
        "{",
        "}",
        "[",
        "]",
        ",",
        ": ",
        "\"",
        "'",
        "&a ",
        "*a",
        "<<: ",
        "!!binary ",
        "!x ",
        "|\n",
        ">-\n",
        "# c",
        "\t",
        "\r\n",
        "? ",
        "~",
        "0644",
        "1e999",
        "%YAML 1.1",
        "\u{FEFF}",
        "\u{85}",
        "ä",
        "\\x",
        "data: {p: canary}",
        "{\"a\":",
        "null",
    ]);
    vec(token, 0..40).prop_map(|tokens| tokens.concat())
}

fn json_value() -> impl Strategy<Value = Value> {
    let key = select(vec![
        "metadata",
        "status",
        "creationTimestamp",
        "uid",
        "spec",
        "a",
        "0",
        "x/y",
        "~",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        "[a-z]{0,3}".prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            vec((key.clone(), inner), 0..5).prop_map(|entries| {
                Value::Object(
                    entries
                        .into_iter()
                        .map(|(key, value)| (key.to_owned(), value))
                        .collect(),
                )
            }),
        ]
    })
}

fn object_key() -> impl Strategy<Value = ObjectKey> {
    let kind = select(vec![
        ("", "Namespace"),
        ("", "ConfigMap"),
        ("", "Secret"),
        ("apps", "Deployment"),
        ("example.com", "Widget"),
        ("autoscaling", "HorizontalPodAutoscaler"),
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration",
        ),
    ]);
    (kind, option::of("[a-c]"), "[a-c]").prop_map(|((group, kind), namespace, name)| ObjectKey {
        group: group.to_owned(),
        kind: kind.to_owned(),
        namespace,
        name,
    })
}

fn document(key: &ObjectKey) -> String {
    let api_version = match key.group.as_str() {
        "" => "v1".to_owned(),
        group => format!("{group}/v1"),
    };
    let namespace = key
        .namespace
        .as_ref()
        .map_or_else(String::new, |name| format!("  namespace: {name}\n"));
    format!(
        "apiVersion: {api_version}\nkind: {}\nmetadata:\n  name: {}\n{namespace}",
        key.kind, key.name
    )
}

fn text(keys: &[ObjectKey]) -> String {
    keys.iter().map(document).collect::<Vec<_>>().join("---\n")
}

/// What a resolution says without positions: identities and bodies.
fn essence(resolution: &Resolution) -> BTreeSet<(ObjectKey, bool, String)> {
    let known = resolution
        .known
        .iter()
        .map(|known| (known.key.clone(), true, known.object.body().to_string()));
    let unknown = resolution
        .unknown
        .iter()
        .map(|object| (object.key(), false, object.body().to_string()));
    known.chain(unknown).collect()
}

/// All paths of a value, with the way to write them.
fn paths(value: &Value, prefix: &str, found: &mut Vec<String>) {
    let entries: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), value))
            .collect(),
        Value::Array(members) => members
            .iter()
            .enumerate()
            .map(|(index, value)| (index.to_string(), value))
            .collect(),
        _ => Vec::new(),
    };
    for (key, value) in entries {
        let path = format!("{prefix}/{}", key.replace('~', "~0").replace('/', "~1"));
        paths(value, &path, found);
        found.push(path);
    }
}

/// Removes a pointer the slow and obvious way: by rebuilding everything else.
fn rebuilt_without(value: &Value, prefix: &str, gone: &str) -> Value {
    let path = |key: &str| format!("{prefix}/{}", key.replace('~', "~0").replace('/', "~1"));
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .filter(|(key, _)| path(key) != gone)
                .map(|(key, value)| (key.clone(), rebuilt_without(value, &path(key), gone)))
                .collect::<Map<_, _>>(),
        ),
        Value::Array(members) => Value::Array(
            members
                .iter()
                .enumerate()
                .filter(|(index, _)| path(&index.to_string()) != gone)
                .map(|(index, value)| rebuilt_without(value, &path(&index.to_string()), gone))
                .collect(),
        ),
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parsing_any_bytes_ends_without_panic(bytes in vec(any::<u8>(), 0..400)) {
        let _ = parse_bytes(&bytes, &Limits::default());
    }

    #[test]
    fn parsing_any_text_ends_without_panic(text in "\\PC{0,300}") {
        let _ = parse(&text, &Limits::default());
    }

    #[test]
    fn parsing_what_is_almost_a_manifest_ends_with_positions_inside_the_text(text in near_manifest()) {
        let lines = text.split('\n').count();
        if let Err(error) = parse(&text, &Limits::default()) {
            prop_assert!(!error.problems().is_empty());
            for problem in error.problems() {
                prop_assert!((1..=lines).contains(&problem.position.line), "{}", problem);
            }
            prop_assert!(!error.to_string().contains("canary"), "{}", error);
        }
    }

    #[test]
    fn json_survives_parsing_unchanged(value in json_value()) {
        let body = serde_json::json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}, "spec": value});
        let mut expected = body.clone();
        normalise(&mut expected);
        for text in [body.to_string(), format!("{body:#}")] {
            let found = objects(&text).remove(0).into_body();
            prop_assert_eq!(&found, &expected);
        }
    }

    #[test]
    fn normalising_twice_is_normalising_once(value in json_value()) {
        let mut once = value;
        normalise(&mut once);
        let mut twice = once.clone();
        normalise(&mut twice);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn the_order_is_total_and_does_not_depend_on_the_order_before(
        (keys, shuffled) in vec(object_key(), 0..20)
            .prop_flat_map(|keys| (Just(keys.clone()), Just(keys).prop_shuffle())),
    ) {
        let sorted = |mut keys: Vec<ObjectKey>| { keys.sort_by_key(order_key); keys };
        prop_assert_eq!(sorted(keys.clone()), sorted(shuffled));
        for left in &keys {
            for right in &keys {
                prop_assert_eq!(order_key(left) == order_key(right), left == right);
            }
        }
    }

    #[test]
    fn stripping_a_path_removes_exactly_that_path(value in json_value(), choice in any::<prop::sample::Index>()) {
        let body = serde_json::json!({"spec": value});
        let mut all = Vec::new();
        paths(&body, "", &mut all);
        let path = choice.get(&all);
        let mut stripped = body.clone();
        strip(&mut stripped, &[FieldPath::parse(path).unwrap()]);
        prop_assert_eq!(stripped, rebuilt_without(&body, "", path));
    }

    #[test]
    fn a_field_path_prints_as_it_was_written(segments in vec("[a-z/~0-9]{1,4}", 1..5)) {
        let escaped: Vec<String> = segments.iter().map(|name| name.replace('~', "~0").replace('/', "~1")).collect();
        let written = format!("/{}", escaped.join("/"));
        let path = FieldPath::parse(&written).unwrap();
        prop_assert_eq!(path.to_string(), written);
        prop_assert_eq!(path.segments(), segments);
    }

    #[test]
    fn resolving_does_not_depend_on_the_order_of_documents(
        (keys, shuffled) in vec(object_key(), 0..12)
            .prop_flat_map(|keys| (Just(keys.clone()), Just(keys).prop_shuffle())),
        default in option::of("[a-c]"),
    ) {
        let outcome = |keys: &[ObjectKey]| resolve(objects(&text(keys)), default.as_deref(), discovery);
        match (outcome(&keys), outcome(&shuffled)) {
            (Ok(left), Ok(right)) => prop_assert_eq!(essence(&left), essence(&right)),
            (Err(left), Err(right)) => prop_assert_eq!(left.problems().len(), right.problems().len()),
            (left, right) => prop_assert!(false, "{:?} but {:?}", left, right),
        }
    }

    #[test]
    fn an_object_that_is_there_twice_is_always_found(keys in vec(object_key(), 1..12), choice in any::<prop::sample::Index>(), at in any::<prop::sample::Index>()) {
        let twice = choice.get(&keys).clone();
        let mut all = keys;
        all.insert(at.index(all.len() + 1), twice);
        let codes = compile(&text(&all)).expect_err("a duplicate").codes();
        prop_assert_eq!(codes, ["DuplicateObject"]);
    }
}
