//! The blame for the time of a journey: a stack, a queue, the wire, the scheduler or the reader.
//!
//! Two neighbouring events of a journey bound a span. The path defines the packet's processing between them. A
//! span belongs to a part if all of it does; if unserved hops leave several possibilities, it is
//! [`Part::Unknown`]. Every nanosecond belongs to exactly one part.
//!
//! Between two copies of the same bytes the sender waits for the retransmission. That wait lasts from the last
//! event of one copy to the first of the next. Bytes that arrived before earlier ones of their stream wait in the
//! receiver's socket, which is not the fault of its stack: [`HeadOfLine`](crate::journey::HeadOfLine). Bytes that the
//! peer's receive window holds back wait for its reader: [`Journey::receive_window_ns`].
//!
//! **Known limits.** A reader without a wake-up of its own counts as away. The same happens if its wake-up was
//! among lost events.

mod words;

pub use words::step_words;

use crate::flow::Proto;
use crate::hop::{Direction, Hop, HopSet, Role};
use crate::journey::{Journey, Presence, Rung};
use crate::node::NodeInfo;
use serde::Serialize;

/// A part of the path that can take the blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Part {
    /// The sender's call, IP, queueing discipline, up to the driver.
    SenderStack = 0,
    /// Bytes that TCP has accepted and does not send yet: congestion window, Nagle, pacing, or more data to follow. Also a
    /// receive window that was not seen closed.
    SendQueue = 1,
    /// Bytes that TCP may not send, because the peer's receive window is closed: its reader is too slow (*zero window*), or
    /// the window is full of unacknowledged bytes.
    ReceiveWindow = 2,
    /// A copy was dropped or lost, and the next one was not sent yet. Also the wait of bytes in the receiver's socket for
    /// earlier ones that were sent again.
    Retransmission = 3,
    /// From the sender's driver to the receiver's.
    Wire = 4,
    /// Inside the nodes that passed the packet on: bridges, routers, translators.
    Forwarding = 5,
    /// From the receiver's driver to the socket, and the reader's wake-up.
    ReceiverStack = 6,
    /// Bytes that had arrived waited in the receiver's socket for earlier ones of their stream.
    HeadOfLine = 7,
    /// The reader was woken and had no CPU yet.
    Scheduler = 8,
    /// The data were ready and the reader did not request them: busy, or asleep elsewhere.
    ReaderAway = 9,
    /// The reader's own call, from being on a CPU to its return.
    Reading = 10,
    /// Between hops of which no served one separates the parts.
    Unknown = 11,
}

impl Part {
    /// Number of parts.
    pub const COUNT: usize = 12;

    /// All parts, in the order of the path.
    pub const ALL: [Part; Self::COUNT] = [
        Self::SenderStack,
        Self::SendQueue,
        Self::ReceiveWindow,
        Self::Retransmission,
        Self::Wire,
        Self::Forwarding,
        Self::ReceiverStack,
        Self::HeadOfLine,
        Self::Scheduler,
        Self::ReaderAway,
        Self::Reading,
        Self::Unknown,
    ];

