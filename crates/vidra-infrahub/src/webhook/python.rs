//! JSON as Python's `json.dumps` writes it, made from JSON as somebody else wrote it.
//!
//! Works on the text: keys keep their order and numbers their digits, which a parsed value would
//! lose.

use std::fmt::Write as _;

use serde::de::IgnoredAny;

/// What stands between the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spacing {
    /// `,` and `:`
    Compact,
    /// `", "` and `": "`, Python's default.
    Python,
}

/// The same JSON in another spelling, everything but ASCII escaped; `None` if it is no JSON.
pub(super) fn reserialise(json: &[u8], spacing: Spacing) -> Option<String> {
    // Once it is known to be JSON, its text can be walked without further checks.
    serde_json::from_slice::<IgnoredAny>(json).ok()?;
    let text = std::str::from_utf8(json).ok()?;
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            ' ' | '\n' | '\r' | '\t' => {}
            '"' => write_string(&mut out, &mut characters)?,
            ',' | ':' => {
                out.push(character);
                if spacing == Spacing::Python {
                    out.push(' ');
                }
            }
            other => out.push(other),
        }
    }
    Some(out)
}

/// Copies a string up to its closing quote.
fn write_string(out: &mut String, characters: &mut std::str::Chars<'_>) -> Option<()> {
    out.push('"');
    loop {
        match characters.next()? {
            '"' => break,
            '\\' => write_unit(out, unescape(characters)?),
            character => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write_unit(out, *unit);
                }
            }
        }
    }
    out.push('"');
    Some(())
}

/// What an escape stands for. Halves of a pair stay halves, as in Python.
fn unescape(characters: &mut std::str::Chars<'_>) -> Option<u16> {
    Some(match characters.next()? {
        'u' => {
            let digits: String = characters.by_ref().take(4).collect();
            u16::from_str_radix(&digits, 16).ok()?
        }
        'n' => u16::from(b'\n'),
        'r' => u16::from(b'\r'),
        't' => u16::from(b'\t'),
        'b' => 0x08,
        'f' => 0x0c,
        other => u16::try_from(u32::from(other)).ok()?,
    })
}

fn write_unit(out: &mut String, unit: u16) {
    match u8::try_from(unit) {
        Ok(b'"') => out.push_str("\\\""),
        Ok(b'\\') => out.push_str("\\\\"),
        Ok(b'\n') => out.push_str("\\n"),
        Ok(b'\r') => out.push_str("\\r"),
        Ok(b'\t') => out.push_str("\\t"),
        Ok(0x08) => out.push_str("\\b"),
        Ok(0x0c) => out.push_str("\\f"),
        Ok(byte @ b' '..=b'~') => out.push(char::from(byte)),
        _ => {
            // Writing into a String cannot fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn python(json: &str) -> String {
        reserialise(json.as_bytes(), Spacing::Python).unwrap()
    }

    #[test]
    fn order_and_digits_are_kept_and_spaces_are_pythons() {
        let json = "{ \"b\":1.50,\n\"a\" : [1e5,-0,{}, []],\"c\":null}";
        assert_eq!(
            python(json),
            r#"{"b": 1.50, "a": [1e5, -0, {}, []], "c": null}"#
        );
        let compact = reserialise(json.as_bytes(), Spacing::Compact).unwrap();
        assert_eq!(compact, r#"{"b":1.50,"a":[1e5,-0,{},[]],"c":null}"#);
    }

    /// Expected texts are what `json.dumps(json.loads(…))` prints.
    #[test]
    fn strings_are_escaped_as_python_does() {
        for (json, expected) in [
            (r#""gr\u00FC\u00df \/ ok""#, r#""gr\u00fc\u00df / ok""#),
            ("\"gr\u{fc}\u{df}\"", r#""gr\u00fc\u00df""#),
            ("\"\u{1f600}\"", r#""\ud83d\ude00""#),
            (
                r#""\ud83d\ude00 \u0041 \u0022 \u005c""#,
                r#""\ud83d\ude00 A \" \\""#,
            ),
            (
                r#""\b\f\n\r\t\u0000\u001f\u007f""#,
                r#""\b\f\n\r\t\u0000\u001f\u007f""#,
            ),
            ("\"\u{7f}, : {}\"", r#""\u007f, : {}""#),
            (r#""a\\\"b""#, r#""a\\\"b""#),
        ] {
            assert_eq!(python(json), expected);
        }
    }

    #[test]
    fn what_is_no_json_has_no_other_spelling() {
        for json in ["", "{", "\"", "\"\\x\"", "{} {}", "\"\\u12\"", "{'a':1}"] {
            assert_eq!(
                reserialise(json.as_bytes(), Spacing::Compact),
                None,
                "{json}"
            );
        }
        assert_eq!(reserialise(b"\"\xff\"", Spacing::Compact), None);
    }

    proptest! {
        #[test]
        fn the_meaning_stays_and_a_second_time_changes_nothing(text: String, number: i64) {
            let value = serde_json::json!({ "k": [text, number, { "z": text, "a": null }] });
            for spacing in [Spacing::Compact, Spacing::Python] {
                let once = reserialise(value.to_string().as_bytes(), spacing).unwrap();
                prop_assert!(once.is_ascii());
                let back: Value = serde_json::from_str(&once).unwrap();
                prop_assert_eq!(&back, &value);
                prop_assert_eq!(reserialise(once.as_bytes(), spacing).unwrap(), once);
            }
        }

        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            let _ = reserialise(&bytes, Spacing::Python);
        }
    }
}
