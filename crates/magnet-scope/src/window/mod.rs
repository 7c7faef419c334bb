//! The window's interface to files: opening, reading, writing and settings.

mod compared;
mod feeds;
mod files;
mod settings;

pub use feeds::{feed_followed, feed_live};
pub use files::Files;

use crate::failure;
use magscope_gui::Trouble;

/// An error for a dialog.
pub fn trouble(error: &anyhow::Error) -> Trouble {
    let (what, why, next) = failure::parts(error);
    Trouble { what, why, next }
}
