//! Durations in Go syntax: `90s`, `10m`, `1h30m`, `0`.

use std::{borrow::Cow, fmt, str::FromStr, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::rules;

/// A duration as Go writes it, never negative.
///
/// `kube::core::Duration` is not used, because it panics when a value does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(Duration);

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseDurationError {
    /// Nothing, or only a sign.
    #[error("empty duration: write a value such as 30s, 10m or 1h30m")]
    Empty,
    /// A minus sign.
    #[error("negative duration {0:?}: write a value such as 30s, 10m or 1h30m")]
    Negative(String),
    /// A part without a number, or with a malformed one.
    #[error("no number where one is expected in duration {0:?}: write a value such as 1h30m")]
    Number(String),
    /// A part without a unit, or with an unknown one.
    #[error("unknown or missing unit in duration {0:?}: use ns, us, ms, s, m or h")]
    Unit(String),
    /// More than fits.
    #[error("duration {0:?} is too long")]
    TooLong(String),
}

impl GoDuration {
    /// Wraps a duration.
    pub const fn new(duration: Duration) -> Self {
        Self(duration)
    }

    /// The duration.
    pub const fn get(self) -> Duration {
        self.0
    }

    /// Whether the duration is zero, which turns a timer off.
    pub const fn is_zero(self) -> bool {
        self.0.is_zero()
    }
}

impl From<Duration> for GoDuration {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl From<GoDuration> for Duration {
    fn from(duration: GoDuration) -> Self {
        duration.0
    }
}

const NANOS_PER_SECOND: u128 = 1_000_000_000;

impl FromStr for GoDuration {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with('-') {
            return Err(ParseDurationError::Negative(text.to_owned()));
        }
        let mut rest = text.strip_prefix('+').unwrap_or(text);
        if rest.is_empty() {
            return Err(ParseDurationError::Empty);
        }
        let mut nanos: u128 = 0;
        while !rest.is_empty() && rest != "0" {
            let (part, remaining) = parse_part(rest).map_err(|fault| fault(text.to_owned()))?;
            nanos = nanos
                .checked_add(part)
                .ok_or_else(|| ParseDurationError::TooLong(text.to_owned()))?;
            rest = remaining;
        }
        from_nanos(nanos).ok_or_else(|| ParseDurationError::TooLong(text.to_owned()))
    }
}

fn from_nanos(nanos: u128) -> Option<GoDuration> {
    let seconds = u64::try_from(nanos / NANOS_PER_SECOND).ok()?;
    let rest = u32::try_from(nanos % NANOS_PER_SECOND).ok()?;
    Some(GoDuration(Duration::new(seconds, rest)))
}

/// What is wrong with a part; the whole text is added by the caller.
type Fault = fn(String) -> ParseDurationError;

/// Reads one number with its unit and returns its nanoseconds and what follows.
fn parse_part(text: &str) -> Result<(u128, &str), Fault> {
    let (whole, rest) = split_while(text, |letter| letter.is_ascii_digit());
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => split_while(rest, |letter| letter.is_ascii_digit()),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(ParseDurationError::Number);
    }
    let (unit, rest) = split_while(rest, |letter| !letter.is_ascii_digit() && letter != '.');
    let unit = unit_nanos(unit).ok_or(ParseDurationError::Unit as Fault)?;
    let whole = parse_digits(whole)
        .and_then(|whole| whole.checked_mul(unit))
        .ok_or(ParseDurationError::TooLong as Fault)?;
    Ok((whole + fraction_nanos(fraction, unit), rest))
}

fn split_while(text: &str, wanted: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|letter| !wanted(letter)).unwrap_or(text.len());
    text.split_at(end)
}

fn parse_digits(digits: &str) -> Option<u128> {
    if digits.is_empty() {
        return Some(0);
    }
    digits.parse::<u64>().ok().map(u128::from)
}

/// Digits behind the point, each worth a tenth of the one before; less than a nanosecond is lost.
fn fraction_nanos(digits: &str, unit: u128) -> u128 {
    let mut worth = unit;
    let mut nanos = 0;
    for digit in digits.bytes() {
        worth /= 10;
        nanos += u128::from(digit - b'0') * worth;
    }
    nanos
}

fn unit_nanos(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        // Go accepts the micro sign and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => NANOS_PER_SECOND,
        "m" => 60 * NANOS_PER_SECOND,
        "h" => 3600 * NANOS_PER_SECOND,
        _ => return None,
    })
}

impl fmt::Display for GoDuration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        if hours > 0 {
            write!(formatter, "{hours}h")?;
        }
        if minutes > 0 {
            write!(formatter, "{minutes}m")?;
        }
        let nanos = self.0.subsec_nanos();
        if nanos > 0 {
            let fraction = format!("{nanos:09}");
            return write!(formatter, "{seconds}.{}s", fraction.trim_end_matches('0'));
        }
        if seconds > 0 || (hours == 0 && minutes == 0) {
            write!(formatter, "{seconds}s")?;
        }
        Ok(())
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for GoDuration {
    fn schema_name() -> Cow<'static, str> {
        "GoDuration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "maxLength": 32,
            "x-kubernetes-validations": [rules::duration()],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(text: &str) -> u128 {
        text.parse::<GoDuration>().unwrap().get().as_millis()
    }

    #[test]
    fn go_syntax_is_understood() {
        assert_eq!(millis("0"), 0);
        assert_eq!(millis("0s"), 0);
        assert_eq!(millis("+90s"), 90_000);
        assert_eq!(millis("1h30m"), 5_400_000);
        assert_eq!(millis("1.5h"), 5_400_000);
        assert_eq!(millis(".5s"), 500);
        assert_eq!(millis("1.s"), 1_000);
        assert_eq!(millis("2ms3000us"), 5);
        assert_eq!(millis("2000\u{b5}s2000\u{3bc}s"), 4);
        assert_eq!(millis("1h0"), 3_600_000);
    }

    #[test]
    fn what_is_no_duration_is_an_error_and_never_a_panic() {
        use ParseDurationError as E;
        let error = |text: &str| text.parse::<GoDuration>().unwrap_err();
        assert_eq!(error(""), E::Empty);
        assert_eq!(error("+"), E::Empty);
        assert_eq!(error("-1m"), E::Negative("-1m".into()));
        assert_eq!(error("m"), E::Number("m".into()));
        assert_eq!(error("."), E::Number(".".into()));
        assert_eq!(error("10"), E::Unit("10".into()));
        assert_eq!(error("1d"), E::Unit("1d".into()));
        assert_eq!(error("1 m"), E::Unit("1 m".into()));
        let huge = "99999999999999999999h";
        assert_eq!(error(huge), E::TooLong(huge.into()));
        let sum = "18446744073709551615h18446744073709551615h";
        assert_eq!(error(sum), E::TooLong(sum.into()));
    }

    #[test]
    fn printing_and_parsing_are_inverse() {
        for text in [
            "0s",
            "30s",
            "10m",
            "1h30m",
            "1h0.25s",
            "2h",
            "0.000000001s",
            "1m1.5s",
        ] {
            assert_eq!(text.parse::<GoDuration>().unwrap().to_string(), text);
        }
    }
}
