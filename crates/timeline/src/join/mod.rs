//! The join: matches half-journeys of one recording with those of another.
//!
//! **The problem.** A correlator uses one clock. If sender and receiver were recorded separately, each
//! correlator gives halves, and only the packets themselves show which halves belong together.
//!
//! **The choice.** The match uses fields that both hosts read from the same packet, the *wire key*. For TCP
//! these are the addresses and the sequence numbers of its bytes; for datagrams the addresses, the IP
//! identification and the length. Times are not used, so two recordings join before their clocks are aligned;
//! the joined halves are the input of the alignment. Overlapping TCP halves are cut at each other's ends. So a
//! joined journey is a piece of the common refinement of both recordings, as a journey is within one.
//!
//! If the addresses differ on the two sides but the rest of the key agrees repeatedly, an address translator is
//! on the path. The halves then join as [`Pairing::translated`]. Unjoined halves have a reason.
//!
//! Identifications of datagrams repeat after 65,536 packets. A datagram joins another turn's only as
//! ambiguous, and then bounds no clocks (see `numbering`). The same holds for recordings that do not overlap in time
//! (see `overlap`).
//!
//! **Known limits.**
//! - Datagrams without an identification (IPv6; IPv4 from unconnected sockets) are joined by order and length,
//!   and are marked as ambiguous. They bound clocks by what holds for any pairing.
//! - Datagrams that two translators change, so that both addresses differ, do not join.
//! - A middlebox that terminates the connection (a proxy) or renumbers its bytes leaves no common key.
//! - Loopback addresses mean another host in every recording and never join.

mod connection;
mod empty;
mod half;
mod joiner;
mod key;
mod merge;
mod numbering;
mod overlap;
mod pairing;
mod timeline;
mod translation;
mod unnumbered;

pub use half::Crossing;
pub use joiner::{JoinCounters, JoinLimits, Joined, Joiner};
pub(crate) use overlap::WallSpan;
pub use pairing::{Pairing, Unjoined};
pub use timeline::{OneClock, Timeline, Unaligned};
