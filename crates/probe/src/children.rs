//! A child that is being started has every file of this process until it runs its program. A link that is closed meanwhile stays
//! attached until then, and what attaches again at once would see each event twice, or be refused (Linux before 6.10).

use std::sync::{Mutex, MutexGuard, PoisonError};

static STARTS: Mutex<()> = Mutex::new(());

/// To be held while a child is started, and while links are closed that may be attached again.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    STARTS.lock().unwrap_or_else(PoisonError::into_inner)
}
