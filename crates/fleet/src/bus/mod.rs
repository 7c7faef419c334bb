//! A bus between agents and viewers: NATS `JetStream`, for fleets that are too large for a tree of relays.
//!
//! On the agent, the thread `publish` reads the memory like any viewer. Data that the bus does not accept stays
//! there until the memory deletes and counts it. `split` divides the stream into wire-key buckets (with
//! `reads`, for sockets without a peer). A worker can therefore take some buckets and still have both ends of
//! each connection.
//!
//! On the viewer, `subscribe` makes a source of each host, `gather` reassembles rounds and counts losses, and
//! `place` discovers hosts. `subject` defines names, `round` the headers, `server` the connection.

mod gather;
mod pieces;
mod place;
mod publish;
mod reads;
mod round;
mod server;
mod source;
mod split;
mod subject;
mod subscribe;

pub use place::{BusPlace, BusReadOptions};
pub use publish::{BusStatus, Keep, Publisher};
pub use server::{Server, Via};
pub use source::Subscribed;
pub use subject::Buckets;
pub use subscribe::{BusHost, Subscriber};
