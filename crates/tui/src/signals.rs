//! Signals as flags, checked between frames.

use crate::error::TuiError;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP};
use signal_hook::{SigId, flag, low_level};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Signals as flags. A drop removes the handlers.
pub struct Signals {
    end: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    resumed: Arc<AtomicBool>,
    ids: Vec<SigId>,
}

impl Signals {
    /// Catches signals that end, stop and resume a program.
    pub fn catch() -> Result<Self, TuiError> {
        let mut signals =
            Signals { end: Arc::default(), stop: Arc::default(), resumed: Arc::default(), ids: Vec::new() };
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // A second signal ends the program at once.
            let id = flag::register_conditional_shutdown(signal, 1, Arc::clone(&signals.end));
            signals.ids.push(id.map_err(TuiError::Signals)?);
            let id = flag::register(signal, Arc::clone(&signals.end)).map_err(TuiError::Signals)?;
            signals.ids.push(id);
        }
        let stop = flag::register(SIGTSTP, Arc::clone(&signals.stop)).map_err(TuiError::Signals)?;
        signals.ids.push(stop);
        let resumed = flag::register(SIGCONT, Arc::clone(&signals.resumed)).map_err(TuiError::Signals)?;
        signals.ids.push(resumed);
        Ok(signals)
    }

    /// True after a request to end.
    pub fn end(&self) -> bool {
        self.end.load(Ordering::Relaxed)
    }

    /// True if a stop was requested since the last call.
    pub fn stop(&self) -> bool {
        self.stop.swap(false, Ordering::Relaxed)
    }

    /// True if the program was resumed since the last call: other programs may have used the terminal.
    pub fn resumed(&self) -> bool {
        self.resumed.swap(false, Ordering::Relaxed)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            low_level::unregister(id);
        }
    }
}
