//! Closing of pieces: verdicts, numbers, and the next visit of a stream.

use super::across::Across;
use super::consumer::Consumer;
use super::copies::CopyDrop;
use super::ip_ids::IpIds;
use super::journey::Journey;
use super::limits::{Counters, Limits};
use super::losses::Losses;
use super::piece::{DELIVERED, Piece, RX, State, TX};
use super::receive_window::ReceiveWindows;
use super::rules::Rules;
use super::rungs::{ThreadRef, bit, bits};
use super::selection::Selection;
use super::verdict::Verdict;
use crate::deciders::SocketFilter;
use crate::event::Event;
use crate::flow::{FlowId, Proto};
use crate::hop::Hop;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Time that a finished journey waits for late events: the driver's return, the return of `send`.
pub(super) const TRAIL_NS: u64 = 5_000_000;
/// Time that a sent datagram waits for its other half.
const HALF_NS: u64 = 50_000_000;
/// Time that a sent half of TCP waits. It is longer than the shortest time-out (`TCP_RTO_MIN`, 200 ms), because
/// bytes lost before the first event of the receiver are sent again only then.
const TCP_HALF_NS: u64 = 300_000_000;
/// Time that a finished journey with a missing event waits for the loss record. The record follows when the
/// ring has room, after the events of other CPUs. A retransmitted journey waits as long for the reason.
const GAP_NS: u64 = 50_000_000;
/// Time that a datagram dropped between its ends waits: a bridge or a mirror may have made several copies of it, of which
/// another one arrives.
pub(super) const COPY_NS: u64 = 1_000_000_000;
/// Maximum time between the arrival of a packet at its socket and the notification of the reader: both are in one run of
/// the receiver's stack.
const READY_NS: u64 = 1_000_000;
/// Time after which a datagram that has not come to a socket is inside no queue of its receiver's stack.
const UNPACKED_NS: u64 = 1_000_000_000;
/// Time that a packet waits in a node for the address of the next hop, which the kernel asks for three times, once a
/// second.
const NEIGHBOUR_NS: u64 = 4_000_000_000;
/// Minimum interval between visits of a stream.
const VISIT_NS: u64 = 1_000_000;
/// Number of requested visits beyond two for each stream at which replaced requests are removed.
const MAX_REPLACED: usize = 1024;

/// What is known of packets inside those of a flow that arrive, as of a tunnel's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Encloses {
    #[default]
    Unknown,
    /// The node has the device of a tunnel, and no program of it has the flow.
    MayBe,
    /// One came out.
    Certain,
}

/// One half of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Half {
    pub flow: FlowId,
    /// True after an event of a hop that only an end of the connection has: this is no forwarder.
    pub sure: bool,
    /// Cookie of its socket; 0 until an event has it.
    pub socket: u64,
    /// What is known of packets inside those that arrive.
    pub encloses: Encloses,
    /// Low bits of the flow of the same packets at this end, before or after its own node has translated their
    /// addresses; 0: none. Few flows meet in one stream, so they suffice.
    also: u32,
}

impl Half {
    /// The half that an event shows.
    pub const fn of(event: &Event, sure: bool) -> Self {
        Half { flow: event.flow, sure, socket: event.socket, encloses: Encloses::Unknown, also: 0 }
    }

    /// True if the flow is this end's.
    pub fn has(&self, flow: FlowId) -> bool {
        self.flow == flow || self.also != 0 && self.also == flow.0 as u32
    }

    /// This end has a flow of the same packets with other addresses.
    pub const fn set_also(&mut self, flow: FlowId) {
        self.also = flow.0 as u32;
    }

    /// Makes the other flow of this end its flow.
    pub const fn swap(&mut self, flow: FlowId) {
        self.set_also(self.flow);
        self.flow = flow;
    }
}

/// The two halves of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ends {
    pub proto: Proto,
    pub tx: Half,
    pub rx: Half,
    /// TCP: number of its SYN, if that is in the capture.
    pub first_seq: Option<u32>,
}

/// The reason why a piece is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CloseReason {
    Finished,
    /// Later bytes were read.
    Passed,
    /// By its socket.
    Discarded,
    /// To the kernel.
    Delivered,
    Aged,
    Evicted,
    /// A new connection uses the tuple.
    Reset,
    EndOfInput,
}

/// A stream by its slot, and a generation number to distinguish successive streams of the slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct StreamRef {
    pub slot: u32,
    pub generation: u32,
}

