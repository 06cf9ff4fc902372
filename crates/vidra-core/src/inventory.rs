//! The inventory: which objects one owner has, and what they looked like when we last wrote them.
//!
//! It is written *before* the first apply as the union of old and new, and trimmed after the
//! prune, so that a crash at any point forgets nothing.

use std::{collections::BTreeMap, fmt};

use crate::{fields::EntryHash, identity::ObjectKey};

/// Where an object comes from; what we did not make we do not delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// It was absent when last looked at, and we are about to make it.
    Announced,
    /// We made it.
    Created,
    /// It was there before us: when it is no longer wanted we release it.
    Adopted,
    /// Listed by the Go operator's inventory; settled when the object is next seen.
    Inherited,
}

impl Origin {
    fn letter(self) -> &'static str {
        match self {
            Self::Announced => "n",
            Self::Created => "c",
            Self::Adopted => "a",
            Self::Inherited => "i",
        }
    }

    fn from_letter(letter: &str) -> Option<Self> {
        [
            Self::Announced,
            Self::Created,
            Self::Adopted,
            Self::Inherited,
        ]
        .into_iter()
        .find(|origin| origin.letter() == letter)
    }
}

/// One object of an inventory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The object.
    pub key: ObjectKey,
    /// The version in which it was last applied.
    pub version: String,
    /// Its uid, once we have seen it.
    pub uid: Option<String>,
    /// Our managed fields entry as the API server returned it from our last apply.
    pub hash: Option<EntryHash>,
    /// The digest of the desired object that was last applied.
    pub desired: Option<String>,
    /// Where it comes from.
    pub origin: Origin,
}

impl Entry {
    /// An object that is about to be applied for the first time.
    pub fn announced(key: ObjectKey, version: &str, origin: Origin) -> Self {
        Self {
            key,
            version: version.to_owned(),
            uid: None,
            hash: None,
            desired: None,
            origin,
        }
    }

    /// Reads a stored entry.
    pub fn decode(line: &str) -> Result<Self, DecodeError> {
        let parts: Vec<&str> = line.split('/').collect();
        let [
            group,
            version,
            kind,
            namespace,
            name,
            uid,
            hash,
            desired,
            origin,
        ] = parts[..]
        else {
            return Err(DecodeError(line.to_owned()));
        };
        let namespace = (!namespace.is_empty()).then_some(namespace);
        let origin = Origin::from_letter(origin).ok_or_else(|| DecodeError(line.to_owned()))?;
        Ok(Self {
            key: ObjectKey::new(group, kind, namespace, name),
            version: version.to_owned(),
            uid: (!uid.is_empty()).then(|| uid.to_owned()),
            hash: EntryHash::from_stored(hash),
            desired: (!desired.is_empty()).then(|| desired.to_owned()),
            origin,
        })
    }
}

impl fmt::Display for Entry {
    /// The stored form: nine parts, none of which can contain a slash.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}/{}/{}/{}/{}/{}/{}/{}/{}",
            self.key.group,
            self.version,
            self.key.kind,
            self.key.namespace.as_deref().unwrap_or_default(),
            self.key.name,
            self.uid.as_deref().unwrap_or_default(),
            self.hash
                .as_ref()
                .map(EntryHash::as_str)
                .unwrap_or_default(),
            self.desired.as_deref().unwrap_or_default(),
            self.origin.letter(),
        )
    }
}

/// A stored inventory entry that cannot be read.
///
/// Nothing may be deleted on the ground of an inventory that was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("inventory entry {0:?} cannot be read; it was written by a newer version or by hand")]
pub struct DecodeError(String);

/// All objects of one owner.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    entries: BTreeMap<ObjectKey, Entry>,
}

impl Inventory {
    /// Reads a stored inventory, or says which entry cannot be read.
    pub fn decode<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<Self, DecodeError> {
        let mut inventory = Self::default();
        for line in lines {
            inventory.put(Entry::decode(line)?);
        }
        Ok(inventory)
    }

    /// The form to be stored, in a stable order.
    pub fn encode(&self) -> Vec<String> {
        self.entries.values().map(ToString::to_string).collect()
    }

    /// Adds or replaces an entry.
    pub fn put(&mut self, entry: Entry) {
        self.entries.insert(entry.key.clone(), entry);
    }

    /// Forgets an object that is gone or no longer ours.
    pub fn remove(&mut self, key: &ObjectKey) -> Option<Entry> {
        self.entries.remove(key)
    }

    /// The entry of an object.
    pub fn get(&self, key: &ObjectKey) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// All entries in a stable order.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The write-ahead inventory: everything known, and what is about to be applied.
    ///
    /// An entry that is known already keeps what is known about it.
    #[must_use]
    pub fn ahead(&self, announced: impl IntoIterator<Item = Entry>) -> Self {
        let mut union = self.clone();
        for entry in announced {
            union.entries.entry(entry.key.clone()).or_insert(entry);
        }
        union
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entries() -> impl Strategy<Value = Entry> {
        let name = "[a-z][a-z0-9.:-]{0,20}";
        let origin = prop_oneof![
            Just(Origin::Announced),
            Just(Origin::Created),
            Just(Origin::Adopted),
            Just(Origin::Inherited)
        ];
        let key = (name, "[A-Z][a-z]{1,9}", prop::option::of(name), name).prop_map(
            |(group, kind, namespace, name)| {
                ObjectKey::new(&group, &kind, namespace.as_deref(), &name)
            },
        );
        let hex = || prop::option::of("[0-9a-f]{16}");
        (key, "v[0-9]{1,2}", hex(), hex(), hex(), origin).prop_map(
            |(key, version, uid, hash, desired, origin)| Entry {
                key,
                version,
                uid,
                hash: hash.and_then(|hash| EntryHash::from_stored(&hash)),
                desired,
                origin,
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_stored_is_read_back(entries in prop::collection::vec(entries(), 0..20)) {
            let mut inventory = Inventory::default();
            for entry in entries {
                inventory.put(entry);
            }
            let lines = inventory.encode();
            let read = Inventory::decode(lines.iter().map(String::as_str));
            prop_assert_eq!(read, Ok(inventory));
        }

        #[test]
        fn writing_ahead_forgets_nothing(
            old in prop::collection::vec(entries(), 0..20),
            new in prop::collection::vec(entries(), 0..20),
        ) {
            let mut inventory = Inventory::default();
            for entry in &old {
                inventory.put(entry.clone());
            }
            let ahead = inventory.ahead(new.clone());
            for entry in inventory.iter() {
                prop_assert_eq!(ahead.get(&entry.key), Some(entry));
            }
            prop_assert!(new.iter().all(|entry| ahead.get(&entry.key).is_some()));
        }
    }

    #[test]
    fn an_entry_that_is_not_understood_is_an_error_and_not_an_empty_inventory() {
        assert!(Inventory::decode(["apps/v1/Deployment/shop/web"]).is_err());
        assert!(Inventory::decode(["a/b/c/d/e/f/g/h/?"]).is_err());
    }
}
