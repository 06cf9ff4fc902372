//! Which settings follow from the ConfigMaps that there are, and what is wrong with them. Pure.

use std::collections::BTreeMap;

use super::{
    Settings,
    read::{is_configuration, read, unknown_keys},
};

/// ConfigMaps that are named in a complaint; more are counted.
const MOST_NAMED: usize = 5;

/// Something that somebody should correct in a ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Complaint {
    /// A value that is not used.
    Invalid(String),
    /// There is more than one configuration.
    Ambiguous(String),
    /// Keys that mean nothing.
    Unknown(String),
}

impl Complaint {
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "InvalidConfiguration",
            Self::Ambiguous(_) => "AmbiguousConfiguration",
            Self::Unknown(_) => "UnknownKey",
        }
    }

    pub(super) fn text(&self) -> &str {
        match self {
            Self::Invalid(text) | Self::Ambiguous(text) | Self::Unknown(text) => text,
        }
    }

    /// Whether the configuration does not hold as it is written.
    pub(super) fn is_about_values(&self) -> bool {
        !matches!(self, Self::Unknown(_))
    }
}

/// The data of ConfigMaps, by name.
pub(super) type Maps = BTreeMap<String, BTreeMap<String, String>>;

/// What follows from the ConfigMaps.
#[derive(Debug)]
pub(super) struct Verdict {
    /// The settings that hold.
    pub(super) settings: Settings,
    /// The name of the configuration, if there is exactly one.
    pub(super) configuration: Option<String>,
    /// What is wrong, each with the name of its ConfigMap.
    pub(super) complaints: Vec<(String, Complaint)>,
}

/// Judges ConfigMaps: `base` is what holds without any, `last` is what holds until now.
pub(super) fn judge(maps: &Maps, base: &Settings, last: &Settings) -> Verdict {
    let configurations: Vec<_> = maps
        .iter()
        .filter(|(_, data)| is_configuration(data))
        .collect();
    let mut complaints = complaints_about_keys(maps);
    let settings = match configurations[..] {
        [] => base.clone(),
        [(name, data)] => {
            let reading = read(data, base, last);
            let problems = reading.problems.iter();
            complaints
                .extend(problems.map(|it| (name.clone(), Complaint::Invalid(it.to_string()))));
            reading.settings
        }
        _ => {
            let names: Vec<&str> = configurations
                .iter()
                .map(|(name, _)| name.as_str())
                .collect();
            let complaint = Complaint::Ambiguous(ambiguity(&names));
            complaints.extend(
                names
                    .iter()
                    .map(|name| ((*name).to_owned(), complaint.clone())),
            );
            last.clone()
        }
    };
    let configuration = match configurations[..] {
        [(name, _)] => Some(name.clone()),
        _ => None,
    };
    Verdict {
        settings,
        configuration,
        complaints,
    }
}

fn complaints_about_keys(maps: &Maps) -> Vec<(String, Complaint)> {
    let unknown = maps
        .iter()
        .filter_map(|(name, data)| Some((name.clone(), Complaint::Unknown(unknown_keys(data)?))));
    unknown.collect()
}

fn ambiguity(names: &[&str]) -> String {
    let (first, more) = names.split_at(names.len().min(MOST_NAMED));
    let more = match more.len() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    format!(
        "{} ConfigMaps with the label app=vidra configure Vidra: {}{more}; the settings stay as \
         they are until only one is left",
        names.len(),
        first.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn maps(of: &[(&str, &str, &str)]) -> Maps {
        let mut maps = Maps::new();
        for (name, key, value) in of {
            let data = maps.entry((*name).to_owned()).or_default();
            data.insert((*key).to_owned(), (*value).to_owned());
        }
        maps
    }

    fn every(seconds: u64) -> Settings {
        Settings {
            requeue_sync_after: Duration::from_secs(seconds),
            ..Settings::default()
        }
    }

    #[test]
    fn without_a_configuration_the_base_holds() {
        for none in [maps(&[]), maps(&[("nginx", "nginx.conf", "")])] {
            let verdict = judge(&none, &every(1), &every(2));
            assert_eq!(verdict.settings, every(1));
            assert_eq!(verdict.configuration, None);
            assert!(verdict.complaints.is_empty(), "{:?}", verdict.complaints);
        }
    }

    #[test]
    fn config_maps_of_others_do_not_disturb_the_configuration() {
        let both = maps(&[
            ("nginx", "nginx.conf", ""),
            ("vidra", "requeueSyncAfter", "3s"),
        ]);
        let verdict = judge(&both, &every(1), &every(2));
        assert_eq!(verdict.settings, every(3));
        assert_eq!(verdict.configuration.as_deref(), Some("vidra"));
        assert!(verdict.complaints.is_empty(), "{:?}", verdict.complaints);
    }

    #[test]
    fn two_configurations_change_nothing_and_each_is_told_of_both() {
        let both = maps(&[("a", "requeueSyncAfter", "3s"), ("b", "queryName", "Q")]);
        let verdict = judge(&both, &every(1), &every(2));
        assert_eq!(verdict.settings, every(2));
        assert_eq!(verdict.configuration, None);
        let told: Vec<_> = verdict
            .complaints
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(told, ["a", "b"]);
        for (_, complaint) in &verdict.complaints {
            assert_eq!(complaint.reason(), "AmbiguousConfiguration");
            assert!(complaint.text().contains("a, b"), "{}", complaint.text());
        }
    }

    #[test]
    fn a_bad_value_and_an_unknown_key_are_told_on_their_config_map() {
        let bad = maps(&[
            ("vidra", "requeueSyncAfter", "soon"),
            ("vidra", "colour", "blue"),
        ]);
        let verdict = judge(&bad, &every(1), &every(2));
        assert_eq!(verdict.settings, every(2));
        let told: Vec<_> = verdict
            .complaints
            .iter()
            .map(|(name, complaint)| (name.as_str(), complaint.reason()))
            .collect();
        assert_eq!(
            told,
            [("vidra", "UnknownKey"), ("vidra", "InvalidConfiguration")]
        );
    }

    #[test]
    fn any_number_of_configurations_makes_a_short_text() {
        let many = (0..1_000).map(|number| format!("{}{number}", "n".repeat(240)));
        let many: Maps = many
            .map(|name| {
                (
                    name,
                    BTreeMap::from([("queryName".to_owned(), String::new())]),
                )
            })
            .collect();
        let verdict = judge(&many, &every(1), &every(2));
        let text = verdict.complaints[0].1.text();
        assert!(
            text.len() < 1_500 && text.contains("and 995 more"),
            "{text}"
        );
    }
}
