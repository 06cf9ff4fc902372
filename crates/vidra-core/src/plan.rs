//! What has to be applied and what is stale: the comparison of desired, known and live.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    drift::{Verdict, judge},
    identity::ObjectKey,
    inventory::{Entry, Inventory},
    observed::Observed,
};

/// One desired object, as far as planning cares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The object.
    pub key: ObjectKey,
    /// The digest of its desired content.
    pub digest: String,
}

/// Why an object has to be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// We have never applied it, or do not know how that ended.
    New,
    /// Its desired content changed.
    Changed,
    /// It is not there.
    Missing,
    /// It was changed or replaced by somebody.
    Drifted,
    /// Everything is applied again, to count wrong verdicts.
    DeepPass,
}

/// The plan of one reconcile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// What to apply, and why.
    pub apply: BTreeMap<ObjectKey, Why>,
    /// What is as it should be.
    pub intact: Vec<ObjectKey>,
    /// What is being deleted by somebody and has to be gone before it can be made again.
    pub terminating: Vec<ObjectKey>,
    /// What is in the inventory and no longer desired.
    pub stale: Vec<ObjectKey>,
}

/// Compares what is desired with the inventory and with the live metadata.
///
/// `live` must be complete for every kind of the inventory: what is not in it does not exist.
/// Except for `recent`, what we applied after `live` was read: of that only the inventory tells.
pub fn plan(
    wanted: &[Wanted],
    inventory: &Inventory,
    live: &BTreeMap<ObjectKey, Observed>,
    recent: &BTreeSet<ObjectKey>,
    manager: &str,
) -> Plan {
    let mut plan = Plan::default();
    for object in wanted {
        let step = if recent.contains(&object.key) {
            classify_unseen(object, inventory)
        } else {
            classify(object, inventory, live, manager)
        };
        match step {
            Step::Apply(why) => {
                plan.apply.insert(object.key.clone(), why);
            }
            Step::Keep => plan.intact.push(object.key.clone()),
            Step::Wait => plan.terminating.push(object.key.clone()),
        }
    }
    let desired: BTreeSet<&ObjectKey> = wanted.iter().map(|object| &object.key).collect();
    let known = inventory.iter().map(|entry| &entry.key);
    plan.stale = known
        .filter(|key| !desired.contains(key))
        .cloned()
        .collect();
    plan
}

enum Step {
    Apply(Why),
    Keep,
    Wait,
}

fn classify(
    object: &Wanted,
    inventory: &Inventory,
    live: &BTreeMap<ObjectKey, Observed>,
    manager: &str,
) -> Step {
    let Some(entry) = inventory.get(&object.key) else {
        return Step::Apply(Why::New);
    };
    let Some(observed) = live.get(&object.key) else {
        let is_known = entry.uid.is_some();
        return Step::Apply(if is_known { Why::Missing } else { Why::New });
    };
    match judge(entry, observed, manager) {
        Verdict::Terminating => Step::Wait,
        Verdict::Unproven => Step::Apply(Why::New),
        Verdict::Drifted | Verdict::Replaced => Step::Apply(Why::Drifted),
        Verdict::Intact => compare(object, entry),
    }
}

fn classify_unseen(object: &Wanted, inventory: &Inventory) -> Step {
    match inventory.get(&object.key) {
        Some(entry) => compare(object, entry),
        None => Step::Apply(Why::New),
    }
}

fn compare(object: &Wanted, entry: &Entry) -> Step {
    if entry.desired.as_deref() == Some(object.digest.as_str()) {
        Step::Keep
    } else {
        Step::Apply(Why::Changed)
    }
}

