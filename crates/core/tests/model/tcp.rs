//! One direction of a TCP connection: an application that writes, segmentation, a network, GRO, a receive queue
//! and a reader.

use super::{About, Random, Segment, StreamTruth, World};
use magscope_core::journey::Consumer;
use magscope_core::{DetailKind, Event, EventFlags, ExtentKind, Flow, FlowId, Hop, Proto};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;

const SUPER: u64 = 65_000;
const MAX_ACTS: usize = 4_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    Write,
    Push,
    Poll,
    Arrive(Segment),
    Acked(u64),
    Timeout(u64),
    Run,
    Read,
}

struct Line<'a> {
    world: &'a mut World,
    stream: usize,
    ends: StreamTruth,
    acts: BinaryHeap<Reverse<(u64, usize, Act)>>,
    order: usize,
    mss: u64,
    offloads: bool,
    rto_ns: u64,
    window: u64,
    is_dead: bool,
    writes: u64,
    tries: u32,
    written: u64,
    sent: u64,
    acked: u64,
    napi: Vec<Segment>,
    /// The next identification; `None` over IPv6.
    ip_id: Option<u16>,
    /// Received out of order.
    ahead: Vec<(u64, u64)>,
    received: u64,
    /// Instants at which the receive queue grew, and its new ends.
    grown: Vec<(u64, u64)>,
    copied: u64,
    /// The reader takes no more bytes after so many.
    quits: u64,
    /// The kernel takes the bytes, and no process reads them.
    consumed: bool,
    /// The flow that the socket's fields name after both sides have closed; `None` if it stays open.
    closed: Option<FlowId>,
    sleeps: bool,
    /// The sender's CPU and the softirq are busy until then.
    tx_busy_ns: u64,
    rx_busy_ns: u64,
}

/// Runs one direction from `start_ns` on. Half of them open the connection.
pub fn run(world: &mut World, from: FlowId, to: FlowId, start_ns: u64) {
    start(world, from, to, start_ns, None);
}

/// Runs one direction that opens the connection.
pub fn open(world: &mut World, from: FlowId, to: FlowId, start_ns: u64) {
    start(world, from, to, start_ns, Some(true));
}

/// Runs one direction of a connection that the other one opened.
pub fn answer(world: &mut World, from: FlowId, to: FlowId, start_ns: u64) {
    start(world, from, to, start_ns, Some(false));
}

fn start(world: &mut World, from: FlowId, to: FlowId, start_ns: u64, opens: Option<bool>) {
    let first_seq = match world.random.within(0, 3) {
        // Numbers of the two directions are far apart; otherwise a drop could belong to either.
        0 if from < to => 0_u32.wrapping_sub(world.random.within(0, 200_000) as u32), // wraps soon
        _ => world.random.within(0, 1 << 30) as u32 + if from < to { 1 << 31 } else { 1 << 24 },
    };
    let mss = [100, 536, 1448][world.random.within(0, 2) as usize];
    let reader_tid = 1000 + to.0 as u32;
    let ends = StreamTruth { from, to, first_seq, mss, reader_tid, written: 0, copied: 0, received: 0 };
    let stream = world.streams.len();
    world.streams.push(ends);
    let (offloads, is_dead) = (world.random.chance(50), {
        let dead = world.weather.dead;
        world.random.chance(dead)
    });
    let rto_ns = [1_000_000, 8_000_000, 200_000_000][world.random.within(0, 2) as usize];
    let window = [3_000, 100_000, 1 << 20][world.random.within(0, 2) as usize];
    let writes = world.random.within(1, 8);
    // Drawn in any case: the same seed makes the same rest of the world.
    let drawn = world.random.chance(50);
    let opens = opens.unwrap_or(drawn);
    let ip_id = world.random.chance(60).then_some(world.random.next() as u16);
    // A sequence of its own: the worlds of earlier failures stay as they are.
    let closes = Random(u64::from(first_seq)).chance(30);
    let closed = closes.then(|| without_port(world, to)).flatten();
    let closes = world.weather.closed > 0 && world.random.chance(50);
    let quits = if closes { world.random.within(0, 20_000) } else { u64::MAX };
    let consumed = world.weather.consumed > 0 && {
        let percent = world.weather.consumed;
        world.random.chance(percent)
    };
    let mut line = Line {
        world,
        stream,
        ends,
        acts: BinaryHeap::new(),
        order: 0,
        mss,
        offloads,
        rto_ns,
        window,
        is_dead,
        writes,
        tries: 0,
        written: 0,
        sent: 0,
        acked: 0,
        napi: Vec::new(),
        ip_id,
        ahead: Vec::new(),
        received: 0,
        grown: Vec::new(),
        copied: 0,
        quits,
        consumed,
        closed,
        sleeps: true,
        tx_busy_ns: 0,
        rx_busy_ns: 0,
    };
    let mut at_ns = start_ns;
    if opens {
        for hop in [Hop::IpOut, Hop::DevXmit, Hop::DevRecv, Hop::IpIn] {
            let event = Event { tcp_flags: 2, ..line.event(hop, at_ns, 0, 0) };
            at_ns = line.world.emit(event, About::Nothing) + 500;
        }
    }
    line.later(at_ns, Act::Write);
    for _ in 0..MAX_ACTS {
        let Some(Reverse((at_ns, _, act))) = line.acts.pop() else { break };
        line.act(at_ns, act);
    }
    let (written, copied, received) = (line.written, line.copied, line.received);
    world.streams[stream] = StreamTruth { written, copied, received, ..ends };
}

