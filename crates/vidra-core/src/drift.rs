//! Drift by field ownership: the verdict needs the object's metadata and nothing else.
//!
//! When anybody changes the value of a field that we own, that path leaves our managed fields
//! entry; when somebody applies under our own name, the entry's time moves. So an entry that
//! hashes to what our last apply returned proves that every field of ours still has our value.

use crate::{
    fields::{FieldPath, FieldsEntry, lost},
    inventory::Entry,
    observed::Observed,
};

/// What the metadata of a live object says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is exactly as our last apply left it.
    Intact,
    /// Fields of ours were changed, or our entry is gone.
    Drifted,
    /// It is another object under the same name.
    Replaced,
    /// It is being deleted; there is nothing to heal until it is gone.
    Terminating,
    /// We have not applied it yet, so there is nothing to compare with.
    Unproven,
}

/// Judges a live object against what the inventory expects.
pub fn judge(expected: &Entry, live: &Observed, manager: &str) -> Verdict {
    let (Some(uid), Some(hash)) = (&expected.uid, &expected.hash) else {
        return Verdict::Unproven;
    };
    if live.is_terminating {
        return Verdict::Terminating;
    }
    if *uid != live.uid {
        return Verdict::Replaced;
    }
    match live.entry_of(manager) {
        Some(entry) if entry.hash() == *hash => Verdict::Intact,
        _ => Verdict::Drifted,
    }
}

/// The path that the horizontal autoscaler writes.
pub fn replicas() -> FieldPath {
    FieldPath::of_fields(&["spec", "replicas"])
}

/// Whether the autoscaler holds `spec.replicas` of this object.
///
/// It writes through the `scale` subresource from within kube-controller-manager. A person's
/// `kubectl scale` uses the same subresource under another name, and is healed.
pub fn autoscaler_holds_replicas(live: &Observed) -> bool {
    live.managed_fields.iter().any(|entry| {
        entry.manager == "kube-controller-manager"
            && entry.subresource.as_deref() == Some("scale")
            && entry.owns(&replicas())
    })
}

/// What somebody changed, and who.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribution {
    /// The fields that had left our entry.
    pub fields: Vec<FieldPath>,
    /// The manager that held them, if one is known.
    pub by: Option<String>,
}

/// Says what was changed by whom, from the metadata before and after our heal.
pub fn attribute(before: &Observed, after: &Observed, manager: &str) -> Attribution {
    let paths = |observed: &Observed| {
        observed
            .entry_of(manager)
            .map(FieldsEntry::paths)
            .unwrap_or_default()
    };
    let fields = lost(&paths(after), &paths(before));
    let holders = before
        .managed_fields
        .iter()
        .filter(|entry| !entry.is_apply_of(manager));
    let by = holders
        .filter(|entry| fields.is_empty() || fields.iter().any(|path| entry.owns(path)))
        .filter(|entry| entry.subresource.as_deref() != Some("status"))
        .max_by_key(|entry| entry.time)
        .map(|entry| entry.manager.clone());
    Attribution { fields, by }
}

