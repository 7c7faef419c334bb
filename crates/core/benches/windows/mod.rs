//! Traffic with a window: each flow has a fixed number of segments or datagrams in flight. So the correlator's
//! queues are as deep as those of long, fat pipes. Every nth TCP segment is lost once and sent again a window
//! later; the data behind it wait, as at a real receiver.

use magscope_core::event::EventFlags;
use magscope_core::flow::{Flow, FlowId, Proto};
use magscope_core::hop::HopSet;
use magscope_core::{Batch, DetailKind, Event, ExtentKind, Hop};
use std::collections::{HashSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};

/// Payload of a segment, bytes.
const SEGMENT: u32 = 1448;
/// Segments of one `send`, and of one `recv`.
const CALL: u32 = 8;
/// Events a batch.
const BATCH: usize = 8_192;
/// Between two events, nanoseconds.
const STEP_NS: u64 = 100;

/// The traffic to generate.
#[derive(Clone, Copy)]
pub struct Windows {
    pub flows: u32,
    /// Segments or datagrams in flight per flow.
    pub window: u32,
    /// Every nth TCP segment is lost; 0: none.
    pub lose_every: u32,
    /// Every nth flow is UDP; 0: none.
    pub udp_every: u32,
    /// Total number of events, to within those of a call.
    pub events: usize,
}

/// The hops that it passes, all of them served.
pub fn hops() -> HopSet {
    let path = [Hop::TcpSend, Hop::AppSend, Hop::TcpXmit, Hop::IpOut, Hop::DevQueue, Hop::DevXmit];
    let up = [Hop::DevRecv, Hop::IpIn, Hop::TcpRecv, Hop::UdpRecv, Hop::SockReady, Hop::AppCopy, Hop::AppRecv];
    path.into_iter().chain(up).chain([Hop::TcpRetransmit]).collect()
}

struct Pipe {
    proto: Proto,
    tx: FlowId,
    rx: FlowId,
    /// Segments passed to the kernel.
    sent: u32,
    /// Segments in flight, and whether they were lost.
    in_flight: VecDeque<(u32, bool)>,
    /// Arrived out of order.
    early: HashSet<u32>,
    /// All below have arrived.
    arrived: u32,
    /// All below were read.
    read: u32,
}

struct Maker {
    batches: Vec<Batch>,
    batch: Batch,
    now_ns: u64,
    count: usize,
    packets: u32,
}

impl Maker {
    fn emit(&mut self, event: Event) {
        self.now_ns += STEP_NS;
        self.count += 1;
        self.batch.events.push(Event { time_ns: self.now_ns, record: self.count as u32, ..event });
        if self.batch.events.len() >= BATCH {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        self.batch.watermark_ns = self.now_ns;
        self.batches.push(std::mem::take(&mut self.batch));
    }
}

impl Pipe {
    fn event(&self, hop: Hop, segment: u32, count: u32) -> Event {
        let is_rx = hop >= Hop::DevRecv && hop <= Hop::AppRecv;
        let calls = matches!(hop, Hop::AppSend | Hop::TcpSend | Hop::SockReady | Hop::AppCopy | Hop::AppRecv);
        let is_tcp = self.proto == Proto::TCP;
        let of_packet = |n: u32| if calls { 0 } else { n };
        Event {
            flow: if is_rx { self.rx } else { self.tx },
            socket: if is_rx { self.rx.0 } else { self.tx.0 },
            extent: ExtentKind::Stream.of(if is_tcp { segment.wrapping_mul(SEGMENT) } else { 0 }),
            len: count * SEGMENT,
            ip_id: of_packet(segment % 65_535 + 1) as u16,
            skb: of_packet(segment | 1 << 31) ^ self.tx.0 as u32,
            segs: of_packet(1) as u16,
            tid: u32::from(calls) * self.tx.0 as u32,
            tgid: u32::from(calls) * self.tx.0 as u32,
            proto: self.proto,
            ..Event::at(hop, 0)
        }
    }

