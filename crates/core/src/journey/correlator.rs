//! The correlator: accepts batches, returns journeys.

use super::buffers::{Buffers, shows_buffer};
use super::directory::Directory;
use super::fragments::Fragments;
use super::hosts::Hosts;
use super::ip_ids::IpIds;
use super::journey::Journey;
use super::limits::{Counters, Limits};
use super::passing_segments::PassingSegments;
use super::piece::Mark;
use super::proofs::{Proofs, Proven};
use super::read_order::{ReadOrder, ReadProof, ReadReturn};
use super::readers::{Asked, Readers};
use super::rules::{Rules, is_certain_end};
use super::rungs::ThreadRef;
use super::selection::Selection;
use super::sockets::Sockets;
use super::state::{CloseReason, CorrelatorState, Half, StreamRef};
use super::stream::{Admitted, Stream};
use super::tunnels::Tunnels;
use crate::batch::Batch;
use crate::drop_reason::{CleanUp, Freed};
use crate::event::{Detail, Event, EventFlags};
use crate::flow::{Flow, FlowId, Proto, Task, TcpSample};
use crate::hash::Map;
use crate::hop::{Direction, Hop, HopSet, Role};
use crate::node::NodeInfo;

/// Tasks remembered.
const MAX_TASKS: usize = 1 << 16;
/// Time of the last event of a slot without a stream.
pub(super) const FREE_NS: u64 = u64::MAX;

/// Joins the events of one host to journeys as they arrive.
///
/// Memory is bounded by [`Limits`] for any input, and no input causes a panic.
#[derive(Debug)]
pub struct Correlator {
    pub(super) state: CorrelatorState,
    pub(super) directory: Directory,
    pub(super) streams: Vec<Stream>,
    tasks: Map<u32, Task>,
    pub(super) readers: Readers,
    read_order: ReadOrder,
    pub(super) sockets: Sockets,
    pub(super) fragments: Fragments,
    pub(super) buffers: Buffers,
    pub(super) passing_segments: PassingSegments,
    pub(super) tunnels: Tunnels,
    /// Buffer for the datagrams of one event.
    pub(super) starts: Vec<u64>,
    /// For a log of several hosts.
    several: Option<Hosts>,
    /// Reasons that end no journey: its bytes wait in their queue until the queue is freed.
    pub(super) clean_up: CleanUp,
}

impl Correlator {
    /// A correlator for a capture in which `coverage` hops are served.
    pub fn new(coverage: HopSet, limits: Limits) -> Self {
        Correlator {
            state: CorrelatorState::new(Rules::new(coverage), limits),
            directory: Directory::default(),
            streams: Vec::new(),
            tasks: Map::default(),
            readers: Readers::default(),
            read_order: ReadOrder::default(),
            sockets: Sockets::default(),
            fragments: Fragments::default(),
            buffers: Buffers::default(),
            passing_segments: PassingSegments::default(),
            tunnels: Tunnels::default(),
            starts: Vec::new(),
            several: None,
            clean_up: CleanUp::default(),
        }
    }

    /// A correlator for a node's capture: its coverage and its deliberate omissions.
    pub fn of_node(info: &NodeInfo, limits: Limits) -> Self {
        let mut correlator = Self::new(info.coverage.served(), limits);
        correlator.state.selection = Selection::of(info);
        correlator.clean_up = CleanUp::of(info);
        correlator.tunnels.learn(&info.interfaces);
        correlator.several = info.several.as_ref().map(Hosts::new);
        correlator
    }

    /// Keeps what packets prove of the node's addresses, for a later reader of a part of the same recording.
    pub fn keep_proofs(&mut self) {
        self.directory.keep_proofs();
    }

    /// The proofs so far, if they are kept.
    pub const fn proofs(&self) -> Option<&Proofs> {
        self.directory.proofs()
    }

