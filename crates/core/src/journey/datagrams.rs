//! The correlator's part for datagrams: assigns events to datagrams.

use super::correlator::Correlator;
use super::drops::DropMatch;
use super::entry::Arrival;
use super::fragments::{self, Piecemeal};
use super::journey::Journey;
use super::piece::{Mark, Piece, RX, State};
use super::queue::{Conditions, Front};
use super::readers::Asked;
use super::rungs::{ThreadRef, bit};
use super::sockets::{DatagramRef, Queued, Read};
use super::state::{COPY_NS, CloseReason, StreamRef};
use super::stream::Stream;
use super::udp::segments;
use crate::drop_reason::Freed;
use crate::event::{Detail, Event, EventFlags, Extent};
use crate::flow::Proto;
use crate::hop::{Direction, Hop, Role};

impl Correlator {
    pub(super) fn datagram(&mut self, event: &Event, done: &mut Vec<Journey>) {
        let is_udp = event.proto == Proto::UDP;
        let is_of_udp = is_udp && event.hop.passes(Proto::UDP);
        match event.hop.role() {
            Role::Send if is_of_udp => self.datagram_sent(event, done),
            Role::Read if is_of_udp => self.datagram_read(event, done),
            Role::Ready if is_of_udp => self.datagrams_ready(event, done),
            Role::Packet if event.hop.passes(Proto::UDP) => {
                if fragments::is_fragment(event) {
                    self.fragment(event, done);
                } else {
                    self.packet(event, done);
                }
            }
            Role::Send
            | Role::Packet
            | Role::Ready
            | Role::Reader
            | Role::Read
            | Role::Resend
            | Role::Drop
            | Role::Overflow
            | Role::End
            | Role::Sample
            | Role::Point
            | Role::Task => {
                let counters = &mut self.state.counters;
                let count = if is_udp { &mut counters.without_range } else { &mut counters.other_protocols };
                *count += 1;
            }
        }
    }

    fn packet(&mut self, event: &Event, done: &mut Vec<Journey>) {
        if event.is_for_order() {
            if event.socket != 0 {
                self.sockets.other_arrived(event);
            }
            return;
        }
        // Merging gives datagrams another buffer. Without an identification only their order and length then connect
        // them with those that were sent, and this event would use that up.
        if event.hop == Hop::NapiPoll && event.ip_id == 0 {
            self.state.counters.without_range += 1;
            return;
        }
        let Some(slot) = self.stream_of(event, done) else { return };
        let Some(stream) = self.streams.get_mut(slot) else { return };
        let mut mark = Self::mark(event);
        if event.hop != Hop::IpOut {
            mark.who = ThreadRef::default();
        }
        let mut starts = std::mem::take(&mut self.starts);
        starts.clear();
        stream.datagrams(event, &mark, &mut self.state, done, &mut starts);
        if event.flags.contains(EventFlags::GROUP) && event.hop.direction() == Direction::Rx {
            let netns = |flow| self.directory.get(flow).map(|flow| flow.netns);
            if netns(event.flow).is_some() && netns(event.flow) == netns(stream.ends.tx.flow) {
                for start in &starts {
                    stream.looped_back(*start);
                }
            }
        }
        if event.hop == Hop::DevDone
            && let [start] = starts[..]
        {
            // The driver returned after the receivers had their copies.
            for copy in stream.with_copies(start).skip(1) {
                stream.stamp_if(copy, &mark, |p| p.has(Hop::DevXmit), &mut self.state, done);
            }
        }
        stream.tidy();
        let run = Queued::run(stream.me, &starts, event.len);
        self.starts = starts;
        let Some(run) = run else { return };
        if event.hop == Hop::IpOut {
            if let Some(begun) = self.sockets.send_began(event.tid, event.socket, event.len) {
                self.set_hop_time(&run, &begun, false, None, done);
            }
            self.sockets.went_out(event.tid, event.socket, &run);
        } else if event.hop == Hop::UdpRecv && event.socket != 0 {
            if self.directory.get(event.flow).is_some_and(|flow| self.state.selection.may_hide_read(flow)) {
                self.leave_unassigned(&run);
            }
            let Event { skb, cpu, time_ns, .. } = *event;
            self.sockets.arrived(event.socket, Arrival { run, skb, cpu, time_ns });
            if self.sockets.is_crowded(self.state.open) {
                let streams = &self.streams;
                self.sockets.forget(|d| is_open(streams, d));
            }
        }
        self.state.counters.evicted_others += std::mem::take(&mut self.sockets.forgotten);
    }

