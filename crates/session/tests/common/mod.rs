//! A generator of plausible traffic, and small helpers, for tests and benches.
#![allow(dead_code, missing_docs)]

use magscope_core::change::{Change, HopCount};
use magscope_core::clock::{ClockSample, Clocksource};
use magscope_core::node::{Backend, CgroupName, Coverage, DropReason, NetnsName, NodeInfo};
use magscope_core::source::{Progress, Source};
use magscope_core::synthesis::Sum;
use magscope_core::workload::{Container, Names};
use magscope_core::{
    Batch, DetailKind, Event, EventFlags, ExtentKind, Flow, FlowId, Hop, Loss, LossCause, PayloadHead,
    ProbeHit, Proto, Synthesis, Task, TcpSample,
};
use std::net::SocketAddr;
use std::time::Duration;

pub fn node() -> NodeInfo {
    NodeInfo {
        host: "hostA".into(),
        kernel: "6.18.1-amd64".into(),
        boot_id: "11111111-2222-3333-4444-555555555555".into(),
        cpus: 8,
        clock: "monotonic".into(),
        netns: vec![NetnsName { netns: 4_026_531_840, name: "host".into() }],
        interfaces: Vec::new(),
        settings: Vec::new(),
        tells_order: true,
        probes: Vec::new(),
        drop_reasons: vec![DropReason { number: 3, name: "no_socket".into() }],
        reset_reasons: Vec::new(),
        several: None,
        cgroups: vec![CgroupName { id: 4_242, path: "/system.slice/worker.service".into() }],
        coverage: Coverage::full(Backend::Generator),
        ..NodeInfo::default()
    }
}

/// Connections on several CPUs: every packet passes the sender's hops, or the receiver's.
pub struct Traffic {
    seed: u64,
    cpus: Vec<Cpu>,
    flows: Vec<Connection>,
    announced: bool,
}

struct Cpu {
    now_ns: u64,
    record: u32,
    packet: Event,
    /// The remaining hops of the packet, the next one last.
    hops: Vec<Hop>,
}

struct Connection {
    flow: Flow,
    task: Task,
    socket: u64,
    next_tx: u32,
    next_rx: u32,
    ip_id: u16,
}

impl Traffic {
    pub fn new(cpus: usize, connections: usize) -> Self {
        let mut traffic = Traffic { seed: 42, cpus: Vec::new(), flows: Vec::new(), announced: false };
        for i in 0..connections {
            let proto = if i % 4 == 3 { Proto::UDP } else { Proto::TCP };
            let ip = |host: usize| -> SocketAddr {
                if i % 8 == 7 {
                    format!("[fd00::{host:x}]:{}", 40_000 + i).parse().unwrap()
                } else {
                    format!("10.0.{}.{host}:{}", i % 200, 40_000 + i).parse().unwrap()
                }
            };
            let id = FlowId(traffic.random() | 1);
            let flow = Flow { id, netns: 4_026_531_840, proto, local: ip(1), remote: ip(2) };
            let (tgid, tid) = (1_000 + i as u32 / 4, 1_000 + i as u32);
            let task = Task { tgid, tid, uid: 1_000, cgroup: 4_242, comm: format!("worker-{i}") };
            let next_tx = traffic.random() as u32;
            traffic.flows.push(Connection {
                flow,
                task,
                socket: 77_000 + i as u64,
                next_tx,
                next_rx: 7,
                ip_id: 1,
            });
        }
        for cpu in 0..cpus {
            let now_ns = 1_000_000_000_000 + cpu as u64 * 37;
            let packet = Event::at(Hop::AppSend, 0);
            traffic.cpus.push(Cpu { now_ns, record: 0, packet, hops: Vec::new() });
        }
        traffic
    }

    pub fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.seed ^ self.seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// The next `count` events, in order of time; the first batch announces flows and tasks.
    pub fn fill(&mut self, batch: &mut Batch, count: usize) {
        batch.clear();
        if !self.announced {
            self.announced = true;
            batch.flows.extend(self.flows.iter().map(|c| c.flow));
            batch.tasks.extend(self.flows.iter().map(|c| c.task.clone()));
        }
        for _ in 0..count {
            let event = self.event();
            batch.events.push(event);
        }
        batch.watermark_ns = batch.events.last().map_or(batch.watermark_ns, |e| e.time_ns);
    }

