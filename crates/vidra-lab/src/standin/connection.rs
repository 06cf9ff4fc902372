//! Connections that end without a word after a crash, as those of the real server do.
//!
//! The answer carries no `connection: close`: a client that keeps the connection for its next
//! request finds it closed.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, ready},
};

use axum::{
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Zero is a connection that goes on.
const ENDING: u8 = 1;
const ANSWERED: u8 = 2;

/// Ends a connection once the answer in work is written.
#[derive(Clone, Debug, Default)]
pub(super) struct Ending(Arc<AtomicU8>);

impl Ending {
    pub(super) fn after_this_answer(&self) {
        self.0.store(ENDING, Ordering::SeqCst);
    }
}

/// A listener whose connections can be ended.
pub(super) struct Endable<L>(pub(super) L);

impl<L: Listener> Listener for Endable<L> {
    type Io = Connection<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, address) = self.0.accept().await;
        (
            Connection {
                stream,
                ending: Ending::default(),
            },
            address,
        )
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.0.local_addr()
    }
}

impl<L: Listener> Connected<IncomingStream<'_, Endable<L>>> for Ending {
    fn connect_info(stream: IncomingStream<'_, Endable<L>>) -> Self {
        stream.io().ending.clone()
    }
}

/// A connection that pretends that the client is gone, once it shall end.
pub(super) struct Connection<S> {
    stream: S,
    ending: Ending,
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ending.0.load(Ordering::SeqCst) == ANSWERED {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes));
        // The answer of a crash is short and written at once.
        let (from, to) = (ENDING, ANSWERED);
        let ended = self
            .ending
            .0
            .compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst);
        if ended.is_ok() {
            // Reading waits for the client, which has nothing to say; it must look again.
            context.waker().wake_by_ref();
        }
        Poll::Ready(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
