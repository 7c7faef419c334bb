//! Reading: files to batches, whatever is in the files.

mod cursor;
mod damage;
mod rebuild;
mod replay;
mod scan;
mod segment;
mod session;

pub use damage::Damage;
pub use replay::Replay;
pub use session::Session;
