//! What agents and relays are made of beside what they keep and the library that serves it.

mod bus;
mod health;
mod listen;
mod sense;
mod socket;

pub use bus::BusArgs;
pub use health::Health;
pub use listen::ListenArgs;
pub use sense::{Sense, SenseArgs};
pub use socket::Socket;
