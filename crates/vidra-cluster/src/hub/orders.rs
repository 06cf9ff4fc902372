//! What the hub tells a running watch. A level, not a queue: nothing can be lost or pile up.

use tokio::sync::watch;

use super::sighting::WatchedKind;

/// The present orders.
#[derive(Debug, Clone)]
pub(super) struct Orders {
    /// The resources through which the kind is needed; never empty.
    pub(super) candidates: Vec<WatchedKind>,
    /// How often the watch was told not to wait any longer.
    pub(super) rearms: u64,
    /// How often the watch was told to list anew.
    pub(super) relists: u64,
}

impl Orders {
    pub(super) fn new(candidates: Vec<WatchedKind>) -> Self {
        Self {
            candidates,
            rearms: 0,
            relists: 0,
        }
    }
}

/// One order to be obeyed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Order {
    /// Nobody needs the resource in use any longer; take this one.
    Switch(WatchedKind),
    /// List anew.
    Relist,
    /// Do not wait any longer.
    Rearm,
}

/// The watch's end of its orders.
#[derive(Debug)]
pub(super) struct Mailbox {
    receiver: watch::Receiver<Orders>,
    rearms: u64,
    relists: u64,
}

impl Mailbox {
    pub(super) fn new(receiver: watch::Receiver<Orders>) -> Self {
        Self {
            receiver,
            rearms: 0,
            relists: 0,
        }
    }

    /// A resource that is needed and was not tried yet.
    pub(super) fn untried(&self, tried: &[WatchedKind]) -> Option<WatchedKind> {
        let orders = self.receiver.borrow();
        orders
            .candidates
            .iter()
            .find(|candidate| !tried.contains(candidate))
            .cloned()
    }

    /// Waits for an order that concerns a busy watch. `Rearm` does not; it stays for the next
    /// pause, because what is going on may have begun before there was something to see.
    pub(super) async fn while_busy(&mut self, current: &WatchedKind) -> Order {
        loop {
            if let Some(order) = self.urgent(current) {
                return order;
            }
            self.changed().await;
        }
    }

    /// Waits for any order.
    pub(super) async fn while_pausing(&mut self, current: &WatchedKind) -> Order {
        loop {
            if let Some(order) = self.urgent(current).or_else(|| self.rearm()) {
                return order;
            }
            self.changed().await;
        }
    }

    fn urgent(&mut self, current: &WatchedKind) -> Option<Order> {
        let orders = self.receiver.borrow_and_update();
        if !orders.candidates.contains(current) {
            return orders.candidates.first().cloned().map(Order::Switch);
        }
        let is_new = orders.relists != self.relists;
        self.relists = orders.relists;
        is_new.then_some(Order::Relist)
    }

    fn rearm(&mut self) -> Option<Order> {
        let rearms = self.receiver.borrow().rearms;
        let is_new = rearms != self.rearms;
        self.rearms = rearms;
        is_new.then_some(Order::Rearm)
    }

    async fn changed(&mut self) {
        if self.receiver.changed().await.is_err() {
            // The hub has let go of us and has cancelled us as well.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::{super::registry::tests::watched, *};

    #[test]
    fn a_rearm_during_work_is_kept_for_the_next_pause_and_counts_once() {
        let order = watched("v1", "Order");
        let (sender, receiver) = watch::channel(Orders::new(vec![order.clone()]));
        let mut mailbox = Mailbox::new(receiver);
        sender.send_modify(|orders| orders.rearms += 1);
        assert_eq!(mailbox.while_busy(&order).now_or_never(), None);
        assert_eq!(
            mailbox.while_pausing(&order).now_or_never(),
            Some(Order::Rearm)
        );
        assert_eq!(mailbox.while_pausing(&order).now_or_never(), None);
    }

    #[test]
    fn a_watch_of_a_version_that_nobody_needs_any_longer_switches() {
        let (old, new) = (watched("v1beta1", "Order"), watched("v1", "Order"));
        let (sender, receiver) = watch::channel(Orders::new(vec![new.clone(), old.clone()]));
        let mut mailbox = Mailbox::new(receiver);
        assert_eq!(mailbox.while_busy(&old).now_or_never(), None);
        sender.send_modify(|orders| orders.candidates = vec![new.clone()]);
        assert_eq!(
            mailbox.while_busy(&old).now_or_never(),
            Some(Order::Switch(new))
        );
    }

    #[test]
    fn a_relist_is_obeyed_once() {
        let order = watched("v1", "Order");
        let (sender, receiver) = watch::channel(Orders::new(vec![order.clone()]));
        let mut mailbox = Mailbox::new(receiver);
        sender.send_modify(|orders| orders.relists += 1);
        assert_eq!(
            mailbox.while_busy(&order).now_or_never(),
            Some(Order::Relist)
        );
        assert_eq!(mailbox.while_pausing(&order).now_or_never(), None);
    }
}