/// The fields that an apply of ours took from others, with who held them.
///
/// Only a forced apply takes fields: the others lose what they held at another value.
pub fn taken(before: &Observed, after: &Observed, manager: &str) -> Vec<Attribution> {
    let Some(ours) = after.entry_of(manager).map(FieldsEntry::paths) else {
        return Vec::new();
    };
    let others = before
        .managed_fields
        .iter()
        .filter(|entry| !entry.is_apply_of(manager));
    others
        .filter_map(|entry| {
            let left = after
                .managed_fields
                .iter()
                .find(|it| it.is_same_writer(entry));
            let left = left.map(FieldsEntry::paths).unwrap_or_default();
            let mut fields = lost(&entry.paths(), &left);
            fields.retain(|path| ours.contains(path));
            (!fields.is_empty()).then(|| Attribution {
                fields,
                by: Some(entry.manager.clone()),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{
        inventory::Origin,
        observed::tests::{MANAGER, entry, observed},
    };

    fn apply() -> FieldsEntry {
        entry(MANAGER, "Apply", "2026-11-16T02:00:00Z")
    }

    fn expected() -> Entry {
        let live = observed(vec![apply()]);
        let mut expected = Entry::announced(live.key, "v1", Origin::Created);
        expected.uid = Some(live.uid);
        expected.hash = Some(apply().hash());
        expected
    }

    #[test]
    fn foreign_fields_and_status_writes_leave_an_object_intact() {
        let mut status = entry("kube-controller-manager", "Update", "2026-11-16T02:09:00Z");
        status.subresource = Some("status".to_owned());
        let label = entry("kubectl-label", "Update", "2026-11-16T02:09:00Z");
        let live = observed(vec![status, apply(), label]);
        assert_eq!(judge(&expected(), &live, MANAGER), Verdict::Intact);
    }

    #[test]
    fn a_shrunken_a_moved_and_a_missing_entry_are_drift() {
        let mut shrunken = apply();
        shrunken.fields = json!({});
        let moved = entry(MANAGER, "Apply", "2026-11-16T02:00:01Z");
        for managed_fields in [vec![shrunken], vec![moved], vec![]] {
            let live = observed(managed_fields);
            assert_eq!(judge(&expected(), &live, MANAGER), Verdict::Drifted);
        }
    }

    #[test]
    fn the_same_manager_name_by_update_is_not_our_apply() {
        let live = observed(vec![entry(MANAGER, "Update", "2026-11-16T02:00:00Z")]);
        assert_eq!(judge(&expected(), &live, MANAGER), Verdict::Drifted);
    }

    #[test]
    fn another_uid_is_another_object() {
        let mut live = observed(vec![apply()]);
        live.uid = "uid-2".to_owned();
        assert_eq!(judge(&expected(), &live, MANAGER), Verdict::Replaced);
    }

    #[test]
    fn the_last_writer_of_a_lost_field_is_named() {
        let mut before_ours = apply();
        before_ours.fields = json!({});
        let thief = entry("kubectl-edit", "Update", "2026-11-16T02:05:00Z");
        let mut bystander = entry("kubectl-label", "Update", "2026-11-16T02:06:00Z");
        bystander.fields = json!({"f:metadata": {"f:labels": {"f:x": {}}}});
        let before = observed(vec![thief, before_ours, bystander]);
        let found = attribute(&before, &observed(vec![apply()]), MANAGER);
        assert_eq!(found.by.as_deref(), Some("kubectl-edit"));
        assert_eq!(found.fields, [FieldPath::of_fields(&["data", "a"])]);
    }

    #[test]
    fn a_taken_field_is_named_with_its_holder_and_a_shared_one_is_not() {
        let mut holder = entry("kubectl-edit", "Update", "2026-11-16T02:05:00Z");
        holder.fields = json!({"f:data": {"f:a": {}, "f:b": {}}});
        let before = observed(vec![holder.clone()]);
        let after = observed(vec![apply(), holder.clone()]);
        assert!(taken(&before, &after, MANAGER).is_empty());
        holder.fields = json!({"f:data": {"f:b": {}}});
        let after = observed(vec![apply(), holder]);
        let [found] = &taken(&before, &after, MANAGER)[..] else {
            panic!("one holder lost something");
        };
        assert_eq!(found.by.as_deref(), Some("kubectl-edit"));
        assert_eq!(found.fields, [FieldPath::of_fields(&["data", "a"])]);
    }

    #[test]
    fn replicas_belong_to_the_autoscaler_only_if_it_wrote_them_itself() {
        let mut scale = entry("kube-controller-manager", "Update", "2026-11-16T02:05:00Z");
        scale.subresource = Some("scale".to_owned());
        scale.fields = json!({"f:spec": {"f:replicas": {}}});
        assert!(autoscaler_holds_replicas(&observed(vec![scale.clone()])));
        scale.manager = "kubectl".to_owned();
        assert!(!autoscaler_holds_replicas(&observed(vec![scale])));
    }

    proptest! {
        /// Whatever others own, and in whichever order the entries come: only our own entry counts.
        #[test]
        fn only_our_entry_decides(
            others in prop::collection::vec(("[a-z]{1,8}", 0_i64..2_000_000_000), 0..6),
            position in 0_usize..6,
            is_changed: bool,
        ) {
            let mut entries: Vec<FieldsEntry> = others
                .iter()
                .map(|(manager, second)| {
                    let mut theirs = entry(manager, "Update", "2026-11-16T02:00:00Z");
                    theirs.time = jiff::Timestamp::from_second(*second).ok();
                    theirs
                })
                .collect();
            let mut ours = apply();
            if is_changed {
                ours.fields = json!({"f:data": {}});
            }
            entries.insert(position.min(entries.len()), ours);
            let verdict = judge(&expected(), &observed(entries), MANAGER);
            prop_assert_eq!(verdict == Verdict::Drifted, is_changed);
        }
    }
}
