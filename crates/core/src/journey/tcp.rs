//! TCP: events are ranges of a byte stream.
//!
//! Sequence numbers are 32 bits and wrap; a stream's newest position determines the wrap of a number. No window
//! is larger than 1 GiB (RFC 7323). A more distant number is another connection, or follows a long unseen
//! stretch: the stream restarts there.

use super::consumer::Consumer;
use super::copies::{CopyDrop, Resend};
use super::drops::DropPlace;
use super::head_of_line::Arrivals;
use super::ip_ids::IpIds;
use super::journey::Journey;
use super::piece::{ARRIVED, Mark, Piece, RX, State, TX_PACKET};
use super::readers::Reader;
use super::rungs::bit;
use super::state::{CloseReason, CorrelatorState, TRAIL_NS};
use super::stream::Stream;
use crate::event::Event;
use crate::flow::{Proto, TcpSample};
use crate::hop::Hop;
use std::ops::Range;

/// Larger than any window and the buffers around it.
const MAX_JUMP: i32 = 1 << 30;

/// Position of a sequence number.
enum Place {
    At(u64),
    TooFar,
    Unknown,
}

/// Bytes of a range whose journeys have ended.
#[derive(Clone, Copy, Default)]
pub(super) struct EndedBytes {
    pub all: u64,
    /// Those of them that were sent before.
    pub resent: u64,
}

impl EndedBytes {
    fn add(&mut self, from: u64, to: u64, sent_to: u64) {
        self.all += to.saturating_sub(from);
        self.resent += to.min(sent_to).saturating_sub(from);
    }
}

impl Stream {
    fn place(&self, seq: u32) -> Place {
        let Some(position) = self.position else { return Place::Unknown };
        let step = seq.wrapping_sub(position as u32) as i32;
        if step.unsigned_abs() > MAX_JUMP.unsigned_abs() {
            return Place::TooFar;
        }
        Place::At(position.saturating_add_signed(i64::from(step)))
    }

    /// Unwraps a number without moving the stream.
    pub fn position_of(&self, seq: u32) -> Option<u64> {
        match self.place(seq) {
            Place::At(at) => Some(at),
            _ => None,
        }
    }

    /// The bytes of a packet of TCP.
    pub fn range_of(&self, event: &Event) -> Option<Range<u64>> {
        let from = self.position_of(event.seq()).filter(|_| self.ends.proto == Proto::TCP)?;
        Some(from..from.saturating_add(u64::from(event.len)))
    }

    /// Unwraps a number and moves the stream there; a jump restarts it.
    pub fn move_to(&mut self, seq: u32, state: &mut CorrelatorState, done: &mut Vec<Journey>) -> u64 {
        // Room below the first number, for bytes in flight at the beginning of the capture.
        let fresh = (1_u64 << 32) + u64::from(seq);
        match self.place(seq) {
            Place::At(at) => {
                self.position = self.position.max(Some(at));
                at
            }
            Place::Unknown => {
                self.position = Some(fresh);
                fresh
            }
            Place::TooFar => {
                state.counters.resets += 1;
                self.reset(CloseReason::Reset, state, done);
                self.position = Some(fresh);
                fresh
            }
        }
    }

    /// A SYN at a packet hop; `seq` is the first byte of the connection.
    pub fn open_connection(&mut self, seq: u32, state: &mut CorrelatorState, done: &mut Vec<Journey>) {
        if self.ends.first_seq == Some(seq) {
            return; // the same SYN at another hop, or a retransmission
        }
        // Fast open: the send was reported first, and the connection has no other event.
        let declared =
            |at: u64| self.floor <= at && self.pieces.iter().all(|p| p.start >= at && p.is_only_promised());
        if self.ends.first_seq.is_none()
            && !self.pieces.is_empty()
            && self.position_of(seq).is_some_and(declared)
        {
            self.ends.first_seq = Some(seq);
            return;
        }
        if self.position.is_some() {
            state.counters.resets += 1;
            self.reset(CloseReason::Reset, state, done);
        }
        self.ends.first_seq = Some(seq);
        self.position = Some((1 << 32) + u64::from(seq));
    }

