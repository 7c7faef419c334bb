//! A stream: one direction of a connection, or of the datagrams between two addresses.

use super::journey::Journey;
use super::piece::{Mark, Piece, RX, State, TX};
use super::pieces::Pieces;
use super::rules::is_certain_end;
use super::rungs::bit;
use super::state::{CloseReason, CorrelatorState, Ends, Half, StreamRef, TRAIL_NS};
use crate::event::Event;
use crate::flow::{FlowId, Proto};
use crate::hash::Map;
use crate::hop::Direction;

/// Whether a stream accepts an event of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admitted {
    Yes,
    /// The flow belongs to a forwarder, or to a bridge's port.
    Forwarder,
    /// Another connection of other namespaces has the same addresses, so the addresses prove nothing.
    Namesake,
}

/// Minimum interval between two looks at all pieces of a stream for those that are too old.
const AGES_NS: u64 = 100_000_000;

/// One direction between two ends, with both of its halves if they are in the capture.
#[derive(Debug)]
pub(super) struct Stream {
    pub me: StreamRef,
    pub ends: Ends,
    /// True if a connection in other namespaces has the same addresses.
    pub has_namesakes: bool,
    /// True if more than one flow has it.
    pub has_several_flows: bool,
    /// A program has sent or read some of it.
    pub has_calls: bool,
    /// True after bytes that were sent by one half and received by the other.
    pub proven: bool,
    pub pieces: Pieces,
    /// Newest position; TCP sequence numbers are unwrapped around it.
    pub position: Option<u64>,
    /// Bytes below it have ended and make no piece again.
    pub floor: u64,
    /// All bytes below it were announced to the reader.
    pub ready: u64,
    /// TCP: the thread of its last read, and whether another thread had read before ([`super::read_order`]).
    pub last_reader: u32,
    /// End of the bytes that were sent. New bytes leave in order.
    pub sent_to: u64,
    pub last_ns: u64,
    visit_at: u64,
    pub age_at: u64,
    pub udp: Datagrams,
}

/// Additional state of a stream of datagrams.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    /// Newest datagram with a key.
    pub by_key: Map<(u8, u64), u64>,
    /// Start of the newest datagram in a super-packet.
    pub newest_run: u64,
    /// Datagrams that arrived in the buffer of their sending, minus those that arrived in another.
    pub same_buffers: i64,
    /// Number of the last datagram.
    pub next: u64,
    /// Starts and flows of the receivers' journeys of one datagram to a group, keyed by the start of the
    /// sender's half.
    pub copies: Map<u64, Vec<(u64, FlowId)>>,
}

impl Datagrams {
    /// Releases the references to datagrams, when none is left.
    fn forget_keys(&mut self) {
        self.by_key = Map::default();
        self.copies = Map::default();
    }
}

impl Stream {
    pub fn new(proto: Proto, me: StreamRef) -> Self {
        Stream {
            me,
            ends: Ends { proto, ..Ends::default() },
            has_namesakes: false,
            has_several_flows: false,
            has_calls: false,
            proven: false,
            pieces: Pieces::default(),
            position: None,
            floor: 0,
            ready: 0,
            last_reader: 0,
            sent_to: 0,
            last_ns: 0,
            visit_at: u64::MAX,
            age_at: u64::MAX,
            udp: Datagrams::default(),
        }
    }

    /// Accepts or rejects an event, and updates the true end's flow.
    pub fn admit(&mut self, event: &Event, state: &CorrelatorState) -> Admitted {
        let (flow, hop) = (event.flow, event.hop);
        let rules = state.rules.of(self.ends.proto);
        let (half, other, end_only) = match hop.direction() {
            Direction::Rx => (&mut self.ends.rx, &self.ends.tx, rules.rx_end_only),
            _ => (&mut self.ends.tx, &self.ends.rx, rules.tx_end_only),
        };
        let is_end = bit(hop) & end_only != 0;
        let is_paired = !self.has_namesakes || !other.flow.is_none();
        if half.has(flow) && is_paired {
            if is_end && half.flow != flow {
                half.swap(flow);
            }
            half.sure |= is_end;
            if event.socket != 0 {
                half.socket = event.socket;
            }
            return Admitted::Yes;
        }
        if self.has_namesakes || half.sure && is_certain_end(hop) {
            return Admitted::Namesake;
        }
        if half.flow.is_none() || is_end && !half.sure {
            self.take_half(event, is_end);
            return Admitted::Yes;
        }
        Admitted::Forwarder
    }