    fn event(&mut self) -> Event {
        // The CPU with the earliest time continues; a new packet may start after the others' next hop.
        let next = loop {
            let next = (0..self.cpus.len()).min_by_key(|i| self.cpus[*i].now_ns).unwrap();
            if !self.cpus[next].hops.is_empty() {
                break next;
            }
            self.packet(next);
        };
        let step = 90 + self.random() % 700;
        let cpu = &mut self.cpus[next];
        let hop = cpu.hops.pop().unwrap();
        let mut event = cpu.packet;
        event.hop = hop;
        event.time_ns = cpu.now_ns;
        event.cpu = next as u16;
        event.record = cpu.record;
        if !hop.knows_process() {
            (event.tgid, event.tid) = (0, 0);
        }
        if hop.layer() == magscope_core::Layer::Socket {
            (event.skb, event.ip_id, event.segs, event.tcp_flags, event.ifindex) = (0, 0, 0, 0, 0);
        }
        cpu.record = cpu.record.wrapping_add(1);
        cpu.now_ns += step;
        event
    }

    fn packet(&mut self, cpu: usize) {
        let (which, sending) = (self.random() as usize % self.flows.len(), self.random().is_multiple_of(2));
        let (skb, len) = (self.random() as u32, [1_448, 1_448 * 8, 100, 9_000][self.random() as usize % 4]);
        let gap = if self.random().is_multiple_of(8) { 20_000 } else { 1_500 };
        let connection = &mut self.flows[which];
        let tcp = connection.flow.proto == Proto::TCP;
        let mut packet = Event::at(Hop::AppSend, 0);
        packet.flow = connection.flow.id;
        packet.socket = connection.socket;
        packet.proto = connection.flow.proto;
        (packet.tgid, packet.tid) = (connection.task.tgid, connection.task.tid);
        (packet.skb, packet.len, packet.ifindex) = (skb, len, 2);
        packet.segs = len.div_ceil(1_448) as u16;
        packet.ip_id = connection.ip_id;
        connection.ip_id = connection.ip_id.wrapping_add(packet.segs);
        if tcp {
            let next = if sending { &mut connection.next_tx } else { &mut connection.next_rx };
            packet.extent = ExtentKind::Stream.of(*next);
            *next = next.wrapping_add(len);
            packet.tcp_flags = 24;
            packet.detail = DetailKind::Ack.of(if sending { connection.next_rx } else { connection.next_tx });
        }
        if connection.flow.local.is_ipv6() {
            packet.flags = EventFlags::IPV6;
        }
        let other = if tcp { [Hop::UdpSend, Hop::UdpRecv] } else { [Hop::TcpSend, Hop::TcpRecv] };
        let path = Hop::path();
        let path = if sending { &path[..9] } else { &path[9..] };
        let keep = |h: &&Hop| !other.contains(h) && (tcp || **h != Hop::TcpXmit);
        let cpu = &mut self.cpus[cpu];
        cpu.hops = path.iter().rev().filter(keep).copied().collect();
        cpu.packet = packet;
        cpu.now_ns += gap;
    }
}

pub fn tcp_sample(time_ns: u64) -> TcpSample {
    TcpSample {
        time_ns,
        socket: 77_000,
        flow: FlowId(9),
        cwnd: 10,
        ssthresh: 11,
        srtt_us: 12,
        rttvar_us: 13,
        rto_us: 14,
        packets_out: 15,
        retrans_out: 27,
        total_retrans: 16,
        snd_wnd: 17,
        rcv_wnd: 18,
        snd_una: 19,
        snd_nxt: 20,
        write_seq: 24,
        rcv_nxt: 25,
        copied_seq: 26,
        send_queue_bytes: 21,
        recv_queue_bytes: 22,
        state: 1,
        ca_state: 2,
        tcp_flags: 24,
    }
}