    /// Records an event on the bytes `[from, to)`: cuts pieces at both ends, and makes new ones in gaps.
    /// Returns the bytes of ended journeys.
    pub fn cover(
        &mut self,
        from: u64,
        to: u64,
        mark: &Mark,
        reader: Option<&Reader>,
        state: &mut CorrelatorState,
        done: &mut Vec<Journey>,
    ) -> EndedBytes {
        let mut index = self.pieces.first_ending_after(from);
        index += usize::from(self.cut(index, from, state));
        let (mut at, mut ended, sent_to) = (from, EndedBytes::default(), self.sent_to);
        while at < to {
            match self.pieces.get(index) {
                Some(piece) if piece.start <= at => {
                    let start = at;
                    at = piece.end.min(to);
                    if piece.is_gone() {
                        ended.add(start, at, sent_to);
                    } else {
                        self.cut(index, to, state);
                        self.meet_reader(index, mark, reader);
                        self.record_hop(index, mark, state, done);
                    }
                    index += 1;
                }
                next => {
                    let end = next.map_or(to, |piece| piece.start.min(to));
                    let start = at.max(self.floor);
                    ended.add(at, start.min(end), sent_to);
                    at = end;
                    if start < end {
                        self.add(index, Piece::new(start, end, mark.time_ns), state);
                        self.record_hop(index, mark, state, done);
                        index += 1;
                    }
                }
            }
        }
        ended
    }

    /// Cuts the piece at `index` at `at` if that is inside it.
    pub fn cut(&mut self, index: usize, at: u64, state: &mut CorrelatorState) -> bool {
        let Some(piece) = self.pieces.get(index) else { return false };
        if at <= piece.start || at >= piece.end {
            return false;
        }
        state.open += usize::from(!piece.is_gone());
        self.pieces.split(index, at);
        true
    }

    fn meet_reader(&mut self, index: usize, mark: &Mark, reader: Option<&Reader>) {
        // An earlier copy has already passed the reader, at the correct time.
        if let (Some(reader), Some(piece)) = (reader, self.pieces.get_mut(index))
            && !piece.has(Hop::AppCopy)
            && !piece.has(mark.hop)
        {
            reader.set_wake_up(piece, mark.time_ns);
        }
    }

    /// The socket notified its reader of all data below `to`.
    pub fn announce_ready(
        &mut self,
        to: u64,
        consumer: Option<Consumer>,
        mark: &Mark,
        state: &mut CorrelatorState,
        done: &mut Vec<Journey>,
    ) {
        let from = self.ready.max(self.floor);
        if to <= from {
            return;
        }
        self.ready = to;
        let mut arrivals = Arrivals::default();
        let mut index = self.pieces.first_ending_after(from);
        index += usize::from(self.cut(index, from, state));
        while let Some(piece) = self.pieces.get(index)
            && piece.start < to
        {
            let is_new = piece.any(ARRIVED) && !piece.is_gone() && !piece.has(Hop::SockReady);
            if is_new && state.may_announce(piece, mark.time_ns) {
                self.cut(index, to, state);
                if let Some(piece) = self.pieces.get_mut(index) {
                    arrivals.pass(piece);
                }
                self.record_hop(index, mark, state, done);
                if consumer.is_some() {
                    self.deliver(index, consumer, mark.time_ns, state);
                }
            }
            index += 1;
        }
    }

    /// The reads of open bytes in `[from, to)` may be those of other threads.
    pub fn mark_ambiguous_reads(&mut self, from: u64, to: u64) {
        let mut index = self.pieces.first_ending_after(from);
        while let Some(piece) = self.pieces.get_mut(index)
            && piece.start < to
        {
            piece.ambiguous |= piece.has(Hop::AppRecv);
            index += 1;
        }
    }

    /// The kernel takes the bytes of a piece from the socket.
    fn deliver(&mut self, index: usize, consumer: Option<Consumer>, time_ns: u64, state: &mut CorrelatorState) {
        let Some(piece) = self.pieces.get_mut(index).filter(|piece| !piece.is_gone()) else { return };
        piece.consumer = consumer;
        // Some of the kernel's other code reads by calls that have an event.
        if consumer != Some(Consumer::Kernel) {
            let until_ns = time_ns.saturating_add(TRAIL_NS);
            piece.state = State::Lingering { until_ns };
            self.want_visit(until_ns, state);
        }
    }