    /// Begins amid a recording, at an instant of the node's clock (nanoseconds), with the proofs of a reader of all of
    /// it. Call it before the first batch.
    pub fn begin_with(&mut self, proofs: &Proofs, at_ns: u64) {
        self.directory.begin_with(Proven::until(proofs, at_ns));
    }

    /// Processes a batch and appends the ended journeys to `done`.
    pub fn push(&mut self, batch: &Batch, done: &mut Vec<Journey>) {
        let before = done.len();
        self.take(batch, done);
        self.set_clock_relation(&mut done[before..]);
    }

    /// Adds the clock bounds to journeys between two hosts of one recording.
    fn set_clock_relation(&self, done: &mut [Journey]) {
        let Some(several) = &self.several else { return };
        let netns = |flow| self.directory.get(flow).map(|flow| flow.netns);
        for journey in done.iter_mut().filter(|j| !j.tx_flow.is_none() && !j.rx_flow.is_none()) {
            journey.across = several.between(netns(journey.tx_flow), netns(journey.rx_flow));
        }
    }

    fn take(&mut self, batch: &Batch, done: &mut Vec<Journey>) {
        self.directory.next_batch();
        let most = self.state.limits.max_flows.max(1);
        if self.directory.len() + batch.flows.len() > most {
            // Room for all announcements of the batch at once: room for one must not evict another of them.
            let new = batch.flows.iter().filter(|flow| self.directory.get(flow.id).is_none()).count();
            self.forget_idle_flows(most - new.min(most), done);
        }
        for flow in &batch.flows {
            if self.directory.len() >= most && self.directory.get(flow.id).is_none() {
                self.forget_idle_flows(most - 1, done); // more than the maximum
            }
            self.directory.announce(flow, &mut self.state.counters);
        }
        for task in &batch.tasks {
            if self.tasks.len() >= MAX_TASKS && !self.tasks.contains_key(&task.tid) {
                self.state.counters.evicted_others += self.tasks.len() as u64;
                self.tasks.clear(); // they are announced again periodically
            }
            self.tasks.insert(task.tid, task.clone());
        }
        for names in &batch.names {
            self.tunnels.learn(&names.interfaces);
        }
        for change in &batch.changes {
            self.state.selection.change(change.from_ns, change.to_ns, &change.what);
            if change.is_of_rules() {
                let since_ns = self.state.rules_changed_ns.unwrap_or(u64::MAX);
                self.state.rules_changed_ns = Some(since_ns.min(change.from_ns));
            }
        }
        for loss in &batch.losses {
            self.state.losses.push(loss);
            self.state.counters.lost_records = self.state.counters.lost_records.saturating_add(loss.count);
        }
        self.state.counters.late += batch.late;
        self.state.counters.events += batch.events.len() as u64;
        self.state.begun_ns = self.state.begun_ns.or(batch.events.first().map(|event| event.time_ns));
        let mut samples = batch.tcp.iter().peekable();
        for event in &batch.events {
            // A sample precedes the bytes that its acknowledgement releases.
            while let Some(sample) = samples.next_if(|sample| sample.time_ns <= event.time_ns) {
                self.note_receive_window(sample);
            }
            self.event(event, done);
            if self.state.open > self.state.limits.max_pieces {
                self.evict(done);
            }
        }
        samples.for_each(|sample| self.note_receive_window(sample));
        for sample in &batch.tcp {
            self.note_reader(sample);
        }
        let newest_ns = batch.events.last().map_or(self.state.now_ns, |e| e.time_ns);
        self.state.now_ns = if batch.watermark_ns == 0 { newest_ns } else { batch.watermark_ns };
        self.visit_due(done);
    }

    /// Ends the input: closes all open pieces.
    pub fn finish(&mut self, done: &mut Vec<Journey>) {
        let before = done.len();
        self.close_all(done);
        self.set_clock_relation(&mut done[before..]);
    }

    fn close_all(&mut self, done: &mut Vec<Journey>) {
        self.state.now_ns = self.state.now_ns.max(self.state.losses.end_ns());
        for stream in &mut self.streams {
            stream.reset(CloseReason::EndOfInput, &mut self.state, done);
        }
        self.sockets = Sockets::default();
        self.state.counters.stray_fragments += self.fragments.finish();
    }

