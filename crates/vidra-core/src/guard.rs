//! The deletion guard: how much may be deleted in one go without being asked.
//!
//! What is over the budget is held, not forgotten: it stays in the inventory, is listed with a
//! hash of exactly that set, and is deleted once somebody releases that hash.

use crate::{identity::ObjectKey, manifest::digest};

/// Kinds whose deletion takes other things or data with it. They are always held unless allowed.
const PROTECTED: [(&str, &str); 4] = [
    ("", "Namespace"),
    ("", "PersistentVolume"),
    ("", "PersistentVolumeClaim"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
];

/// Whether deleting an object of this kind takes other things or data with it.
pub fn is_protected(key: &ObjectKey) -> bool {
    PROTECTED.contains(&(key.group.as_str(), key.kind.as_str()))
}

/// How much may be deleted in one go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// At most this share of the objects, in percent.
    pub max_percent: u8,
    /// At most this many objects.
    pub max_count: usize,
    /// Up to this many objects the share does not count: half of two is not a mass deletion.
    pub exempt_up_to: usize,
    /// Protected kinds that may be deleted all the same.
    pub allowed_kinds: Vec<String>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            max_percent: 50,
            max_count: 25,
            exempt_up_to: 4,
            allowed_kinds: Vec::new(),
        }
    }
}

/// What the guard says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judgement {
    /// What may be deleted now.
    pub delete: Vec<ObjectKey>,
    /// What is held.
    pub held: Option<Held>,
    /// Whether somebody has released what would have been held.
    pub is_released: bool,
}

/// A deletion that waits for somebody to release it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The objects, in order.
    pub objects: Vec<ObjectKey>,
    /// The hash of exactly this set.
    pub hash: String,
    /// Why, as a sentence.
    pub why: String,
}

/// Something that may be deleted, and what goes with it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// The object.
    pub key: ObjectKey,
    /// How many objects go with it, itself included.
    pub weight: usize,
    /// Which of all objects that ever had this name it is; a release is for this one. May be empty.
    pub mark: String,
    /// Why it is held whatever the budget says.
    pub held: Option<&'static str>,
}

/// How much there is, how much has gone of late, and how much may go.
#[derive(Debug, Clone, Copy)]
pub struct Measure<'a> {
    /// How many objects there are, those that would go included.
    pub total: usize,
    /// How many have gone a short while ago: many small deletions are a large one.
    pub recent: usize,
    /// How much may go.
    pub budget: &'a Budget,
    /// The hash that somebody has released, if any.
    pub released: Option<&'a str>,
}

/// Why protected kinds are held.
pub const PROTECTED_KINDS: &str =
    "Namespaces, CRDs, PersistentVolumes and PersistentVolumeClaims are not deleted unasked";

/// Judges which stale objects may be deleted.
///
/// `total` is how many objects the owner has, the stale ones included; `released` is the hash
/// that somebody has released, if any.
pub fn judge(
    total: usize,
    stale: Vec<ObjectKey>,
    budget: &Budget,
    released: Option<&str>,
) -> Judgement {
    let measure = Measure {
        total,
        recent: 0,
        budget,
        released,
    };
    let candidate = |key: ObjectKey| Candidate {
        held: is_held_kind(&key, budget).then_some(PROTECTED_KINDS),
        weight: 1,
        mark: String::new(),
        key,
    };
    judge_candidates(&measure, stale.into_iter().map(candidate).collect())
}

/// Judges as [`judge`] does, where each candidate has a weight and may be held by itself.
pub fn judge_candidates(measure: &Measure<'_>, mut candidates: Vec<Candidate>) -> Judgement {
    candidates.sort();
    let (own, ordinary): (Vec<_>, Vec<_>) =
        candidates.into_iter().partition(|it| it.held.is_some());
    let over = over_budget(measure, ordinary.iter().map(|it| it.weight).sum());
    let why = reasons(over.clone(), &own);
    let (delete, mut held) = match over {
        Some(_) => (Vec::new(), ordinary),
        None => (ordinary, Vec::new()),
    };
    held.extend(own);
    held.sort();
    release(delete, held, why, measure.released)
}

