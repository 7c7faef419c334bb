//! What an agent is made of beside its capture and the library that serves it.

mod health;
mod socket;

pub use health::Health;
pub use socket::Socket;
