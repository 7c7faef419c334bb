//! Talking to a capture that runs: a socket of its owner's, one line a question, one line of JSON an answer.
//!
//! The words of a question are those of a [`magscope_probe::Setting`], and `list` and `stats`. Only the thread that
//! captures touches the capture: questions wait for it between two batches, and it answers a few each time. Nothing a peer sends
//! or leaves out holds the capture up, and nothing grows with it: [`peers::MOST`] at a time, a line of at most [`LONGEST_LINE`], a
//! time-out on both sides.

pub mod answer;
pub mod client;
mod peers;
pub mod server;

use std::path::PathBuf;
use std::time::Duration;

/// Longest question, bytes: the longest filter and some.
pub const LONGEST_LINE: u64 = 16 << 10;
/// Longest answer a client reads, bytes.
pub const LONGEST_ANSWER: u64 = 1 << 20;
/// Questions that are answered between two batches, so that asking never keeps a capture from its events.
pub const ANSWERS_A_BATCH: usize = 4;
/// How long one end waits for the other.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// How long the server waits for the capture, which may be putting a program into the kernel.
pub const CAPTURE_PATIENCE: Duration = Duration::from_secs(10);

/// Where sockets are: root's own place, or the user's where the user captures by capabilities of the file.
pub fn folders() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(|dir| PathBuf::from(dir).join("magnet-scope"));
    let all = PathBuf::from("/run/magnet-scope");
    if rustix::process::geteuid().is_root() { vec![all] } else { own.into_iter().chain([all]).collect() }
}