fn is_held_kind(key: &ObjectKey, budget: &Budget) -> bool {
    is_protected(key) && !budget.allowed_kinds.contains(&key.kind)
}

fn over_budget(measure: &Measure<'_>, count: usize) -> Option<String> {
    let Measure { recent, budget, .. } = *measure;
    if count == 0 {
        return None;
    }
    let (total, gone) = (measure.total + recent, count + recent);
    let before = match recent {
        0 => String::new(),
        recent => format!(" ({recent} of them have gone already)"),
    };
    if gone > budget.max_count {
        let limit = budget.max_count;
        return Some(format!(
            "{gone} objects would go{before}, at most {limit} may"
        ));
    }
    let share_counts = total > budget.exempt_up_to;
    if share_counts && gone * 100 > total * usize::from(budget.max_percent) {
        let limit = budget.max_percent;
        return Some(format!(
            "{gone} of {total} objects would go{before}, at most {limit} % may"
        ));
    }
    None
}

fn reasons(over: Option<String>, held: &[Candidate]) -> String {
    let mut reasons: Vec<String> = over.into_iter().collect();
    for reason in held.iter().filter_map(|candidate| candidate.held) {
        if !reasons.iter().any(|known| known == reason) {
            reasons.push(reason.to_owned());
        }
    }
    reasons.join("; ")
}

fn release(
    delete: Vec<Candidate>,
    held: Vec<Candidate>,
    why: String,
    released: Option<&str>,
) -> Judgement {
    let keys = |all: Vec<Candidate>| all.into_iter().map(|it| it.key).collect::<Vec<_>>();
    let mut delete = keys(delete);
    if held.is_empty() {
        return Judgement {
            delete,
            ..Judgement::default()
        };
    }
    let hash = hash_of(&held);
    let objects = keys(held);
    if released == Some(hash.as_str()) {
        delete.extend(objects);
        return Judgement {
            delete,
            held: None,
            is_released: true,
        };
    }
    Judgement {
        delete,
        held: Some(Held { objects, hash, why }),
        is_released: false,
    }
}

