//! ULM (draft-abela-ulm-05) in `NetLogger`'s dialect, and `NetLogger`'s later *best practices* lines (BP): one
//! line per event.

mod counted;
mod events;
mod field;
mod groups;
mod hosts;
mod read;
mod reasons;
mod rejoin;
mod threads;
mod words;
mod write;

pub use events::Events;
pub use read::{BadLine, Line, parse};
pub use words::Dialect;
pub use write::NetLogger;