    /// Makes the flow of an event one of the two halves. Events of a forwarder, assumed to be this half so far,
    /// do not belong to the journeys.
    pub fn take_half(&mut self, event: &Event, sure: bool) {
        let (half, side) = match event.hop.direction() {
            Direction::Rx => (&mut self.ends.rx, RX),
            _ => (&mut self.ends.tx, TX),
        };
        let before = std::mem::replace(half, Half::of(event, sure));
        if !before.flow.is_none() && before.flow != event.flow {
            // One receiver's journey of a datagram to a group has the hops of its own flow.
            for piece in self.pieces.iter_mut().filter(|piece| side == TX || piece.rx_flow.is_none()) {
                piece.forget(side);
                piece.regain_end(side, event.flow);
            }
        }
    }

    /// Schedules a visit unless an earlier one is due.
    pub fn want_visit(&mut self, at_ns: u64, state: &mut CorrelatorState) {
        if at_ns < self.visit_at {
            self.visit_at = at_ns;
            state.visit_at(at_ns, self.me);
        }
    }

    /// True if its next visit is at `at_ns`; false for a request that an earlier one replaced.
    pub const fn is_due_at(&self, at_ns: u64) -> bool {
        self.visit_at == at_ns
    }

    /// Stamps the piece at `index` and closes it if that was its last event.
    pub fn record_hop(
        &mut self,
        index: usize,
        mark: &Mark,
        state: &mut CorrelatorState,
        done: &mut Vec<Journey>,
    ) {
        let counted_at = state.rules.of(self.ends.proto).counted_at;
        let Some(piece) = self.pieces.get_mut(index) else { return };
        if mark.hop == counted_at {
            state.receive_windows.delay(self.me, piece, mark);
        }
        piece.set_hop_time(mark, counted_at);
        self.proven |= piece.any(TX) && piece.any(RX) && !piece.ambiguous;
        let at = state.settle(&self.ends, piece, mark.hop, mark.time_ns, done);
        if piece.is_gone() {
            self.pieces.count_gone();
        } else {
            if piece.state == State::Open {
                self.age_at = self.age_at.min(at);
            }
            self.want_visit(at, state);
        }
    }

    /// Stamps the piece that starts at `start` if it is open and `fits`.
    pub fn stamp_if(
        &mut self,
        start: u64,
        mark: &Mark,
        fits: impl Fn(&Piece) -> bool,
        state: &mut CorrelatorState,
        done: &mut Vec<Journey>,
    ) {
        if let Some(index) = self.pieces.starting_at(start)
            && self.pieces.get(index).is_some_and(|p| !p.is_gone() && fits(p))
        {
            self.record_hop(index, mark, state, done);
        }
    }

    /// Inserts a new piece at `index`.
    pub fn add(&mut self, index: usize, piece: Piece, state: &mut CorrelatorState) {
        let due = piece.first_ns.saturating_add(state.limits.max_age_ns);
        self.age_at = self.age_at.min(due);
        self.pieces.insert(index, piece);
        state.open += 1;
        self.want_visit(due, state);
    }

    /// Removes closed pieces from the front; bytes below them have ended.
    pub fn tidy(&mut self) {
        let is_tcp = self.ends.proto == Proto::TCP;
        if let Some(end) = self.pieces.tidy(is_tcp)
            && is_tcp
        {
            self.floor = self.floor.max(end);
        }
        if !is_tcp && self.pieces.is_empty() {
            self.udp.forget_keys();
        }
    }