    /// The flow of an id, while it is stored.
    pub fn flow(&self, id: FlowId) -> Option<&Flow> {
        self.directory.get(id)
    }

    /// True if this host is an end of a flow: an event showed it at a hop that a forwarder does not have.
    pub fn is_end_of(&self, id: FlowId) -> bool {
        let [tx, rx] = self.directory.streams_of(id).map(|slot| self.streams.get(slot? as usize));
        tx.is_some_and(|stream| stream.ends.tx.flow == id && stream.ends.tx.sure)
            || rx.is_some_and(|stream| stream.ends.rx.flow == id && stream.ends.rx.sure)
    }

    /// True if the capture has left out events, and not only all those of a flow.
    pub fn may_leave_out_events(&self) -> bool {
        self.state.selection.has_torn()
    }

    /// All stored flows, in no order.
    pub fn flows(&self) -> impl Iterator<Item = &Flow> {
        self.directory.iter()
    }

    /// A thread, if it was announced.
    pub fn task(&self, tid: u32) -> Option<&Task> {
        self.tasks.get(&tid)
    }

    /// Journeys that are open.
    pub fn in_flight(&self) -> usize {
        self.state.open
    }

    /// Counters of processed and unusable events.
    pub fn counters(&self) -> &Counters {
        &self.state.counters
    }

    fn event(&mut self, event: &Event, done: &mut Vec<Journey>) {
        if self.clean_up.is_event(event) && !self.clean_up.is_unwanted(Freed::of(event)) {
            self.state.counters.cleaned_up += 1;
            return;
        }
        match event.hop.role() {
            Role::Reader => {
                if event.hop == Hop::TaskWake {
                    let order_since_ns = self.state.selection.order_since_ns(false);
                    self.sockets.reader_slept(event, order_since_ns);
                }
                self.state.counters.evicted_others += self.readers.push(event);
            }
            Role::Sample | Role::Point | Role::Overflow | Role::Task => {}
            Role::End => self.socket_ended(event),
            Role::Drop => self.dropped(event, done),
            Role::Send | Role::Packet | Role::Ready | Role::Read | Role::Resend => {
                if event.flags.contains(EventFlags::PARTIAL) {
                    self.state.counters.without_range += 1;
                } else if event.proto == Proto::TCP {
                    self.tcp(event, done);
                } else {
                    self.datagram(event, done);
                }
                if self.tunnels.has_arrived() {
                    self.note_arrived(event, done);
                }
            }
        }
        if matches!(event.hop, Hop::AppRecv | Hop::SockReady) {
            self.readers.note(event);
        }
    }

    pub(super) fn mark(event: &Event) -> Mark {
        let Event { hop, time_ns, cpu, tgid, tid, .. } = *event;
        let at_return = event.is_at_return();
        let ids = IpIds { first: event.ip_id, count: event.segs };
        Mark { hop, time_ns, cpu, who: ThreadRef { tgid, tid }, at_return, doubtful: false, ids }
    }