    /// The reader's socket is destroyed: `[from, to)` was received and not read.
    pub fn end_reader(&mut self, from: u64, to: u64, time_ns: u64, state: &mut CorrelatorState) {
        self.pass_below(from, time_ns, state);
        let received = |piece: &Piece| piece.start < to || piece.has(Hop::TcpRecv) && piece.drop.is_none();
        self.discard(from, to, u64::MAX, received, time_ns, state);
    }

    /// The sender's socket is destroyed: bytes that never left it were discarded. It had accepted those below
    /// `write_end`, where that is known.
    ///
    /// A single declared byte at that end is the number of the FIN.
    pub fn end_sender(&mut self, write_end: Option<u64>, time_ns: u64, state: &mut CorrelatorState) {
        let end = write_end.unwrap_or(0);
        let at_end = self.pieces.first_ending_after(end);
        self.cut(at_end, end, state);
        let accepted = |piece: &Piece| {
            piece.end < end || piece.end == end && piece.end - piece.start > 1 || !piece.is_only_promised()
        };
        let unsent = |piece: &Piece| !piece.any(TX_PACKET | RX) && accepted(piece);
        let mut all = self.pieces.iter().filter(|piece| !piece.is_gone() && unsent(piece));
        let Some((from, first_ns)) = all.next().map(|piece| (piece.start, piece.first_ns)) else { return };
        let since_ns = all.map(|piece| piece.first_ns).fold(first_ns, u64::min);
        // A packet's record that is lost or was left out would say otherwise.
        if !state.losses.overlap(since_ns, time_ns) && !state.selection.may_hide(since_ns, time_ns) {
            self.discard(from, from, u64::MAX, unsent, time_ns, state);
        }
    }

    /// Reads passed over the urgent byte at `at`.
    pub fn discard_urgent(&mut self, at: u64, time_ns: u64, state: &mut CorrelatorState) {
        let next = at.saturating_add(1);
        self.discard(at, next, next, |_| true, time_ns, state);
    }

    /// Bytes from `from` on, below `end`, that `which` selects were discarded; with a cut at `to`. A read that is
    /// reported late still counts.
    fn discard(
        &mut self,
        from: u64,
        to: u64,
        end: u64,
        which: impl Fn(&Piece) -> bool,
        time_ns: u64,
        state: &mut CorrelatorState,
    ) {
        let until_ns = time_ns.saturating_add(TRAIL_NS);
        let mut index = self.pieces.first_ending_after(from);
        index += usize::from(self.cut(index, from, state));
        let mut any = false;
        while let Some(piece) = self.pieces.get(index)
            && piece.start < end
        {
            if !piece.is_gone() && !piece.has(Hop::AppRecv) && which(piece) {
                self.cut(index, to, state);
                if let Some(piece) = self.pieces.get_mut(index) {
                    piece.discarded = true;
                    piece.state = State::Lingering { until_ns };
                    any = true;
                }
            }
            index += 1;
        }
        if any {
            self.want_visit(until_ns, state);
        }
    }

    /// The socket's reader is at `at`, according to the connection's state. Its call may not have returned.
    pub fn note_reader(&mut self, at: u64, time_ns: u64) {
        if at <= self.floor {
            return;
        }
        let mut index = self.pieces.first_ending_after(self.floor);
        while let Some(piece) = self.pieces.get_mut(index)
            && piece.end <= at
        {
            if piece.passed_ns == 0 {
                piece.passed_ns = time_ns;
            }
            index += 1;
        }
    }

    /// Bytes below `to` were sent.
    pub fn note_sent(&mut self, to: u64, time_ns: u64, state: &mut CorrelatorState) {
        if to > self.sent_to {
            self.sent_to = to;
            state.receive_windows.note_sent(self.me, time_ns);
        }
    }

