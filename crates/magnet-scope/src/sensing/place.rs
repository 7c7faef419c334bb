//! Listening addresses for local programs. Clients are unauthenticated, so only loopback is permitted by
//! default.

use crate::connect::explain;
use crate::failure::Usage;
use anyhow::Result;
use magscope_fleet::FleetError;
use std::net::{SocketAddr, TcpListener};

/// Binds to a loopback address, or to any if `unprotected`. Called before privileges are dropped.
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