/// The verdict of bytes that were taken from their socket without a read.
fn taken(piece: &Piece) -> Verdict {
    piece.consumer.map_or(Verdict::ReadUnseen, |to| Verdict::Delivered { to })
}

/// Time that a half waits after its last event, once its packet has left: the time-out doubles with each retransmission.
fn half_wait_ns(proto: Proto, piece: &Piece) -> u64 {
    if proto == Proto::TCP { tcp_half_wait_ns(piece.retransmits()) } else { HALF_NS }
}

/// Time that the sent half of bytes of TCP waits for its receiver after its last event, by the number of their
/// retransmissions. A copy that is sent later is not in that half.
pub const fn tcp_half_wait_ns(retransmits: u32) -> u64 {
    let doublings = if retransmits < 5 { retransmits } else { 5 };
    TCP_HALF_NS << doublings
}

/// State that all streams share.
#[derive(Debug)]
pub(super) struct CorrelatorState {
    pub limits: Limits,
    pub rules: Rules,
    pub losses: Losses,
    pub counters: Counters,
    pub selection: Selection,
    pub receive_windows: ReceiveWindows,
    /// Since this instant rules that drop packets may differ from the capture's lists.
    pub rules_changed_ns: Option<u64>,
    /// The flow of the outer packet that the kernel dropped, while that is recorded for the packet inside.
    pub outer_drop: Option<FlowId>,
    /// The first event.
    pub begun_ns: Option<u64>,
    /// All events before this instant have been processed.
    pub now_ns: u64,
    /// Number of open pieces.
    pub open: usize,
    visits: BinaryHeap<Reverse<(u64, StreamRef)>>,
}

impl CorrelatorState {
    pub fn new(rules: Rules, limits: Limits) -> Self {
        CorrelatorState {
            limits,
            rules,
            losses: Losses::default(),
            counters: Counters::default(),
            selection: Selection::default(),
            receive_windows: ReceiveWindows::default(),
            rules_changed_ns: None,
            outer_drop: None,
            begun_ns: None,
            now_ns: 0,
            open: 0,
            visits: BinaryHeap::new(),
        }
    }

    /// True if a `sock.ready` may announce this piece: always, unless records may be left out. Then the piece's own one may
    /// be among them, and only one that follows its arrival at once is its own.
    pub fn may_announce(&self, piece: &Piece, time_ns: u64) -> bool {
        !self.selection.may_hide(piece.first_ns, time_ns) || time_ns.saturating_sub(piece.last_ns) < READY_NS
    }

    /// The drop that an event reports.
    pub fn copy_drop(&self, event: &Event) -> CopyDrop {
        CopyDrop {
            time_ns: event.time_ns,
            reason: event.drop_reason(),
            flow: self.outer_drop.unwrap_or(event.flow),
            ifindex: event.ifindex,
            rules_changed: self.rules_changed_ns.is_some_and(|since_ns| event.time_ns >= since_ns),
            filter: event.socket_filter(),
        }
    }

    /// Decides the effect of a new event at `hop` on the piece: it continues, waits for late events, or is
    /// closed. Returns the time of its next visit.
    pub fn settle(
        &mut self,
        ends: &Ends,
        piece: &mut Piece,
        hop: Hop,
        time_ns: u64,
        done: &mut Vec<Journey>,
    ) -> u64 {
        let protocol = self.rules.of(ends.proto);
        let finished = protocol.rx_top.is_some_and(|top| piece.has(top));
        if finished {
            let waits = self.rules.has_dev_done && piece.has(Hop::DevXmit) && !piece.has(Hop::DevDone)
                || self.rules.has_app_send && piece.any(TX) && !piece.has(Hop::AppSend)
                || !piece.has(Hop::AppRecv);
            let gapped = self.is_gapped(ends, piece);
            // The kernel reports a retransmission after the packet has left: a reader on another CPU may have
            // finished by then.
            let unobserved = self.rules.reports_resends && piece.is_unconfirmed_retransmission();
            // A group's other sockets get their clones right after the first.
            let shares = !piece.rx_flow.is_none();
            let doubtful = piece.read_doubtful;
            if !waits && !gapped && !unobserved && !shares && !doubtful {
                self.close(ends, piece, CloseReason::Finished, done);
                return u64::MAX;
            }
            if protocol.rx_top == Some(hop) || piece.state == State::Open {
                let until_ns =
                    time_ns.saturating_add(if gapped || unobserved || doubtful { GAP_NS } else { TRAIL_NS });
                piece.state = State::Lingering { until_ns };
                return until_ns;
            }
        } else if !ends.rx.sure
            && !piece.shared
            && piece.rx_flow.is_none()
            && protocol.tx_last.is_some_and(|last| piece.has(last))
        {
            return self.await_half(ends, piece, time_ns);
        }
        u64::MAX
    }