    /// The stream of an event, if its flow is known and is an end of it.
    pub(super) fn stream_of(&mut self, event: &Event, done: &mut Vec<Journey>) -> Option<usize> {
        let direction = event.hop.direction();
        let Some(mut slot) = self.directory.stream(event.flow, direction, &mut self.streams) else {
            let slot = self.stream_of_socket(event);
            self.state.counters.unattributed += u64::from(slot.is_none());
            return slot;
        };
        // A group has several true receivers.
        let in_group = direction == Direction::Rx && event.flags.contains(EventFlags::GROUP);
        if shows_buffer(event) && !in_group {
            if self.tunnels.has_any() {
                self.follow_tunnel(event, slot, done);
            }
            let in_buffer = self.buffers.replace(event, slot);
            if let Some(before) = in_buffer.or(self.copied(event, slot)) {
                let joined = self.connect(event, slot, before, done);
                if joined != slot {
                    slot = joined;
                    self.buffers.replace(event, slot);
                }
            }
            if self.directory.passes(event.flow, direction == Direction::Rx) && !is_certain_end(event.hop) {
                self.forward(event, slot, done);
                return None;
            }
        }
        let stream = self.streams.get_mut(slot)?;
        if direction != Direction::Off {
            let admitted = stream.admit(event, &self.state);
            if admitted != Admitted::Yes && !in_group {
                let other = match admitted {
                    Admitted::Namesake => self.among_namesakes(event, slot, done),
                    _ => None,
                };
                let Some(other) = other else {
                    if admitted == Admitted::Forwarder {
                        self.forward(event, slot, done);
                    } else {
                        self.state.counters.forwarded += 1;
                    }
                    return None;
                };
                slot = other;
            }
        }
        let stream = self.streams.get_mut(slot)?;
        stream.last_ns = event.time_ns.min(FREE_NS - 1);
        stream.has_calls |= matches!(event.hop, Hop::AppSend | Hop::AppRecv);
        if stream.ends.proto != event.proto {
            self.state.counters.unattributed += 1;
            return None;
        }
        Some(slot)
    }

    /// The stream of an event whose flow lacks a port, by its socket. A socket keeps the identity that it had while
    /// it was connected; the kernel may have cleared its port since. The search visits all streams, so it is not
    /// for flows that are merely unknown.
    fn stream_of_socket(&mut self, event: &Event) -> Option<usize> {
        if event.socket == 0 || event.proto != Proto::TCP || !self.directory.lacks_port(event.flow) {
            return None;
        }
        let receives = event.hop.direction() == Direction::Rx;
        let is_its = |stream: &Stream| {
            let half = if receives { stream.ends.rx } else { stream.ends.tx };
            half.socket == event.socket && stream.ends.proto == event.proto && stream.last_ns != FREE_NS
        };
        let slot = self.streams.iter().position(is_its)?;
        self.streams.get_mut(slot)?.last_ns = event.time_ns.min(FREE_NS - 1);
        Some(slot)
    }