/// Both sockets of a connection are destroyed, after all else.
pub fn destroy(world: &mut World, a: FlowId, b: FlowId) {
    for (flow, peer) in [(a, b), (b, a)] {
        let last_ns = world.events.iter().map(|t| t.event.time_ns).max().unwrap_or(0);
        let at_ns = last_ns + world.random.within(1, 1_000_000);
        let stream = world.streams.iter().position(|s| (s.from, s.to) == (peer, flow));
        let (first_seq, from, to) = stream.map_or((0, 0, 0), |stream| {
            let truth = world.streams[stream];
            (truth.first_seq, truth.copied, truth.received)
        });
        let extent = ExtentKind::Stream.of(first_seq.wrapping_add(from as u32));
        let (len, socket) = ((to - from) as u32, flow.0 + 7000);
        let mut event = Event { flow, extent, len, socket, cpu: 1, ..Event::at(Hop::SockDestroy, at_ns) };
        if let Some(own) = world.streams.iter().find(|s| (s.from, s.to) == (flow, peer)) {
            event.detail = DetailKind::WriteSeq.of(own.first_seq.wrapping_add(own.written as u32));
        }
        let about = stream.map_or(About::Nothing, |stream| About::Bytes { stream, from, to });
        world.emit(event, about);
    }
}

/// The flow of a socket whose port the kernel has cleared at the close.
fn without_port(world: &mut World, of: FlowId) -> Option<FlowId> {
    let flow = world.flows.iter().find(|flow| flow.id == of).copied()?;
    let local = SocketAddr::new(flow.local.ip(), 0);
    let id = FlowId(world.flows.len() as u64 + 1);
    world.flows.push(Flow { id, local, proto: Proto::TCP, ..flow });
    Some(id)
}