    /// Lets a half wait for the other one after an event. Returns the time of its next visit.
    pub fn await_half(&self, ends: &Ends, piece: &mut Piece, time_ns: u64) -> u64 {
        if let Some(wait_ns) = self.node_wait_ns(ends, piece) {
            piece.state = State::Open;
            return piece.last_ns.saturating_add(wait_ns);
        }
        let until_ns = time_ns.saturating_add(half_wait_ns(ends.proto, piece));
        piece.state = State::Lingering { until_ns };
        until_ns
    }

    /// Time that a half whose packet is inside a node of the capture waits after its last event: in a queue, or for the
    /// address of the next hop. `None` if the packet has left, or if its next event may not be in the capture.
    fn node_wait_ns(&self, ends: &Ends, piece: &Piece) -> Option<u64> {
        let shows_next = self.rules.reports_drops
            && !self.selection.hides_drops()
            && !self.selection.may_hide(piece.first_ns, piece.last_ns);
        if ends.rx.sure || piece.shared || !piece.rx_flow.is_none() || piece.drop.is_some() || !shows_next {
            return None;
        }
        let tx_last = self.rules.of(ends.proto).tx_last;
        let ns = match ends.rx.encloses {
            _ if piece.is_being_passed_on(tx_last) => self.limits.max_age_ns,
            _ if !piece.any(RX) => return None,
            Encloses::Unknown | Encloses::MayBe => NEIGHBOUR_NS,
            Encloses::Certain => return None,
        };
        Some(ns.max(half_wait_ns(ends.proto, piece)))
    }

    /// The end of the waiting time of a half that waits inside a node; `None` for other pieces.
    pub fn half_due_ns(&self, ends: &Ends, piece: &Piece) -> Option<u64> {
        let has_left_sender = self.rules.of(ends.proto).tx_last.is_some_and(|last| piece.has(last));
        let wait_ns = self.node_wait_ns(ends, piece).filter(|_| has_left_sender || piece.transits.is_some())?;
        Some(piece.last_ns.saturating_add(wait_ns))
    }

    /// Decides the fate of a piece at the end of its lingering time.
    pub fn expire(&mut self, ends: &Ends, piece: &mut Piece, floor: u64, done: &mut Vec<Journey>) {
        let protocol = self.rules.of(ends.proto);
        if piece.shared || protocol.rx_top.is_some_and(|top| piece.has(top)) {
            self.close(ends, piece, CloseReason::Finished, done);
        } else if piece.drop.is_some() && ends.proto != Proto::TCP {
            self.close(ends, piece, CloseReason::Aged, done); // no sender sends it again
        } else if piece.discarded {
            self.close(ends, piece, CloseReason::Discarded, done);
        } else if piece.consumer.is_some_and(|consumer| consumer != Consumer::Kernel) {
            self.close(ends, piece, CloseReason::Delivered, done);
        } else if ends.proto == Proto::TCP && piece.end <= floor {
            self.close(ends, piece, CloseReason::Passed, done);
        } else if !ends.rx.sure && protocol.tx_last.is_some_and(|last| piece.has(last)) {
            let why = if piece.drop.is_some() { CloseReason::Aged } else { CloseReason::Finished };
            self.close(ends, piece, why, done);
        } else {
            // The receiver was seen in the meantime: wait for its end.
            piece.state = State::Open;
        }
    }

