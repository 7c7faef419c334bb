//! Parts of agents and relays other than the memory and its server.

mod bus;
mod health;
mod listen;
mod socket;
mod watches;

pub use bus::BusArgs;
pub use health::Health;
pub use listen::ListenArgs;
pub use socket::Socket;
pub use watches::{WatchArgs, WatchServer};