    /// Applies a sample of its sender's connection.
    pub fn note_receive_window(&self, sample: &TcpSample, state: &mut CorrelatorState) {
        let is_last = self.position_of(sample.snd_nxt) == Some(self.sent_to);
        // A call that waits for room in the queue has declared bytes that the sample does not count.
        let waits = self.pieces.iter().next_back().is_some_and(|piece| piece.end > self.sent_to);
        state.receive_windows.note(self.me, sample, is_last, waits);
    }

    /// Reverts a peeking `recv` on `[from, to)`.
    pub fn take_back_copy(&mut self, from: u64, to: u64) {
        let mut index = self.pieces.first_ending_after(from);
        while let Some(piece) = self.pieces.get_mut(index)
            && piece.start < to
        {
            if !piece.has(Hop::AppRecv) {
                piece.rungs.clear(bit(Hop::AppCopy));
            }
            index += 1;
        }
    }

    /// A `send` has returned, and `to` is the end of the accepted bytes: those declared beyond will not follow.
    pub fn take_back_promise(&mut self, to: u64, mark: &Mark, state: &mut CorrelatorState) {
        let from = self.pieces.first_ending_after(to);
        let mut at = from + usize::from(self.cut(from, to, state));
        // Usually there is nothing to do; check before any move.
        at = at.min(self.pieces.len());
        if at == self.pieces.len() {
            return;
        }
        let (count, bytes) = self.pieces.remove_from(at, |piece| {
            piece.start >= to
                && piece.is_only_promised()
                && piece.sender.tid == mark.who.tid
                && piece.last_ns <= mark.time_ns
        });
        state.open = state.open.saturating_sub(count);
        state.counters.never_sent_bytes += bytes;
    }

    /// `tcp.retransmit`: the kernel sent `[from, to)` again.
    pub fn mark_resent(&mut self, from: u64, to: u64, kind: Resend, time_ns: u64, state: &mut CorrelatorState) {
        let mut index = self.pieces.first_ending_after(from);
        index += usize::from(self.cut(index, from, state));
        while let Some(piece) = self.pieces.get(index)
            && piece.start < to
        {
            if !piece.is_gone() {
                self.cut(index, to, state);
                if let Some(piece) = self.pieces.get_mut(index) {
                    piece.mark_retransmitted(kind, time_ns);
                }
            }
            index += 1;
        }
    }

    /// Newest time of a packet that the kernel could have dropped at these bytes; `None` without an open one.
    pub fn droppable(&mut self, range: &Range<u64>) -> Option<u64> {
        let index = self.pieces.first_ending_after(range.start);
        let piece = self.pieces.get(index)?;
        // The kernel frees in its own time what it has taken.
        let is_taken = piece.has(Hop::AppCopy) || piece.consumer.is_some();
        let open = piece.start < range.end && !piece.is_gone() && !piece.is_only_promised() && !is_taken;
        open.then_some(piece.last_ns)
    }

    /// The kernel dropped a packet with `[from, to)` in the namespace of no end.
    pub fn end_transits(&mut self, range: &Range<u64>, netns: u32) {
        let mut index = self.pieces.first_ending_after(range.start);
        while let Some(piece) = self.pieces.get_mut(index).filter(|piece| piece.start < range.end) {
            piece.end_transit(netns);
            index += 1;
        }
    }

    /// The kernel dropped a packet with `[from, to)`. Before the receiver, arrived bytes were not lost with it: it
    /// was another copy.
    pub fn mark_dropped(
        &mut self,
        range: Range<u64>,
        place: DropPlace,
        drop: CopyDrop,
        ids: IpIds,
        state: &mut CorrelatorState,
    ) {
        let Range { start: from, end: to } = range;
        let mut index = self.pieces.first_ending_after(from);
        index += usize::from(self.cut(index, from, state));
        while let Some(piece) = self.pieces.get(index)
            && piece.start < to
        {
            let arrived = place.is_before_receiver && piece.any(RX);
            let several = piece.passes.is_some();
            let is_taken = piece.has(Hop::AppRecv) || piece.consumer.is_some();
            if !piece.is_gone() && !is_taken && (several || !arrived) {
                self.cut(index, to, state);
                if let Some(piece) = self.pieces.get_mut(index) {
                    piece.mark_dropped(drop, ids, place, arrived);
                }
            }
            index += 1;
        }
    }
}