    /// Name for display.
    pub const fn words(self) -> &'static str {
        match self {
            Self::SenderStack => "the sender's stack",
            Self::SendQueue => "held in TCP's send queue",
            Self::ReceiveWindow => "waiting for the receive window",
            Self::Retransmission => "waiting for retransmission",
            Self::Wire => "the wire",
            Self::Forwarding => "forwarding",
            Self::ReceiverStack => "the receiver's stack",
            Self::HeadOfLine => "waiting for earlier bytes",
            Self::Scheduler => "waiting for a CPU",
            Self::ReaderAway => "waiting for the reader",
            Self::Reading => "the reader's own call",
            Self::Unknown => "not observed",
        }
    }

    /// The part of the span between two neighbouring events of a journey, of which one at least is a forwarder's:
    /// forwarding inside a node, the wire between two nodes. Unknown if hops next to the wire were not seen.
    fn of_forwarded_span(from: &Rung, to: &Rung, proto: Proto, served: HopSet) -> Self {
        if from.forwarder == to.forwarder {
            Self::Forwarding
        } else if from.hop.direction() == Direction::Tx && to.hop.direction() == Direction::Rx {
            Self::of_span(from.hop, to.hop, proto, served)
        } else {
            Self::Unknown
        }
    }

    /// The part of the span between two neighbouring events of a journey, of which one at least is an outer packet's.
    fn of_tunnelled_span(from: &Rung, to: &Rung, proto: Proto, served: HopSet) -> Self {
        match (from.hop.direction(), to.hop.direction()) {
            (Direction::Tx, Direction::Rx) => Self::of_span(from.hop, to.hop, proto, served),
            // From one host of the outer packet to another, with a wire between them.
            _ if from.tunnel != to.tunnel && from.tunnel != 0 && to.tunnel != 0 => Self::Unknown,
            _ if from.forwarder != 0 || to.forwarder != 0 => Self::Forwarding,
            (Direction::Tx, Direction::Tx) => Self::SenderStack,
            (Direction::Rx, Direction::Rx) => Self::ReceiverStack,
            _ => Self::Unknown,
        }
    }

    /// The part of the span between two neighbouring events of a journey. `served` are the hops of the capture.
    pub fn of_span(from: Hop, to: Hop, proto: Proto, served: HopSet) -> Self {
        let has_task_wake = served.contains(Hop::TaskWake);
        // The call of IP takes negligible time next to the delay in a send queue.
        if (from, to) == (Hop::TcpSend, Hop::IpOut) {
            return Self::SendQueue;
        }
        if from == Hop::SockReady && to.role() == Role::Read && has_task_wake {
            return Self::ReaderAway;
        }
        // It was awake already, and another packet arrived before it had its CPU.
        if (from, to) == (Hop::SockReady, Hop::TaskRun) && has_task_wake {
            return Self::Scheduler;
        }
        let (Some(below), Some(above)) = (from.rank(), to.rank()) else { return Self::Unknown };
        let between = Hop::path().get(below + 1..=above).unwrap_or_default();
        let is_passed = |hop: &&Hop| is_on_path(**hop, proto) && (**hop == to || !hop.is_optional());
        // The wire ends at the first hop of the receiver; what follows it is the receiver's.
        let is_behind_wire = from.direction() == Direction::Rx;
        let mut parts = between.iter().filter(is_passed).map(|hop| match hop.spec().part {
            Self::Wire if is_behind_wire => Self::ReceiverStack,
            part => part,
        });
        let Some(first) = parts.next() else { return Self::Unknown };
        if parts.all(|part| part == first) { first } else { Self::Unknown }
    }
}

/// True if packets pass the hop on their path; the driver's return is off the path.
fn is_on_path(hop: Hop, proto: Proto) -> bool {
    hop != Hop::DevDone && hop.passes(proto)
}

/// The hops available for a journey: each half by its own recording.
pub fn served(journey: &Journey, infos: &[NodeInfo]) -> HopSet {
    let of = |node: u16| infos.get(usize::from(node)).map_or(HopSet::EMPTY, |info| info.coverage.served());
    let (tx, rx) = (of(journey.tx_node), of(journey.rx_node));
    if journey.tx_node == journey.rx_node {
        return tx;
    }
    let side = |hop: &Hop| if hop.direction() == Direction::Tx { tx } else { rx }.contains(*hop);
    Hop::ALL.iter().copied().filter(side).collect()
}

/// The time of one journey, split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blame {
    parts_ns: [u64; Part::COUNT],
    seen: u16,
    total_ns: u64,
}

impl Blame {
    /// Splits the time from the first event of a journey to the last, as [`Journey::total_ns`] counts it;
    /// `None` if that is `None`. An event out of order carries no information and is skipped.
    pub fn of(journey: &Journey, served: HopSet) -> Option<Self> {
        let total_ns = journey.total_ns()?;
        let mut path = journey.path_with_tunnels();
        let mut from = path.next()?;
        let end_ns = from.time_ns.saturating_add(total_ns);
        let mut blame = Blame { total_ns, ..Blame::default() };
        for rung in path {
            if rung.time_ns < from.time_ns || rung.time_ns > end_ns || journey.is_overtaken(&rung) {
                continue;
            }
            let is_read = rung.hop.role() == Role::Read;
            let part = match journey.presence {
                _ if from.is_copy_before(&rung) => Part::Retransmission,
                _ if journey.is_crossing_unknown(&from, &rung) => Part::Unknown,
                _ if from.tunnel != 0 || rung.tunnel != 0 => {
                    Part::of_tunnelled_span(&from, &rung, journey.proto, served)
                }
                _ if from.forwarder != 0 || rung.forwarder != 0 => {
                    Part::of_forwarded_span(&from, &rung, journey.proto, served)
                }
                Presence::Polling if is_read && from.hop == Hop::SockReady => Part::Reading,
                Presence::Busy if is_read && from.hop == Hop::TaskRun => Part::ReaderAway,
                _ => Part::of_span(from.hop, rung.hop, journey.proto, served),
            };
            let mut ns = rung.time_ns - from.time_ns;
            if let Some(wait) = journey.head_of_line {
                let waited_ns = wait.within_ns(from.hop, rung.hop, rung.time_ns, ns);
                if waited_ns > 0 {
                    blame.add(if wait.resent { Part::Retransmission } else { Part::HeadOfLine }, waited_ns);
                    ns -= waited_ns;
                }
            }
            let closed_ns = journey.receive_window_within_ns(from.hop, rung.hop, ns);
            if closed_ns > 0 {
                blame.add(Part::ReceiveWindow, closed_ns);
                ns -= closed_ns;
            }
            blame.add(part, ns);
            from = rung;
        }
        Some(blame)
    }