    fn tcp(&mut self, event: &Event, done: &mut Vec<Journey>) {
        let Some(slot) = self.stream_of(event, done) else { return };
        let (state, Some(stream)) = (&mut self.state, self.streams.get_mut(slot)) else { return };
        let (hop, seq, len) = (event.hop, event.seq(), u64::from(event.len));
        let mut mark = Self::mark(event);
        match hop.role() {
            Role::Ready => {
                if let Some(to) = stream.position_of(seq) {
                    stream.announce_ready(to, event.consumer(), &mark, state, done);
                }
                return stream.tidy();
            }
            Role::Resend => {
                if let Some(from) = stream.position_of(seq) {
                    let kind = event.resend_reason();
                    stream.mark_resent(from, from.saturating_add(len), kind, event.time_ns, state);
                }
                return;
            }
            Role::Read if hop == Hop::AppRecv && event.peeks() => {
                if let Some(from) = stream.position_of(seq) {
                    stream.take_back_copy(from, from.saturating_add(len));
                }
                return;
            }
            Role::Send
            | Role::Packet
            | Role::Read
            | Role::Reader
            | Role::Drop
            | Role::Overflow
            | Role::End
            | Role::Sample
            | Role::Point
            | Role::Task => {}
        }
        if event.tcp_flags & 2 != 0 && hop >= Hop::TcpXmit && hop <= Hop::IpIn {
            stream.open_connection(seq, state, done);
        }
        if len == 0 {
            if let Some(count) = hop.rank().and_then(|i| state.counters.empty_segments.get_mut(i)) {
                *count += 1;
            }
            return;
        }
        let from = stream.move_to(seq, state, done);
        let to = from.saturating_add(len);
        let reader = if hop.role() == Role::Read { self.readers.of(&Asked::by(event)) } else { None };
        let is_in_order = !event.flags.contains(EventFlags::OUT_OF_BAND);
        let mut ambiguous_from = None;
        if hop == Hop::AppRecv && is_in_order {
            // Before the first read, another thread may have read the bytes before these.
            let first =
                || stream.pieces.iter().find(|piece| !piece.is_gone()).map_or(from, |piece| piece.start);
            let is_behind_urgent =
                event.flags.contains(EventFlags::URGENT) && stream.floor.saturating_add(1) == from;
            let end = match stream.last_reader {
                _ if is_behind_urgent => from,
                0 => first().min(from),
                _ => stream.floor,
            };
            let (tid, time_ns) = (event.tid, event.time_ns);
            let read = ReadReturn { slot: slot as u32, end, from, to, tid, time_ns };
            let proof = self.read_order.read(&read, &mut stream.last_reader);
            mark.doubtful = proof != ReadProof::Own;
            if let ReadProof::Ambiguous { from } = proof {
                ambiguous_from = Some(from);
            }
        }
        if hop == Hop::AppRecv && is_in_order {
            stream.pass_below(from, event.time_ns, state);
        }
        if hop == Hop::AppRecv && event.flags.contains(EventFlags::URGENT) {
            stream.discard_urgent(from.saturating_sub(1), event.time_ns, state);
        }
        let ended = stream.cover(from, to, &mark, reader.as_ref(), state, done);
        if let Some(from) = ambiguous_from {
            stream.mark_ambiguous_reads(from, to);
        }
        let has_ended = ended.all > 0;
        if hop == state.rules.of(Proto::TCP).counted_at {
            state.counters.resent_after_end_bytes += ended.resent;
            stream.note_sent(to, event.time_ns, state);
        }
        // An old byte, sent only to provoke an answer. Before its read it resembles a retransmission, and the
        // keep-alives of Linux carry none.
        let keeps_alive = len == 1 && hop >= Hop::TcpXmit && hop <= Hop::TcpRecv;
        state.counters.keep_alives += u64::from(has_ended && keeps_alive);
        state.counters.after_end += u64::from(has_ended && !keeps_alive);
        if hop == Hop::AppSend && mark.at_return {
            stream.take_back_promise(to, &mark, state);
        } else if hop == Hop::AppRecv && is_in_order {
            stream.floor = stream.floor.max(to);
        }
        stream.tidy();
    }

    /// A TCP socket is destroyed. Neither can another process read from it, nor does TCP send from it.
    fn socket_ended(&mut self, event: &Event) {
        let [tx, rx] = self.streams_of_socket(event.flow, event.socket);
        let state = &mut self.state;
        if let Some(stream) = rx.and_then(|slot| self.streams.get_mut(slot))
            && let Some(from) = stream.position_of(event.seq())
        {
            let to = from.saturating_add(u64::from(event.len));
            stream.end_reader(from, to, event.time_ns, state);
            if event.flags.contains(EventFlags::URGENT) {
                stream.discard_urgent(from.saturating_sub(1), event.time_ns, state);
            }
        }
        if state.rules.shows_sent
            && let Some(stream) = tx.and_then(|slot| self.streams.get_mut(slot))
        {
            let write_end = match event.detail {
                Detail::WriteSeq(number) => stream.position_of(number.get()),
                _ => None,
            };
            stream.end_sender(write_end, event.time_ns, state);
        }
    }

    /// Applies a sample of a connection's state: its reader may have no event (`splice`).
    fn note_reader(&mut self, sample: &TcpSample) {
        let [_, rx] = self.streams_of_socket(sample.flow, sample.socket);
        if let Some(stream) = rx.and_then(|slot| self.streams.get_mut(slot))
            && let Some(at) = stream.position_of(sample.copied_seq)
        {
            stream.note_reader(at, sample.time_ns);
        }
    }

