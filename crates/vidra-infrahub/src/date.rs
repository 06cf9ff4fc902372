//! Points in time as Infrahub's `at` understands them.

use std::{fmt, time::Duration};

use jiff::Timestamp;

/// A `targetDate` that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DateError {
    /// A relative date into the future, which Infrahub would answer from the past.
    #[error(
        "targetDate must not use the sign +: Infrahub ignores the sign and would answer from the \
         past; write now-2h for that"
    )]
    Future,
    /// Neither of the two forms.
    #[error(
        "targetDate must be a time such as 2025-01-31T00:00:00Z, or relative such as now-2h with \
         the unit s, m or h"
    )]
    Form,
    /// The form is right, but there is no such day or time, or it is too far away.
    #[error("targetDate names a time that does not exist or is more than 100 years ago")]
    Range,
}

/// The furthest that a relative date may reach: Infrahub fails on what Python cannot count.
const FURTHEST: Duration = Duration::from_hours(100 * 366 * 24);

/// A point in time in Infrahub.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TargetDate {
    /// A pinned past: the answer never changes.
    Fixed {
        /// As written by the user.
        text: String,
        /// What it means.
        at: Timestamp,
    },
    /// So long ago, whenever it is asked.
    Relative {
        /// As written by the user.
        text: String,
        /// How long ago.
        ago: Duration,
    },
}

impl TargetDate {
    /// Reads a date; `None` for the empty text, which means now.
    pub fn parse(text: &str) -> Result<Option<Self>, DateError> {
        if text.is_empty() {
            return Ok(None);
        }
        if text.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return relative(text).map(Some);
        }
        fixed(text).map(Some)
    }

    /// The value of `at`, not yet encoded for a URL.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Fixed { text, .. } | Self::Relative { text, .. } => text,
        }
    }
}

impl fmt::Display for TargetDate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// `<word>-<n><s|m|h>`
fn relative(text: &str) -> Result<TargetDate, DateError> {
    let rest = text.trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
    if rest.starts_with('+') {
        return Err(DateError::Future);
    }
    let number = rest.strip_prefix('-').ok_or(DateError::Form)?;
    let mut characters = number.chars();
    let seconds = match characters.next_back() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3600,
        _ => return Err(DateError::Form),
    };
    let digits = characters.as_str();
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(DateError::Form);
    }
    let count: u64 = digits.parse().map_err(|_| DateError::Range)?;
    let ago = Duration::from_secs(count.checked_mul(seconds).ok_or(DateError::Range)?);
    if ago > FURTHEST {
        return Err(DateError::Range);
    }
    let text = text.to_owned();
    Ok(TargetDate::Relative { text, ago })
}

/// RFC 3339, but only what Infrahub takes: capital `T` and `Z`, a colon in the offset.
fn fixed(text: &str) -> Result<TargetDate, DateError> {
    if !has_form(text) {
        return Err(DateError::Form);
    }
    // jiff is more generous than the form above, but also knows which days exist.
    let at: Timestamp = text.parse().map_err(|_| DateError::Range)?;
    let text = text.to_owned();
    Ok(TargetDate::Fixed { text, at })
}

fn has_form(text: &str) -> bool {
    let matches = |part: &str, pattern: &str| {
        part.len() == pattern.len()
            && part
                .bytes()
                .zip(pattern.bytes())
                .all(|(byte, wanted)| match wanted {
                    b'0' => byte.is_ascii_digit(),
                    wanted => byte == wanted,
                })
    };
    let Some((moment, rest)) = text.split_at_checked("0000-00-00T00:00:00".len()) else {
        return false;
    };
    let zone = match rest.strip_prefix('.') {
        None => rest,
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|digit: char| digit.is_ascii_digit());
            if !(1..=9).contains(&(fraction.len() - zone.len())) {
                return false;
            }
            zone
        }
    };
    // A 60th second exists in the standard, but not in Infrahub.
    matches(moment, "0000-00-00T00:00:00")
        && !moment.ends_with(":60")
        && (zone == "Z" || matches(zone, "+00:00") || matches(zone, "-00:00"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_understood() {
        for text in [
            "2025-01-01T00:00:00Z",
            "2025-01-01T00:00:00.123456Z",
            "2025-01-01T00:00:00+02:00",
            "2025-01-01T00:00:00.5-11:30",
            "now-2h",
            "NOW-90s",
            "today-0m",
        ] {
            assert_eq!(TargetDate::parse(text).unwrap().unwrap().as_str(), text);
        }
    }

    #[test]
    fn a_fixed_date_means_an_instant_and_a_relative_one_a_duration() {
        let at: Timestamp = "2024-12-31T22:00:00Z".parse().unwrap();
        let text = "2025-01-01T00:00:00+02:00".to_owned();
        let fixed = TargetDate::Fixed {
            text: text.clone(),
            at,
        };
        assert_eq!(TargetDate::parse(&text), Ok(Some(fixed)));
        let (text, ago) = ("now-2h".to_owned(), Duration::from_hours(2));
        assert_eq!(
            TargetDate::parse("now-2h"),
            Ok(Some(TargetDate::Relative { text, ago }))
        );
    }

    #[test]
    fn the_empty_text_means_now() {
        assert_eq!(TargetDate::parse(""), Ok(None));
    }

    #[test]
    fn the_future_is_refused_because_infrahub_would_answer_from_the_past() {
        assert_eq!(TargetDate::parse("now+2h"), Err(DateError::Future));
    }

    #[test]
    fn what_infrahub_refuses_or_misreads_is_refused() {
        for text in [
            "now",
            "now-",
            "now-h",
            "now-2",
            "now-2d",
            "now-1h30m",
            "now--2h",
            "now-+2h",
            "2h",
            "-2h",
            "10 minutes",
            "1700000000",
            "2025-01-01",
            "2025-01-01 00:00:00Z",
            "2025-01-01t00:00:00Z",
            "2025-01-01T00:00:00z",
            "2025-01-01T00:00:00",
            "2025-01-01T00:00Z",
            "2025-01-01T00:00:00-0500",
            "2025-01-01T00:00:00.Z",
            "2025-01-01T23:59:60Z",
            "2025-01-01T00:00:00Z ",
            " now-2h",
            "now-2h&branch=x",
            "2025-01-01T00:00:00.0123456789Z",
            "now-\u{0662}h",
            "\u{FF}",
            "+",
            "T",
        ] {
            assert_eq!(TargetDate::parse(text), Err(DateError::Form), "{text}");
        }
    }

    #[test]
    fn what_does_not_exist_or_cannot_be_counted_is_refused() {
        for text in [
            "2025-02-30T00:00:00Z",
            "2025-01-01T24:00:00Z",
            "2025-01-01T00:00:00+99:00",
            "now-99999999999999999999h",
            "now-9999999999h",
        ] {
            assert_eq!(TargetDate::parse(text), Err(DateError::Range), "{text}");
        }
    }
}
