//! Agents and their viewers: captures of several hosts, over the network, live.
//!
//! An agent keeps the last minutes of its capture as packets ([`memory`](Memory)) and serves them by Arrow Flight: `server` answers,
//! `feed` is one client's stream, `derived` one of journeys or sums, `sieve` what that client asked for, `rows` what it
//! may see of that ([`Grants`]), `owners` whose sockets and flows are. A viewer reads an agent as any
//! other source ([`Remote`]). Where many agents and viewers meet, `bus` stands between them: what an agent publishes ([`Publisher`]) and a viewer takes from there
//! ([`Subscriber`]). Who may connect is a matter of `link`, `dial` and [`pki`], how many of `connections` ([`ConnectionLimiter`]), and what
//! all readers may take of `readers`.
//!
//! # Modules
//!
//! - Agent: `memory` keeps packets; `feed` is one client's stream; `sieve` applies what the client asked for (`request`) and may see
//!   (`grants`); `server` answers Flight calls; `link` decides who is let in.
//! - Viewer: `dial` and `remote` read an agent as a source; `inbox` queues; `lobby` discovers hosts at the start and later; `address`.
//! - `pki`: makes and reads certificates.
//! - `bus/`: `publish` reads the memory as a viewer does; `split` divides the stream by connection into 64 buckets (pure); `subscribe` and
//!   `gather` put it together again and count what is missing.

mod address;
mod bus;
mod connections;
mod derived;
mod dial;
mod error;
mod feed;
mod grants;
mod hosts;
mod inbox;
mod io;
mod link;
mod lobby;
mod log;
mod memory;
mod outbox;
mod owners;
pub mod pki;
mod readers;
mod remote;
mod request;
mod rows;
mod server;
mod sieve;

pub use address::{Address, PORT};
pub use bus::{Buckets, BusHost, BusStatus, BusWish, Keep, Publisher, Server, Subscribed, Subscriber, Via};
pub use connections::{ConnectionLimiter, ConnectionPermit, Most, address_key};
pub use dial::{Broke, Credentials, Dialed, dial};
pub use error::{FleetError, Likely};
pub use grants::{BadGrant, Grants, NoGrant};
pub use hosts::Hosts;
pub use link::{Listen, Tell};
pub use lobby::{Host, Lobby};
pub use memory::{Holds, Kept, Memory, Next, Reader, Start, Writer};
pub use readers::READER_BYTES;
pub use remote::{From, News, Remote, Ticker, Wish};
pub use request::{Give, Request, Terms};
pub use server::{About, AboutHost, serve};