    /// Closes all due pieces: those at the end of their lingering time, and those that are too old.
    pub fn visit(&mut self, at_ns: u64, state: &mut CorrelatorState, done: &mut Vec<Journey>) {
        if !self.is_due_at(at_ns) {
            return;
        }
        self.visit_at = u64::MAX;
        let (now_ns, max_age_ns) = (state.now_ns, state.limits.max_age_ns);
        let ages = now_ns >= self.age_at;
        let (mut next, mut oldest) = (u64::MAX, u64::MAX);
        for index in 0..self.pieces.len() {
            let Some(piece) = self.pieces.get_mut(index) else { break };
            match piece.state {
                State::Gone => continue,
                State::Lingering { until_ns } if until_ns <= now_ns => {
                    state.expire(&self.ends, piece, self.floor, done);
                }
                // Later pieces end later, or hardly earlier.
                State::Lingering { until_ns } => {
                    next = next.min(until_ns);
                    if !ages {
                        break;
                    }
                }
                State::Open => {}
            }
            let half_due = if piece.state == State::Open { state.half_due_ns(&self.ends, piece) } else { None };
            let due = half_due.unwrap_or(piece.first_ns.saturating_add(max_age_ns));
            if ages && piece.state == State::Open && due <= now_ns {
                let why = if half_due.is_some() { CloseReason::Finished } else { CloseReason::Aged };
                state.close(&self.ends, piece, why, done);
            }
            if piece.is_gone() {
                self.pieces.count_gone();
            } else {
                oldest = oldest.min(due);
            }
        }
        if ages {
            self.age_at = oldest.max(now_ns.saturating_add(AGES_NS));
        }
        self.tidy();
        let next = next.min(self.age_at);
        if next != u64::MAX && !self.pieces.is_empty() {
            self.want_visit(next.max(state.not_before()), state);
        }
    }

    /// Closes every piece that `which` selects.
    pub fn close_where(
        &mut self,
        which: impl Fn(&Piece) -> bool,
        why: CloseReason,
        state: &mut CorrelatorState,
        done: &mut Vec<Journey>,
    ) {
        for index in 0..self.pieces.len() {
            let Some(piece) = self.pieces.get_mut(index) else { break };
            if piece.is_gone() || !which(piece) {
                continue;
            }
            let why = match piece.state {
                // It has its last event; only late events are missing.
                State::Lingering { .. } => {
                    state.expire(&self.ends, piece, self.floor, done);
                    why
                }
                // It waits inside a node, and is half.
                _ if why != CloseReason::Aged && state.half_due_ns(&self.ends, piece).is_some() => {
                    CloseReason::Finished
                }
                _ => why,
            };
            state.close(&self.ends, piece, why, done);
            self.pieces.count_gone();
        }
        self.tidy();
    }

    /// Closes all pieces and resets the position of the stream.
    pub fn reset(&mut self, why: CloseReason, state: &mut CorrelatorState, done: &mut Vec<Journey>) {
        self.close_where(|_| true, why, state, done);
        self.pieces.clear();
        self.has_calls = false;
        self.position = None;
        self.floor = 0;
        self.ready = 0;
        self.last_reader = 0;
        self.ends.first_seq = None;
        self.sent_to = 0;
        state.receive_windows.remove(self.me);
        self.age_at = u64::MAX;
        self.udp = Datagrams { next: self.udp.next, ..Datagrams::default() };
    }

    /// Lets pieces below the reader's position linger a moment: the `recv` of another thread may still be
    /// reported.
    pub fn pass_below(&mut self, at: u64, time_ns: u64, state: &mut CorrelatorState) {
        if at <= self.floor {
            return;
        }
        let until_ns = time_ns.saturating_add(TRAIL_NS);
        let spanning = self.pieces.first_ending_after(at);
        self.cut(spanning, at, state);
        let (mut index, mut any) = (self.pieces.first_ending_after(self.floor), false);
        while let Some(piece) = self.pieces.get_mut(index)
            && piece.end <= at
        {
            if piece.state == State::Open {
                piece.state = State::Lingering { until_ns };
                any = true;
            }
            index += 1;
        }
        self.floor = at;
        if any {
            self.want_visit(until_ns, state);
        }
    }
}
