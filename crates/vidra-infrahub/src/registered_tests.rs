use super::*;

#[test]
fn queries_that_select_by_name_are_recognised_however_they_are_written() {
    for text in [
        "query ArtifactIDs($artifactname: String!) { CoreArtifact(name__value: $artifactname) { \
         edges { node { id storage_id { id } checksum { value } } } } }",
        "query($artifactname:String){CoreArtifact(name__value:$artifactname){count edges{node{id}}}}",
        "# for the operator\nquery ArtifactIDs(\n  $artifactname: String!,\n) {\n\tCoreArtifact(\
         name__value: $artifactname,) { edges { node { id, } } } # end\n}\r\n",
    ] {
        assert!(selects_by_name(text), "{text}");
    }
}

#[test]
fn queries_that_select_anything_else_are_not_taken_for_ours() {
    let inner = "{ edges { node { id } } }";
    let good = format!(
        "query Q($artifactname: String!) {{ CoreArtifact(name__value: $artifactname) {inner} }}"
    );
    assert!(selects_by_name(&good));
    for (from, to) in [
        (
            "name__value: $artifactname)",
            "name__value: $artifactname, limit: 10)",
        ),
        (
            "name__value: $artifactname)",
            "name__value: $artifactname, status__value: \"Ready\")",
        ),
        ("name__value", "definition__name__value"),
        ("CoreArtifact", "mine: CoreArtifact"),
        ("CoreArtifact", "CoreNode"),
        ("$artifactname: String!", "$artifactname: String!, $b: Int"),
        ("$artifactname: String!", "$artifactname: String = x"),
        ("artifactname", "name"),
        ("edges {", "edges @include(if: false) {"),
        ("edges {", "edges(first: 1) {"),
        ("edges {", "...all edges {"),
        ("id } } }", "id } } } other { id }"),
        ("query Q", "mutation Q"),
        ("query Q", "subscription Q"),
        ("} }", "} } query R { a }"),
        ("} }", "} } }"),
        ("} } }", "} }"),
        ("query Q($artifactname: String!)", ""),
    ] {
        let text = good.replace(from, to);
        assert_ne!(text, good, "{from}");
        assert!(!selects_by_name(&text), "{text}");
    }
    for text in [
        "",
        "query",
        "{}",
        "query Q($artifactname: String!) {",
        "\u{e4}",
        "\"",
        "}{",
    ] {
        assert!(!selects_by_name(text), "{text}");
    }
}

fn found(text: &str) -> Result<Option<Vec<String>>, &'static str> {
    let ids = ids(&serde_json::from_str(text).unwrap());
    let ids = ids.map(|ids| ids.map(|ids| ids.into_iter().collect()));
    ids.map_err(|error| error.code())
}

#[test]
fn ids_are_found_under_the_usual_name_or_the_only_one() {
    let expected = Ok(Some(vec!["a".to_owned(), "b".to_owned()]));
    let list = r#"{"edges":[{"node":{"id":"a","x":1}},{"node":{"id":"b"}}]}"#;
    assert_eq!(found(&format!(r#"{{"CoreArtifact":{list}}}"#)), expected);
    assert_eq!(found(&format!(r#"{{"mine":{list}}}"#)), expected);
    assert_eq!(
        found(&format!(r#"{{"x":null,"CoreArtifact":{list}}}"#)),
        expected
    );
    assert_eq!(
        found(r#"{"CoreArtifact":{"edges":[]}}"#),
        Ok(Some(Vec::new()))
    );
}

#[test]
fn an_answer_about_something_else_is_not_an_empty_one() {
    for text in [
        "{}",
        r#"{"a":{"edges":[]},"b":{"edges":[]}}"#,
        r#"{"Branch":{"name":"x"}}"#,
        r#"{"Branch":[{"name":"x"}]}"#,
        r#"{"CoreArtifact":{"count":3}}"#,
        r#"{"CoreArtifact":{"edges":[{"node":{"name":"x"}}]}}"#,
    ] {
        assert_eq!(found(text), Ok(None), "{text}");
    }
}

#[test]
fn a_damaged_answer_is_an_error() {
    for (text, code) in [
        ("null", "Unexpected"),
        ("[]", "Unexpected"),
        (r#"{"CoreArtifact":null}"#, "Unexpected"),
        (r#"{"CoreArtifact":{"edges":null}}"#, "Unexpected"),
        (r#"{"CoreArtifact":{"edges":[null]}}"#, "Unexpected"),
        (
            r#"{"CoreArtifact":{"edges":[{"node":null}]}}"#,
            "Unexpected",
        ),
        (
            r#"{"CoreArtifact":{"edges":[{"node":{"id":""}}]}}"#,
            "Unexpected",
        ),
        (
            r#"{"CoreArtifact":{"edges":[{"node":{"id":7}}]}}"#,
            "Unexpected",
        ),
        (
            r#"{"CoreArtifact":{"count":2,"edges":[{"node":{"id":"a"}}]}}"#,
            "Incomplete",
        ),
    ] {
        assert_eq!(found(text), Err(code), "{text}");
    }
}
