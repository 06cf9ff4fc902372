//! Free loopback ports.

use std::{
    io,
    net::{Ipv4Addr, TcpListener},
};

/// How many ports are tried when somebody else is faster each time.
const TRIES: u32 = 5;

/// Which port a server shall have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Port {
    /// Any free one.
    #[default]
    Any,
    /// This one if it is free.
    Prefer(u16),
    /// This one or none.
    Only(u16),
}

impl Port {
    pub(super) fn tries(self) -> u32 {
        match self {
            Self::Any | Self::Prefer(_) => TRIES,
            Self::Only(_) => 1,
        }
    }

    /// The port for the next try, after this many failed ones.
    pub(super) fn choose(self, failed: u32) -> io::Result<u16> {
        match self {
            Self::Only(port) => Ok(port),
            Self::Prefer(port) if failed == 0 => Ok(port),
            Self::Prefer(_) | Self::Any => free(),
        }
    }
}

/// A port that was free a moment ago. Somebody else may take it before the server binds it, so
/// the caller looks for "address already in use" and asks again.
fn free() -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}