    /// Closes a piece and outputs its journey.
    pub fn close(&mut self, ends: &Ends, piece: &mut Piece, why: CloseReason, done: &mut Vec<Journey>) {
        if piece.is_gone() {
            return;
        }
        piece.state = State::Gone;
        self.open = self.open.saturating_sub(1);
        if piece.shared {
            return; // its receivers have it
        }
        let is_copy = !piece.rx_flow.is_none();
        if is_copy && !piece.any(self.rules.of(ends.proto).rx_end_only) && piece.drop.is_none() {
            self.counters.forwarded += u64::from((piece.rungs.present() & RX).count_ones());
            return; // it only passed through here
        }
        let (rungs, copies, copy) = piece.ladder();
        if rungs.is_empty() {
            // A look at bytes that no other hop has shown, their retransmission perhaps, or a packet between ends outside
            // the capture.
            self.counters.passed_through += u64::from(piece.transits.is_some());
            return;
        }
        let promise_is_all = matches!(self.rules.of(ends.proto).tx_last, Some(Hop::TcpSend | Hop::AppSend));
        // Whether an abandoned call would have accepted them is unknown.
        let unproven = piece.is_only_promised() && !piece.discarded;
        if unproven && !promise_is_all && why != CloseReason::Evicted {
            self.counters.never_sent_bytes += piece.end - piece.start;
            return;
        }
        if why == CloseReason::Evicted {
            self.counters.evicted += 1;
        }
        self.counters.journeys += 1;
        let copy_ids = copies.iter().find(|sent| sent.number == copy).map(|sent| sent.ids);
        // Of a copy that may be another one, the node's passage may be too.
        let is_unknown = copies.iter().any(|sent| sent.number == copy && sent.ambiguous);
        // A receiver in a group has its own flow.
        let rx = if is_copy { Half { flow: piece.rx_flow, ..ends.rx } } else { ends.rx };
        let own = Ends { rx, ..*ends };
        let passages = |is_outer| match piece.transits.as_ref().filter(|_| !is_unknown) {
            Some(all) => all.of(is_outer, &own, &rungs, !copies.is_empty(), copy_ids.unwrap_or_default()),
            None => Vec::new(),
        };
        let (forwarders, tunnels) = (passages(false), passages(true));
        let verdict = self.verdict(ends, piece, rungs.last(), why);
        let dropped = matches!(verdict, Verdict::Dropped { .. });
        let who = |who: ThreadRef| if who.is_none() { None } else { Some(who) };
        let range = if ends.proto == Proto::TCP { piece.start..piece.end } else { 0..piece.end - piece.start };
        let rx_flow = if is_copy { piece.rx_flow } else { ends.rx.flow };
        done.push(Journey {
            id: self.counters.journeys,
            proto: ends.proto,
            tx_node: 0,
            rx_node: 0,
            across: Across::OneClock,
            tx_flow: if piece.any(TX) { ends.tx.flow } else { FlowId::NONE },
            rx_flow: if piece.any(RX) { rx_flow } else { FlowId::NONE },
            range,
            rungs,
            sender: who(piece.sender),
            reader: who(piece.reader),
            copies_left_out: (piece.retransmits() + 1).saturating_sub(copies.len().max(1) as u32),
            copies,
            copy,
            packet_ids: match copy_ids {
                Some(ids) => ids,
                None if ends.proto == Proto::TCP => piece.ids(),
                None => IpIds::default(),
            },
            ip_id: if ends.proto == Proto::TCP { 0 } else { piece.ip_id },
            presence: piece.presence,
            drop_flow: piece.drop.filter(|_| dropped).map_or(FlowId::NONE, |(drop, _)| drop.flow),
            drop_ifindex: piece.drop.filter(|_| dropped).map_or(0, |(drop, _)| drop.ifindex),
            drop_rules_changed: piece.drop.is_some_and(|(drop, _)| dropped && drop.rules_changed),
            drop_filter: piece
                .drop
                .filter(|_| dropped)
                .map_or_else(SocketFilter::default, |(drop, _)| drop.filter),
            verdict,
            ambiguous: piece.ambiguous,
            head_of_line: piece.head_of_line.filter(|wait| wait.follows(&rungs)),
            receive_window_ns: piece.receive_window_ns,
            precedes_capture: self.precedes_capture(ends, piece),
            forwarders,
            tunnels,
        });
    }