    fn fragment(&mut self, event: &Event, done: &mut Vec<Journey>) {
        self.state.counters.later_fragments += u64::from(event.flags.contains(EventFlags::FRAGMENT));
        let Some(flow) = self.directory.get(event.flow).copied() else {
            self.state.counters.unattributed += 1;
            return;
        };
        let mut mark = Self::mark(event);
        mark.who = ThreadRef::default();
        let piecemeal = self.fragments.push(event, &flow, &mark);
        self.state.counters.stray_fragments += std::mem::take(&mut self.fragments.stray);
        match piecemeal {
            Piecemeal::Nothing => return,
            Piecemeal::Part => {}
            Piecemeal::Unknown => {
                let Some(slot) = self.stream_of(event, done) else { return };
                let Some(stream) = self.streams.get_mut(slot) else { return };
                let Some(index) = stream.find_or_make(event, &mut self.state) else { return };
                let Some(piece) = stream.pieces.get(index) else { return };
                self.fragments.is_part_of(event, &flow, (stream.me, piece.start));
                // A datagram with no other information: this fragment was here at least.
                if piece.rungs.is_empty() {
                    stream.record_hop(index, &mark, &mut self.state, done);
                }
            }
        }
        let Some(((me, start), marks, total)) = self.fragments.passed(event, &flow) else { return };
        let Some(stream) = stream_at(&mut self.streams, me) else { return };
        let state = &mut self.state;
        let Some(index) = stream.pieces.starting_at(start) else {
            state.counters.after_end += marks.len() as u64;
            return;
        };
        for mark in marks {
            let Some(piece) = stream.pieces.get_mut(index).filter(|p| !p.is_gone()) else {
                state.counters.after_end += 1;
                continue;
            };
            if piece.has(mark.hop) && bit(mark.hop) & RX != 0 {
                // Its first fragment represented it so far.
                piece.rungs.set(mark.hop, mark.time_ns, mark.cpu, false);
                if event.proto != Proto::UDP {
                    piece.end = piece.start + u64::from(fragments::payload(total));
                }
            }
            stream.record_hop(index, &mark, state, done);
        }
        stream.tidy();
    }

    /// Stamps the datagrams from a socket's queue or a send.
    fn set_hop_time(
        &mut self,
        run: &Queued,
        mark: &Mark,
        ambiguous: bool,
        in_doubt_since_ns: Option<u64>,
        done: &mut Vec<Journey>,
    ) {
        let Some(stream) = stream_at(&mut self.streams, run.first.stream) else { return };
        for start in run.starts() {
            for start in stream.with_copies(start) {
                let Some(index) = stream.pieces.starting_at(start) else { continue };
                let Some(piece) = stream.pieces.get_mut(index).filter(|p| !p.is_gone()) else { continue };
                if mark.hop == Hop::SockReady && !self.state.may_announce(piece, mark.time_ns) {
                    continue;
                }
                // A send that returns after a loss may belong to an unseen datagram.
                let in_doubt = mark.at_return && self.state.losses.overlap(piece.first_ns, mark.time_ns);
                piece.read_in_doubt_since_ns = piece.read_in_doubt_since_ns.or(in_doubt_since_ns);
                if (ambiguous || in_doubt) && !piece.ambiguous {
                    piece.ambiguous = true;
                    self.state.counters.ambiguous_datagrams += 1;
                }
                stream.record_hop(index, mark, &mut self.state, done);
            }
        }
        stream.tidy();
    }

    fn datagram_sent(&mut self, event: &Event, done: &mut Vec<Journey>) {
        let mark = Self::mark(event);
        if !mark.at_return {
            // The same thread makes its packet next.
            self.state.counters.unmatched_sends += self.sockets.send_begins(event, mark);
            return;
        }
        self.state.counters.unmatched_sends += self.sockets.send_ended(event.tid);
        match self.sockets.send_returned(event.tid, event.socket, event.len) {
            Some(run) => self.set_hop_time(&run, &mark, false, None, done),
            None => self.state.counters.unmatched_sends += 1,
        }
    }