    /// Applies a sample to the stream that its socket sends.
    fn note_receive_window(&mut self, sample: &TcpSample) {
        let [tx, _] = self.streams_of_socket(sample.flow, sample.socket);
        if let Some(stream) = tx.and_then(|slot| self.streams.get_mut(slot)) {
            stream.note_receive_window(sample, &mut self.state);
        }
    }

    /// The streams in which a socket sends and receives. A later connection with the same addresses has another
    /// socket.
    fn streams_of_socket(&self, flow: FlowId, socket: u64) -> [Option<usize>; 2] {
        let is_its =
            |half: &Half| half.flow == flow && (half.socket == 0 || socket == 0 || half.socket == socket);
        let [tx, rx] = self.directory.streams_of(flow).map(|slot| slot.map(|slot| slot as usize));
        let stream = |slot: &usize| self.streams.get(*slot).filter(|stream| stream.ends.proto == Proto::TCP);
        [
            tx.filter(|slot| stream(slot).is_some_and(|stream| is_its(&stream.ends.tx))),
            rx.filter(|slot| stream(slot).is_some_and(|stream| is_its(&stream.ends.rx))),
        ]
    }

    fn visit_due(&mut self, done: &mut Vec<Journey>) {
        while let Some((at_ns, stream)) = self.state.next_visit() {
            let Some(place) = self.streams.get_mut(stream.slot as usize) else { continue };
            if place.me == stream {
                place.visit(at_ns, &mut self.state, done);
            }
        }
        let streams = &self.streams;
        let is_due = |at_ns, me: StreamRef| {
            streams.get(me.slot as usize).is_some_and(|stream| stream.me == me && stream.is_due_at(at_ns))
        };
        self.state.forget_replaced_visits(streams.len(), is_due);
        let horizon = self.state.now_ns.saturating_sub(self.state.limits.max_age_ns.saturating_mul(2));
        self.state.losses.forget_before(horizon);
    }

    /// Evicts the oldest sixteenth of the open pieces, so that the search for the oldest is worthwhile.
    fn evict(&mut self, done: &mut Vec<Journey>) {
        let open = self.streams.iter().flat_map(|s| s.pieces.iter()).filter(|p| !p.is_gone());
        let mut ages: Vec<u64> = open.map(|p| p.first_ns).collect();
        self.state.open = ages.len();
        if ages.is_empty() {
            return;
        }
        let excess = ages.len().saturating_sub(self.state.limits.max_pieces);
        let count = (excess + self.state.limits.max_pieces / 16).clamp(1, ages.len());
        let horizon = *ages.select_nth_unstable(count - 1).1;
        for stream in &mut self.streams {
            stream.close_where(|p| p.first_ns <= horizon, CloseReason::Evicted, &mut self.state, done);
        }
    }

    /// Evicts flows down to `most`: first those announced and never used, then the sixteenth of the streams
    /// with the longest idle time. More follow, because the other direction may still hold a flow; finally also
    /// those announced just now.
    fn forget_idle_flows(&mut self, most: usize, done: &mut Vec<Journey>) {
        self.state.counters.evicted_flows += self.directory.retain(true, |_| true);
        for (fresh, share) in [(true, 16), (true, 2), (true, 1), (false, 1)] {
            if self.directory.len() <= most {
                return;
            }
            let in_use = self.streams.iter().map(|s| s.last_ns).filter(|ns| *ns != FREE_NS);
            let mut idle: Vec<u64> = in_use.collect();
            let nth = (idle.len() / share).min(idle.len().saturating_sub(1));
            let horizon = if idle.is_empty() { 0 } else { *idle.select_nth_unstable(nth).1 };
            let (streams, state) = (&mut self.streams, &mut self.state);
            let forgotten = self.directory.retain(fresh, |slot| {
                let Some(stream) = streams.get_mut(slot) else { return false };
                if stream.last_ns > horizon {
                    return true;
                }
                stream.reset(CloseReason::Evicted, state, done);
                stream.last_ns = FREE_NS;
                false
            });
            self.state.counters.evicted_flows += forgotten;
        }
    }
}
