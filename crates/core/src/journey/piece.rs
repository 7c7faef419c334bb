//! A piece: a journey that is still open.

use super::consumer::Consumer;
use super::copies::{CopyDrop, Resend, SentCopy};
use super::drops::DropPlace;
use super::forwarder::Forwarder;
use super::head_of_line::HeadOfLine;
use super::ip_ids::IpIds;
use super::journey::Presence;
use super::passes::Passes;
use super::rungs::{Rungs, ThreadRef, bit, bits};
use super::transits::Transits;
use crate::event::Event;
use crate::flow::FlowId;
use crate::hop::{FIRST_RX, Hop};

/// The data of one event about its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub hop: Hop,
    pub time_ns: u64,
    pub cpu: u16,
    pub who: ThreadRef,
    pub at_return: bool,
    /// A read of TCP whose range may be another thread's.
    pub doubtful: bool,
    /// IPv4 identifications of the packet.
    pub ids: IpIds,
}

/// Life cycle of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Without its last event.
    Open,
    /// With its last event; late events are accepted until then.
    Lingering { until_ns: u64 },
    /// Closed and output. It keeps its place so that its bytes are not taken for new ones.
    Gone,
}

/// Hops at which a byte is only declared: the call may accept fewer.
const PROMISES: u32 = bit(Hop::AppSend) | bit(Hop::TcpSend);

/// Hops of the sender.
pub(super) const TX: u32 = bits(Hop::AppSend, Hop::DevDone);
/// Hops of the sender that a packet passes.
pub(super) const TX_PACKET: u32 = bits(Hop::TcpXmit, Hop::DevDone);
/// Hops of the receiver.
pub(super) const RX: u32 = bits(FIRST_RX, Hop::AppRecv);
/// Hops of the receiver below the socket.
pub(super) const ARRIVED: u32 = bits(FIRST_RX, Hop::UdpRecv);
/// Hops of the receiver that a TCP packet passes.
pub(super) const RX_PACKET: u32 = bits(FIRST_RX, Hop::TcpRecv);
/// The socket has it.
pub(super) const DELIVERED: u32 = bits(Hop::TcpRecv, Hop::AppRecv);

/// Time after which a reader that is past bytes would have reported its read.
const PASSED_NS: u64 = 50_000_000;

/// A piece. A TCP piece is `[start, end)` of the unwrapped stream. The n-th datagram of a UDP stream is `[n <<
/// 32, (n << 32) + len)`, so that both use the same kind of list.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub start: u64,
    pub end: u64,
    pub first_ns: u64,
    pub last_ns: u64,
    pub rungs: Rungs,
    pub sender: ThreadRef,
    pub reader: ThreadRef,
    pub state: State,
    /// TCP: the copies, if there are several.
    pub passes: Option<Box<Passes>>,
    /// The kernel's drop of it, and the hops passed by then.
    pub drop: Option<(CopyDrop, u32)>,
    /// TCP: that drop may be of a copy which a bridge or a mirror made.
    pub drop_may_be_of_copy: bool,
    pub ambiguous: bool,
    /// The read was inferred from the order of its socket, and records behind that order were lost since then.
    pub read_in_doubt_since_ns: Option<u64>,
    /// TCP: its read is doubtful until no other thread's read can follow.
    pub read_doubtful: bool,
    /// The kernel takes it from the socket.
    pub consumer: Option<Consumer>,
    /// Its socket discarded it.
    pub discarded: bool,
    /// TCP: it waited in the socket for earlier bytes.
    pub head_of_line: Option<HeadOfLine>,
    /// TCP: time in which the peer's receive window was closed, between its send and its transmission.
    pub receive_window_ns: u64,
    /// Since when the socket's reader is past it, without a read of it; 0: it is not.
    pub passed_ns: u64,
    /// A read took it, or another of its socket: left-out events break the order.
    pub read_unrecorded: bool,
    pub skb: u32,
    pub ip_id: u16,
    /// Segments of its last super-packet; 1 for a packet of its own.
    pub segs: u16,
    /// Start of the previous datagram with the same identification; 0: none.
    pub same_id: u64,
    /// Was sent in a super-packet.
    pub cut: bool,
    /// Sent to a group: receivers have journeys of their own, and this is only their sender's half.
    pub shared: bool,
    pub presence: Presence,
    /// Interface of its last event.
    pub ifindex: u32,
    /// The receiver's flow, if it differs from the stream's: one of a group.
    pub rx_flow: FlowId,
    /// The receiver's socket, likewise.
    pub socket: u64,
    /// Start of the datagram of which this is one receiver's journey; 0: none.
    pub origin: u64,
    /// Its passages through forwarders, if there are any.
    pub transits: Option<Box<Transits>>,
}

