//! Free loopback ports.

use std::{
    io,
    net::{Ipv4Addr, TcpListener},
};

/// A port that was free a moment ago. Somebody else may take it before the server binds it, so
/// the caller looks for "address already in use" and asks again.
pub(super) fn free() -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}