pub fn clock_sample(monotonic_ns: u64) -> ClockSample {
    let realtime_ns = 1_767_323_045_000_000_000 + monotonic_ns as i64;
    ClockSample {
        monotonic_ns,
        raw_ns: monotonic_ns + 5,
        realtime_ns,
        width_ns: 40,
        suspended_ns: 7_000_000_000,
        tai_offset_s: 37,
        realtime_steps: 2,
        clocksource: Clocksource::Tsc,
        frequency: -1_234_567,
        status: 0x2001,
        generations: 3,
        utc_error_ns: monotonic_ns.is_multiple_of(2).then_some(1_500_000),
        stamp_ns: if monotonic_ns.is_multiple_of(3) { 0 } else { monotonic_ns },
    }
}

pub fn change(to_ns: u64) -> Change {
    Change { from_ns: to_ns.saturating_sub(20), to_ns, what: "disable dev.queue".into() }
}

pub fn names(time_ns: u64) -> Names {
    let id = format!("{time_ns:064x}");
    let cgroup = format!("/docker/{id}");
    let container =
        Container { id, name: "web \"1\"".into(), cgroup: cgroup.clone(), netns: 7, ..Container::default() };
    Names {
        time_ns,
        netns: vec![NetnsName { netns: 7, name: "web".into() }],
        cgroups: vec![CgroupName { id: time_ns, path: cgroup }],
        containers: vec![container],
        ..Names::default()
    }
}

pub fn synthesis(to_ns: u64) -> Synthesis {
    let of = Sum::Since(Hop::DevQueue);
    let buckets = vec![(3, 5), (557, u32::MAX)];
    Synthesis { from_ns: to_ns.saturating_sub(9), to_ns, hop: Hop::DevXmit, of, n: 7, sum: to_ns, buckets }
}

pub fn hop_count(time_ns: u64) -> HopCount {
    HopCount {
        time_ns,
        hop: Hop::DevXmit,
        kept: time_ns / 1_000,
        filtered: 3,
        undecided: 0,
        sampled: 7,
        synthesised: 5,
    }
}

pub fn hit(time_ns: u64) -> ProbeHit {
    ProbeHit {
        time_ns,
        socket: 77_000,
        flow: FlowId(9),
        seq: 3,
        len: 1_448,
        tgid: 1_000,
        tid: 1_001,
        record: 5,
        cpu: 1,
        ip_id: 9,
        probe: 2,
        proto: Proto::TCP,
        known: 0b0111,
        values: [-1, i64::MAX, i64::MIN, time_ns as i64],
    }
}

pub fn head(time_ns: u64) -> PayloadHead {
    PayloadHead {
        time_ns,
        flow: FlowId(9),
        seq: 3,
        of_bytes: 1_448,
        event: 6,
        record: 7,
        cpu: 1,
        ip_id: 9,
        hop: Hop::DevRecv,
        proto: Proto::TCP,
        bytes: (0..time_ns % 65).map(|i| (time_ns + i) as u8).collect(),
    }
}

pub fn loss(to_ns: u64, count: u64) -> Loss {
    Loss { cpu: 1, from_ns: to_ns.saturating_sub(500), to_ns, count, cause: LossCause::RingFull }
}

/// All batches of a source as one, and their number.
pub fn drain(source: &mut impl Source) -> (Batch, usize) {
    let (mut all, mut batch, mut batches) = (Batch::default(), Batch::default(), 0);
    let mut watermark_ns = 0;
    loop {
        let progress = source.next(&mut batch, Duration::ZERO).unwrap();
        let early = batch.events.iter().filter(|e| e.time_ns < watermark_ns).count() as u64;
        assert!(early <= batch.late, "{early} events before the watermark, {} said to be late", batch.late);
        assert!(batch.watermark_ns >= watermark_ns);
        watermark_ns = batch.watermark_ns;
        all.events.append(&mut batch.events);
        all.flows.append(&mut batch.flows);
        all.tasks.append(&mut batch.tasks);
        all.tcp.append(&mut batch.tcp);
        all.hits.append(&mut batch.hits);
        all.heads.append(&mut batch.heads);
        all.losses.append(&mut batch.losses);
        all.clock.append(&mut batch.clock);
        all.changes.append(&mut batch.changes);
        all.counts.append(&mut batch.counts);
        all.names.append(&mut batch.names);
        all.synthesis.append(&mut batch.synthesis);
        all.late += batch.late;
        if progress == Progress::End {
            return (all, batches);
        }
        batches += 1;
    }
}
