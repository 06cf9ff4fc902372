//! What the operator remembers of each owner between reconciles.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::time::Instant;
use vidra_api::VidraResourceStatus;
use vidra_cluster::{hub::Sighting, store::Packed};
use vidra_core::{
    drift::{Verdict, autoscaler_holds_replicas, judge},
    fight::Fight,
    identity::{GroupKind, ObjectKey},
    inventory::{Entry, Inventory},
    observed::Observed,
    owner::OwnerId,
    ownership::co_owners,
    rivalry::Rivalry,
};

use super::{decode::Compiled, spill::Base};
use crate::lock;

/// What was seen of an object that may have to be healed.
#[derive(Debug, Clone)]
pub(crate) enum Glimpse {
    /// It was seen like this.
    Live(Box<Observed>),
    /// It is gone: the object of this uid, or whatever had the name when a list lacked it.
    Gone(Option<String>),
}

/// A glimpse and when it was had.
pub(crate) type Noticed = (Glimpse, Instant);

/// An object as our last apply left it.
#[derive(Debug, Clone)]
struct Expected {
    entry: Entry,
    /// The resource version that our last apply returned, where it is a number.
    version: Option<u64>,
    /// What else the latest look at it showed; nothing until this process has looked.
    sight: Sight,
}

/// What the latest look at an object showed besides our own fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sight {
    /// Whether other owners of Vidra have it too.
    pub(crate) is_shared: bool,
    /// Whether the autoscaler holds its replicas.
    pub(crate) is_autoscaled: bool,
    /// Whether other owners want other content.
    pub(crate) rivalry: Rivalry,
}

impl Sight {
    fn of(live: &Observed, me: &OwnerId) -> Self {
        Self {
            is_shared: !co_owners(live, me).is_empty(),
            is_autoscaled: autoscaler_holds_replicas(live),
            rivalry: Rivalry::over(live, me),
        }
    }
}

impl Expected {
    /// Whether something was seen before our own last write: it has been dealt with.
    fn is_newer_than(&self, live: &Observed) -> bool {
        let seen: Option<u64> = live.resource_version.parse().ok();
        let is_older = matches!((seen, self.version), (Some(seen), Some(ours)) if seen < ours);
        is_older && self.entry.uid.as_ref() == Some(&live.uid)
    }
}

/// One owner: what it expects, what was noticed, and the state that only its turn may touch.
pub(crate) struct Owner {
    /// Who it is.
    pub(crate) id: OwnerId,
    /// Held during a whole turn: a heal and a reconcile exclude each other.
    pub(crate) state: tokio::sync::Mutex<State>,
    expected: Mutex<HashMap<ObjectKey, Expected>>,
    noticed: Mutex<BTreeMap<ObjectKey, Noticed>>,
    /// The namespaces that it has objects in; nothing while that is not known.
    namespaces: Mutex<Option<BTreeSet<String>>>,
}

/// The state of an owner.
#[derive(Default)]
pub(crate) struct State {
    /// The uid of the `VidraResource`: a new one under the old name starts afresh.
    pub(crate) uid: String,
    /// Whether the inventory has been read. Nothing may be written on the ground of one that has
    /// not.
    pub(crate) is_loaded: bool,
    /// Its objects.
    pub(crate) inventory: Inventory,
    /// The stored inventory that its status refers to.
    pub(crate) base: Option<Base>,
    /// Its manifest, if that is stored content.
    pub(crate) content: Option<Packed>,
    /// Its manifest, decoded.
    pub(crate) compiled: Option<Arc<Compiled>>,
    /// The edition of the catalogue of kinds that it was decoded with.
    pub(crate) edition: u64,
    /// The status as last written or read.
    pub(crate) status: VidraResourceStatus,
    /// Failures in a row.
    pub(crate) failures: u32,
    /// When each object was last applied by this process.
    pub(crate) applied_at: HashMap<ObjectKey, Instant>,
    /// Objects that are taken from us again and again, with who takes them.
    pub(crate) fights: BTreeMap<ObjectKey, (Fight, String)>,
    /// Whether the watches have told this owner everything since its last turn.
    pub(crate) is_followed: bool,
    /// When everything is applied again, whatever the metadata says, and by which interval that
    /// was planned.
    pub(crate) deep_pass: Option<(Instant, Duration)>,
}

