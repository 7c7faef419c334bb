//! Agents and viewers: live captures of several hosts over the network.
//!
//! An agent stores the last minutes of its capture as packets ([`memory`](Memory)) and serves them by Arrow
//! Flight. `server` answers calls, `feed` is one client's stream, `derived` one of journeys or sums. `client_filter`
//! applies the client's filters, `rows` its grants ([`Grants`]), and `owners` maps sockets and flows to
//! processes.
//!
//! A viewer reads an agent as any other source ([`Remote`]). For many agents and viewers, `bus` connects
//! publishers ([`Publisher`]) and subscribers ([`Subscriber`]). `link`, `dial` and [`pki`] authenticate peers.
//! `connections` limits their number ([`ConnectionLimiter`]), `readers` the memory of all readers.
//!
//! # Modules
//!
//! - Agent: `memory` stores packets; `feed` is one client's stream; `client_filter` applies the client's request
//!   (`request`) and grants (`grants`); `server` answers Flight calls; `link` authenticates clients.
//! - Viewer: `dial` and `remote` read an agent as a source; `inbox` queues; `discovery` discovers hosts at the
//!   start and later; `address`.
//! - `pki`: makes and reads certificates.
//! - `bus/`: `publish` reads the memory as a viewer does; `split` divides the stream by connection into 64
//!   buckets (pure); `subscribe` and `gather` reassemble it and count losses.

mod address;
mod bus;
mod client_filter;
mod connections;
mod derived;
mod dial;
mod discovery;
mod error;
mod feed;
mod grants;
mod hosts;
mod inbox;
mod io;
mod link;
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

pub use address::{Address, PORT};
pub use bus::{
    Buckets, BusHost, BusReadOptions, BusStatus, Keep, Publisher, Server, Subscribed, Subscriber, Via,
};
pub use connections::{ConnectionLimiter, ConnectionLimits, ConnectionPermit, address_key};
pub use dial::{Broke, Credentials, Dialed, dial};
pub use discovery::{Host, HostDiscovery};
pub use error::{FleetError, Likely};
pub use grants::{BadGrant, Grants, NoGrant};
pub use hosts::Hosts;
pub use link::{Listen, Reporter};
pub use memory::{Holds, Memory, Next, Reader, Start, StoredPacket, Writer};
pub use readers::READER_BYTES;
pub use remote::{Notice, ReadOptions, Remote, StartAt, Ticker};
pub use request::{Request, StreamContent, Terms};
pub use server::{About, AboutHost, serve};
