//! No value of a Secret reaches an error, however the text is broken.

use vidra_core::manifest::{Limits, contains_secret, may_hold_secret, parse_bytes};

use crate::support::{compile, objects, read};

const CANARY: &str = "hunter2canary";

/// Broken manifests, each with the canary where a Secret's value is or once was.
const LEAKS: [&str; 27] = [
    "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData:\n  p: \"CANARY\n",
    "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData:\n  p: CANARY\n  p: CANARY\n",
    "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData:\n  CANARY: 1\n  CANARY: 2\n",
    "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {p: CANARY]\n",
    "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData:\n\tp: CANARY\n",
    "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {p: !CANARY x}\n",
    "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {p: !!binary CANARY*}\n",
    "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {p: *CANARY}\n",
    "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {? {CANARY: 1} : 2}\n",
    "apiVersion: v1\nkind: Secret\nmetadata:\n  name: CANARY/x\nstringData:\n",
    "apiVersion: v1\nkind: Secret\nmetadata:\n  name: a\n  namespace: CANARY/\nstringData:\n",
    "apiVersion: CANARY/a/b\nkind: Secret\nmetadata: {name: a}\n",
    "apiVersion: v1\nkind: Secret\nmetadata: CANARY\n",
    "apiVersion: v1\nkind: Secret\nmetadata:\n  name: a\n  labels:\n    CANARY: 1\n",
    "apiVersion: v1\nkind: Secret\nmetadata:\n  name: a\n  labels: CANARY\n",
    "apiVersion: v1\nkind: 'Secret'\nmetadata: {}\nstringData: {p: CANARY}\n",
    "kind: \"Secret\"\nstringData: {p: CANARY}\n",
    "kind: \"\\x53ecret\"\np: CANARY\n",
    "stringData: {p: CANARY}\n",
    "data: {p: CANARY}\n",
    "'data' : {p: CANARY}\n",
    "{\"kind\": \"Secret\", \"stringData\": {\"p\": \"CANARY\"",
    "{\"kind\": \"Secret\", \"stringData\": {\"CANARY\": 1, \"CANARY\": 2}}",
    "{\"data\":{\"p\":\"CANARY\"}, \"data\": 1}",
    "apiVersion: v1\nkind: List\nitems:\n- kind: Secret\n  stringData: {p: CANARY}\n- CANARY\n",
    "apiVersion: v1\nkind: Secret\nstringData:\n  p: \"x\n---\nCANARY: [\n---\nCANARY: 1\nCANARY: 2\n",
    "apiVersion: v1\nkind: SealedSecret\nmetadata: {name: a}\nspec: {p: CANARY, p: CANARY}\n",
];

#[test]
fn no_broken_secret_shows_its_values() {
    for leak in LEAKS {
        let text = leak.replace("CANARY", CANARY);
        let error = compile(&text).expect_err(&text);
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(CANARY), "{shown}\n{text}");
    }
}

#[test]
fn a_secret_cut_off_at_any_byte_shows_nothing() {
    let secret = format!(
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: a\nstringData:\n  one: \"{CANARY}\"\n  two: |\n    {CANARY}\n  three: [{CANARY}]\n"
    );
    for end in 0..secret.len() {
        let cut = format!("{}\n}}", &secret[..end]);
        if let Err(error) = read(&cut) {
            assert!(
                !format!("{error} {error:?}").contains("hunter2"),
                "{error}\n{cut}"
            );
        }
    }
}

#[test]
fn a_secret_with_any_byte_replaced_shows_nothing() {
    let secret =
        format!("apiVersion: v1\nkind: Secret\nmetadata:\n  name: a\ndata:\n  p: {CANARY}\n");
    for index in 0..secret.len() {
        for byte in *b"\n\t\"'[{:*!&%-\x00\xff" {
            let mut bytes = secret.clone().into_bytes();
            bytes[index] = byte;
            if let Err(error) = parse_bytes(&bytes, &Limits::default()) {
                let shown = format!("{error} {error:?}");
                assert!(
                    !shown.contains("canary") && !shown.contains("hunter"),
                    "{shown}"
                );
            }
        }
    }
}

#[test]
fn a_parsed_object_does_not_print_its_body() {
    let text = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\nstringData: {{p: {CANARY}}}\n"
    );
    assert!(!format!("{:?}", objects(&text)).contains(CANARY));
}

#[test]
fn a_manifest_without_secrets_does_show_the_line() {
    let error =
        compile("apiVersion: v1\nkind: A\nmetadata: {name: 'a b'}\n").expect_err("a bad name");
    assert!(error.to_string().contains("'a b'"));
    assert!(error.problems()[0].snippet.is_some());
}

#[test]
fn secrets_are_recognised_by_group_and_kind() {
    let holds = |text: &str| contains_secret(&objects(text));
    assert!(holds("apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n"));
    assert!(holds(
        "apiVersion: v1\nkind: SecretList\nitems: [{metadata: {name: a}}]\n"
    ));
    assert!(!holds(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: secret}\n"
    ));
    assert!(!holds(
        "apiVersion: example.com/v1\nkind: Secret\nmetadata: {name: a}\n"
    ));
}

#[test]
fn an_unparsed_text_is_suspected_early() {
    assert!(may_hold_secret("kind: Secret"));
    assert!(may_hold_secret("STRINGDATA: {}"));
    assert!(!may_hold_secret("kind: ConfigMap\nmetadata: {name: a}"));
}
