//! Parts of agents and relays other than the memory and its server.

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
