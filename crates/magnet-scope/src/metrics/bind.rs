//! Listening addresses for local programs. Clients are unauthenticated, so only loopback is permitted by
//! default.

use crate::connect::explain;
use crate::failure::Usage;
use anyhow::Result;
use magscope_fleet::FleetError;
use std::net::{SocketAddr, TcpListener};

/// The kernel's buffer to one client, bytes; the kernel takes twice as much. Its own choice grows to megabytes for a client that is slow.
const SEND_BUFFER: usize = 128 << 10;

/// Binds to an address that is this host's own, or to any if `unprotected`. To be called before privileges are given away.
pub fn bind(at: SocketAddr, unprotected: bool) -> Result<TcpListener> {
    if !at.ip().is_loopback() && !unprotected {
        let what = format!(
            "{at} is no loopback address, and whoever reaches it is answered without being asked who it is"
        );
        return Err(Usage(format!("{what}; say `--unprotected` if that is meant")).into());
    }
    let listener = TcpListener::bind(at)
        .map_err(|error| explain(FleetError::Listen { address: at.to_string(), because: error.to_string() }))?;
    // Connections inherit it. Without it the kernel keeps what it keeps by itself.
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(&listener, SEND_BUFFER);
    Ok(listener)
}
