//! The join: half-journeys of one recording meet those of another.
//!
//! **The problem.** A correlator sees one clock. Where sender and receiver were recorded apart, each correlator gives
//! halves, and nothing but the packets themselves says which halves belong together.
//!
//! **The choice.** A half is looked for by what both hosts read from the same packet, the *wire key*: for TCP the addresses and the
//! sequence numbers of its bytes, for datagrams the addresses, the IP identification and the length. Times play no part
//! in it, so two recordings join before anything is known of their clocks; the joined halves are what clocks are
//! aligned by. TCP halves that overlap are cut at each other's ends: a joined journey is a piece of the common refinement of
//! both recordings, as a journey is within one.
//!
//! Where the addresses differ on the two sides but the rest of the key agrees again and again, something on the way translates
//! addresses, and the halves join as [`Pairing::translated`]. What does not join says why.
//!
//! **Known limits.**
//! - Datagrams without an identification (IPv6; IPv4 from unconnected sockets) are joined by order and length, and say that they
//!   are ambiguous.
//! - A middlebox that ends the connection itself (a proxy) or renumbers its bytes leaves no common key.
//! - Loopback addresses mean another host in every recording and never join.

mod connection;
mod half;
mod joiner;
mod key;
mod merge;
mod pairing;
mod timeline;
mod translation;

pub use half::Crossing;
pub use joiner::{JoinCounters, JoinLimits, Joined, Joiner};
pub use pairing::{Pairing, Unjoined};
pub use timeline::{OneClock, Timeline, Unaligned};
