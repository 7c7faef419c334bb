//! Requests to the owner of the window.

use crate::world::Format;
use std::path::PathBuf;

/// A request to the owner of the window.
#[derive(Clone, Debug, PartialEq)]
pub enum HostRequest {
    /// Open recordings, on one time line.
    Open(Vec<PathBuf>),
    /// Compare what is open with these.
    Compare(Vec<PathBuf>),
    /// Write the picture as PNG.
    Png(PathBuf),
    /// Write the picture as SVG.
    Svg(PathBuf),
    /// Export the selection between these instants.
    Export {
        /// File format.
        format: Format,
        /// Target file.
        to: PathBuf,
        /// First instant.
        from_ns: u64,
        /// Last instant.
        to_ns: u64,
    },
    /// Pause (true) or resume reading the rest of a recording.
    Idle(bool),
    /// Close what is open.
    Close,
}
