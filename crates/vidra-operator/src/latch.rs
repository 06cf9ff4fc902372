//! Something that happens once, and that others wait for.

use tokio_util::sync::CancellationToken;

/// Closed at first, open for ever once it was opened.
#[derive(Clone, Default)]
pub(crate) struct Latch(CancellationToken);

impl Latch {
    /// Opens it; answers whether it was closed until now.
    pub(crate) fn open(&self) -> bool {
        let was_closed = !self.is_open();
        self.0.cancel();
        was_closed
    }

    /// Whether it is open.
    pub(crate) fn is_open(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until it is open.
    pub(crate) async fn opened(&self) {
        self.0.cancelled().await;
    }
}
