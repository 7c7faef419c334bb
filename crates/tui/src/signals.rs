//! Signals as flags, looked at between frames.

use crate::error::TuiError;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP};
use signal_hook::{SigId, flag, low_level};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Signals as flags. Handlers are taken off again when it goes.
pub struct Signals {
    end: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    resumed: Arc<AtomicBool>,
    ids: Vec<SigId>,
}

impl Signals {
    /// Catches what ends, stops and resumes a program.
    pub fn catch() -> Result<Self, TuiError> {
        let mut signals =
            Signals { end: Arc::default(), stop: Arc::default(), resumed: Arc::default(), ids: Vec::new() };
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // Asked a second time, it ends at once, wherever it hangs.
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

    /// Whether the program was asked to end.
    pub fn end(&self) -> bool {
        self.end.load(Ordering::Relaxed)
    }

    /// Whether the program was asked to stop since this was last called.
    pub fn stop(&self) -> bool {
        self.stop.swap(false, Ordering::Relaxed)
    }

    /// Whether the program was resumed since this was last called: the terminal may have been used by others.
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
