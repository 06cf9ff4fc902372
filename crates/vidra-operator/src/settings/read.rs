//! What a ConfigMap says about the settings. Pure.

use std::{collections::BTreeMap, fmt, ops::RangeInclusive, time::Duration};

use vidra_api::GoDuration;

use super::{
    Settings,
    spelling::{is_alike, quoted},
};

/// The keys that a configuration may have.
const KEYS: [&str; 10] = [
    "requeueSyncAfter",
    "requeueResourcesAfter",
    "queryName",
    "eventBasedReconcile",
    "resourceWorkers",
    "deepPassAfter",
    "pruneMaxPercent",
    "pruneMaxCount",
    "downloads",
    "largestArtifact",
];

/// Shorter than this, one pass would run into the next.
const SHORTEST_PASS: Duration = Duration::from_secs(1);
/// A deep pass applies every object, which is no matter of seconds.
const SHORTEST_DEEP_PASS: Duration = Duration::from_mins(1);
/// Longer ones are more likely a slip than a wish; zero says never.
const LONGEST_TIMER: Duration = Duration::from_hours(365 * 24);
/// More at once would only wait for each other.
const MOST_AT_ONCE: usize = 64;
/// No artifact is smaller, and a larger one fits neither a manifest nor the content store.
const ARTIFACT_SIZES: RangeInclusive<usize> = (1 << 10)..=(64 << 20);
/// Names of queries are words, not texts.
const LONGEST_NAME: usize = 200;
/// Unknown keys that are named; more are counted.
const MOST_NAMED: usize = 5;

/// The place of one value in the settings.
enum Place<'a> {
    Timer(&'a mut Duration, Duration),
    Count(&'a mut usize, RangeInclusive<usize>),
    Bytes(&'a mut usize),
    Percent(&'a mut u8),
    Flag(&'a mut bool),
    Name(&'a mut String),
}

fn place<'a>(settings: &'a mut Settings, key: &str) -> Option<Place<'a>> {
    Some(match key {
        "requeueSyncAfter" => Place::Timer(&mut settings.requeue_sync_after, SHORTEST_PASS),
        "requeueResourcesAfter" => {
            Place::Timer(&mut settings.requeue_resources_after, SHORTEST_PASS)
        }
        "deepPassAfter" => Place::Timer(&mut settings.deep_pass, SHORTEST_DEEP_PASS),
        "queryName" => Place::Name(&mut settings.query_name),
        "eventBasedReconcile" => Place::Flag(&mut settings.event_based_reconcile),
        "resourceWorkers" => Place::Count(&mut settings.workers, 1..=MOST_AT_ONCE),
        "downloads" => Place::Count(&mut settings.downloads, 1..=MOST_AT_ONCE),
        "pruneMaxPercent" => Place::Percent(&mut settings.budget.max_percent),
        "pruneMaxCount" => Place::Count(&mut settings.budget.max_count, 0..=usize::MAX),
        "largestArtifact" => Place::Bytes(&mut settings.largest_artifact),
        _ => return None,
    })
}

impl Place<'_> {
    /// Puts a value in its place; `None` if it is not what is expected here.
    fn put(&mut self, text: &str) -> Option<()> {
        match self {
            Self::Timer(slot, shortest) => **slot = timer(text, *shortest)?,
            Self::Count(slot, range) => {
                **slot = text.parse().ok().filter(|it| range.contains(it))?;
            }
            Self::Bytes(slot) => {
                **slot = bytes(text).filter(|it| ARTIFACT_SIZES.contains(it))?;
            }
            Self::Percent(slot) => **slot = text.parse().ok().filter(|it| *it <= 100)?,
            Self::Flag(slot) => **slot = flag(text)?,
            Self::Name(slot) => **slot = name(text)?,
        }
        Some(())
    }

    /// Takes over what is in the same place of other settings.
    fn take(&mut self, other: Place<'_>) {
        match (self, other) {
            (Self::Timer(slot, _), Place::Timer(other, _)) => **slot = *other,
            (Self::Count(slot, _), Place::Count(other, _))
            | (Self::Bytes(slot), Place::Bytes(other)) => **slot = *other,
            (Self::Percent(slot), Place::Percent(other)) => **slot = *other,
            (Self::Flag(slot), Place::Flag(other)) => **slot = *other,
            (Self::Name(slot), Place::Name(other)) => slot.clone_from(other),
            // One key has one kind of place.
            _ => {}
        }
    }

    fn expected(&self) -> String {
        match self {
            Self::Timer(_, shortest) => format!(
                "a duration such as 90s, 10m or 1h30m, at least {} and at most {}, or 0 for never",
                GoDuration::new(*shortest),
                GoDuration::new(LONGEST_TIMER)
            ),
            Self::Count(_, range) if *range.end() == usize::MAX => {
                format!("a number, {} or more", range.start())
            }
            Self::Count(_, range) => format!("a number from {} to {}", range.start(), range.end()),
            Self::Bytes(_) => format!(
                "a number of bytes such as 67108864 or 64Mi, from {} to {}",
                quantity(*ARTIFACT_SIZES.start()),
                quantity(*ARTIFACT_SIZES.end())
            ),
            Self::Percent(_) => "a number from 0 to 100".to_owned(),
            Self::Flag(_) => "true or false".to_owned(),
            Self::Name(_) => {
                format!("one line of at most {LONGEST_NAME} characters, or nothing")
            }
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Timer(slot, _) => GoDuration::new(**slot).to_string(),
            Self::Count(slot, _) => slot.to_string(),
            Self::Bytes(slot) => quantity(**slot),
            Self::Percent(slot) => slot.to_string(),
            Self::Flag(slot) => slot.to_string(),
            Self::Name(slot) => quoted(slot),
        }
    }
}

fn timer(text: &str, shortest: Duration) -> Option<Duration> {
    let duration = text.parse::<GoDuration>().ok()?.get();
    let is_sane = duration.is_zero() || (shortest..=LONGEST_TIMER).contains(&duration);
    is_sane.then_some(duration)
}

/// The spellings of Go, which today's users may have chosen from.
fn flag(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" | "t" | "T" | "1" => Some(true),
        "false" | "False" | "FALSE" | "f" | "F" | "0" => Some(false),
        _ => None,
    }
}

fn name(text: &str) -> Option<String> {
    let is_name = text.chars().count() <= LONGEST_NAME && !text.contains(char::is_control);
    is_name.then(|| text.to_owned())
}

/// Bytes as Kubernetes writes them, whole numbers only.
fn bytes(text: &str) -> Option<usize> {
    let end = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let unit: usize = match suffix {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return None,
    };
    digits.parse::<usize>().ok()?.checked_mul(unit)
}

fn quantity(bytes: usize) -> String {
    for (suffix, shift) in [("Gi", 30), ("Mi", 20), ("Ki", 10)] {
        if bytes > 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{suffix}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// A value that is not used.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    key: &'static str,
    value: String,
    expected: String,
    kept: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            value,
            expected,
            kept,
        } = self;
        write!(
            formatter,
            "{key} is {value}, expected {expected}; it stays at {kept}"
        )
    }
}

