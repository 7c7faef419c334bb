//! Ctrl-C and SIGTERM end a capture at the next batch, so that captured data is still reported.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set by a signal; all loops check it.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A flag set by SIGINT, SIGTERM and SIGHUP. A second signal ends the process at once.
    pub fn on_signals() -> Result<Self> {
        let stop = Stop::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // The order matters: the second signal sees the flag of the first.
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, stop.0.clone())
                .and_then(|_| signal_hook::flag::register(signal, stop.0.clone()))
                .context("cannot install a signal handler")?;
        }
        Ok(stop)
    }

    /// Requests a stop.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// True if a stop was requested.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
