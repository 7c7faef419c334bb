//! Realistic synthetic traffic: every byte passes the complete path, in the order of hops, with plausible
//! times.
//!
//! For benches, tests and the load of a recorder. Equal options give equal events.

use crate::batch::Batch;
use crate::clock::ClockSample;
use crate::event::{Event, EventFlags, Extent, ExtentKind};
use crate::flow::{Flow, FlowId, Proto, Task};
use crate::hop::{Direction, Hop, Role};
use crate::node::{Backend, CgroupName, Coverage, NetnsName, NodeInfo, Service};
use crate::source::{Progress, Source, SourceError};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Options of the generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneratorOptions {
    /// Connections and pairs of UDP sockets; every fourth is UDP. At least 1.
    pub flows: u32,
    /// Total number of events, to within those of one message.
    pub events: u64,
    /// Events per second of event time.
    pub events_per_s: u64,
    /// Events per batch, to within those of one message.
    pub batch_events: usize,
    /// Bytes of the largest message; the smallest have 64.
    pub max_message_bytes: u32,
    /// Every n-th TCP packet is lost on the wire once and sent again; 0 never.
    pub lose_every: u32,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Default for GeneratorOptions {
    fn default() -> Self {
        GeneratorOptions {
            flows: 64,
            events: 1_000_000,
            events_per_s: 1_000_000,
            batch_events: 8_192,
            max_message_bytes: 65_536,
            lose_every: 0,
            seed: 1,
        }
    }
}

const CLIENT_NETNS: u32 = 4_026_531_841;
const SERVER_NETNS: u32 = 4_026_531_842;

/// State of one flow.
#[derive(Clone, Copy, Debug)]
struct Line {
    client: FlowId,
    server: FlowId,
    proto: Proto,
    seq: u32,
    ip_id: u16,
}

/// A [`Source`] of synthetic traffic.
#[derive(Clone, Debug)]
pub struct Generator {
    options: GeneratorOptions,
    info: NodeInfo,
    lines: Vec<Line>,
    random: u64,
    now_ns: u64,
    left: u64,
    packets: u32,
    records: u32,
    announced: bool,
}

impl Generator {
    /// A generator that starts at second 1.
    pub fn new(options: GeneratorOptions) -> Self {
        let info = NodeInfo {
            host: "generator".to_owned(),
            kernel: "synthetic".to_owned(),
            boot_id: "generator".to_owned(),
            cpus: 2,
            clock: "monotonic".to_owned(),
            netns: vec![
                NetnsName { netns: CLIENT_NETNS, name: "client".to_owned() },
                NetnsName { netns: SERVER_NETNS, name: "server".to_owned() },
            ],
            several: None,
            drop_reasons: Vec::new(),
            reset_reasons: Vec::new(),
            programs: Vec::new(),
            chains: Vec::new(),
            lists_deciders: false,
            not_followed: Vec::new(),
            interfaces: Vec::new(),
            cgroups: vec![CgroupName { id: 1, path: "/".to_owned() }],
            containers: Vec::new(),
            settings: Vec::new(),
            tells_order: false,
            probes: Vec::new(),
            coverage: coverage(),
        };
        let mut generator = Generator {
            options,
            info,
            lines: Vec::new(),
            random: options.seed,
            now_ns: 1_000_000_000,
            left: options.events,
            packets: 0,
            records: 0,
            announced: false,
        };
        for n in 0..options.flows.max(1) {
            let id = generator.random() | 1;
            let seq = generator.random() as u32;
            let proto = if n % 4 == 3 { Proto::UDP } else { Proto::TCP };
            let (client, server) = (FlowId(id), FlowId(id.rotate_left(17) ^ 0x5a5a_5a5a));
            generator.lines.push(Line { client, server, proto, seq, ip_id: n as u16 });
        }
        generator
    }

    /// The next number of splitmix64 (Steele, Lea, Flood 2014).
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn announce(&mut self, batch: &mut Batch) {
        for (n, line) in (0_u32..).zip(&self.lines) {
            let port = 1024 + (n % 60_000) as u16;
            let client = SocketAddr::from((Ipv4Addr::from(0x0a00_0001 + (n / 60_000)), port));
            let server = SocketAddr::from((Ipv4Addr::new(10, 1, 0, 2), 80));
            let flow = |id, netns, local, remote| Flow { id, netns, proto: line.proto, local, remote };
            batch.flows.push(flow(line.client, CLIENT_NETNS, client, server));
            batch.flows.push(flow(line.server, SERVER_NETNS, server, client));
        }
        let task = |tid, comm: &str| Task { tgid: tid, tid, uid: 1000, cgroup: 1, comm: comm.to_owned() };
        batch.tasks.extend([task(100, "sender"), task(200, "reader")]);
        let realtime_ns = 1_700_000_000_000_000_000;
        let (monotonic_ns, raw_ns) = (self.now_ns, self.now_ns);
        batch.clock.push(ClockSample {
            monotonic_ns,
            raw_ns,
            realtime_ns,
            width_ns: 50,
            ..ClockSample::default()
        });
    }

    /// One event, slightly later than the previous one. All events fit into as few nanoseconds as the rate
    /// permits.
    fn emit(&mut self, batch: &mut Batch, event: Event) {
        let mean = 1_000_000_000 / self.options.events_per_s.max(1);
        let jitter = self.random() % mean.max(1);
        self.now_ns += (mean / 2 + jitter).max(1);
        self.records = self.records.wrapping_add(1);
        batch.events.push(Event { time_ns: self.now_ns, record: self.records, ..event });
        self.left = self.left.saturating_sub(1);
    }

    /// One message from one end to the other.
    fn message(&mut self, batch: &mut Batch) {
        let which = (self.random() % self.lines.len() as u64) as usize;
        let Some(line) = self.lines.get(which).copied() else { return };
        let octaves = u64::from(self.options.max_message_bytes.max(64).ilog2() - 5);
        let len = 64_u32 << (self.random() % octaves);
        let sent = if line.proto == Proto::UDP {
            self.datagram(batch, line, len.min(1472))
        } else {
            self.stream(batch, line, len)
        };
        if let Some(place) = self.lines.get_mut(which) {
            *place = sent;
        }
    }

    fn stream(&mut self, batch: &mut Batch, mut line: Line, len: u32) -> Line {
        let socket = (line.client.0, line.server.0);
        let tx = Event {
            flow: line.client,
            extent: ExtentKind::Stream.of(line.seq),
            len,
            socket: socket.0,
            ..Event::at(Hop::TcpSend, 0)
        };
        self.emit(batch, Event { tgid: 100, tid: 100, ..tx });
        self.packets = self.packets.wrapping_add(1);
        let loses = self.options.lose_every > 0 && self.packets.is_multiple_of(self.options.lose_every);
        for pass in 0..=u32::from(loses) {
            line.ip_id = line.ip_id.wrapping_add(1);
            let packet = Event {
                ip_id: line.ip_id,
                segs: len.div_ceil(1448).min(64) as u16,
                skb: self.packets,
                tcp_flags: 16,
                ifindex: 2,
                ..tx
            };
            for hop in packet_hops(Direction::Tx, Proto::TCP) {
                self.emit(batch, Event { hop, ..packet });
            }
            if pass == 1 {
                self.emit(batch, Event { hop: Hop::TcpRetransmit, ..tx });
            }
        }
        self.emit(batch, Event { hop: Hop::AppSend, flags: EventFlags::AT_RETURN, tgid: 100, tid: 100, ..tx });
        let rx = Event { flow: line.server, socket: 0, cpu: 1, ..tx };
        for hop in packet_hops(Direction::Rx, Proto::TCP) {
            let packet =
                Event { hop, ip_id: line.ip_id, segs: 1, skb: !self.packets, tcp_flags: 16, ifindex: 3, ..rx };
            self.emit(batch, packet);
        }
        line.seq = line.seq.wrapping_add(len);
        self.emit(
            batch,
            Event {
                hop: Hop::SockReady,
                extent: ExtentKind::Stream.of(line.seq),
                len: 0,
                socket: socket.1,
                ..rx
            },
        );
        self.read(batch, Event { socket: socket.1, ..rx });
        line
    }

    fn datagram(&mut self, batch: &mut Batch, mut line: Line, len: u32) -> Line {
        line.ip_id = line.ip_id.wrapping_add(1).max(1);
        self.packets = self.packets.wrapping_add(1);
        let (ip_id, skb) = (line.ip_id, self.packets);
        let tx = Event {
            flow: line.client,
            len,
            ip_id,
            skb,
            segs: 1,
            proto: Proto::UDP,
            socket: line.client.0,
            ..Event::at(Hop::IpOut, 0)
        };
        self.emit(batch, Event { tgid: 100, tid: 100, ..tx });
        for hop in packet_hops(Direction::Tx, Proto::UDP).filter(|hop| *hop != Hop::IpOut) {
            self.emit(batch, Event { hop, ifindex: 2, ..tx });
        }
        let call = Event { ip_id: 0, skb: 0, segs: 0, ..tx };
        self.emit(
            batch,
            Event { hop: Hop::AppSend, flags: EventFlags::AT_RETURN, tgid: 100, tid: 100, ..call },
        );
        let rx = Event { flow: line.server, socket: line.server.0, cpu: 1, ifindex: 3, ..tx };
        for hop in packet_hops(Direction::Rx, Proto::UDP) {
            self.emit(batch, Event { hop, ..rx });
        }
        let call = Event { ip_id: 0, skb: 0, segs: 0, ifindex: 0, ..rx };
        self.emit(batch, Event { hop: Hop::SockReady, len: 0, ..call });
        self.read(batch, call);
        line
    }

    /// The reader wakes for half of all reads; for the others it was busy.
    fn read(&mut self, batch: &mut Batch, call: Event) {
        let by = Event { tgid: 200, tid: 200, ..call };
        if self.random() & 1 == 0 {
            for hop in [Hop::TaskWake, Hop::TaskRun] {
                self.emit(batch, Event { hop, flow: FlowId::NONE, extent: Extent::None, len: 0, ..by });
            }
        }
        if call.proto == Proto::TCP {
            self.emit(batch, Event { hop: Hop::AppCopy, ..by });
        }
        self.emit(batch, Event { hop: Hop::AppRecv, ..by });
    }
}

impl Source for Generator {
    fn info(&self) -> &NodeInfo {
        &self.info
    }

    fn next(&mut self, batch: &mut Batch, _timeout: Duration) -> Result<Progress, SourceError> {
        batch.clear();
        if !self.announced {
            self.announced = true;
            self.announce(batch);
        }
        while self.left > 0 && batch.events.len() < self.options.batch_events.max(1) {
            self.message(batch);
        }
        batch.watermark_ns = self.now_ns;
        Ok(if self.left > 0 { Progress::More } else { Progress::End })
    }
}

/// Every hop but those that not every packet passes.
fn coverage() -> Coverage {
    let mut coverage = Coverage::full(Backend::Generator);
    let is_left_out = |hop: Hop| hop.role() == Role::Packet && hop.is_optional();
    for row in coverage.hops.iter_mut().filter(|row| is_left_out(row.hop)) {
        row.service = Service::Off;
    }
    coverage
}

/// The hops that every packet of this protocol passes, in stack order.
fn packet_hops(direction: Direction, proto: Proto) -> impl Iterator<Item = Hop> {
    Hop::path_in(direction)
        .filter(move |hop| hop.role() == Role::Packet && !hop.is_optional() && hop.passes(proto))
}
