//! The window's world: what it opens, reads, writes and remembers.

mod compared;
mod feeds;
mod files;
mod settings;

pub use feeds::{feed_followed, feed_live};
pub use files::Files;

use crate::failure;
use magscope_gui::Trouble;

/// An error as a dialog shows it.
pub fn trouble(error: &anyhow::Error) -> Trouble {
    let (what, why, next) = failure::parts(error);
    Trouble { what, why, next }
}
