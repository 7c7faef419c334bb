//! Key bindings as data: chords, and the map from chords to commands.

mod chord;
mod map;

pub use chord::{Chord, Code, HeldModifiers};
pub use map::{KeyMap, KeyMapError};
