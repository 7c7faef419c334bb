//! A bus between agents and viewers: NATS `JetStream`, for a fleet larger than a tree of relays should carry.
//!
//! An agent's side is `publish`, a thread that reads the agent's memory as any viewer does: what the bus does not take waits there, and is
//! forgotten there, counted. `split` cuts the stream by wire-key buckets (with `reads`, for sockets without a peer), so that a worker can take
//! some of them and still have both ends of each of their connections. A viewer's side is `subscribe`, which makes a source of each host;
//! `gather` puts rounds together again and knows what is missing, `place` is where its hosts come in. `subject` has the names, `round` what a header says, `server` who is talked to.

mod gather;
mod place;
mod publish;
mod reads;
mod round;
mod server;
mod source;
mod split;
mod subject;
mod subscribe;

pub use place::{BusPlace, BusWish};
pub use publish::{BusStatus, Keep, Publisher};
pub use server::{Server, Via};
pub use source::Subscribed;
pub use subject::Buckets;
pub use subscribe::{BusHost, Subscriber};
