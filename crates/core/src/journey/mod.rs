//! Journeys: the correlator that joins events to the history of one piece of a byte stream, or of one datagram.
//!
//! **The problem.** No identifier accompanies a byte through the stack. Buffers are cloned, split, merged and
//! used again within microseconds; one `send` becomes many packets and many packets one `recv`.
//!
//! **The choice.** Every TCP event is a range of the byte stream of one direction of a connection. All ranges
//! together cut the stream into pieces, each inside one event at every hop: a piece is a journey. Both ends
//! share the list if both are in the capture. Datagrams are identified by IP identification and length, by
//! their buffer while it is hot, and in the sockets by their order. The buffer also proves that a node between
//! the ends passes a packet on, and that it changed its addresses. Everything is bounded: pieces in flight, their
//! age, flows, threads, queues.
//!
//! **Known limits.**
//! - All events must share one clock: one host. The crate `magscope-timeline` joins the halves of two hosts.
//! - The halves on both sides of a translator outside the capture stay separate here, and that crate joins them.
//! - Connections of several pairs of namespaces with equal addresses and ports are separated only with a hop
//!   that forwarders do not pass. Bytes whose pair is unproven stay two halves.
//! - Packets between two ends outside the capture are counted and make no journey.
//! - Of a journey sent more than [`MAX_COPIES`] times, the first copies, those that arrived and the newest are
//!   kept.
//! - Bytes read by `splice` have no read event; they end as [`Verdict::ReadUnseen`] after a read of later
//!   bytes.
//! - Datagrams read after a lost event may be matched one too early. Until the reader sleeps or the queue is
//!   empty, they are broken by that loss and not measured.
//! - An end with all events lost so far is treated as one outside the capture.

mod across;
mod buffers;
mod consumer;
mod copies;
mod correlator;
mod datagrams;
mod directory;
mod drops;
mod entry;
mod forwarder;
mod forwarding;
mod fragments;
mod head_of_line;
mod hidden;
mod hosts;
mod ip_ids;
mod joined;
mod state;

#[allow(clippy::module_inception)] // one idea, one file, named after it
mod journey;
mod limits;
mod losses;
mod namesakes;
mod outer;
mod passes;
mod passing_segments;
mod piece;
mod pieces;
mod proofs;
mod queue;
mod read_order;
mod readers;
mod receive_window;
mod rules;
mod rungs;
mod selection;
mod sockets;
mod stream;
mod tcp;
mod transits;
mod tunnels;
mod udp;
mod unread;
mod verdict;

pub use across::Across;
pub use consumer::Consumer;
pub use copies::{CopyDrop, Resend, SentCopy};
pub use correlator::Correlator;
pub use forwarder::{Forwarder, MAX_FORWARDERS};
pub use head_of_line::HeadOfLine;
pub use ip_ids::IpIds;
pub use journey::{Journey, Latency, Presence};
pub use limits::{Counters, Limits};
pub use passes::MAX_COPIES;
pub use proofs::Proofs;
pub use rungs::{Rung, Rungs, ThreadRef};
pub use state::tcp_half_wait_ns;
pub use verdict::Verdict;
