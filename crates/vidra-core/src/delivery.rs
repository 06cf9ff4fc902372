//! Which `VidraResource`s a sync should have: their names, and what has to be done about each.
//!
//! A sync knows its resources by ownership and by the artifact that they were made from, never by
//! how they are called. What no longer belongs to a listed artifact is only *named* here as stale;
//! whether it may go has to be proven elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use crate::manifest::digest;

/// The longest id that fits into a label.
const LONGEST_ID: usize = 63;

/// Whether an artifact's id can be the name of an object and the value of a label.
pub fn is_usable_id(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_inner = |byte: u8| is_plain(byte) || byte == b'-';
    let ends = (id.bytes().next(), id.bytes().next_back());
    id.len() <= LONGEST_ID
        && id.bytes().all(is_inner)
        && matches!(ends, (Some(first), Some(last)) if is_plain(first) && is_plain(last))
}

/// The name of the resource of an artifact when another sync has the plain one.
pub fn second_name(artifact: &str, sync: &str) -> String {
    format!("{artifact}-{}", &digest(sync)[..8])
}

/// An artifact that a complete answer lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its id.
    pub id: String,
    /// The checksum of its content; `None` if the content must not be used now.
    pub checksum: Option<String>,
}

/// A resource of the sync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    /// Its name.
    pub name: String,
    /// The artifact that it was made from.
    pub artifact: String,
    /// The checksum of the content that it really carries; `None` if somebody changed it.
    pub checksum: Option<String>,
    /// Whether everything but the content is as the sync wants it.
    pub is_current: bool,
    /// Whether it is being deleted.
    pub is_ending: bool,
}

/// What has to be done about one artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Its resource is as it should be.
    Current,
    /// Its resource has to be made.
    Create,
    /// Its resource has to be changed.
    Update,
    /// Its resource is being deleted; it is made again when it is gone.
    Wait,
    /// Its content must not be used: what is there stays.
    Keep,
}

/// One artifact, the name of its resource and what has to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The artifact.
    pub artifact: String,
    /// The name of its resource; `None` if there is none and none may be made.
    pub resource: Option<String>,
    /// What has to be done.
    pub step: Step,
}

/// What has to be done about a sync.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delivery {
    /// One for each listed artifact.
    pub assignments: Vec<Assignment>,
    /// Resources, by name, of artifacts that are not listed. Not proven to be superfluous yet.
    pub stale: Vec<Stale>,
}

/// A resource of an artifact that is not listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    /// The name of the resource.
    pub resource: String,
    /// The artifact that it was made from.
    pub artifact: String,
}

/// Compares what is listed with what a sync has. `is_taken` tells names that belong to others.
pub fn deliver(
    sync: &str,
    listed: &[Listed],
    own: &[Own],
    is_taken: impl Fn(&str) -> bool,
) -> Delivery {
    let mut by_artifact: BTreeMap<&str, &Own> = BTreeMap::new();
    for resource in own {
        // One that stays is worth more than one that goes.
        let known = by_artifact.get(resource.artifact.as_str());
        if known.is_none_or(|known| known.is_ending && !resource.is_ending) {
            by_artifact.insert(&resource.artifact, resource);
        }
    }
    let assignments = listed
        .iter()
        .map(|artifact| {
            assign(
                sync,
                artifact,
                by_artifact.get(artifact.id.as_str()),
                &is_taken,
            )
        })
        .collect();
    let wanted: BTreeSet<&str> = listed.iter().map(|artifact| artifact.id.as_str()).collect();
    let stale = own
        .iter()
        .filter(|own| !own.is_ending && !wanted.contains(own.artifact.as_str()))
        .map(|own| Stale {
            resource: own.name.clone(),
            artifact: own.artifact.clone(),
        })
        .collect();
    Delivery { assignments, stale }
}

