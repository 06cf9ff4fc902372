//! Which objects of a kind there are: name and uid, so that a list shows which ones have gone.

use std::collections::{BTreeMap, BTreeSet};

use vidra_core::{
    identity::{GroupKind, ObjectKey},
    observed::Observed,
};

/// Where an object is, without what is the same for the whole kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    namespace: Option<Box<str>>,
    name: Box<str>,
}

impl Place {
    fn of(key: &ObjectKey) -> Self {
        Self {
            namespace: key.namespace.as_deref().map(Into::into),
            name: key.name.as_str().into(),
        }
    }

    fn key(&self, kind: &GroupKind) -> ObjectKey {
        ObjectKey::new(
            &kind.group,
            &kind.kind,
            self.namespace.as_deref(),
            &self.name,
        )
    }
}

/// An object that has gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) key: ObjectKey,
    pub(super) uid: String,
}

/// The objects of one kind.
#[derive(Debug)]
pub(super) struct Known {
    kind: GroupKind,
    uids: BTreeMap<Place, Box<str>>,
}

impl Known {
    pub(super) fn new(kind: GroupKind) -> Self {
        Self {
            kind,
            uids: BTreeMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.uids.len()
    }

    /// The object that this one has replaced under the same name without our hearing of it.
    pub(super) fn replaced_by(&self, object: &Observed) -> Option<Lost> {
        let uid = self.uids.get(&Place::of(&object.key))?;
        (**uid != *object.uid).then(|| Lost {
            key: object.key.clone(),
            uid: uid.to_string(),
        })
    }

    pub(super) fn insert(&mut self, object: &Observed) {
        self.uids
            .insert(Place::of(&object.key), object.uid.as_str().into());
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) {
        self.uids.remove(&Place::of(key));
    }

    /// What is known but not part of a complete list.
    pub(super) fn missing_from(&self, listed: &BTreeSet<ObjectKey>) -> Vec<Lost> {
        let everything = self.uids.iter().map(|(place, uid)| Lost {
            key: place.key(&self.kind),
            uid: uid.to_string(),
        });
        everything
            .filter(|lost| !listed.contains(&lost.key))
            .collect()
    }
}
