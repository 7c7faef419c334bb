//! Serialises process starts and link closes.
//!
//! A new child shares every file of this process until `exec`. A link closed meanwhile stays attached, and an
//! immediate new attach would duplicate events or fail (Linux before 6.10).

use std::sync::{Mutex, MutexGuard, PoisonError};

static STARTS: Mutex<()> = Mutex::new(());

/// Lock for the start of a child, and for the close of links that may be attached again.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    STARTS.lock().unwrap_or_else(PoisonError::into_inner)
}
