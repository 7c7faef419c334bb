//! The kernel's own sums, in place of events or in addition to them: times from hop to hop, and traffic by
//! flow.
//!
//! A time here is not a journey's. It is the time since the hop that *the same object* passed before on this
//! host. The object is a packet, identified by its buffer and its invariant fields, or a socket with its last
//! call. A journey follows bytes; this follows their carrier. A packet that was cut, merged or copied starts
//! from zero.

use crate::flow::FlowId;
use crate::hop::{Direction, Hop, HopSet, Protocols, Role};
use serde::{Deserialize, Serialize};

/// One sum over an interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Synthesis {
    /// Begin of the interval, `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// End of the interval.
    pub to_ns: u64,
    /// The hop.
    pub hop: Hop,
    /// The subject of the sum.
    pub of: Sum,
    /// Count: passes; packets on the wire; calls.
    pub n: u64,
    /// Total: nanoseconds of passes, payload bytes of packets.
    pub sum: u64,
    /// Counts of passes in each bucket (see [`crate::histogram`]), in order, without empty buckets.
    pub buckets: Vec<(u16, u32)>,
}

/// The subject of a sum at a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Sum {
    /// Times from this hop.
    Since(Hop),
    /// Hits without a known predecessor.
    Begun,
    /// Packets of a flow.
    Flow(FlowId),
    /// Calls by the processes of a cgroup.
    Cgroup(u64),
    /// Packets dropped for this reason, by the kernel's number.
    Reason(u32),
    /// Packets or calls beyond the capacity of the kernel's map of the last three.
    Rest,
}

impl Sum {
    /// Its numbers in files.
    pub const fn numbers(self) -> (u8, u64) {
        match self {
            Self::Since(hop) => (0, hop.id() as u64),
            Self::Begun => (1, 0),
            Self::Flow(flow) => (2, flow.0),
            Self::Cgroup(id) => (3, id),
            Self::Reason(reason) => (4, reason as u64),
            Self::Rest => (5, 0),
        }
    }

    /// The sum with these numbers.
    pub fn from_numbers(kind: u8, id: u64) -> Option<Self> {
        Some(match kind {
            0 => Self::Since(Hop::from_id(u8::try_from(id).ok()?)?),
            1 => Self::Begun,
            2 => Self::Flow(FlowId(id)),
            3 => Self::Cgroup(id),
            4 => Self::Reason(u32::try_from(id).ok()?),
            5 => Self::Rest,
            _ => return None,
        })
    }
}

/// Hops that add up packets by flow: one hop per direction, the enabled one nearest to the wire. Calls by
/// cgroup and drops by reason if their hops are enabled.
pub fn rated(on: HopSet) -> HopSet {
    let counted = at_the_wire(on).iter().chain([Hop::AppSend, Hop::AppRecv, Hop::SkbDrop]);
    counted.filter(|hop| on.contains(*hop)).collect()
}

/// Per direction the enabled packet hop nearest to the wire, with the hops of other protocols beside it.
fn at_the_wire(on: HopSet) -> HopSet {
    let is_sure = move |hop: &Hop| hop.spec().has_packet && !hop.is_optional() && on.contains(*hop);
    let packets = |direction| Hop::path_in(direction).filter(is_sure);
    let of_one = |hops: &mut dyn Iterator<Item = Hop>| -> HopSet {
        let Some(nearest) = hops.next() else { return HopSet::EMPTY };
        let (layer, protocols) = (nearest.layer(), nearest.spec().protocols);
        let is_adjacent = |hop: &Hop| {
            protocols != Protocols::All && hop.layer() == layer && hop.spec().protocols != protocols
        };
        hops.filter(is_adjacent).chain([nearest]).collect()
    };
    let (tx, rx) = (of_one(&mut packets(Direction::Tx).rev()), of_one(&mut packets(Direction::Rx)));
    HopSet(tx.0 | rx.0)
}

/// Hops that cover all traffic with the fewest hits: one hop per direction, and rare hops that report an error.
pub fn outermost(on: HopSet) -> HopSet {
    let is_trouble =
        |hop: &Hop| matches!(hop.role(), Role::Drop | Role::Resend | Role::Overflow) && on.contains(*hop);
    at_the_wire(on).iter().chain(Hop::ALL.iter().copied().filter(is_trouble)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_have_their_numbers() {
        let all = [
            Sum::Since(Hop::IpOut),
            Sum::Begun,
            Sum::Flow(FlowId(7)),
            Sum::Cgroup(9),
            Sum::Reason(2),
            Sum::Rest,
        ];
        for sum in all {
            let (kind, id) = sum.numbers();
            assert_eq!(Sum::from_numbers(kind, id), Some(sum));
        }
        assert_eq!((Sum::from_numbers(6, 0), Sum::from_numbers(0, 999)), (None, None));
    }

    #[test]
    fn flows_are_rated_at_one_hop_each_way() {
        let on = [Hop::IpOut, Hop::DevQueue, Hop::IpPre, Hop::TcpRecv, Hop::AppRecv].into_iter().collect();
        let at: Vec<Hop> = rated(on).iter().collect();
        assert_eq!(at, [Hop::DevQueue, Hop::IpPre, Hop::AppRecv]);
        let most = outermost(HopSet::all());
        let few: Vec<Hop> = most.iter().collect();
        assert_eq!(few, [Hop::DevXmit, Hop::DevRecv, Hop::TcpRetransmit, Hop::SkbDrop, Hop::SockFull]);
        assert_eq!(outermost(most), most, "of these it is all");
    }
}