impl Piece {
    pub fn new(start: u64, end: u64, time_ns: u64) -> Self {
        Piece {
            start,
            end,
            first_ns: time_ns,
            last_ns: time_ns,
            rungs: Rungs::default(),
            sender: ThreadRef::default(),
            reader: ThreadRef::default(),
            state: State::Open,
            passes: None,
            drop: None,
            drop_may_be_of_copy: false,
            ambiguous: false,
            read_in_doubt_since_ns: None,
            read_doubtful: false,
            consumer: None,
            discarded: false,
            head_of_line: None,
            receive_window_ns: 0,
            passed_ns: 0,
            read_unrecorded: false,
            skb: 0,
            ip_id: 0,
            segs: 0,
            same_id: 0,
            cut: false,
            shared: false,
            presence: Presence::default(),
            ifindex: 0,
            rx_flow: FlowId::NONE,
            socket: 0,
            origin: 0,
            transits: None,
        }
    }

    pub const fn has(&self, hop: Hop) -> bool {
        self.rungs.has(hop)
    }

    pub const fn any(&self, hops: u32) -> bool {
        self.rungs.present() & hops != 0
    }

    /// True if the socket's reader has been past it for some time without a read of it.
    pub const fn was_passed(&self, now_ns: u64) -> bool {
        self.passed_ns != 0 && self.passed_ns.saturating_add(PASSED_NS) <= now_ns
    }

    pub const fn is_gone(&self) -> bool {
        matches!(self.state, State::Gone)
    }

    /// Number of retransmissions.
    pub fn retransmits(&self) -> u32 {
        self.passes.as_ref().map_or(0, |passes| passes.count())
    }

    /// The hops of the journey, its copies, and the number of the copy of the hops. That is the furthest copy;
    /// of several, the one received first or sent last. 0 with a single copy.
    pub fn ladder(&self) -> (Rungs, Vec<SentCopy>, u32) {
        let Some(passes) = &self.passes else { return (self.rungs, Vec::new(), 0) };
        let (rungs, number) = passes.through(&self.rungs);
        (rungs, passes.copies(number, rungs.present()), number)
    }

    /// The identifications of its first packet.
    pub const fn ids(&self) -> IpIds {
        IpIds { first: self.ip_id, count: self.segs }
    }

    fn passes_or_first(&mut self) -> &mut Passes {
        let ids = self.ids();
        let dropped = self.drop.map(|(drop, _)| (drop, self.drop_may_be_of_copy));
        self.passes.get_or_insert_with(|| Box::new(Passes::after(&self.rungs, ids, dropped)))
    }

    /// Records its `tcp.retransmit`.
    pub fn mark_retransmitted(&mut self, kind: Resend, time_ns: u64) {
        self.passes_or_first().mark_retransmitted(kind, time_ns);
    }

    /// The kernel dropped a packet with these bytes. `arrived`: another copy of them had arrived.
    pub fn mark_dropped(&mut self, drop: CopyDrop, ids: IpIds, place: DropPlace, arrived: bool) {
        if let Some(passes) = &mut self.passes {
            passes.mark_dropped(drop, ids, place);
        }
        if !arrived {
            self.drop = Some((drop, self.rungs.present()));
            self.drop_may_be_of_copy = place.may_be_of_copy;
            self.last_ns = self.last_ns.max(drop.time_ns);
        }
    }

    /// The kernel dropped a copy of it in the namespace of a forwarder, or of a host that it is not for.
    pub fn end_transit(&mut self, netns: u32) {
        if let Some(transits) = &mut self.transits {
            transits.end(netns);
        }
    }

    /// True if it was retransmitted without a `tcp.retransmit` so far.
    pub fn is_unconfirmed_retransmission(&self) -> bool {
        self.passes.as_ref().is_some_and(|passes| passes.is_unconfirmed())
    }