    fn add(&mut self, part: Part, ns: u64) {
        self.parts_ns[part as usize] += ns;
        self.seen |= 1 << part as u16;
    }

    /// Moves time from *waiting for the reader* to *waiting for a CPU*: the reader was ready to run, without a CPU, for
    /// `runnable_ns` in all, nanoseconds.
    pub fn note_runnable(&mut self, runnable_ns: u64) {
        let more_ns = runnable_ns.saturating_sub(self.parts_ns[Part::Scheduler as usize]);
        let ns = more_ns.min(self.parts_ns[Part::ReaderAway as usize]);
        if ns > 0 {
            self.parts_ns[Part::ReaderAway as usize] -= ns;
            self.parts_ns[Part::Scheduler as usize] += ns;
            self.seen |= 1 << Part::Scheduler as u16;
        }
    }

    /// Time of a part, nanoseconds; `None` if the journey has no span of it.
    pub fn ns(&self, part: Part) -> Option<u64> {
        (self.seen & 1 << part as u16 != 0).then(|| self.parts_ns[part as usize])
    }

    /// The parts with spans in the journey, in path order, nanoseconds. Their sum is the total.
    pub fn parts(&self) -> impl Iterator<Item = (Part, u64)> + '_ {
        Part::ALL.into_iter().filter_map(|part| Some((part, self.ns(part)?)))
    }

    /// From the first event to the last, nanoseconds.
    pub const fn total_ns(&self) -> u64 {
        self.total_ns
    }

    /// The part with the longest time, of equal ones the earlier on the path; `None` if all times are 0.
    pub fn largest(&self) -> Option<Part> {
        let longest = self.parts().map(|(_, ns)| ns).max().filter(|ns| *ns > 0)?;
        self.parts().find(|(_, ns)| *ns == longest).map(|(part, _)| part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_by_what_can_lie_between() {
        let all = HopSet::all();
        let mut no_wake = all;
        no_wake.remove(Hop::TaskWake);
        let table = [
            (Hop::AppSend, Hop::TcpSend, Proto::TCP, all, Part::SenderStack),
            (Hop::TcpSend, Hop::TcpXmit, Proto::TCP, all, Part::SendQueue),
            (Hop::TcpSend, Hop::IpOut, Proto::TCP, all, Part::SendQueue),
            (Hop::TcpSend, Hop::DevXmit, Proto::TCP, all, Part::Unknown),
            (Hop::UdpSend, Hop::DevXmit, Proto::UDP, all, Part::SenderStack),
            (Hop::AppSend, Hop::DevQueue, Proto::UDP, all, Part::SenderStack),
            (Hop::IpOut, Hop::DevXmit, Proto::TCP, all, Part::SenderStack),
            (Hop::DevXmit, Hop::DevRecv, Proto::TCP, all, Part::Wire),
            (Hop::DevXmit, Hop::NapiPoll, Proto::TCP, all, Part::Wire),
            (Hop::NapiPoll, Hop::DevRecv, Proto::TCP, all, Part::ReceiverStack),
            (Hop::NapiPoll, Hop::IpIn, Proto::UDP, all, Part::ReceiverStack),
            (Hop::IpOut, Hop::DevRecv, Proto::TCP, all, Part::Unknown),
            (Hop::DevRecv, Hop::SockReady, Proto::TCP, all, Part::ReceiverStack),
            (Hop::DevRecv, Hop::TaskWake, Proto::UDP, all, Part::ReceiverStack),
            (Hop::SockReady, Hop::AppRecv, Proto::TCP, all, Part::ReaderAway),
            (Hop::SockReady, Hop::AppRecv, Proto::TCP, no_wake, Part::Unknown),
            (Hop::TcpRecv, Hop::AppRecv, Proto::TCP, all, Part::Unknown),
            (Hop::TaskWake, Hop::TaskRun, Proto::TCP, all, Part::Scheduler),
            (Hop::TaskWake, Hop::AppRecv, Proto::TCP, all, Part::Unknown),
            (Hop::TaskRun, Hop::AppRecv, Proto::TCP, all, Part::Reading),
            (Hop::AppCopy, Hop::AppRecv, Proto::TCP, all, Part::Reading),
            (Hop::AppRecv, Hop::AppSend, Proto::TCP, all, Part::Unknown),
            (Hop::SkbDrop, Hop::AppRecv, Proto::TCP, all, Part::Unknown),
        ];
        for (from, to, proto, served, part) in table {
            assert_eq!(Part::of_span(from, to, proto, served), part, "{from} → {to}");
        }
    }
}
