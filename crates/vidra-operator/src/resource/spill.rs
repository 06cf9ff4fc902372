//! The inventory as it is stored: in the status while it fits, in the content store beyond that.
//!
//! ```text
//!   small    status.inventory.entries                    all lines
//!   large    status.inventory.storedIn --> the base      all lines, as they were
//!            status.inventory.entries                    lines that changed since
//! ```
//!
//! The lines that changed keep a heal of one object among thousands as cheap as among few.

use std::{collections::HashSet, io, sync::Arc};

use serde::Serialize;
use vidra_api::{ManagedResource, StoredInventory, VidraResource, VidraResourceStatus};
use vidra_cluster::store::{Lease, Reference, StoreError, Stored};
use vidra_core::{
    change::Cause,
    class::Class,
    inventory::{Entry, Inventory},
};

use super::{memory::State, status::managed, turn::Turn};

/// The API server refuses objects over about 1.45 MB; what it adds itself needs some of that.
const LARGEST_OBJECT: usize = 1_400_000;
/// The most that lines may take in the status.
const INLINE: usize = 256 << 10;
/// The most that changed lines may take before the base is written anew.
const CHANGES: usize = 64 << 10;
/// `managedResources` shows at most this many objects; the inventory is complete.
const SHOWN_RESOURCES: usize = 1_000;

/// An inventory in the store, which the status refers to.
#[derive(Debug, Clone)]
pub(crate) struct Base {
    reference: Reference,
    text: Arc<str>,
}

/// What a status that was not written yet refers to.
#[derive(Debug, Default)]
pub(crate) struct Anchor {
    /// The base, if the inventory is in the store.
    pub(crate) base: Option<Base>,
    /// Keeps the base from being collected until the status refers to it.
    _lease: Option<Lease>,
}

/// How an inventory is to be stored.
#[derive(Debug, PartialEq, Eq)]
enum Form {
    /// All lines in the status.
    Inline(Vec<String>),
    /// The base stays; these lines changed.
    Changed(Vec<String>),
    /// All lines in the store.
    Spilled(String),
}

impl Turn<'_> {
    /// Puts an inventory into a status that is otherwise complete. What does not fit is stored
    /// before this returns; keep the anchor until the status is written.
    ///
    /// On failure the status keeps the inventory that was last written.
    pub(crate) async fn put_inventory(
        &self,
        state: &State,
        next: &mut VidraResourceStatus,
        inventory: &Inventory,
    ) -> Result<Anchor, Cause> {
        self.owner.settle(inventory);
        next.inventory = None;
        next.managed_resources.clear();
        let room = room_beside(self.resource, next);
        match self.store(state, inventory, room).await {
            Ok((stored, anchor)) => {
                let room = room.saturating_sub(size(&stored));
                next.inventory = Some(stored);
                next.managed_resources = shown(inventory, room);
                Ok(anchor)
            }
            Err(error) => {
                next.inventory.clone_from(&state.status.inventory);
                let known = &state.status.managed_resources;
                next.managed_resources.clone_from(known);
                Err(error.cause())
            }
        }
    }

    async fn store(
        &self,
        state: &State,
        inventory: &Inventory,
        room: usize,
    ) -> Result<(StoredInventory, Anchor), StoreError> {
        let base = state.base.as_ref();
        let (base, entries, lease) = match (form(inventory, base, room), base) {
            (Form::Inline(entries), _) => (None, entries, None),
            (Form::Changed(entries), base) => (base.cloned(), entries, None),
            (Form::Spilled(text), _) => {
                let Stored { reference, lease } = self.controller.store.put(&text).await?;
                let text = text.into();
                (Some(Base { reference, text }), Vec::new(), Some(lease))
            }
        };
        let reference = base.as_ref().map(|base| &base.reference);
        let stored = StoredInventory {
            entries,
            digest: reference.map(|reference| reference.digest.clone()),
            stored_in: reference.map(Reference::stored_content),
        };
        Ok((
            stored,
            Anchor {
                base,
                _lease: lease,
            },
        ))
    }

    /// Reads the inventory that a status refers to.
    pub(crate) async fn read_spilled(
        &self,
        stored: &StoredInventory,
    ) -> Result<(Inventory, Base), Cause> {
        let reference = reference(stored)?;
        let text = self.controller.store.get(&reference).await;
        let text = text.map_err(|error| unreadable(&error))?;
        // What changed comes later and therefore counts.
        let lines = text
            .lines()
            .chain(stored.entries.iter().map(String::as_str));
        let inventory = Inventory::decode(lines).map_err(|error| broken(&error.to_string()))?;
        Ok((inventory, Base { reference, text }))
    }
}