    fn datagram_read(&mut self, event: &Event, done: &mut Vec<Journey>) {
        let mark = Self::mark(event);
        let streams = &self.streams;
        if let Extent::CopiedBuffer(skb) = event.extent {
            match self.sockets.copied(event.socket, skb.get(), |d| is_open(streams, d)) {
                Some(run) => {
                    self.stamp_reader(&run, event);
                    self.set_hop_time(&run, &mark, false, None, done);
                }
                None => self.state.counters.unmatched_reads += 1,
            }
            return;
        }
        let peeks = event.peeks();
        let front = match event.extent {
            Extent::NextBuffer(skb) => Front::Buffer(skb.get()),
            _ if event.flags.contains(EventFlags::QUEUE_EMPTY) => Front::Empty,
            _ => Front::Unknown,
        };
        let looks = event.hop == Hop::AppCopy || peeks;
        let empty_ns = match event.detail {
            Detail::EmptyRead(ns) => event.time_ns.saturating_sub(u64::from(ns.get())),
            _ => 0,
        };
        let read = Read { len: event.len, time_ns: event.time_ns, looks, tid: event.tid, front, empty_ns };
        let shows_drops = self.state.rules.reports_drops && !self.state.selection.hides_drops();
        let conditions = Conditions {
            losses: &self.state.losses,
            order_since_ns: self.state.selection.order_since_ns(!event.flow.is_none()),
            shows_drops,
        };
        let found = self.sockets.read(event.socket, &read, conditions, |d| is_open(streams, d));
        let Some(found) = found.filter(|_| !peeks) else {
            self.state.counters.unmatched_reads += u64::from(!peeks);
            return;
        };
        for run in &found.gone {
            if found.torn || !shows_drops {
                self.leave_unassigned(run);
            } else {
                self.left_unseen(run, found.in_doubt_since_ns, done);
            }
        }
        let Some(run) = &found.run else {
            self.state.counters.unmatched_reads += 1;
            return;
        };
        // The datagram of this read is unknown, so no read time is recorded.
        if found.torn {
            self.state.counters.unmatched_reads += 1;
            self.leave_unassigned(run);
        // A copy of a length outside the queue may belong to another read: it is left out.
        } else if event.hop == Hop::AppRecv || !found.ambiguous {
            let cut_off =
                if event.hop == Hop::AppRecv { self.cut_off(run, u64::from(event.len)) } else { Vec::new() };
            let run = run.without(&cut_off);
            self.stamp_reader(&run, event);
            self.set_hop_time(&run, &mark, found.ambiguous, found.in_doubt_since_ns, done);
            self.discard(run.first.stream, &cut_off, done);
        }
    }

    /// Of several datagrams in one buffer those behind the reader's memory, `len` bytes: the kernel discards them.
    fn cut_off(&self, run: &Queued, len: u64) -> Vec<u64> {
        let stream = self.streams.get(run.first.stream.slot as usize);
        let Some(stream) = stream.filter(|stream| stream.me == run.first.stream) else { return Vec::new() };
        let bytes = |start: u64| {
            let piece = stream.pieces.starting_at(start).and_then(|index| stream.pieces.get(index));
            piece.map_or(0, |piece| piece.end - piece.start)
        };
        let mut at = 0;
        let mut is_behind = |start: &u64| {
            let begin = at;
            at += bytes(*start);
            begin > 0 && begin >= len
        };
        run.starts().filter(|start| is_behind(start)).collect()
    }

    /// Ends datagrams that a read has discarded.
    fn discard(&mut self, stream: StreamRef, starts: &[u64], done: &mut Vec<Journey>) {
        let Some(stream) = stream_at(&mut self.streams, stream) else { return };
        for start in starts {
            for start in stream.with_copies(*start) {
                if let Some(index) = stream.pieces.starting_at(start)
                    && let Some(piece) = stream.pieces.get_mut(index)
                {
                    piece.discarded = true;
                }
                let is_it = |piece: &Piece| piece.start == start;
                stream.close_where(is_it, CloseReason::Discarded, &mut self.state, done);
            }
        }
    }

