//! Control of a running capture: a socket of its owner, with one line per question and one line of JSON per
//! answer.
//!
//! Questions are [`magscope_probe::Setting`]s in text form, `list` and `stats`. Only the capturing thread
//! accesses the capture: it answers a few questions between two batches. No peer can block the capture or
//! exhaust memory: the limits are [`peers::MOST`] peers, [`LONGEST_LINE`] bytes per line, and a timeout on both
//! sides.

pub mod answer;
pub mod client;
mod peers;
pub mod server;

use std::path::PathBuf;
use std::time::Duration;

/// Maximum size of a question, bytes: the longest filter plus a margin.
pub const LONGEST_LINE: u64 = 16 << 10;
/// Maximum size of an answer, bytes.
pub const LONGEST_ANSWER: u64 = 1 << 20;
/// Maximum number of questions between two batches, so that questions never delay events.
pub const ANSWERS_A_BATCH: usize = 4;
/// Timeout of one end for the other.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Timeout of the server for the capture, which may be loading a program.
pub const CAPTURE_PATIENCE: Duration = Duration::from_secs(10);

/// Directories of sockets: root's, or the user's if the capture runs with file capabilities.
pub fn folders() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(|dir| PathBuf::from(dir).join("magnet-scope"));
    let all = PathBuf::from("/run/magnet-scope");
    if rustix::process::geteuid().is_root() { vec![all] } else { own.into_iter().chain([all]).collect() }
}
