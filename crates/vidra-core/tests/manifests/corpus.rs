//! Every file under `bad/` is refused as its header says; every file under `good/` becomes the
//! JSON beside it.
//!
//! A bad file begins with `# expect: <codes>` (comma separated, exactly these) and
//! `# says: <part of the message>`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use vidra_core::manifest::{Limits, ManifestError, parse_bytes};

use crate::support::{compile, objects};

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/manifests")
        .join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    files
}

fn header<'t>(text: &'t str, name: &str) -> &'t str {
    let marker = format!("# {name}: ");
    let line = text
        .lines()
        .take(2)
        .find_map(|line| line.strip_prefix(&marker));
    line.unwrap_or_else(|| panic!("no header {name}\n{text}"))
}

/// What is wrong with how a bad file was judged, if anything.
fn misjudged(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).unwrap();
    let codes = header(&text, "expect");
    let says = header(&text, "says");
    let Err(error) = compile(&text) else {
        return Some(format!("{}: accepted", path.display()));
    };
    let message = error.to_string();
    let found = error.codes().join(", ");
    let is_right = found == codes && message.contains(says) && is_placed(&error, &text);
    (!is_right).then(|| format!("{}: want {codes} ({says}), got {message}", path.display()))
}

/// Whether every problem points into the text.
fn is_placed(error: &ManifestError, text: &str) -> bool {
    let lines = text.split('\n').count();
    error.problems().iter().all(|problem| {
        let position = &problem.position;
        let is_inside = (1..=lines).contains(&position.line) && position.column >= 1;
        is_inside && position.document >= 1
    })
}

#[test]
fn every_bad_file_is_refused_with_its_code_its_message_and_a_place() {
    let files = files("bad", "yaml");
    assert!(files.len() >= 220, "only {} bad files", files.len());
    let wrong: Vec<String> = files.iter().filter_map(|path| misjudged(path)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_good_file_becomes_the_json_beside_it() {
    let files = files("good", "yaml");
    assert!(files.len() >= 60, "only {} good files", files.len());
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let expected = fs::read_to_string(path.with_extension("json")).unwrap();
        let expected: Vec<Value> = serde_json::from_str(&expected).unwrap();
        let found: Vec<Value> = objects(&text)
            .iter()
            .map(|object| object.body().clone())
            .collect();
        assert_eq!(found, expected, "{}", path.display());
    }
}

#[test]
fn every_good_file_also_resolves() {
    for path in files("good", "yaml") {
        let text = fs::read_to_string(&path).unwrap();
        let resolution =
            compile(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let count = resolution.known.len() + resolution.unknown.len();
        assert_eq!(count, objects(&text).len(), "{}", path.display());
    }
}

#[test]
fn windows_line_ends_read_like_unix_ones() {
    for path in files("good", "yaml") {
        let text = fs::read_to_string(&path).unwrap();
        let windows = text.replace('\n', "\r\n");
        let bodies = |text: &str| -> Vec<Value> {
            objects(text)
                .iter()
                .map(|object| object.body().clone())
                .collect()
        };
        assert_eq!(bodies(&text), bodies(&windows), "{}", path.display());
    }
}

#[test]
fn a_byte_order_mark_at_the_start_is_skipped() {
    for path in files("good", "yaml") {
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(
            objects(&format!("\u{FEFF}{text}")),
            objects(&text),
            "{}",
            path.display()
        );
    }
}

/// Bytes that no plain text file should hold.
const BAD_BYTES: [(&[u8], &str); 12] = [
    (b"a: \0", "ControlCharacter"),
    (b"a: \x07", "ControlCharacter"),
    (b"a: \x1b[31m", "ControlCharacter"),
    (b"a: \x7f", "ControlCharacter"),
    (b"a: \xc2\x80", "ControlCharacter"),
    (b"a: \xef\xbf\xbf", "ControlCharacter"),
    (b"# comment with \x0b", "ControlCharacter"),
    (b"{\"a\": \"\x01\"}", "ControlCharacter"),
    (b"a: \xff", "NotUtf8"),
    (b"\xff\xfea\0:\0", "NotUtf8"),
    (b"a: \xc3", "NotUtf8"),
    (b"a: caf\xe9", "NotUtf8"),
];

#[test]
fn bytes_that_are_no_text_are_refused() {
    for (bytes, code) in BAD_BYTES {
        let error = parse_bytes(bytes, &Limits::default()).expect_err("not a text");
        assert_eq!(error.codes(), [code], "{bytes:?}");
    }
}

#[test]
fn a_second_byte_order_mark_is_refused() {
    let text = "a: b\n---\n\u{FEFF}apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    assert!(
        compile(text)
            .expect_err("a mark inside")
            .codes()
            .contains(&"Syntax")
    );
}