/// Whether an inventory is in the store.
pub(crate) fn is_spilled(resource: &VidraResource) -> bool {
    let status = resource.status.as_ref();
    let stored = status.and_then(|status| status.inventory.as_ref());
    stored.is_some_and(|stored| stored.stored_in.is_some())
}

/// Decides how an inventory is stored, given what is stored already and how much room there is.
fn form(inventory: &Inventory, base: Option<&Base>, room: usize) -> Form {
    let lines = inventory.encode();
    // Half of the room is for what people read.
    if length(&lines) <= INLINE.min(room / 2) {
        return Form::Inline(lines);
    }
    let changed = base.and_then(|base| changed(inventory, &lines, &base.text));
    match changed.filter(|changed| length(changed) <= CHANGES.min(room / 2)) {
        Some(changed) => Form::Changed(changed),
        None => Form::Spilled(lines.join("\n")),
    }
}

/// The lines that are not in the base, unless the base has objects that are no longer there.
fn changed(inventory: &Inventory, lines: &[String], base: &str) -> Option<Vec<String>> {
    let known: HashSet<&str> = base.lines().collect();
    let changed = lines.iter().filter(|line| !known.contains(line.as_str()));
    let changed: Vec<String> = changed.cloned().collect();
    let current: HashSet<&str> = lines.iter().map(String::as_str).collect();
    let is_there = |line: &str| {
        current.contains(line)
            || Entry::decode(line).is_ok_and(|entry| inventory.get(&entry.key).is_some())
    };
    base.lines().all(is_there).then_some(changed)
}

/// What lines take in a status, with quotes and comma.
fn length(lines: &[String]) -> usize {
    lines.iter().map(|line| line.len() + 3).sum()
}

/// The objects that are shown, as users of the Go operator know them.
fn shown(inventory: &Inventory, room: usize) -> Vec<ManagedResource> {
    let mut taken = 0;
    let entries = inventory.iter().take(SHOWN_RESOURCES).map(managed);
    let fitting = entries.take_while(|resource| {
        taken += size(resource) + 1;
        taken <= room
    });
    fitting.collect()
}

/// How much a status may still take.
fn room_beside(resource: &VidraResource, status: &VidraResourceStatus) -> usize {
    let taken = size(&resource.metadata) + size(&resource.spec) + size(status);
    LARGEST_OBJECT.saturating_sub(taken)
}

/// How many bytes a value takes where the API server keeps it.
fn size(value: &impl Serialize) -> usize {
    let mut meter = Meter(0);
    // Counting does not fail.
    let _ = serde_json::to_writer(&mut meter, value);
    meter.0
}

/// Counts bytes as the API server writes them: it escapes what could be markup.
struct Meter(usize);

impl io::Write for Meter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        const ESCAPE: usize = r"\u003c".len() - 1;
        let escaped = bytes.iter().filter(|byte| b"<>&".contains(byte)).count();
        self.0 += bytes.len() + escaped * ESCAPE;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn reference(stored: &StoredInventory) -> Result<Reference, Cause> {
    let place = stored.stored_in.clone().unwrap_or_default();
    let reference = Reference {
        digest: stored.digest.clone().unwrap_or_default(),
        chunks: u32::try_from(place.chunks).unwrap_or_default(),
        size: None,
    };
    if reference.stored_content() != place {
        return Err(broken("its digest and the place where it is differ"));
    }
    Ok(reference)
}

/// A question that got no answer is asked again soon; what is gone or damaged needs somebody.
fn unreadable(error: &StoreError) -> Cause {
    if error.is_spoilt() {
        broken(&error.to_string())
    } else {
        error.cause()
    }
}

