//! Where programs come and ask. Nobody is asked who they are there, so it is this host's own business unless somebody says otherwise.

use crate::connect::explain;
use crate::failure::Usage;
use anyhow::Result;
use magscope_fleet::FleetError;
use std::net::{SocketAddr, TcpListener};

/// Binds to an address that is this host's own, or to any if `unprotected`. To be called before privileges are given away.
pub fn bind(at: SocketAddr, unprotected: bool) -> Result<TcpListener> {
    if !at.ip().is_loopback() && !unprotected {
        let what = format!(
            "{at} is no loopback address, and whoever reaches it is answered without being asked who it is"
        );
        return Err(Usage(format!("{what}; say `--unprotected` if that is meant")).into());
    }
    TcpListener::bind(at)
        .map_err(|error| explain(FleetError::Listen { address: at.to_string(), because: error.to_string() }))
}