    /// `last` is the last hop of the journey.
    fn verdict(&self, ends: &Ends, piece: &Piece, last: Option<Hop>, why: CloseReason) -> Verdict {
        let Some(last) = last else { return Verdict::Evicted };
        let protocol = self.rules.of(ends.proto);
        let broken =
            |from_ns, to_ns| self.losses.within(from_ns, to_ns).map(|gap| Verdict::BrokenByEventLoss { gap });
        let until_now_ns = self.now_ns.max(piece.last_ns);
        match why {
            CloseReason::Finished => {
                let reached = protocol.rx_top.is_some_and(|top| piece.has(top));
                let is_copy = !piece.rx_flow.is_none();
                // Independent of the time of the visit: a loss after the end of its waiting time does not
                // affect it.
                let wait_ns = self.node_wait_ns(ends, piece).unwrap_or(half_wait_ns(ends.proto, piece));
                let waited_ns = piece.last_ns.saturating_add(wait_ns.max(GAP_NS));
                let until_ns = if reached { piece.last_ns } else { until_now_ns.min(waited_ns) };
                let gap = if self.is_gapped(ends, piece) {
                    broken(self.earliest(ends, piece), until_ns)
                } else {
                    None
                };
                // The other end may be in the capture, with its records lost. A receiver that no hop of an end shows may
                // pass the packet on.
                let is_at_end = is_copy || ends.rx.sure || piece.any(protocol.rx_end_only);
                let both = reached && piece.any(TX) && ends.tx.sure && is_at_end;
                let lonely = !both || self.precedes_capture(ends, piece);
                let half = || broken(piece.first_ns.saturating_sub(TCP_HALF_NS), until_ns).filter(|_| lonely);
                let order =
                    || piece.read_in_doubt_since_ns.and_then(|since_ns| broken(since_ns, piece.last_ns));
                let wait_hides = !reached
                    && self.node_wait_ns(ends, piece).is_some()
                    && self.selection.may_hide(piece.last_ns, until_ns);
                gap.or_else(half).or_else(order).unwrap_or_else(|| {
                    if wait_hides {
                        Verdict::Filtered { beyond: last }
                    } else if reached && !protocol.shows_end || protocol.rx_top.is_none() {
                        Verdict::NotProbed { beyond: last }
                    } else if lonely {
                        Verdict::HalfComplete
                    } else {
                        Verdict::Complete
                    }
                })
            }
            CloseReason::Evicted => Verdict::Evicted,
            CloseReason::Delivered => {
                let gap = if self.is_gapped(ends, piece) {
                    broken(self.earliest(ends, piece), piece.last_ns)
                } else {
                    None
                };
                gap.unwrap_or_else(|| taken(piece))
            }
            CloseReason::Discarded => Verdict::Discarded { hop: last },
            CloseReason::Passed => {
                let gap = match piece.read_in_doubt_since_ns {
                    Some(since_ns) => broken(since_ns.min(piece.first_ns), until_now_ns),
                    None => broken(piece.first_ns, self.now_ns),
                };
                gap.unwrap_or_else(|| taken(piece))
            }
            CloseReason::Aged | CloseReason::Reset | CloseReason::EndOfInput => {
                let left_out = self.selection.may_hide(piece.last_ns, until_now_ns);
                // A later copy may have arrived.
                let is_hidden =
                    left_out && piece.passes.as_ref().is_some_and(|passes| !passes.is_last_dropped());
                if let Some((CopyDrop { reason, .. }, _)) = piece.drop.filter(|_| !is_hidden) {
                    return Verdict::Dropped { hop: last, reason };
                }
                let waits = bit(last) & (DELIVERED | bits(Hop::AppSend, Hop::UdpSend)) != 0;
                broken(self.earliest(ends, piece), until_now_ns).unwrap_or(match why {
                    _ if piece.read_unrecorded => Verdict::Filtered { beyond: last },
                    _ if !left_out && self.was_unpacked(ends, piece, until_now_ns) => Verdict::HalfComplete,
                    // A call that waits for more (`MSG_WAITALL`) has copied its bytes before it returns.
                    CloseReason::EndOfInput if piece.was_passed(until_now_ns) => taken(piece),
                    CloseReason::EndOfInput if !left_out => Verdict::InFlight,
                    _ if left_out => Verdict::Filtered { beyond: last },
                    _ if piece.passed_ns != 0 || piece.consumer.is_some() => taken(piece),
                    _ if waits => Verdict::InFlight,
                    _ if protocol.blind_after == Some(last) => Verdict::NotProbed { beyond: last },
                    _ => Verdict::LostAfter { hop: last },
                })
            }
        }
    }