fn assign(
    sync: &str,
    artifact: &Listed,
    own: Option<&&Own>,
    is_taken: impl Fn(&str) -> bool,
) -> Assignment {
    let step = match (own, &artifact.checksum) {
        (Some(own), _) if own.is_ending => Step::Wait,
        (_, None) => Step::Keep,
        (Some(own), Some(_)) if own.is_current && own.checksum == artifact.checksum => {
            Step::Current
        }
        (Some(_), Some(_)) => Step::Update,
        (None, Some(_)) => Step::Create,
    };
    let fresh = || {
        let plain = artifact.id.clone();
        let name = if is_taken(&plain) {
            second_name(&artifact.id, sync)
        } else {
            plain
        };
        (step == Step::Create).then_some(name)
    };
    Assignment {
        artifact: artifact.id.clone(),
        resource: own.map(|own| own.name.clone()).or_else(fresh),
        step,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn listed(id: &str, checksum: Option<&str>) -> Listed {
        Listed {
            id: id.to_owned(),
            checksum: checksum.map(str::to_owned),
        }
    }

    fn own(name: &str, artifact: &str, checksum: Option<&str>) -> Own {
        Own {
            name: name.to_owned(),
            artifact: artifact.to_owned(),
            checksum: checksum.map(str::to_owned),
            is_current: true,
            is_ending: false,
        }
    }

    fn steps(delivery: &Delivery) -> Vec<(Option<&str>, Step)> {
        let assignments = delivery.assignments.iter();
        assignments
            .map(|it| (it.resource.as_deref(), it.step))
            .collect()
    }

    #[test]
    fn an_unchanged_checksum_needs_nothing_and_another_one_an_update() {
        let has = [own("a", "a", Some("1")), own("b", "b", Some("1"))];
        let lists = [listed("a", Some("1")), listed("b", Some("2"))];
        let delivery = deliver("sync", &lists, &has, |_| false);
        assert_eq!(
            steps(&delivery),
            [(Some("a"), Step::Current), (Some("b"), Step::Update)]
        );
        assert_eq!(delivery.stale, []);
    }

    #[test]
    fn a_resource_that_somebody_edited_is_written_again() {
        let moved = Own {
            is_current: false,
            ..own("b", "b", Some("1"))
        };
        let has = [own("a", "a", None), moved];
        let lists = [listed("a", Some("1")), listed("b", Some("1"))];
        let delivery = deliver("sync", &lists, &has, |_| false);
        assert_eq!(
            steps(&delivery),
            [(Some("a"), Step::Update), (Some("b"), Step::Update)]
        );
    }

    #[test]
    fn content_that_must_not_be_used_changes_and_makes_nothing() {
        let has = [own("a", "a", Some("1"))];
        let lists = [listed("a", None), listed("b", None)];
        let delivery = deliver("sync", &lists, &has, |_| false);
        assert_eq!(
            steps(&delivery),
            [(Some("a"), Step::Keep), (None, Step::Keep)]
        );
        assert_eq!(delivery.stale, []);
    }

    #[test]
    fn a_name_that_another_sync_has_is_left_to_it() {
        let lists = [listed("a", Some("1"))];
        let delivery = deliver("sync", &lists, &[], |name| name == "a");
        let name = second_name("a", "sync");
        assert_eq!(steps(&delivery), [(Some(name.as_str()), Step::Create)]);
        assert_ne!(name, second_name("a", "other"));
    }

    #[test]
    fn a_resource_that_is_ending_is_waited_for() {
        let ending = Own {
            is_ending: true,
            ..own("a", "a", Some("1"))
        };
        let delivery = deliver(
            "sync",
            &[listed("a", Some("1"))],
            std::slice::from_ref(&ending),
            |_| false,
        );
        assert_eq!(steps(&delivery), [(Some("a"), Step::Wait)]);
        assert_eq!(deliver("sync", &[], &[ending], |_| false).stale, []);
    }

    #[test]
    fn an_id_that_cannot_be_a_name_is_not_usable() {
        assert!(is_usable_id("1890bda4-2b5a-4c5e-9b1a-0123456789ab"));
        let long = "a".repeat(64);
        for id in [
            "", "A", "a_b", "a/b", "../x", "-a", "a-", "a b", "ä", "a.b", &long,
        ] {
            assert!(!is_usable_id(id), "{id}");
        }
    }

    proptest! {
        #[test]
        fn what_is_listed_is_never_stale(
            listed_ids in prop::collection::vec("[a-d]", 0..5),
            own_ids in prop::collection::vec(("[a-h]", any::<bool>()), 0..8),
        ) {
            let lists: Vec<_> = listed_ids.iter().map(|id| listed(id, None)).collect();
            let has: Vec<_> = own_ids.iter().enumerate().map(|(index, (id, is_ending))| Own {
                is_ending: *is_ending,
                ..own(&format!("r{index}"), id, None)
            }).collect();
            let delivery = deliver("sync", &lists, &has, |_| true);
            for stale in &delivery.stale {
                prop_assert!(!listed_ids.contains(&stale.artifact));
            }
            prop_assert_eq!(delivery.assignments.len(), lists.len());
        }
    }
}