    /// Ends datagrams that left the socket's queue without a read that was seen. `in_doubt_since_ns`: records were lost
    /// since then, and those of their reads may be among them.
    fn left_unseen(&mut self, run: &Queued, in_doubt_since_ns: Option<u64>, done: &mut Vec<Journey>) {
        let Some(stream) = stream_at(&mut self.streams, run.first.stream) else { return };
        for start in run.starts() {
            if let Some(piece) = stream.pieces.starting_at(start).and_then(|index| stream.pieces.get_mut(index))
            {
                piece.read_in_doubt_since_ns = piece.read_in_doubt_since_ns.or(in_doubt_since_ns);
            }
            stream.close_where(|piece| piece.start == start, CloseReason::Passed, &mut self.state, done);
        }
    }

    /// Marks datagrams with an unknown read: a read took these, or as many others.
    fn leave_unassigned(&mut self, run: &Queued) {
        let Some(stream) = stream_at(&mut self.streams, run.first.stream) else { return };
        for start in run.starts() {
            for start in stream.with_copies(start) {
                let Some(index) = stream.pieces.starting_at(start) else { continue };
                if let Some(piece) = stream.pieces.get_mut(index) {
                    piece.read_unrecorded = true;
                }
            }
        }
    }

    /// Records the activity of these datagrams' reader before the read.
    fn stamp_reader(&mut self, run: &Queued, event: &Event) {
        let Some(reader) = self.readers.of(&Asked::by(event)) else { return };
        let Some(stream) = stream_at(&mut self.streams, run.first.stream) else { return };
        for start in run.starts() {
            let Some(index) = stream.pieces.starting_at(start) else { continue };
            if let Some(piece) = stream.pieces.get_mut(index).filter(|p| !p.is_gone() && !p.has(Hop::AppCopy)) {
                reader.set_wake_up(piece, event.time_ns);
            }
        }
    }

    fn datagrams_ready(&mut self, event: &Event, done: &mut Vec<Journey>) {
        let mark = Self::mark(event);
        let mut reported = Vec::new();
        self.sockets.announced(event, |run| reported.push(run.clone()));
        for run in reported {
            self.set_hop_time(&run, &mark, false, None, done);
        }
    }

    pub(super) fn datagram_dropped(&mut self, event: &Event, done: &mut Vec<Journey>) -> DropMatch {
        if event.is_for_order() {
            return DropMatch::of(self.sockets.other_dropped(event.flow, event.len));
        }
        if event.flow.is_none() {
            return self.dropped_from_queue(event, done);
        }
        if fragments::is_fragment(event) {
            return self.fragment_dropped(event, done);
        }
        segments(event).map(|one| self.one_dropped(&one, done)).max().unwrap_or(DropMatch::NoPacket)
    }

    /// The kernel freed a datagram that waited in a socket's queue: a read failed to copy it, or found its
    /// checksum wrong. Its device and namespace are unknown there; its buffer and identification are known.
    fn dropped_from_queue(&mut self, event: &Event, done: &mut Vec<Journey>) -> DropMatch {
        let streams = &self.streams;
        let is_it = |datagram: &DatagramRef| {
            let stream = streams.get(datagram.stream.slot as usize).filter(|s| s.me == datagram.stream);
            let piece = stream.and_then(|s| s.pieces.get(s.pieces.starting_at(datagram.start)?));
            piece.is_some_and(|p| p.skb == event.skb && p.ip_id == event.ip_id && !p.is_gone())
        };
        let Some(run) = self.sockets.take_waiting(event.skb, event.len, is_it) else {
            return DropMatch::NoPacket;
        };
        for start in run.starts() {
            self.end_dropped((run.first.stream, start), event, done);
        }
        DropMatch::Found
    }

