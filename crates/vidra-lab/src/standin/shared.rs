//! What the handle, the server and the scripts share.

use std::sync::Mutex;

use tokio::runtime::Handle;

use super::{
    events::Event,
    faults::Armed,
    journal::Journal,
    lock,
    render::{Change, Rendered, Subject},
    webhook::{self, Subscription},
    world::World,
};

pub(super) struct Shared {
    pub(super) world: Mutex<World>,
    pub(super) journal: Mutex<Journal>,
    pub(super) faults: Mutex<Vec<Armed>>,
    pub(super) subscriptions: Mutex<Vec<Subscription>>,
    /// Where webhooks are sent from; there while the server runs.
    pub(super) runtime: Mutex<Option<Handle>>,
}

impl Shared {
    pub(super) fn new() -> Self {
        Self {
            world: Mutex::new(World::new()),
            journal: Mutex::default(),
            faults: Mutex::default(),
            subscriptions: Mutex::default(),
            runtime: Mutex::default(),
        }
    }

    /// Changes an artifact and tells those who asked to be told.
    pub(super) fn change(&self, subject: &Subject, change: &Change) -> Option<Rendered> {
        let (rendered, event) = lock(&self.world).change(subject, change);
        if let Some(event) = event {
            self.publish(&event);
        }
        rendered
    }

    fn publish(&self, event: &Event) {
        let Some(runtime) = lock(&self.runtime).clone() else {
            return;
        };
        let now = lock(&self.world).now();
        for subscription in lock(&self.subscriptions)
            .iter()
            .filter(|one| one.wants(event))
        {
            runtime.spawn(webhook::deliver(subscription.clone(), event.clone(), now));
        }
    }
}
