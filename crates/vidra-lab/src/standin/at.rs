//! The `at` parameter: which texts Infrahub takes for a time, and which time it takes them for.

use jiff::{SignedDuration, Timestamp, civil::Date, tz::TimeZone};

/// The time that `text` means at the time `now`; `None` if Infrahub refuses it.
///
/// Relative texts always lie in the past, whatever their sign says.
pub(super) fn parse(text: &str, now: Timestamp) -> Option<Timestamp> {
    instant(text)
        .or_else(|| noon(text))
        .or_else(|| ago(text, now))
}

/// `2025-01-01T00:00:00`, optional fraction, then `Z`, `+02:00` or nothing (UTC).
fn instant(text: &str) -> Option<Timestamp> {
    let shape = "dddd-dd-ddTdd:dd:dd";
    if !text.is_ascii() || !fits(text.get(..shape.len())?, shape) {
        return None;
    }
    let (_, zone) = split_fraction(&text[shape.len()..])?;
    match zone {
        "" => format!("{text}Z").parse().ok(),
        "Z" => text.parse().ok(),
        _ if fits(zone, "+dd:dd") || fits(zone, "-dd:dd") => text.parse().ok(),
        _ => None,
    }
}

fn fits(text: &str, shape: &str) -> bool {
    text.len() == shape.len()
        && text
            .bytes()
            .zip(shape.bytes())
            .all(|(byte, expected)| match expected {
                b'd' => byte.is_ascii_digit(),
                _ => byte == expected,
            })
}

fn split_fraction(rest: &str) -> Option<(&str, &str)> {
    let Some(tail) = rest.strip_prefix('.') else {
        return Some(("", rest));
    };
    let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
    (1..=9).contains(&digits).then(|| tail.split_at(digits))
}

/// A date alone means noon, not midnight.
fn noon(text: &str) -> Option<Timestamp> {
    if !fits(text, "dddd-dd-dd") {
        return None;
    }
    let date: Date = text.parse().ok()?;
    Some(
        date.at(12, 0, 0, 0)
            .to_zoned(TimeZone::UTC)
            .ok()?
            .timestamp(),
    )
}

fn ago(text: &str, now: Timestamp) -> Option<Timestamp> {
    let amounts = [('s', 1), ('m', 60), ('h', 3600)];
    let mut seconds: Option<i64> = None;
    for (unit, factor) in amounts {
        if let Some(amount) = amount_before(text, unit) {
            seconds = Some(
                seconds
                    .unwrap_or(0)
                    .saturating_add(amount.saturating_mul(factor)),
            );
        }
    }
    now.checked_sub(SignedDuration::from_secs(seconds?)).ok()
}

/// The first run of digits that is directly followed by `unit`; whatever follows is ignored,
/// so `2months` means two minutes.
fn amount_before(text: &str, unit: char) -> Option<i64> {
    text.match_indices(unit).find_map(|(end, _)| {
        let head = &text[..end];
        let digits = head.trim_end_matches(|c: char| c.is_ascii_digit());
        head[digits.len()..].parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<String> {
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        parse(text, now).map(|at| at.to_string())
    }

    #[test]
    fn absolute_times_are_understood_as_the_real_server_does() {
        for (text, expected) in [
            ("2025-01-01T00:00:00Z", "2025-01-01T00:00:00Z"),
            ("2025-01-01T00:00:00.5Z", "2025-01-01T00:00:00.5Z"),
            ("2025-01-01T00:00:00", "2025-01-01T00:00:00Z"),
            ("2025-01-01T00:00:00+02:00", "2024-12-31T22:00:00Z"),
            ("2025-01-01", "2025-01-01T12:00:00Z"),
        ] {
            assert_eq!(parsed(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn relative_times_lie_in_the_past_whatever_their_sign() {
        for (text, expected) in [
            ("2m", "2026-01-02T03:02:05Z"),
            ("now-2m", "2026-01-02T03:02:05Z"),
            ("now+2h", "2026-01-02T01:04:05Z"),
            ("1h30m", "2026-01-02T01:34:05Z"),
            ("2months", "2026-01-02T03:02:05Z"),
            ("90seconds", "2026-01-02T03:02:35Z"),
        ] {
            assert_eq!(parsed(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn texts_that_the_real_server_refuses_are_refused() {
        for text in [
            "",
            "now",
            "yesterday",
            "1735689600",
            "1d",
            "1w",
            "10 minutes",
            "2025-01-01 00:00:00",
            "2025-01-01T00:00:00z",
            "2025-01-01T00:00:00-0500",
            "2025-01-01T00:00",
            "2025-01-01T00:00:00 02:00",
            "2025-13-01T00:00:00Z",
        ] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }
}
