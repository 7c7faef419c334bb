//! Exchanges: a request and its response, found by the order in which two programs send and read.
//!
//! **The problem.** People ask why a request was slow. The kernel has no requests, only bytes, and the payload
//! is often encrypted.
//!
//! **The choice.** The journeys of a connection have every byte with the moment its sender sent it and the moment its
//! reader read it. A program that has read an answer and sends again begins a new request. So the order of sends
//! and reads at the two ends cuts the streams into exchanges, for any protocol and without a byte of payload. Each
//! exchange has a [`Grade`], which states what that order proves. Only the grade `turn` has a latency.
//!
//! **The parts.** The request's transfer ends when the responder has read its last byte. The responder's time
//! ends with its first byte of the response, whose transfer ends when the requester has read its last byte. The three
//! parts add up to the whole.
//!
//! **Known limits.**
//! - A turn can hold several requests of the protocol. Their number is unknown without payload.
//! - `100 Continue` that the requester waits for makes two exchanges of one request.
//! - A message that the responder sends by itself belongs to the response before it, unless a pause longer than the
//!   answer's own time (at least [`PAUSE_NS`]) shows it: then the exchange is `streamed`.
//! - With one end in the capture, bytes that crossed in flight are not seen. [`View`] names the end.
//! - A capture that began in the middle of a connection knows who asks by the ports only.
//! - Bytes that are never read have a journey only when the correlator gives them up. What both sockets had accepted
//!   for sending shows that they exist; the last exchange of their connection waits for them. Without packets in the
//!   capture, a single byte looks like a FIN.
//! - UDP: the order of the sends gives each datagram its position.

mod arrivals;
mod best;
mod builder;
mod connection;
mod end;
pub mod example;
#[allow(clippy::module_inception)] // one idea, one file, named after it
mod exchange;
mod filter;
#[cfg(test)]
mod gap_tests;
mod grade;
mod group;
mod late;
#[cfg(test)]
mod late_tests;
mod losses;
mod nested;
mod openings;
mod piece;
mod reader;
#[cfg(test)]
mod silent_tests;
#[cfg(test)]
mod tests;
mod threads;
mod tls;

pub use builder::{ExchangeBuilder, ExchangeCounters, ExchangeLimits};
pub use end::{ExchangeEnd, RequesterBy, View, asks_by_port};
pub use exchange::{Exchange, ExchangePart, Transfer};
pub use filter::{ExchangeFilter, FIELDS as FILTER_FIELDS};
pub use grade::{BrokenBy, Grade, PAUSE_NS};
pub use nested::{Nested, NestedBy};
pub use reader::ExchangeReader;
pub use threads::ThreadTime;

/// Maximum memory of a connection, bytes, with the last journeys of two requests and of their responses, without journeys
/// that wait.
pub const CONNECTION_BYTES: usize = size_of::<connection::Connection>() + 4 * PIECE_BYTES;
/// Memory of a journey that waits for earlier ones, bytes.
pub const PIECE_BYTES: usize = size_of::<piece::Piece>() + size_of::<usize>();