fn hash_of(held: &[Candidate]) -> String {
    let line = |it: &Candidate| match it.mark.as_str() {
        "" => it.key.path(),
        mark => format!("{} {mark}", it.key.path()),
    };
    let text: Vec<String> = held.iter().map(line).collect();
    digest(&text.join("\n"))[..12].to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn config_maps(count: usize) -> Vec<ObjectKey> {
        (0..count)
            .map(|n| ObjectKey::new("", "ConfigMap", Some("shop"), &format!("c{n:04}")))
            .collect()
    }

    fn namespace() -> ObjectKey {
        ObjectKey::new("", "Namespace", None, "shop")
    }

    #[test]
    fn half_may_go_and_more_is_held() {
        let budget = Budget::default();
        assert_eq!(judge(10, config_maps(5), &budget, None).held, None);
        let held = judge(10, config_maps(6), &budget, None);
        assert!(held.delete.is_empty());
        assert_eq!(held.held.map(|held| held.objects.len()), Some(6));
    }

    #[test]
    fn at_most_twenty_five_go_however_many_there_are() {
        let budget = Budget::default();
        assert_eq!(
            judge(10_000, config_maps(25), &budget, None).delete.len(),
            25
        );
        assert!(judge(10_000, config_maps(26), &budget, None).held.is_some());
    }

    #[test]
    fn up_to_four_objects_are_exempt_from_the_share() {
        assert_eq!(
            judge(4, config_maps(3), &Budget::default(), None)
                .delete
                .len(),
            3
        );
        assert!(
            judge(5, config_maps(3), &Budget::default(), None)
                .held
                .is_some()
        );
    }

    #[test]
    fn a_namespace_is_held_while_the_rest_goes() {
        let mut stale = config_maps(1);
        stale.push(namespace());
        let judgement = judge(10, stale, &Budget::default(), None);
        assert_eq!(judgement.delete, config_maps(1));
        assert_eq!(
            judgement.held.map(|held| held.objects),
            Some(vec![namespace()])
        );
    }

    #[test]
    fn the_policy_can_allow_a_protected_kind() {
        let budget = Budget {
            allowed_kinds: vec!["Namespace".to_owned()],
            ..Budget::default()
        };
        assert_eq!(
            judge(10, vec![namespace()], &budget, None).delete,
            [namespace()]
        );
    }

    #[test]
    fn only_the_hash_of_exactly_this_set_releases_it() {
        let budget = Budget::default();
        let hash_of = |count| {
            judge(40, config_maps(count), &budget, None)
                .held
                .expect("held")
                .hash
        };
        let (right, other) = (hash_of(30), hash_of(31));
        assert_eq!(
            judge(40, config_maps(30), &budget, Some(&right))
                .delete
                .len(),
            30
        );
        assert!(
            judge(40, config_maps(30), &budget, Some(&other))
                .delete
                .is_empty()
        );
    }

    fn candidate(name: &str, weight: usize) -> Candidate {
        Candidate {
            key: ObjectKey::new("g", "VidraResource", None, name),
            weight,
            mark: format!("uid of {name}"),
            held: None,
        }
    }

    fn measure(total: usize, recent: usize, budget: &Budget) -> Measure<'_> {
        Measure {
            total,
            recent,
            budget,
            released: None,
        }
    }

    #[test]
    fn what_goes_along_counts_and_not_only_what_is_named() {
        let budget = Budget::default();
        let of = |weight| judge_candidates(&measure(100, 0, &budget), vec![candidate("a", weight)]);
        assert_eq!(of(25).held, None);
        assert!(
            of(26)
                .held
                .is_some_and(|held| held.why.contains("26 objects"))
        );
    }

    #[test]
    fn many_small_deletions_are_a_large_one() {
        let budget = Budget::default();
        let after =
            |recent| judge_candidates(&measure(100, recent, &budget), vec![candidate("a", 1)]);
        assert_eq!(after(24).held, None);
        assert!(after(25).held.is_some());
        let few = judge_candidates(&measure(5, 4, &budget), vec![candidate("a", 1)]);
        assert!(few.held.is_some(), "5 of 9 within a short while");
    }

    #[test]
    fn a_release_is_for_these_very_objects_and_not_for_others_of_their_names() {
        let budget = Budget::default();
        let held = |mark: &str| {
            let again = Candidate {
                mark: mark.to_owned(),
                ..candidate("a", 30)
            };
            let held = judge_candidates(&measure(100, 0, &budget), vec![again]).held;
            held.expect("held").hash
        };
        assert_ne!(held("one"), held("two"));
        let released = Measure {
            released: Some(&held("one")),
            ..measure(100, 0, &budget)
        };
        let once = Candidate {
            mark: "one".to_owned(),
            ..candidate("a", 30)
        };
        assert!(judge_candidates(&released, vec![once]).is_released);
        assert!(
            judge_candidates(&released, vec![candidate("a", 30)])
                .held
                .is_some()
        );
    }

    #[test]
    fn every_reason_to_hold_is_told_once() {
        let budget = Budget::default();
        let held = |name| Candidate {
            held: Some("it is dear"),
            ..candidate(name, 1)
        };
        let judged = judge_candidates(&measure(10, 0, &budget), vec![held("a"), held("b")]);
        assert_eq!(
            judged.held.map(|held| held.why).as_deref(),
            Some("it is dear")
        );
    }

    proptest! {
        #[test]
        fn nothing_is_lost_between_delete_and_held(total in 0_usize..80, count in 0_usize..80) {
            let stale = config_maps(count.min(total));
            let judgement = judge(total, stale.clone(), &Budget::default(), None);
            let held = judgement.held.map(|held| held.objects).unwrap_or_default();
            let mut all = [judgement.delete, held].concat();
            all.sort();
            prop_assert_eq!(all, stale);
        }
    }
}