    /// True if its packet is inside a node that passes it on. `tx_last` is the last hop at which packets leave.
    pub fn is_being_passed_on(&self, tx_last: Option<Hop>) -> bool {
        self.transits.as_ref().is_some_and(|transits| transits.are_in_node(tx_last))
    }

    /// Records an event of a forwarder, or of the outer packet of a tunnel; see [`Transits::record`]. Returns false
    /// without room for it.
    pub fn pass_forwarder(&mut self, place: (u32, bool), event: &Event, mark: &Mark) -> bool {
        self.last_ns = self.last_ns.max(mark.time_ns);
        self.transits.get_or_insert_default().record(place, event, mark)
    }

    /// The assumed end with this flow was a forwarder: its events are a passage.
    pub fn yield_side(&mut self, side: u32, netns: u32, flow: FlowId) {
        let mut end = Forwarder { rx_ifindex: self.ifindex, tx_ifindex: self.ifindex, ..Forwarder::default() };
        end.rungs.take(&self.rungs, side & !bit(Hop::DevDone));
        if side == RX {
            end.rx_flow = flow;
        } else {
            end.tx_flow = flow;
        }
        if !end.rungs.is_empty() {
            self.transits.get_or_insert_default().take_end(netns, end);
        }
        self.forget(side);
    }

    /// The assumed end was a forwarder.
    pub fn forget(&mut self, side: u32) {
        self.rungs.clear(side);
        if let Some(passes) = &mut self.passes {
            passes.clear(side);
        }
    }

    /// The node with this flow is the receiver after all: its hops are not those of a forwarder.
    pub fn regain_end(&mut self, side: u32, flow: FlowId) {
        if let Some(transits) = self.transits.as_mut().filter(|_| side == RX) {
            self.rungs.take(&transits.give_end(flow), RX);
        }
    }

    /// Records a TCP packet on its copy. The journey's own events are still the earlier ones.
    fn stamp_pass(&mut self, mark: &Mark, counted_at: Hop) {
        let is_out = bit(mark.hop) & TX_PACKET != 0;
        let seen = self.rungs.present();
        match &mut self.passes {
            Some(passes) if is_out => passes.go_out(mark, counted_at),
            Some(passes) if bit(mark.hop) & RX_PACKET != 0 => passes.come_in(mark, seen),
            None if is_out && Passes::begins(seen, mark.hop, counted_at) => {
                let passes = self.passes_or_first();
                passes.begin();
                passes.go_out(mark, counted_at);
            }
            None if mark.ids.is_present() && (is_out || seen & (TX_PACKET | RX_PACKET) == 0) => {
                (self.ip_id, self.segs) = (mark.ids.first, mark.ids.count);
            }
            _ => {}
        }
    }

    /// True if these bytes have only the declaration of a send.
    pub fn is_only_promised(&self) -> bool {
        let present = self.rungs.present();
        present & !PROMISES == 0 && !self.rungs.is_at_return(Hop::AppSend)
    }

    /// Records an event. `counted_at` is the hop at which another pass begins; `tcp.retransmit` means none.
    pub fn set_hop_time(&mut self, mark: &Mark, counted_at: Hop) {
        let Mark { hop, time_ns, cpu, who, at_return, doubtful, .. } = *mark;
        self.read_doubtful |= doubtful;
        let promise = bit(hop) & PROMISES != 0;
        if counted_at != Hop::TcpRetransmit {
            self.stamp_pass(mark, counted_at);
        }
        if self.has(hop) {
            // After a send shorter than declared, the next call declares the same bytes again. The first time
            // of a real pass stays: a journey begins with the first pass of its byte.
            if promise && !at_return && self.is_only_promised() {
                self.rungs.set(hop, time_ns, cpu, false);
                self.first_ns = time_ns;
                self.sender = who;
            }
        } else {
            self.rungs.set(hop, time_ns, cpu, at_return);
            if !who.is_none() {
                if bit(hop) & TX != 0 {
                    self.sender = who;
                } else {
                    self.reader = who;
                }
            }
            // A dropped piece with an event at a further hop was sent again.
            if self.drop.is_some_and(|(_, before)| bit(hop) > before) {
                self.drop = None;
            }
        }
        self.first_ns = self.first_ns.min(time_ns);
        self.last_ns = self.last_ns.max(time_ns);
    }
}