impl Line<'_> {
    /// True if all bytes have arrived, and both sides have closed: unread bytes are read late.
    fn is_closed(&self) -> bool {
        self.writes == 0 && self.received == self.written
    }

    fn later(&mut self, at_ns: u64, act: Act) {
        self.order += 1;
        self.acts.push(Reverse((at_ns, self.order, act)));
    }

    fn event(&self, hop: Hop, at_ns: u64, from: u64, to: u64) -> Event {
        let sends = hop.direction() != magscope_core::Direction::Rx;
        let flow = if sends { self.ends.from } else { self.ends.to };
        let socket = flow.0 + 7000;
        let call = matches!(hop, Hop::AppSend | Hop::TcpSend | Hop::AppCopy | Hop::AppRecv);
        let tid = match (call, sends) {
            (false, _) => 0,
            (true, true) => 500 + flow.0 as u32,
            (true, false) => self.ends.reader_tid,
        };
        let extent = ExtentKind::Stream.of(self.ends.first_seq.wrapping_add(from as u32));
        let packet = !call && hop != Hop::SockReady;
        let (cpu, tcp_flags, segs) = (u16::from(!sends), u8::from(packet) * 16, u16::from(packet));
        let len = (to - from) as u32;
        let flow = match self.closed {
            Some(closed) if call && !sends && self.is_closed() => closed,
            _ => flow,
        };
        Event { flow, extent, len, socket, tgid: tid, tid, cpu, tcp_flags, segs, ..Event::at(hop, at_ns) }
    }

    /// Emits an event of bytes at a hop and returns a slightly later time.
    fn emit(&mut self, hop: Hop, at_ns: u64, from: u64, to: u64) -> u64 {
        let event = self.event(hop, at_ns, from, to);
        self.world.emit(event, About::Bytes { stream: self.stream, from, to })
            + self.world.random.within(1, 3000)
    }

    /// Emits an event of a packet at a hop, merged from adjacent segments.
    fn emit_packet(&mut self, hop: Hop, at_ns: u64, segments: &[Segment]) -> u64 {
        let (Some(first), Some(last)) = (segments.first(), segments.last()) else { return at_ns };
        let mut event = self.event(hop, at_ns, first.from, last.to);
        event.segs = (last.to - first.from).div_ceil(self.mss) as u16;
        if !matches!(hop, Hop::TcpXmit | Hop::TcpRecv) {
            event.ip_id = first.ip_id;
        }
        let about = About::Bytes { stream: self.stream, from: first.from, to: last.to };
        let at_ns = self.world.emit(event, about);
        self.world.passes.insert(at_ns, segments.to_vec());
        at_ns + self.world.random.within(1, 3000)
    }

    fn act(&mut self, at_ns: u64, act: Act) {
        let busy_ns = match act {
            Act::Write | Act::Push | Act::Acked(_) | Act::Timeout(_) => self.tx_busy_ns,
            Act::Poll => self.rx_busy_ns,
            _ => 0,
        };
        if at_ns < busy_ns {
            return self.later(busy_ns, act);
        }
        match act {
            Act::Write => self.write(at_ns),
            Act::Push => self.push(at_ns),
            Act::Arrive(segment) => {
                if self.napi.is_empty() {
                    let wait = self.world.random.within(0, 40_000);
                    self.later(at_ns + wait, Act::Poll);
                }
                self.napi.push(segment);
            }
            Act::Poll => self.poll(at_ns),
            Act::Acked(to) => {
                if to > self.acked {
                    self.acked = to;
                    self.tries = 0;
                }
                self.push(at_ns);
            }
            Act::Timeout(to) => self.timeout(at_ns, to),
            Act::Run => {
                let tid = self.ends.reader_tid;
                let event = Event { tid, tgid: tid, cpu: 1, ..Event::at(Hop::TaskRun, at_ns) };
                let at_ns = self.world.emit(event, About::Nothing);
                let wait = self.world.random.within(1, 5000);
                self.later(at_ns + wait, Act::Read);
            }
            Act::Read => self.read(at_ns),
        }
    }

    fn write(&mut self, at_ns: u64) {
        let len = match self.world.random.within(0, 5) {
            0 => 1,
            1..=3 => self.world.random.within(1, 3000),
            _ => self.world.random.within(1, self.mss * 50),
        };
        let takes = if self.world.random.chance(15) { self.world.random.within(1, len) } else { len };
        let from = self.written;
        let mut at_ns = self.emit(Hop::TcpSend, at_ns, from, from + len);
        // A long call declares the rest again, and sends in between.
        let mut taken = 0;
        while takes - taken > self.mss * 20 {
            taken += self.mss * 15;
            self.written = from + taken;
            at_ns = self.push_some(at_ns);
            at_ns = self.emit(Hop::TcpSend, at_ns, from + taken, from + len);
        }
        self.written = from + takes;
        if self.world.random.chance(70) {
            at_ns = self.push_some(at_ns);
        }
        let event = self.event(Hop::AppSend, at_ns, from, from + takes);
        let event = Event { flags: EventFlags::AT_RETURN, ..event };
        let at_ns = self.world.emit(event, About::Bytes { stream: self.stream, from, to: from + takes });
        self.tx_busy_ns = self.tx_busy_ns.max(at_ns + 1);
        let wait = self.world.random.within(1, 60_000);
        self.later(at_ns + wait, Act::Push);
        self.writes -= 1;
        if self.writes > 0 {
            let wait = self.world.random.within(1, 300_000);
            self.later(at_ns + wait, Act::Write);
        }
    }

    fn push(&mut self, at_ns: u64) {
        self.push_some(at_ns);
        if self.sent < self.written && self.sent < self.acked + self.window {
            let wait = self.world.random.within(1, 20_000);
            self.later(at_ns + wait, Act::Push);
        }
    }

    fn push_some(&mut self, at_ns: u64) -> u64 {
        let room = (self.acked + self.window).saturating_sub(self.sent).min(self.written - self.sent);
        if room == 0 {
            return at_ns;
        }
        let len = if self.world.random.chance(60) {
            room.min(SUPER)
        } else {
            self.world.random.within(1, room.min(SUPER))
        };
        let from = self.sent;
        self.sent += len;
        let done_ns = self.down(at_ns, from, from + len);
        self.tx_busy_ns = self.tx_busy_ns.max(done_ns);
        done_ns
    }

    /// A super-packet on the sender's path. Returns the time at which the call has finished with it.
    fn down(&mut self, at_ns: u64, from: u64, to: u64) -> u64 {
        self.later(at_ns + self.rto_ns, Act::Timeout(to));
        self.world.passes_made += 1;
        let segments = (to - from).div_ceil(self.mss);
        let ip_id = self
            .ip_id
            .map_or(0, |id| if id.checked_add(segments as u16).is_none() || id == 0 { 1 } else { id });
        self.ip_id = self.ip_id.map(|_| ip_id + segments as u16);
        let whole = Segment { from, to, pass: self.world.passes_made, ip_id };
        let mut at_ns = at_ns;
        for hop in [Hop::TcpXmit, Hop::IpOut, Hop::IpPost, Hop::DevQueue] {
            at_ns = self.emit_packet(hop, at_ns, &[whole]);
        }
        let lost = self.world.weather.lost;
        if self.world.random.chance(lost / 2) {
            let event = Event {
                detail: DetailKind::DropReason.of(9),
                len: (to - from) as u32,
                tid: 0,
                tgid: 0,
                ..self.event(Hop::SkbDrop, at_ns, from, to)
            };
            return self.world.emit(event, About::Bytes { stream: self.stream, from, to });
        }
        let step = if self.offloads { to - from } else { self.mss };
        let mut start = from;
        while start < to {
            let end = to.min(start + step);
            let nth = ((start - from) / self.mss) as u16;
            let ip_id = if ip_id == 0 { 0 } else { ip_id + nth };
            let part = Segment { from: start, to: end, ip_id, ..whole };
            at_ns = self.emit_packet(Hop::DevXmit, at_ns, &[part]);
            self.over_the_wire(at_ns, part);
            let late = if self.world.random.chance(20) { 60_000 } else { 0 };
            let done_ns = self.emit_packet(Hop::DevDone, at_ns + late, &[part]);
            at_ns = if late == 0 { done_ns } else { at_ns };
            start = end;
        }
        at_ns
    }

    fn over_the_wire(&mut self, at_ns: u64, packet: Segment) {
        let Segment { from, to, .. } = packet;
        let weather = self.world.weather;
        let (mut start, copies) = (from, 1 + u64::from(self.world.random.chance(weather.duplicated)));
        while start < to {
            let end = to.min(start + self.mss);
            for _ in 0..copies {
                if self.is_dead && from > 2000 || self.world.random.chance(weather.lost) {
                    continue;
                }
                let mut wait = self.world.random.within(2_000, 6_000);
                if self.world.random.chance(weather.delayed) {
                    wait += self.world.random.within(1_000, 2_000_000);
                }
                let nth = ((start - from) / self.mss) as u16;
                let ip_id = if packet.ip_id == 0 { 0 } else { packet.ip_id + nth };
                self.later(at_ns + wait, Act::Arrive(Segment { from: start, to: end, ip_id, ..packet }));
            }
            start = end;
        }
    }

    fn timeout(&mut self, at_ns: u64, to: u64) {
        if self.acked >= to || self.tries > 12 || (self.is_dead && self.tries > 2) {
            return;
        }
        self.tries += 1;
        let most = (self.sent - self.acked).min(SUPER);
        let len =
            if self.world.random.chance(50) { most.min(self.mss) } else { self.world.random.within(1, most) };
        let (from, to) = (self.acked, self.acked + len);
        let at_ns = self.down(at_ns, from, to);
        let kind = self.world.random.within(1, 3) as u32;
        let event = Event {
            detail: DetailKind::ResendReason.of(kind),
            ..self.event(Hop::TcpRetransmit, at_ns, from, to)
        };
        let reported_ns = self.world.emit(event, About::Bytes { stream: self.stream, from, to });
        let segment = Segment { from, to, pass: self.world.passes_made, ip_id: 0 };
        self.world.passes.insert(reported_ns, vec![segment]);
        self.tx_busy_ns = reported_ns + 1;
        // More bytes behind it may be missing.
        self.later(at_ns + self.rto_ns, Act::Timeout(self.sent));
    }

    /// Softirq: adjacent arrivals are merged and passed up.
    fn poll(&mut self, at_ns: u64) {
        let mut merged: Vec<Vec<Segment>> = Vec::new();
        for segment in std::mem::take(&mut self.napi) {
            // As in GRO: bytes and identifications are consecutive.
            let joins = |run: &Vec<Segment>| {
                let (Some(first), Some(last)) = (run.first(), run.last()) else { return false };
                let in_row = last.ip_id == 0 || last.ip_id.checked_add(1) == Some(segment.ip_id);
                let full = last.to - last.from == self.mss;
                last.to == segment.from && segment.to - first.from <= SUPER && in_row && full
            };
            match merged.last_mut() {
                Some(run) if joins(run) && self.world.random.chance(85) => run.push(segment),
                _ => merged.push(vec![segment]),
            }
        }
        let mut at_ns = at_ns;
        for run in merged {
            for hop in [Hop::DevRecv, Hop::IpPre, Hop::IpIn, Hop::TcpRecv] {
                at_ns = self.emit_packet(hop, at_ns, &run);
            }
            let (from, to) = (run[0].from, run[run.len() - 1].to);
            self.ahead.push((from, to));
            self.ahead.sort_unstable();
            let before = self.received;
            for (from, to) in &self.ahead {
                if *from <= self.received {
                    self.received = self.received.max(*to);
                }
            }
            let received = self.received;
            self.ahead.retain(|(_, to)| *to > received);
            if received > before {
                at_ns = self.ready(at_ns);
            }
            let wait = self.world.random.within(1_000, 50_000);
            self.later(at_ns + wait, Act::Acked(received));
        }
        self.rx_busy_ns = at_ns;
    }

    fn ready(&mut self, at_ns: u64) -> u64 {
        let received = self.received;
        let event = self.event(Hop::SockReady, at_ns, received, received);
        let event = if self.consumed {
            let (flags, detail) = (EventFlags::IN_KERNEL, DetailKind::Consumer.of(Consumer::Mptcp as u32));
            Event { flags, detail, ..event }
        } else {
            event
        };
        let mut at_ns = self.world.emit(event, About::Bytes { stream: self.stream, from: 0, to: received });
        if self.consumed {
            self.copied = received;
            return at_ns + 1;
        }
        self.grown.push((at_ns, received));
        if self.sleeps {
            self.sleeps = false;
            let tid = self.ends.reader_tid;
            let socket = self.ends.to.0 + 7000;
            let event = Event { tid, tgid: tid, socket, cpu: 1, ..Event::at(Hop::TaskWake, at_ns + 10) };
            at_ns = self.world.emit(event, About::Nothing);
            let wait = self.world.random.within(100, 80_000);
            self.later(at_ns + wait, Act::Run);
        }
        at_ns + self.world.random.within(1, 500)
    }

    fn read(&mut self, at_ns: u64) {
        if self.copied >= self.quits {
            return;
        }
        let seen = self.grown.iter().rev().find(|(t, _)| *t < at_ns).map_or(0, |(_, to)| *to);
        let waiting = seen - self.copied;
        if waiting == 0 {
            if self.received > seen {
                let soon = self.world.random.within(1, 5000);
                return self.later(at_ns + soon, Act::Read);
            }
            self.sleeps = true;
            return;
        }
        let weather = self.world.weather;
        let len = if self.world.random.chance(60) { waiting } else { self.world.random.within(1, waiting) };
        let (from, to) = (self.copied, self.copied + len);
        let mut at_ns = at_ns;
        if self.world.random.chance(weather.peeked) {
            at_ns = self.emit(Hop::AppCopy, at_ns, from, to);
            let event = self.event(Hop::AppRecv, at_ns, from, to);
            let event = Event { flags: EventFlags::PEEK, ..event };
            at_ns = self.world.emit(event, About::Nothing) + 1;
        } else if self.world.random.chance(weather.spliced) {
            self.copied = to;
        } else {
            let half = from + len / 2;
            if half > from && self.world.random.chance(40) {
                at_ns = self.emit(Hop::AppCopy, at_ns, from, half);
                at_ns = self.emit(Hop::AppCopy, at_ns, half, to);
            } else {
                at_ns = self.emit(Hop::AppCopy, at_ns, from, to);
            }
            at_ns = self.emit(Hop::AppRecv, at_ns, from, to);
            self.copied = to;
        }
        let wait = self.world.random.within(1, 100_000);
        self.later(at_ns + wait, Act::Read);
    }
}