    fn go_out(&mut self, segment: u32, maker: &mut Maker, lose_every: u32) {
        if self.proto == Proto::TCP {
            maker.emit(self.event(Hop::TcpXmit, segment, 1));
        }
        for hop in [Hop::IpOut, Hop::DevQueue, Hop::DevXmit] {
            maker.emit(self.event(hop, segment, 1));
        }
        maker.packets += 1;
        let is_lost = self.proto == Proto::TCP && lose_every > 0 && maker.packets.is_multiple_of(lose_every);
        self.in_flight.push_back((segment, is_lost));
    }

    fn come_in(&mut self, segment: u32, maker: &mut Maker) {
        let is_tcp = self.proto == Proto::TCP;
        for hop in [Hop::DevRecv, Hop::IpIn, if is_tcp { Hop::TcpRecv } else { Hop::UdpRecv }] {
            maker.emit(self.event(hop, segment, 1));
        }
        if !is_tcp {
            maker.emit(Event { len: 0, ..self.event(Hop::SockReady, segment, 1) });
            maker.emit(self.event(Hop::AppRecv, segment, 1));
            return;
        }
        self.early.insert(segment);
        let before = self.arrived;
        while self.early.remove(&self.arrived) {
            self.arrived += 1;
        }
        if self.arrived > before {
            maker.emit(Event { len: 0, ..self.event(Hop::SockReady, self.arrived, 1) });
        }
        while self.arrived - self.read >= CALL {
            maker.emit(self.event(Hop::AppCopy, self.read, CALL));
            maker.emit(self.event(Hop::AppRecv, self.read, CALL));
            self.read += CALL;
        }
    }

    /// Sends one call's data, and delivers as much once the window is full.
    fn step(&mut self, maker: &mut Maker, what: Windows) {
        let first = self.sent;
        self.sent += CALL;
        if self.proto == Proto::TCP {
            maker.emit(self.event(Hop::TcpSend, first, CALL));
        }
        for segment in first..self.sent {
            self.go_out(segment, maker, what.lose_every);
            if self.proto == Proto::UDP {
                let at_return = EventFlags::AT_RETURN;
                maker.emit(Event { flags: at_return, ..self.event(Hop::AppSend, segment, 1) });
            }
        }
        if self.proto == Proto::TCP {
            maker.emit(Event { flags: EventFlags::AT_RETURN, ..self.event(Hop::AppSend, first, CALL) });
        }
        while self.in_flight.len() > what.window as usize
            && let Some((segment, is_lost)) = self.in_flight.pop_front()
        {
            if is_lost {
                self.go_out(segment, maker, 0);
                maker.emit(Event {
                    detail: DetailKind::ResendReason.of(1),
                    ..self.event(Hop::TcpRetransmit, segment, 1)
                });
            } else {
                self.come_in(segment, maker);
            }
        }
    }
}

/// Batches of it.
pub fn make(what: Windows) -> Vec<Batch> {
    let mut maker =
        Maker { batches: Vec::new(), batch: Batch::default(), now_ns: 1_000_000_000, count: 0, packets: 0 };
    let mut pipes = Vec::new();
    for n in 0..what.flows {
        let is_udp = what.udp_every > 0 && n % what.udp_every == what.udp_every - 1;
        let proto = if is_udp { Proto::UDP } else { Proto::TCP };
        let (tx, rx) = (FlowId(u64::from(n) * 2 + 1), FlowId(u64::from(n) * 2 + 2));
        let ends = (
            SocketAddr::from((Ipv4Addr::new(10, 0, 0, 1), 1024 + n as u16)),
            SocketAddr::from((Ipv4Addr::new(10, 0, 0, 2), 80)),
        );
        let flow = |id, netns, local, remote| Flow { id, netns, proto, local, remote };
        maker.batch.flows.extend([flow(tx, 1, ends.0, ends.1), flow(rx, 2, ends.1, ends.0)]);
        let (in_flight, early) = (VecDeque::new(), HashSet::new());
        pipes.push(Pipe { proto, tx, rx, sent: 0, in_flight, early, arrived: 0, read: 0 });
    }
    while maker.count < what.events {
        for pipe in &mut pipes {
            pipe.step(&mut maker, what);
        }
    }
    maker.hand_over();
    maker.batches
}