impl Owner {
    pub(crate) fn new(id: OwnerId) -> Self {
        Self {
            id,
            state: tokio::sync::Mutex::default(),
            expected: Mutex::default(),
            noticed: Mutex::default(),
            namespaces: Mutex::default(),
        }
    }

    /// Remembers where the objects of an inventory are.
    pub(crate) fn settle(&self, inventory: &Inventory) {
        let namespaces = inventory.iter().filter_map(|it| it.key.namespace.clone());
        *lock(&self.namespaces) = Some(namespaces.collect());
    }

    /// Whether it has objects in a namespace; what is not known may be there.
    pub(crate) fn may_be_in(&self, namespace: &str) -> bool {
        let namespaces = lock(&self.namespaces);
        namespaces
            .as_ref()
            .is_none_or(|known| known.contains(namespace))
    }

    /// Looks at a sighting; answers whether there is something to be done about it.
    pub(crate) fn notice(&self, key: &ObjectKey, glimpse: Glimpse) -> bool {
        let is_news = match &glimpse {
            Glimpse::Live(live) => self.is_news(key, live),
            Glimpse::Gone(_) => false,
        };
        if !is_news && !self.is_suspicious(key, &glimpse) {
            // It is as it should be now, whatever was noticed before.
            lock(&self.noticed).remove(key);
            return false;
        }
        lock(&self.noticed).insert(key.clone(), (glimpse, Instant::now()));
        true
    }

    /// Whether a glimpse shows anything but what our last apply left.
    pub(crate) fn is_suspicious(&self, key: &ObjectKey, glimpse: &Glimpse) -> bool {
        let expected = lock(&self.expected);
        let Some(expected) = expected.get(key) else {
            return true;
        };
        let live = match glimpse {
            Glimpse::Live(live) => live,
            // The end of an object that we have already made anew is no news.
            Glimpse::Gone(uid) => {
                return uid.is_none() || expected.entry.uid.is_none() || expected.entry.uid == *uid;
            }
        };
        if expected.is_newer_than(live) {
            return false;
        }
        judge(&expected.entry, live, &self.id.field_manager()) != Verdict::Intact
            || is_open_again(expected, live, &self.id)
    }

    /// Whether another owner left to us what we wanted, and has changed its mind or gone.
    pub(crate) fn is_open_again(&self, key: &ObjectKey, live: &Observed) -> bool {
        let expected = lock(&self.expected);
        expected.get(key).is_some_and(|expected| {
            !expected.is_newer_than(live) && is_open_again(expected, live, &self.id)
        })
    }

    /// Remembers what a look at an intact object showed; answers whether people should be told.
    pub(crate) fn see(&self, key: &ObjectKey, live: &Observed) -> bool {
        let is_news = self.is_news(key, live);
        let mut expected = lock(&self.expected);
        let known = expected.get_mut(key);
        if let Some(known) = known.filter(|known| !known.is_newer_than(live)) {
            known.sight = Sight::of(live, &self.id);
        }
        is_news
    }

    /// What was last seen of an object besides our own fields.
    pub(crate) fn sight(&self, key: &ObjectKey) -> Sight {
        let expected = lock(&self.expected);
        expected
            .get(key)
            .map(|expected| expected.sight.clone())
            .unwrap_or_default()
    }

    fn is_news(&self, key: &ObjectKey, live: &Observed) -> bool {
        let expected = lock(&self.expected);
        let known = expected.get(key);
        known.is_some_and(|known| {
            let sight = Sight::of(live, &self.id);
            !known.is_newer_than(live) && known.sight != sight
        })
    }

    /// Takes everything that was noticed.
    pub(crate) fn take_noticed(&self) -> BTreeMap<ObjectKey, Noticed> {
        std::mem::take(&mut *lock(&self.noticed))
    }

    /// Puts back what has to wait.
    pub(crate) fn put_back(&self, key: ObjectKey, noticed: Noticed) {
        lock(&self.noticed).entry(key).or_insert(noticed);
    }