/// Nothing may happen on the ground of an inventory that was not understood.
pub(crate) fn broken(why: &str) -> Cause {
    Cause {
        class: Class::Fatal,
        reason: "InventoryUnreadable",
        message: format!(
            "the inventory cannot be read: {why}; nothing is applied or deleted until it is \
             repaired"
        ),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vidra_core::{identity::ObjectKey, inventory::Origin};

    use super::*;

    const ROOM: usize = LARGEST_OBJECT;

    fn entry(number: usize, uid: &str) -> Entry {
        let key = ObjectKey::new("", "ConfigMap", Some("shop"), &format!("c{number}"));
        Entry {
            uid: Some(format!("{uid}{number:040}")),
            ..Entry::announced(key, "v1", Origin::Created)
        }
    }

    fn inventory(count: usize) -> Inventory {
        let mut inventory = Inventory::default();
        for number in 0..count {
            inventory.put(entry(number, "a"));
        }
        inventory
    }

    fn base(inventory: &Inventory) -> Base {
        let text = inventory.encode().join("\n");
        let reference = Reference {
            digest: format!("sha256:{}", "0".repeat(64)),
            chunks: 1,
            size: None,
        };
        Base {
            reference,
            text: text.into(),
        }
    }

    /// What is read back from a form.
    fn read(form: &Form, base: Option<&Base>) -> Inventory {
        let lines: Vec<&str> = match form {
            Form::Inline(lines) => lines.iter().map(String::as_str).collect(),
            Form::Spilled(text) => text.lines().collect(),
            Form::Changed(lines) => {
                let text = &base.expect("there is a base").text;
                text.lines()
                    .chain(lines.iter().map(String::as_str))
                    .collect()
            }
        };
        Inventory::decode(lines).expect("it can be read")
    }

    #[test]
    fn few_objects_stay_in_the_status_unless_the_manifest_leaves_no_room() {
        let inventory = inventory(1_000);
        assert!(matches!(form(&inventory, None, ROOM), Form::Inline(_)));
        assert!(matches!(form(&inventory, None, 100_000), Form::Spilled(_)));
    }

    #[test]
    fn one_change_among_many_does_not_write_all_anew() {
        let mut inventory = inventory(10_000);
        assert!(matches!(form(&inventory, None, ROOM), Form::Spilled(_)));
        let base = base(&inventory);
        assert_eq!(form(&inventory, Some(&base), ROOM), Form::Changed(vec![]));
        inventory.put(entry(7, "b"));
        let expected = Form::Changed(vec![entry(7, "b").to_string()]);
        assert_eq!(form(&inventory, Some(&base), ROOM), expected);
    }

    #[test]
    fn an_object_that_is_gone_or_many_changes_write_all_anew() {
        let mut inventory = inventory(10_000);
        let base = base(&inventory);
        inventory.remove(&entry(7, "a").key);
        assert!(matches!(
            form(&inventory, Some(&base), ROOM),
            Form::Spilled(_)
        ));
        for number in 0..1_000 {
            inventory.put(entry(number, "b"));
        }
        assert!(matches!(
            form(&inventory, Some(&base), ROOM),
            Form::Spilled(_)
        ));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn whatever_the_form_what_is_stored_is_read_back(
            before in 0_usize..3_000,
            puts in prop::collection::vec((0_usize..4_000, "[a-z]"), 0..900),
            removals in prop::collection::vec(0_usize..4_000, 0..3),
            room in 0..ROOM,
        ) {
            let mut inventory = inventory(before);
            let base = base(&inventory);
            for (number, uid) in puts {
                inventory.put(entry(number, &uid));
            }
            for number in removals {
                inventory.remove(&entry(number, "a").key);
            }
            let form = form(&inventory, Some(&base), room);
            prop_assert_eq!(read(&form, Some(&base)), inventory);
        }
    }

    #[test]
    fn markup_is_counted_as_the_api_server_writes_it() {
        assert_eq!(size(&"ab"), 4);
        assert_eq!(size(&"<&>"), 2 + 3 * 6);
    }

    #[test]
    fn the_shown_objects_fit_the_room() {
        let inventory = inventory(2_000);
        assert_eq!(shown(&inventory, ROOM).len(), SHOWN_RESOURCES);
        let few = shown(&inventory, 1_000);
        assert!(!few.is_empty() && size(&few) <= 1_002, "{}", few.len());
    }
}