    fn one_dropped(&mut self, event: &Event, done: &mut Vec<Journey>) -> DropMatch {
        for direction in [Direction::Rx, Direction::Tx] {
            let Some(slot) = self.directory.stream(event.flow, direction, &mut self.streams) else {
                return DropMatch::NoFlow;
            };
            let Some(stream) = self.streams.get_mut(slot) else { continue };
            let Some(index) = stream.dropped_datagram(event) else { continue };
            if stream.is_part_of_merged(index, event) {
                self.state.counters.cleaned_up += 1;
                return DropMatch::Found;
            }
            let Some(start) = stream.pieces.get(index).map(|p| p.start) else { continue };
            let datagram = (stream.me, start);
            self.end_dropped(datagram, event, done);
            return DropMatch::Found;
        }
        DropMatch::NoPacket
    }

    /// A datagram that lost a fragment is lost.
    fn fragment_dropped(&mut self, event: &Event, done: &mut Vec<Journey>) -> DropMatch {
        let Some(flow) = self.directory.get(event.flow).copied() else { return DropMatch::NoFlow };
        let Some(datagram) = self.fragments.dropped(event, &flow) else { return DropMatch::NoPacket };
        self.end_dropped(datagram, event, done);
        DropMatch::Found
    }

    fn end_dropped(&mut self, (me, start): (StreamRef, u64), event: &Event, done: &mut Vec<Journey>) {
        let Some(ends) = stream_at(&mut self.streams, me).map(|stream| stream.ends) else { return };
        let between = self.drop_between_ends(&ends, event.flow);
        let Some(stream) = stream_at(&mut self.streams, me) else { return };
        let piece = stream.pieces.starting_at(start).and_then(|index| stream.pieces.get_mut(index));
        let Some(piece) = piece.filter(|p| !p.is_gone() && !p.has(Hop::AppRecv)) else {
            self.state.counters.unmatched_drops += 1;
            return;
        };
        if let Some(netns) = between {
            piece.end_transit(netns);
        }
        if between.is_some() && ends.rx.sure && piece.any(RX) {
            self.state.counters.unmatched_drops += 1; // of a copy: this one has arrived
            return;
        }
        if self.clean_up.is_unwanted(Freed::of(event)) && !piece.has(Hop::UdpRecv) {
            self.state.counters.cleaned_up += 1;
            // The host is not in the group, so the datagram has no journey to it. Of other protocols nothing shows a
            // socket: what came as far as the kernel's own receiver ends there.
            if event.proto == Proto::UDP || !piece.has(Hop::IpIn) {
                piece.shared = true;
                stream.close_where(|p| p.start == start, CloseReason::Finished, &mut self.state, done);
            }
            return;
        }
        let drop = self.state.copy_drop(event);
        piece.drop = Some((drop, piece.rungs.present()));
        if between.is_some() && piece.rx_flow.is_none() {
            self.state.counters.drops += 1;
            let until_ns = event.time_ns.saturating_add(COPY_NS);
            piece.state = State::Lingering { until_ns };
            stream.want_visit(until_ns, &mut self.state);
            return;
        }
        // It does not wait for late events any more: this was its end. Of other protocols than UDP, a host frees the copies
        // of packets to groups that it is not in, and some kernels give no reason.
        if event.proto == Proto::UDP || piece.rx_flow.is_none() {
            piece.state = State::Open;
        }
        let origin = piece.origin;
        stream.share(origin, event.time_ns, &mut self.state);
        self.state.counters.drops += 1;
        // No sender sends it again.
        stream.close_where(|p| p.start == start, CloseReason::Aged, &mut self.state, done);
    }
}

/// The stream of this reference, unless another has its slot by now.
fn stream_at(streams: &mut [Stream], me: StreamRef) -> Option<&mut Stream> {
    streams.get_mut(me.slot as usize).filter(|stream| stream.me == me)
}

/// True if a datagram still waits for a read.
fn is_open(streams: &[Stream], datagram: &DatagramRef) -> bool {
    if datagram.is_other() {
        return true;
    }
    let Some(stream) = streams.get(datagram.stream.slot as usize).filter(|s| s.me == datagram.stream) else {
        return false;
    };
    let piece = stream.pieces.starting_at(datagram.start).and_then(|index| stream.pieces.get(index));
    piece.is_some_and(|p| !p.is_gone() && !p.has(Hop::AppRecv))
}
