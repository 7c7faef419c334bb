//! A lifeline: the events of one journey in path order, as the scope keeps and draws them.

use magscope_core::{Direction, Endpoint, FlowId, Hop, Proto};
use std::fmt;

/// One event of a journey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Where.
    pub hop: Hop,
    /// When, `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// The CPU it happened on.
    pub cpu: u16,
    /// Process, 0 where the hop does not know it.
    pub tgid: u32,
    /// Thread, 0 where the hop does not know it.
    pub tid: u32,
}

/// How a journey ended, as far as the picture is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// Seen as far as the served hops of its nodes can see.
    Complete,
    /// The kernel dropped it and gave this reason.
    Dropped {
        /// Number of the kernel's reason.
        reason: u32,
    },
    /// Records of it are missing: the instrument, not the network, lost it.
    LostHere,
    /// It was given up on before its end was seen.
    Unfinished,
}

impl Ending {
    /// Whether it is worth red: a drop or a loss.
    pub const fn is_bad(self) -> bool {
        matches!(self, Self::Dropped { .. } | Self::LostHere)
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete => f.pad("complete"),
            Self::Dropped { reason } => write!(f, "dropped (reason {reason})"),
            Self::LostHere => f.pad("records lost here"),
            Self::Unfinished => f.pad("end not seen"),
        }
    }
}

/// A stretch between two neighbouring events of a journey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The hop it left.
    pub from: Hop,
    /// The hop it came to.
    pub to: Hop,
    /// How long it took.
    pub ns: u64,
    /// The thread at `to`, 0 where the hop does not know it.
    pub tid: u32,
}

/// A journey as the scope keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifeline {
    /// The correlator's number for the journey.
    pub id: u64,
    /// TCP, UDP or another.
    pub proto: Proto,
    /// Sender and receiver, where the flow is known.
    pub ends: Option<(Endpoint, Endpoint)>,
    /// Flow id at the sender; [`FlowId::NONE`] if only the receiver was seen.
    pub tx_flow: FlowId,
    /// Flow id at the receiver; [`FlowId::NONE`] if only the sender was seen.
    pub rx_flow: FlowId,
    /// Network namespace of the sender, if seen.
    pub from: Option<u32>,
    /// Network namespace of the receiver, if seen.
    pub to: Option<u32>,
    /// First sequence number (TCP) and one past the last; for UDP 0 and the length.
    pub range: (u32, u32),
    /// Times it was sent again.
    pub retransmits: u32,
    /// How it ended.
    pub ending: Ending,
    /// Its events in path order; never empty in the scope's memory.
    pub marks: Vec<Mark>,
}

impl Lifeline {
    /// When the first event was.
    pub fn start_ns(&self) -> u64 {
        self.marks.first().map_or(0, |m| m.time_ns)
    }

    /// When the last event on the path was.
    pub fn end_ns(&self) -> u64 {
        self.marks.last().map_or(0, |m| m.time_ns).max(self.start_ns())
    }

    /// From the first event to the last.
    pub fn total_ns(&self) -> u64 {
        self.end_ns() - self.start_ns()
    }

    /// Payload bytes of the range.
    pub const fn bytes(&self) -> u32 {
        self.range.1.wrapping_sub(self.range.0)
    }

    /// The steps of the journey in path order.
    ///
    /// The driver's return (`dev.done`) is beside the way, not on it: on one host the receiver often has the packet
    /// before the driver's call comes back. So the wire is measured from `dev.xmit` where there is one. A pair whose
    /// times stand the other way round has no latency and is left out.
    pub fn steps(&self) -> impl Iterator<Item = Step> + '_ {
        (1..self.marks.len()).filter_map(|at| {
            let to = &self.marks[at];
            let mut from = &self.marks[at - 1];
            if from.hop == Hop::DevDone
                && to.hop.direction() == Direction::Rx
                && let Some(xmit) = at.checked_sub(2).and_then(|i| self.marks.get(i)).filter(|m| m.hop == Hop::DevXmit)
            {
                from = xmit;
            }
            let ns = to.time_ns.checked_sub(from.time_ns)?;
            Some(Step { from: from.hop, to: to.hop, ns, tid: to.tid })
        })
    }

    /// The longest step: what to blame.
    pub fn blame(&self) -> Option<Step> {
        self.steps().max_by_key(|step| step.ns)
    }

    /// Whether any of it lies within `[from_ns, to_ns]`.
    pub fn overlaps(&self, from_ns: u64, to_ns: u64) -> bool {
        self.start_ns() <= to_ns && self.end_ns() >= from_ns
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A lifeline with these marks, for tests.
    pub(crate) fn lifeline(id: u64, marks: &[(Hop, u64)]) -> Lifeline {
        let mark = |&(hop, time_ns): &(Hop, u64)| Mark { hop, time_ns, cpu: 0, tgid: 0, tid: 0 };
        Lifeline {
            id,
            proto: Proto::TCP,
            ends: None,
            tx_flow: FlowId(1),
            rx_flow: FlowId(2),
            from: Some(1),
            to: Some(2),
            range: (0, 100),
            retransmits: 0,
            ending: Ending::Complete,
            marks: marks.iter().map(mark).collect(),
        }
    }

    #[test]
    fn the_wire_starts_at_the_driver_not_at_its_return() {
        let line = lifeline(1, &[(Hop::DevXmit, 100), (Hop::DevDone, 180), (Hop::DevRecv, 150), (Hop::AppRecv, 190)]);
        let steps: Vec<_> = line.steps().map(|s| (s.from, s.to, s.ns)).collect();
        assert_eq!(
            steps,
            [
                (Hop::DevXmit, Hop::DevDone, 80),
                (Hop::DevXmit, Hop::DevRecv, 50),
                (Hop::DevRecv, Hop::AppRecv, 40)
            ]
        );
        assert_eq!(line.total_ns(), 90);
    }

    #[test]
    fn a_step_backwards_has_no_latency() {
        let line = lifeline(1, &[(Hop::IpIn, 100), (Hop::TcpRecv, 90), (Hop::AppRecv, 120)]);
        assert_eq!(line.steps().map(|s| s.ns).collect::<Vec<_>>(), [30]);
        assert_eq!(line.blame().map(|s| s.to), Some(Hop::AppRecv));
        assert_eq!(lifeline(2, &[]).total_ns(), 0);
    }
}