/// What a configuration says.
#[derive(Debug)]
pub(super) struct Reading {
    /// The settings with everything that could be read.
    pub(super) settings: Settings,
    /// What could not be read.
    pub(super) problems: Vec<Problem>,
}

/// Reads a configuration. What it does not name is as in `base`; what it names with a value that
/// cannot be used stays as it is in `last`.
pub(super) fn read(data: &BTreeMap<String, String>, base: &Settings, last: &Settings) -> Reading {
    let mut settings = base.clone();
    let mut last = last.clone();
    let mut problems = Vec::new();
    for key in KEYS {
        // Block scalars in YAML end with a line break.
        let Some(text) = data.get(key).map(|text| text.trim()) else {
            continue;
        };
        let (Some(mut slot), Some(kept)) = (place(&mut settings, key), place(&mut last, key))
        else {
            continue;
        };
        if slot.put(text).is_none() {
            slot.take(kept);
            problems.push(Problem {
                key,
                value: quoted(text),
                expected: slot.expected(),
                kept: slot.show(),
            });
        }
    }
    Reading { settings, problems }
}

/// Whether a ConfigMap is a configuration of Vidra: others may carry the same label.
pub(super) fn is_configuration(data: &BTreeMap<String, String>) -> bool {
    KEYS.iter().any(|key| data.contains_key(*key))
}

/// A sentence about the keys that mean nothing, if there are any that should mean something: all
/// of a configuration, and of other ConfigMaps those that look like a slip.
pub(super) fn unknown_keys(data: &BTreeMap<String, String>) -> Option<String> {
    let is_configuration = is_configuration(data);
    let named: Vec<String> = data
        .keys()
        .filter(|key| !KEYS.contains(&key.as_str()))
        .filter_map(|key| {
            let meant = KEYS.iter().find(|known| is_alike(key, known));
            match meant {
                Some(meant) => Some(format!("{} (did you mean {meant}?)", quoted(key))),
                None => is_configuration.then(|| quoted(key)),
            }
        })
        .collect();
    let more = named.len().saturating_sub(MOST_NAMED);
    let mut text = named[..named.len() - more].join(", ");
    if more > 0 {
        text = format!("{text} and {more} more");
    }
    (!text.is_empty()).then(|| format!("ignored, because Vidra does not know it: {text}"))
}

/// What differs between two settings, one phrase for each key.
pub(super) fn differences(before: &Settings, after: &Settings) -> Vec<String> {
    let (mut before, mut after) = (before.clone(), after.clone());
    let phrases = KEYS.iter().filter_map(|key| {
        let was = place(&mut before, key)?.show();
        let is = place(&mut after, key)?.show();
        (was != is).then(|| format!("{key} is {is} (was {was})"))
    });
    phrases.collect()
}

#[cfg(test)]
mod tests;