/// Namespaces that no policy may delete.
const SACRED: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Parts stale objects into those that may be considered for deletion and Namespaces that are
/// still used by what is desired, or that no policy may delete.
pub fn spare_namespaces(
    stale: Vec<ObjectKey>,
    wanted: &[Wanted],
) -> (Vec<ObjectKey>, Vec<ObjectKey>) {
    let used: BTreeSet<&str> = wanted
        .iter()
        .filter_map(|object| object.key.namespace.as_deref())
        .collect();
    stale.into_iter().partition(|key| {
        let is_namespace = key.group.is_empty() && key.kind == "Namespace";
        let is_spared = used.contains(key.name.as_str()) || SACRED.contains(&key.name.as_str());
        !(is_namespace && is_spared)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        inventory::Origin,
        observed::tests::{MANAGER, entry, observed},
    };

    fn live() -> Observed {
        observed(vec![entry(MANAGER, "Apply", "2026-11-16T02:00:00Z")])
    }

    fn wanted(digest: &str) -> Vec<Wanted> {
        vec![Wanted {
            key: live().key,
            digest: digest.to_owned(),
        }]
    }

    fn known() -> Inventory {
        let live = live();
        let mut inventory = Inventory::default();
        inventory.put(Entry {
            uid: Some(live.uid.clone()),
            hash: live.entry_of(MANAGER).map(crate::fields::FieldsEntry::hash),
            desired: Some("d1".to_owned()),
            ..Entry::announced(live.key, "v1", Origin::Created)
        });
        inventory
    }

    fn seen(object: Observed) -> BTreeMap<ObjectKey, Observed> {
        BTreeMap::from([(object.key.clone(), object)])
    }

    fn planned(
        wanted: &[Wanted],
        inventory: &Inventory,
        live: &BTreeMap<ObjectKey, Observed>,
    ) -> Plan {
        plan(wanted, inventory, live, &BTreeSet::new(), MANAGER)
    }

    #[test]
    fn an_older_list_neither_condemns_nor_keeps_what_was_applied_since() {
        let recent = BTreeSet::from([live().key]);
        let planned = |digest| {
            plan(
                &wanted(digest),
                &known(),
                &BTreeMap::new(),
                &recent,
                MANAGER,
            )
        };
        assert_eq!(planned("d1").intact, [live().key]);
        assert_eq!(
            planned("d2").apply,
            BTreeMap::from([(live().key, Why::Changed)])
        );
    }

    #[test]
    fn an_intact_object_with_unchanged_content_is_not_applied() {
        let plan = planned(&wanted("d1"), &known(), &seen(live()));
        assert!(plan.apply.is_empty() && plan.stale.is_empty());
        assert_eq!(plan.intact, [live().key]);
    }

    #[test]
    fn changed_drifted_missing_and_new_objects_are_applied_each_for_its_reason() {
        let why = |wanted: &[Wanted], inventory: &Inventory, live: &BTreeMap<_, _>| {
            planned(wanted, inventory, live).apply.into_values().next()
        };
        assert_eq!(
            why(&wanted("d2"), &known(), &seen(live())),
            Some(Why::Changed)
        );
        assert_eq!(
            why(&wanted("d1"), &known(), &seen(observed(vec![]))),
            Some(Why::Drifted)
        );
        assert_eq!(
            why(&wanted("d1"), &known(), &BTreeMap::new()),
            Some(Why::Missing)
        );
        assert_eq!(
            why(&wanted("d1"), &Inventory::default(), &seen(live())),
            Some(Why::New)
        );
    }

    #[test]
    fn what_is_known_and_not_wanted_is_stale_whether_it_lives_or_not() {
        assert_eq!(planned(&[], &known(), &BTreeMap::new()).stale, [live().key]);
    }

    #[test]
    fn a_namespace_that_desired_objects_live_in_is_spared() {
        let shop = ObjectKey::new("", "Namespace", None, "shop");
        let other = ObjectKey::new("", "Namespace", None, "other");
        let system = ObjectKey::new("", "Namespace", None, "kube-system");
        let stale = vec![shop.clone(), other.clone(), system.clone()];
        let (candidates, spared) = spare_namespaces(stale, &wanted("d1"));
        assert_eq!((candidates, spared), (vec![other], vec![shop, system]));
    }

    /// Of each of six objects: is it wanted, known, live; and is its content what was applied?
    fn worlds() -> impl Strategy<Value = Vec<(bool, bool, bool, bool)>> {
        prop::collection::vec(any::<(bool, bool, bool, bool)>(), 6)
    }

    proptest! {
        #[test]
        fn every_wanted_object_has_one_step_and_nothing_wanted_is_stale(world in worlds()) {
            let (mut wanted, mut inventory, mut live) = (Vec::new(), Inventory::default(), BTreeMap::new());
            for (number, (is_wanted, is_known, is_live, is_same)) in world.iter().enumerate() {
                let key = ObjectKey::new("", "ConfigMap", Some("shop"), &format!("c{number}"));
                let digest = if *is_same { "d1" } else { "d2" }.to_owned();
                if *is_wanted {
                    wanted.push(Wanted { key: key.clone(), digest });
                }
                if *is_known {
                    let entry = known().iter().next().cloned().expect("one entry");
                    inventory.put(Entry { key: key.clone(), ..entry });
                }
                if *is_live {
                    live.insert(key.clone(), Observed { key, ..self::live() });
                }
            }
            let plan = planned(&wanted, &inventory, &live);
            for object in &wanted {
                let steps = usize::from(plan.apply.contains_key(&object.key))
                    + usize::from(plan.intact.contains(&object.key))
                    + usize::from(plan.terminating.contains(&object.key));
                prop_assert_eq!(steps, 1, "{}", object.key);
                prop_assert!(!plan.stale.contains(&object.key));
                let is_untouched = plan.intact.contains(&object.key);
                prop_assert!(!is_untouched || (inventory.get(&object.key).is_some() && live.contains_key(&object.key)));
            }
            let unwanted = inventory.iter().filter(|entry| wanted.iter().all(|it| it.key != entry.key));
            prop_assert_eq!(plan.stale.len(), unwanted.count());
        }
    }
}
