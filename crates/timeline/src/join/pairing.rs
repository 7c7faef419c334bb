//! The result for each connection: joined, or the reason why not.

use magscope_core::flow::{Endpoint, Proto};
use serde::Serialize;
use std::fmt;

/// The reason for halves of a connection without another half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unjoined {
    /// No recording has the other end, neither under these addresses nor, by its packets, under others.
    NoOtherEnd,
    /// No recording has the other end under these addresses, and its packets have no key to find it under
    /// others.
    NoKey,
    /// A loopback address: there is no other host.
    Loopback,
    /// The other end was recorded, but not these packets of it.
    NotSeenThere,
}

impl fmt::Display for Unjoined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoOtherEnd => {
                "no recording has the other end, under these addresses or, by its packets, under others"
            }
            Self::NoKey => {
                "no recording has these addresses, and datagrams without an IP identification cannot be known \
                 under others"
            }
            Self::Loopback => "a loopback address is another host in every recording",
            Self::NotSeenThere => "the other end was recorded, but not these packets of it",
        })
    }
}

/// One direction of a connection over the recordings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pairing {
    /// TCP or UDP.
    #[serde(serialize_with = "as_text")]
    pub proto: Proto,
    /// Source and destination from the sender's side; from the receiver's if only it was seen.
    pub from: Endpoint,
    /// See `from`.
    pub to: Endpoint,
    /// Source and destination from the receiver's side, if an address translator changed them.
    pub translated: Option<(Endpoint, Endpoint)>,
    /// Recordings of the sender's and the receiver's half.
    pub nodes: (Option<u16>, Option<u16>),
    /// Journeys joined.
    pub joined: u64,
    /// Of these, joined by an identification that may have turned: another packet may be the one that arrived.
    pub uncertain: u64,
    /// Halves of the sender without another half.
    pub tx_only: u64,
    /// Halves of the receiver without another half.
    pub rx_only: u64,
    /// The reason, if there are any.
    pub because: Option<Unjoined>,
}

fn as_text<T: fmt::Display, S: serde::Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}
