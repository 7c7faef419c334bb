//! Readers of untrusted files.

mod cursor;
mod damage;
mod rebuild;
mod replay;
mod reseal;
mod scan;
mod segment;
mod session;

pub use damage::Damage;
pub use replay::Replay;
pub use reseal::reseal;
pub use session::Session;
