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
    judge_by(total, stale, budget, released, |key| {
        is_held_kind(key, budget)
    })
}

/// Judges as [`judge`] does, where something else says what is held whatever the budget: what
/// takes a Namespace along is as dear as the Namespace itself.
pub fn judge_by(
    total: usize,
    mut stale: Vec<ObjectKey>,
    budget: &Budget,
    released: Option<&str>,
    is_held: impl Fn(&ObjectKey) -> bool,
) -> Judgement {
    stale.sort();
    let (protected, ordinary): (Vec<_>, Vec<_>) = stale.into_iter().partition(is_held);
    let over = over_budget(total, ordinary.len(), budget);
    let (delete, mut objects) = match over {
        Some(_) => (Vec::new(), ordinary),
        None => (ordinary, Vec::new()),
    };
    let why = reasons(over, &protected);
    objects.extend(protected);
    objects.sort();
    release(delete, objects, why, released)
}

fn is_held_kind(key: &ObjectKey, budget: &Budget) -> bool {
    is_protected(key) && !budget.allowed_kinds.contains(&key.kind)
}

fn over_budget(total: usize, count: usize, budget: &Budget) -> Option<String> {
    if count > budget.max_count {
        return Some(format!(
            "{count} objects would go, at most {} may",
            budget.max_count
        ));
    }
    let share_counts = total > budget.exempt_up_to;
    if share_counts && count * 100 > total * usize::from(budget.max_percent) {
        let limit = budget.max_percent;
        return Some(format!(
            "{count} of {total} objects would go, at most {limit} % may"
        ));
    }
    None
}

fn reasons(over: Option<String>, protected: &[ObjectKey]) -> String {
    let kinds = (!protected.is_empty()).then(|| {
        "Namespaces, CRDs, PersistentVolumes and PersistentVolumeClaims are not deleted unasked"
            .to_owned()
    });
    over.into_iter().chain(kinds).collect::<Vec<_>>().join("; ")
}

fn release(
    mut delete: Vec<ObjectKey>,
    objects: Vec<ObjectKey>,
    why: String,
    released: Option<&str>,
) -> Judgement {
    if objects.is_empty() {
        return Judgement { delete, held: None };
    }
    let hash = hash_of(&objects);
    if released == Some(hash.as_str()) {
        delete.extend(objects);
        return Judgement { delete, held: None };
    }
    Judgement {
        delete,
        held: Some(Held { objects, hash, why }),
    }
}

fn hash_of(objects: &[ObjectKey]) -> String {
    let text: Vec<String> = objects.iter().map(ObjectKey::path).collect();
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
