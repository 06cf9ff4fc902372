//! Who needs which kinds: reference counts, without any I/O.

use std::collections::{BTreeMap, BTreeSet};

use vidra_core::identity::GroupKind;

use super::sighting::WatchedKind;

/// Who needs which kinds.
#[derive(Debug, Default)]
pub(super) struct Registry {
    owners: BTreeMap<String, BTreeSet<WatchedKind>>,
    /// Counted, so that a call costs as much as it changes and not as much as there is.
    uses: BTreeMap<GroupKind, BTreeMap<WatchedKind, usize>>,
}

impl Registry {
    /// Replaces what an owner needs. Returns the kinds for which something has changed.
    pub(super) fn need(
        &mut self,
        owner: &str,
        kinds: BTreeSet<WatchedKind>,
    ) -> BTreeSet<GroupKind> {
        let before = self.owners.remove(owner).unwrap_or_default();
        for added in kinds.difference(&before) {
            let versions = self.uses.entry(added.kind.clone()).or_default();
            *versions.entry(added.clone()).or_default() += 1;
        }
        for removed in before.difference(&kinds) {
            self.forget(removed);
        }
        let changed = kinds
            .symmetric_difference(&before)
            .map(|watched| watched.kind.clone());
        let changed = changed.collect();
        if !kinds.is_empty() {
            self.owners.insert(owner.to_owned(), kinds);
        }
        changed
    }

    /// The resources through which a kind is needed; none when nobody needs it.
    pub(super) fn candidates(&self, kind: &GroupKind) -> Vec<WatchedKind> {
        self.uses
            .get(kind)
            .map(|versions| versions.keys().cloned().collect())
            .unwrap_or_default()
    }

    /// How many owners need a kind.
    pub(super) fn count(&self, kind: &GroupKind) -> usize {
        self.uses
            .get(kind)
            .map(|versions| versions.values().sum())
            .unwrap_or_default()
    }

    fn forget(&mut self, watched: &WatchedKind) {
        let Some(versions) = self.uses.get_mut(&watched.kind) else {
            return;
        };
        if let Some(count) = versions.get_mut(watched) {
            *count -= 1;
        }
        versions.retain(|_, count| *count > 0);
        if versions.is_empty() {
            self.uses.remove(&watched.kind);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use kube::api::{ApiResource, GroupVersionKind};

    use super::*;

    pub(in crate::hub) fn watched(version: &str, kind: &str) -> WatchedKind {
        let kind = GroupVersionKind::gvk("shop.example.com", version, kind);
        WatchedKind::new(ApiResource::from_gvk(&kind))
    }

    fn set(kinds: &[&WatchedKind]) -> BTreeSet<WatchedKind> {
        kinds.iter().map(|&kind| kind.clone()).collect()
    }

    #[test]
    fn a_kind_is_needed_until_its_last_owner_lets_go() {
        let (mut registry, order) = (Registry::default(), watched("v1", "Order"));
        registry.need("a", set(&[&order]));
        registry.need("b", set(&[&order]));
        registry.need("a", BTreeSet::new());
        assert_eq!(
            (
                registry.count(&order.kind),
                registry.candidates(&order.kind).len()
            ),
            (1, 1)
        );
        registry.need("b", BTreeSet::new());
        assert_eq!(
            (
                registry.count(&order.kind),
                registry.candidates(&order.kind).len()
            ),
            (0, 0)
        );
    }

    #[test]
    fn needing_the_same_again_changes_nothing() {
        let (mut registry, order) = (Registry::default(), watched("v1", "Order"));
        assert_eq!(registry.need("a", set(&[&order])).len(), 1);
        assert_eq!(registry.need("a", set(&[&order])).len(), 0);
        assert_eq!(registry.count(&order.kind), 1);
    }

    #[test]
    fn a_move_to_another_version_changes_the_candidates_of_one_kind() {
        let mut registry = Registry::default();
        let (old, new) = (watched("v1beta1", "Order"), watched("v1", "Order"));
        registry.need("a", set(&[&old]));
        registry.need("b", set(&[&old]));
        assert_eq!(
            registry.need("a", set(&[&new])),
            BTreeSet::from([new.kind.clone()])
        );
        assert_eq!(registry.candidates(&new.kind), [new, old]);
    }

    #[test]
    fn an_unknown_owner_can_let_go() {
        assert!(
            Registry::default()
                .need("nobody", BTreeSet::new())
                .is_empty()
        );
    }
}