    /// True if the kernel itself has taken a datagram of UDP, as the outer packet of a tunnel: it came to its node and has
    /// not left that, no drop was recorded, and no event of the receiver's end has shown a socket. The packet inside, if
    /// there is one, has a journey of its own.
    fn was_unpacked(&self, ends: &Ends, piece: &Piece, now_ns: u64) -> bool {
        ends.proto == Proto::UDP
            && self.rules.reports_drops
            && !self.selection.hides_drops()
            && self.rules.of(ends.proto).blind_after.is_none()
            && ends.rx.socket == 0
            && piece.rx_flow.is_none()
            && (piece.has(Hop::IpIn) || piece.any(RX) && ends.rx.encloses != Encloses::Unknown)
            && !piece.any(DELIVERED)
            && piece.last_ns.saturating_add(UNPACKED_NS) <= now_ns
    }

    /// The hops that a piece must have passed. An end counts if it is known, or if the piece has an event
    /// there.
    fn required(&self, ends: &Ends, piece: &Piece) -> u32 {
        let unread = if piece.consumer.is_some() { bit(Hop::AppRecv) } else { 0 };
        let expected = self.rules.of(ends.proto).expected & !unread;
        let side = |half: &Half, hops: u32| if half.sure || piece.any(hops) { expected & hops } else { 0 };
        side(&ends.tx, TX) | side(&ends.rx, RX)
    }

    /// True if hops before its first event were served and have none.
    fn lacks_start(&self, ends: &Ends, piece: &Piece) -> bool {
        let missing = self.required(ends, piece) & !piece.rungs.present();
        // Events taken at return are late and precede the others in path order.
        missing.trailing_zeros() < piece.rungs.in_order().trailing_zeros()
    }

    /// True if its bytes were sent before the capture began, or before a change of the capture.
    fn precedes_capture(&self, ends: &Ends, piece: &Piece) -> bool {
        let until_ns = self.begun_ns.map_or(0, |ns| ns.saturating_add(self.limits.max_age_ns));
        let at_begin = || ends.first_seq.is_none() && piece.first_ns < until_ns;
        let earliest_ns = piece.first_ns.saturating_sub(self.limits.max_age_ns);
        let may_be =
            !piece.ambiguous && (at_begin() || self.selection.have_changed(earliest_ns, piece.first_ns));
        may_be && piece.any(TX) && self.lacks_start(ends, piece)
    }

    /// Earliest possible time of a loss of the missing events: if the missing hops precede the first event, so
    /// may the loss.
    fn earliest(&self, ends: &Ends, piece: &Piece) -> u64 {
        if self.lacks_start(ends, piece) {
            piece.first_ns.saturating_sub(self.limits.max_age_ns)
        } else {
            piece.first_ns
        }
    }

    /// True if an event of a served hop is missing.
    fn is_gapped(&self, ends: &Ends, piece: &Piece) -> bool {
        let present = piece.rungs.present();
        if present == 0 {
            return true;
        }
        let between = (u32::MAX >> present.leading_zeros()) & !((1 << present.trailing_zeros()) - 1);
        let half_missing = ends.tx.sure && !piece.any(TX) || ends.rx.sure && !piece.any(RX);
        let expected = self.rules.of(ends.proto).expected & between | self.required(ends, piece);
        half_missing || expected & !present != 0
    }

    /// Schedules a visit of a stream.
    pub fn visit_at(&mut self, at_ns: u64, stream: StreamRef) {
        self.visits.push(Reverse((at_ns, stream)));
    }

    /// Removes replaced and repeated requests if they are the majority: every journey may leave one behind.
    pub fn forget_replaced_visits(&mut self, streams: usize, is_due: impl Fn(u64, StreamRef) -> bool) {
        if self.visits.len() <= 2 * streams + MAX_REPLACED {
            return;
        }
        let mut visits = std::mem::take(&mut self.visits).into_vec();
        visits.retain(|Reverse((at_ns, stream))| is_due(*at_ns, *stream));
        visits.sort_unstable();
        visits.dedup();
        visits.shrink_to(2 * streams + MAX_REPLACED);
        self.visits = visits.into();
    }

    /// The next stream with a due visit.
    pub fn next_visit(&mut self) -> Option<(u64, StreamRef)> {
        let Reverse((at_ns, _)) = self.visits.peek()?;
        if *at_ns > self.now_ns {
            return None;
        }
        self.visits.pop().map(|Reverse(visit)| visit)
    }

    /// The earliest next visit of a stream.
    pub fn not_before(&self) -> u64 {
        self.now_ns.saturating_add(VISIT_NS)
    }
}