    /// Remembers what our apply returned.
    pub(crate) fn expect(&self, entry: &Entry, live: &Observed) {
        let expected = Expected {
            entry: entry.clone(),
            version: live.resource_version.parse().ok(),
            sight: Sight::of(live, &self.id),
        };
        lock(&self.expected).insert(entry.key.clone(), expected);
    }

    /// Expects exactly what the inventory says; used when nothing was applied in this process yet.
    pub(crate) fn expect_inventory(&self, inventory: &Inventory) {
        let mut expected = lock(&self.expected);
        expected.retain(|key, _| inventory.get(key).is_some());
        for entry in inventory.iter() {
            expected
                .entry(entry.key.clone())
                .or_insert_with(|| Expected {
                    entry: entry.clone(),
                    version: None,
                    sight: Sight::default(),
                });
        }
    }
}

fn is_open_again(expected: &Expected, live: &Observed, me: &OwnerId) -> bool {
    let now = Rivalry::over(live, me);
    expected.sight.rivalry.is_open_again(&now)
}

/// All owners, and which objects are theirs.
#[derive(Default)]
pub(crate) struct Owners {
    by_name: Mutex<HashMap<String, Arc<Owner>>>,
    by_object: Mutex<HashMap<ObjectKey, BTreeSet<String>>>,
}

impl Owners {
    /// The owner of this name, made if it is new.
    pub(crate) fn owner(&self, installation: &str, name: &str) -> Arc<Owner> {
        lock(&self.by_name)
            .entry(name.to_owned())
            .or_insert_with(|| Arc::new(Owner::new(OwnerId::new(installation, name))))
            .clone()
    }

    /// Forgets an owner that is gone.
    pub(crate) fn forget(&self, name: &str) {
        lock(&self.by_name).remove(name);
        self.follow(name, &BTreeSet::new());
    }

    /// Sets which objects' sightings an owner gets.
    pub(crate) fn follow(&self, name: &str, objects: &BTreeSet<ObjectKey>) {
        let mut index = lock(&self.by_object);
        index.retain(|key, owners| {
            if !objects.contains(key) {
                owners.remove(name);
            }
            !owners.is_empty()
        });
        for key in objects {
            index
                .entry(key.clone())
                .or_default()
                .insert(name.to_owned());
        }
    }

    /// Hands a sighting to the owners of the object; answers those that have something to do.
    pub(crate) fn dispatch(&self, sighting: Sighting) -> Vec<String> {
        match sighting {
            Sighting::Seen { object, .. } => {
                let key = object.key.clone();
                self.notify(&key, &Glimpse::Live(Box::new(object)))
            }
            Sighting::Gone { key, uid } => self.notify(&key, &Glimpse::Gone(Some(uid))),
            Sighting::Listed { kind, keys } => {
                let missing: Vec<ObjectKey> = lock(&self.by_object)
                    .keys()
                    .filter(|key| key.group_kind() == kind && !keys.contains(*key))
                    .cloned()
                    .collect();
                missing
                    .iter()
                    .flat_map(|key| self.notify(key, &Glimpse::Gone(None)))
                    .collect()
            }
            Sighting::Blind { .. } | Sighting::Sighted { .. } => Vec::new(),
        }
    }

    /// The owners that have objects of a kind.
    pub(crate) fn with_kind(&self, kind: &GroupKind) -> BTreeSet<String> {
        let index = lock(&self.by_object);
        let of_kind = index.iter().filter(|(key, _)| key.group_kind() == *kind);
        of_kind
            .flat_map(|(_, owners)| owners.iter().cloned())
            .collect()
    }

    fn notify(&self, key: &ObjectKey, glimpse: &Glimpse) -> Vec<String> {
        let names = lock(&self.by_object).get(key).cloned().unwrap_or_default();
        let by_name = lock(&self.by_name);
        names
            .into_iter()
            .filter(|name| {
                by_name
                    .get(name)
                    .is_some_and(|owner| owner.notice(key, glimpse.clone()))
            })
            .collect()
    }
}
