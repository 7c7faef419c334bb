//! Journeys: the correlator that joins events to what happened to one piece of a byte stream, or to one datagram.
//!
//! **The problem.** No identifier travels with a byte through the stack. Buffers are cloned, split, merged and used again
//! within microseconds; one `send` becomes many packets and many packets one `recv`.
//!
//! **The choice.** Every TCP event is a range of the byte stream of one direction of a connection. All ranges together cut the
//! stream into pieces, each inside one event at every hop: a piece is a journey. Both ends share the list if both are
//! in the capture. Datagrams are known by IP identification and length, by their buffer while it is hot, and in the
//! sockets by their order. Everything is bounded: pieces in flight, their age, flows, threads, queues.
//!
//! **Known limits.**
//! - All events must share one clock: one host. The halves of two hosts meet in [`crate::join`].
//! - The tuple must be the same at both ends: through NAT the halves stay apart here, and meet in [`crate::join`].
//! - Two pairs of namespaces with equal (not loopback) addresses and ports are taken for one.
//! - On a node that also forwards the flow, the first packet can take a forwarder's times for its own.
//! - Of a journey sent more than [`MAX_COPIES`] times, the first copies, those that arrived and the newest are kept.
//! - Bytes read by `splice` have no read event; they end as [`Verdict::ReadUnseen`] once later ones are read.
//! - Datagrams read after a lost event may be matched one too early. Until the reader sleeps or the queue runs empty they are
//!   broken by that loss, and nothing is measured from them.
//! - An end of which every event so far was lost is taken for one that is not in the capture.

mod copies;
mod correlator;
mod datagrams;
mod desk;
mod directory;
mod fragments;
mod hosts;

#[allow(clippy::module_inception)] // one idea, one file, named after it
mod journey;
mod limits;
mod losses;
mod passes;
mod piece;
mod pieces;
mod readers;
mod rules;
mod rungs;
mod selection;
mod sockets;
mod stream;
mod tcp;
mod udp;
mod verdict;

pub use copies::{CopyDrop, Resend, SentCopy};
pub use correlator::Correlator;
pub use journey::{Across, Journey, Latency, Presence};
pub use limits::{Counters, Limits};
pub use passes::MAX_COPIES;
pub use rungs::{Rung, Rungs, Who};
pub use verdict::Verdict;
