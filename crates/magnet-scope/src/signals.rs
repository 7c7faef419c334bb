//! Ctrl-C and SIGTERM end a capture at the next batch, so that what was captured is still reported.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Raised by a signal; everything that loops looks at it.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A flag that SIGINT, SIGTERM and SIGHUP raise. A second one of them ends the process at once.
    pub fn on_signals() -> Result<Self> {
        let stop = Stop::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // The order matters: the second signal finds the flag raised by the first.
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, stop.0.clone())
                .and_then(|_| signal_hook::flag::register(signal, stop.0.clone()))
                .context("cannot install a signal handler")?;
        }
        Ok(stop)
    }

    /// Whether it is time to stop.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
