//! What only the owner of the window can do.

use crate::world::Format;
use std::path::PathBuf;

/// What only the owner of the window can do.
#[derive(Clone, Debug, PartialEq)]
pub enum Wish {
    /// Open recordings, on one time line.
    Open(Vec<PathBuf>),
    /// Compare what is open with these.
    Compare(Vec<PathBuf>),
    /// Write the picture as PNG.
    Png(PathBuf),
    /// Write the picture as SVG.
    Svg(PathBuf),
    /// Write what is selected: the stretch between these instants.
    Export {
        /// How.
        format: Format,
        /// Where to.
        to: PathBuf,
        /// First instant.
        from_ns: u64,
        /// Last instant.
        to_ns: u64,
    },
    /// Read no further than it has (true), or go on.
    Idle(bool),
    /// Close what is open.
    Close,
}
