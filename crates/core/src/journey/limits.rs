//! Limits of the correlator's memory, and its counters.

use crate::hop::PATH_HOPS;
use serde::Serialize;

/// Limits of a correlator's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of journeys in flight; beyond it the oldest are evicted. `cargo bench -p magscope-core
    /// --bench memory` measures the memory of one, all tables included: 345 to 405 bytes for TCP, 425 to 485
    /// for UDP. A retransmitted one takes at most 280 more for each of its copies, the first included, of which
    /// [`super::MAX_COPIES`] are kept. The list of a single large flow takes nearly twice that while it grows.
    pub max_pieces: usize,
    /// A journey that is not finished this long after its first event is closed, nanoseconds.
    pub max_age_ns: u64,
    /// Maximum number of stored flows; beyond it those with the longest idle time are evicted. An idle flow takes
    /// at most 640 bytes. A power of two is a bad limit: the hash tables would be twice as large.
    pub max_flows: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { max_pieces: 1 << 18, max_age_ns: 10_000_000_000, max_flows: (1 << 16) / 8 * 7 }
    }
}

/// Counters of a correlator: processed and unusable events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Events pushed.
    pub events: u64,
    /// Events whose flow was not announced, or without a required flow.
    pub unattributed: u64,
    /// Two tuples with one flow id; the first one stays.
    pub flow_collisions: u64,
    /// Events at sockets of protocols other than TCP and UDP.
    pub other_protocols: u64,
    /// Events without a range: headers that could not be read.
    pub without_range: u64,
    /// Events of fragments after the first. A datagram has passed a hop when all of its fragments have.
    pub later_fragments: u64,
    /// Fragments without their first one, so that their datagram is unknown.
    pub stray_fragments: u64,
    /// Events of a namespace that only forwards the packets of this flow, or that a packet to a group only
    /// passes.
    pub forwarded: u64,
    /// Address translations that a packet's buffer proved: two pairs of addresses are one stream.
    pub translations: u64,
    /// Of those, proofs that came after bytes: some of these are two halves.
    pub late_translations: u64,
    /// Packets whose addresses changed in their buffer, and whose two streams stay apart because each has an end of
    /// its own.
    pub unproven_translations: u64,
    /// Events of forwarders beyond the largest number of a journey.
    pub forwarders_left_out: u64,
    /// Hops of outer packets of tunnels, and arrivals from them, that were tied to the packet inside.
    pub tunnelled: u64,
    /// Pieces that passed a forwarder, with both ends outside the capture; they are no journeys.
    pub passed_through: u64,
    /// Pure acknowledgements and other segments without payload, by place on the path.
    pub empty_segments: [u64; PATH_HOPS],
    /// Keep-alives: one old byte sent again to provoke an answer.
    pub keep_alives: u64,
    /// Events of bytes whose journey had ended.
    pub after_end: u64,
    /// Bytes of TCP sent again after their journey had ended, most of them because of a late acknowledgement.
    /// With the retransmissions of the journeys these are all retransmitted bytes.
    pub resent_after_end_bytes: u64,
    /// Bytes declared at `tcp.send` that the call did not accept.
    pub never_sent_bytes: u64,
    /// A new connection on a known tuple, or a jump in sequence numbers beyond any window.
    pub resets: u64,
    /// Journeys evicted because too many were in flight.
    pub evicted: u64,
    /// Flows evicted because there were too many.
    pub evicted_flows: u64,
    /// Threads, sockets or queue entries evicted because there were too many.
    pub evicted_others: u64,
    /// Events older than the watermark at their arrival.
    pub late: u64,
    /// Lost records of any cause.
    pub lost_records: u64,
    /// Datagrams whose read was matched by length or order against the evidence.
    pub ambiguous_datagrams: u64,
    /// Reads of datagrams without an earlier event.
    pub unmatched_reads: u64,
    /// Sends of datagrams without a packet event.
    pub unmatched_sends: u64,
    /// Drops of packets outside open journeys: acknowledgements, or the benign end of a copy.
    pub unmatched_drops: u64,
    /// Packets freed in a clean-up, which ends no journey ([`crate::drop_reason`]).
    pub cleaned_up: u64,
    /// Drops that are part of a journey.
    pub drops: u64,
    /// Journeys closed.
    pub journeys: u64,
}
