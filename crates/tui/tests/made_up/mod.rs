//! Generated traffic of a client and a server on one host: TCP requests and answers, some datagrams, an
//! occasionally slow reader. The numbers are reproducible.

#![allow(dead_code)] // each user of this module needs a part

pub mod forwarded;
pub mod published;
pub mod storm;
pub mod sums;

use magscope_core::clock::ClockSample;
use magscope_core::custom::ProbeHit;
use magscope_core::head::PayloadHead;
use magscope_core::node::{Backend, Coverage, DropReason, NetnsName, NodeInfo, Service};
use magscope_core::{
    Batch, DetailKind, Event, EventFlags, ExtentKind, Flow, FlowId, Hop, Loss, LossCause, Proto, Task,
    TcpSample,
};
use magscope_scope::Scope;

const CLIENT: u32 = 4_026_532_301;
const SERVER: u32 = 4_026_532_302;
/// Monotonic start time.
pub const START_NS: u64 = 1_000_000_000_000;

/// The node: two namespaces, three hops off, one missing.
pub fn info() -> NodeInfo {
    let mut coverage = Coverage::full(Backend::Generator);
    for row in &mut coverage.hops {
        match row.hop {
            Hop::DevDone | Hop::UdpSend | Hop::NapiPoll => row.service = Service::Off,
            Hop::AppCopy => {
                row.service = Service::Missing { because: "no fentry on this kernel".to_owned() };
            }
            _ => {}
        }
    }
    let name = |netns, name: &str| NetnsName { netns, name: name.to_owned() };
    NodeInfo {
        host: "bench-3".to_owned(),
        kernel: "6.18.1".to_owned(),
        boot_id: "made-up".to_owned(),
        cpus: 8,
        clock: "monotonic".to_owned(),
        netns: vec![name(CLIENT, "client"), name(SERVER, "server")],
        settings: Vec::new(),
        tells_order: false,
        probes: Vec::new(),
        several: None,
        interfaces: Vec::new(),
        cgroups: Vec::new(),
        containers: Vec::new(),
        drop_reasons: vec![DropReason { number: 2, name: "not_specified".to_owned() }],
        reset_reasons: Vec::new(),
        coverage,
        ..NodeInfo::default()
    }
}

/// The same node, with custom probes and payload heads of received packets.
pub fn probed() -> NodeInfo {
    let probes = [
        "kprobe:ip_local_deliver_finish name=deliver after=ip.in len=skb->len room=sk->sk_rcvbuf",
        "kprobe:try_fill_recv name=refill as=loadline free=rq->vq->num_free",
        "uprobe:/usr/lib/postgresql/17/bin/postgres:CheckpointerMain name=checkpoint",
    ];
    let probes = probes.iter().map(|text| text.parse().expect(text)).collect();
    NodeInfo { probes, settings: vec!["snap 32 dev.recv".to_owned()], ..info() }
}

/// Reproducible pseudo-random numbers (xorshift).
struct Dice(u64);

impl Dice {
    /// Uniform in `[0, 1)`.
    fn even(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Around `typical` nanoseconds, rarely much more.
    fn around(&mut self, typical: f64) -> u64 {
        let spread = -(1.0 - self.even()).ln();
        (typical * (0.6 + 0.4 * spread)) as u64 + 1
    }
}

/// One direction of a connection.
struct Leg {
    tx: FlowId,
    rx: FlowId,
    proto: Proto,
    sender: u32,
    reader: u32,
    seq: u32,
    len: u32,
    id: u16,
}

/// Interval of the client's TCP samples.
const TCP_EVERY_NS: u64 = 500_000;

/// TCP state of the client: a window that grows and is halved, and a round trip with occasional peaks.
fn tcp_state(time_ns: u64) -> TcpSample {
    let n = (time_ns - START_NS) / TCP_EVERY_NS;
    let hill = if n % 97 < 6 { 4_000 } else { 0 };
    TcpSample {
        time_ns,
        socket: 11,
        flow: FlowId(11),
        cwnd: 10 + (n % 40) as u32,
        srtt_us: 210 + (n % 13) as u32 * 7 + hill,
        rttvar_us: 40 + (n % 5) as u32,
        rto_us: 204_000,
        packets_out: (n % 9) as u32,
        ssthresh: 40,
        total_retrans: (n / 400) as u32,
        snd_wnd: 65_536,
        rcv_wnd: 65_536,
        snd_una: 1,
        snd_nxt: 1,
        send_queue_bytes: (n % 7) as u32 * 1448,
        state: 1,
        ..TcpSample::default()
    }
}

/// The client and the server.
pub struct World {
    dice: Dice,
    legs: Vec<Leg>,
    /// Pending events, in time order after sorting.
    pending: Vec<Event>,
    batch: Batch,
    gap_ns: f64,
    next_ns: u64,
    now_ns: u64,
    hits: u64,
    count: u64,
    announced: bool,
    /// True if custom probes and payload are recorded.
    probed: bool,
    /// Share of datagrams that the kernel drops.
    dropped: f64,
    passed: Vec<ProbeHit>,
    heads: Vec<PayloadHead>,
}

impl World {
    /// A world with this many requests per second.
    pub fn new(requests_per_s: f64) -> Self {
        let leg = |tx, rx, proto, sender, reader, len| Leg {
            tx: FlowId(tx),
            rx: FlowId(rx),
            proto,
            sender,
            reader,
            seq: 1,
            len,
            id: 1,
        };
        World {
            dice: Dice(0x9e37_79b9_7f4a_7c15),
            legs: vec![
                leg(11, 12, Proto::TCP, 2200, 2211, 420),
                leg(12, 11, Proto::TCP, 2211, 2200, 2896),
                leg(21, 22, Proto::UDP, 2300, 2311, 128),
            ],
            pending: Vec::new(),
            batch: Batch::default(),
            gap_ns: 1e9 / requests_per_s,
            next_ns: START_NS,
            now_ns: START_NS,
            hits: 0,
            count: 0,
            announced: false,
            probed: false,
            dropped: 0.03,
            passed: Vec::new(),
            heads: Vec::new(),
        }
    }

    /// The same world with custom probes: see [`probed`].
    pub fn probed(requests_per_s: f64) -> Self {
        World { probed: true, ..Self::new(requests_per_s) }
    }

    /// The same world with this share of datagrams dropped.
    pub fn lossy(requests_per_s: f64, dropped: f64) -> Self {
        World { dropped, ..Self::new(requests_per_s) }
    }

    /// Events so far.
    pub fn hits(&self) -> u64 {
        self.hits
    }

    /// Advances the time to `ns` after the start and feeds `scope` with the events.
    pub fn run_until(&mut self, ns: u64, scope: &mut Scope) {
        scope.ingest(self.batch_until(ns));
    }

    /// Events until `ns` after the start.
    pub fn batch_until(&mut self, ns: u64) -> &Batch {
        let until = START_NS + ns;
        while self.next_ns < until {
            let at = self.next_ns;
            let done = self.request(at);
            self.next_ns = done + self.dice.around(self.gap_ns);
        }
        self.pending.sort_by_key(|event| event.time_ns);
        let due = self.pending.partition_point(|event| event.time_ns < until);
        self.batch.clear();
        self.batch.events.extend(self.pending.drain(..due));
        self.hits += due as u64;
        let mut at = self.now_ns.next_multiple_of(TCP_EVERY_NS);
        while at < until {
            self.batch.tcp.push(tcp_state(at));
            at += TCP_EVERY_NS;
        }
        if self.probed {
            self.pass(until);
        }
        self.batch.watermark_ns = until;
        if !self.announced {
            self.announced = true;
            self.announce();
        }
        self.now_ns = until;
        &self.batch
    }

    /// Adds a loss to the next batch.
    pub fn lose(scope: &mut Scope, at_ns: u64, count: u64) {
        let time = START_NS + at_ns;
        let loss = Loss { cpu: 3, from_ns: time, to_ns: time + 1000, count, cause: LossCause::RingFull };
        scope.ingest(&Batch { losses: vec![loss], watermark_ns: time, ..Batch::default() });
    }

    fn announce(&mut self) {
        let flow = |id, netns, proto, local: &str, remote: &str| Flow {
            id: FlowId(id),
            netns,
            proto,
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
        };
        let (a, b) = ("10.0.0.7:41022", "10.0.0.9:5432");
        let (c, d) = ("10.0.0.7:50000", "10.0.0.9:8125");
        self.batch.flows.extend([
            flow(11, CLIENT, Proto::TCP, a, b),
            flow(12, SERVER, Proto::TCP, b, a),
            flow(21, CLIENT, Proto::UDP, c, d),
            flow(22, SERVER, Proto::UDP, d, c),
        ]);
        for (tid, comm) in [(2200, "pgbench"), (2211, "postgres"), (2300, "app"), (2311, "statsd")] {
            let comm = comm.to_owned();
            self.batch.tasks.push(Task { tgid: tid, tid, uid: 1000, cgroup: 1, comm });
        }
        self.batch.clock.push(ClockSample {
            monotonic_ns: START_NS,
            raw_ns: START_NS,
            realtime_ns: 1_790_000_000_000_000_000,
            width_ns: 200,
            ..ClockSample::default()
        });
    }

    /// Generates a request, its answer and some datagrams; returns the time of the last read.
    fn request(&mut self, at: u64) -> u64 {
        self.count += 1;
        let answered = self.packet(0, at);
        let think = self.dice.around(60_000.0);
        let done = self.packet(1, answered + think);
        if self.count.is_multiple_of(5) {
            let later = self.dice.around(90_000.0);
            return done.max(self.packet(2, at + later));
        }
        done
    }

    /// Generates one packet on a leg; returns its read time.
    fn packet(&mut self, leg: usize, at: u64) -> u64 {
        let udp = self.legs[leg].proto == Proto::UDP;
        let slow = self.dice.even();
        let queue = if slow > 0.995 { 600_000.0 } else { 1_200.0 };
        let cpu_wait = if slow < 0.004 {
            2_600_000.0
        } else if slow < 0.05 {
            90_000.0
        } else {
            3_500.0
        };
        let tcp_steps: &[(Hop, f64)] = &[
            (Hop::TcpSend, 700.0),
            (Hop::TcpXmit, 1_500.0),
            (Hop::IpOut, 900.0),
            (Hop::IpPost, 800.0),
            (Hop::DevQueue, 600.0),
            (Hop::DevXmit, queue),
            (Hop::DevRecv, 9_000.0),
            (Hop::IpPre, 700.0),
            (Hop::IpIn, 600.0),
            (Hop::TcpRecv, 1_100.0),
            (Hop::SockReady, 800.0),
            (Hop::TaskWake, 900.0),
            (Hop::TaskRun, cpu_wait),
            (Hop::AppRecv, 2_500.0),
        ];
        let udp_steps: &[(Hop, f64)] = &[
            (Hop::IpOut, 900.0),
            (Hop::IpPost, 800.0),
            (Hop::DevQueue, 600.0),
            (Hop::DevXmit, queue),
            (Hop::DevRecv, 9_000.0),
            (Hop::IpPre, 700.0),
            (Hop::IpIn, 600.0),
            (Hop::UdpRecv, 900.0),
            (Hop::SockReady, 700.0),
            (Hop::TaskWake, 900.0),
            (Hop::TaskRun, cpu_wait),
            (Hop::AppRecv, 2_000.0),
        ];
        let mut time = at;
        if !udp {
            self.event(leg, Hop::AppSend, time);
        }
        let dropped = udp && slow > 1.0 - self.dropped;
        for (hop, typical) in if udp { udp_steps } else { tcp_steps } {
            time += self.dice.around(*typical);
            if dropped && *hop == Hop::DevRecv {
                self.event(leg, Hop::SkbDrop, time);
                break;
            }
            self.event(leg, *hop, time);
            if udp && *hop == Hop::DevXmit {
                self.event(leg, Hop::AppSend, time + 400); // this kind of send is recorded at its return
            }
        }
        let leg = &mut self.legs[leg];
        leg.id = leg.id.wrapping_add(1);
        if !udp {
            leg.seq = leg.seq.wrapping_add(leg.len);
        }
        time
    }

    /// Custom-probe hits until then: packets, a ring that drains and is refilled, an occasional checkpoint.
    fn pass(&mut self, until: u64) {
        const EVERY_NS: u64 = 400_000;
        let mut at = self.now_ns.next_multiple_of(EVERY_NS);
        while at < until {
            let n = at / EVERY_NS;
            let free = [256 - (n * 7 % 223) as i64, 0];
            self.passed.push(hit(1, at, free));
            if n.is_multiple_of(170) {
                self.passed.push(ProbeHit { tgid: 2211, tid: 2211, ..hit(2, at, [0, 0]) });
            }
            at += EVERY_NS;
        }
        self.passed.sort_by_key(|hit| hit.time_ns);
        self.heads.sort_by_key(|head| head.time_ns);
        let due = self.passed.partition_point(|hit| hit.time_ns < until);
        self.batch.hits.extend(self.passed.drain(..due));
        let due = self.heads.partition_point(|head| head.time_ns < until);
        self.batch.heads.extend(self.heads.drain(..due));
    }

    fn event(&mut self, leg: usize, hop: Hop, time_ns: u64) {
        let leg = &self.legs[leg];
        if self.probed && hop == Hop::IpIn {
            let (flow, seq, len) = (leg.rx, if leg.proto == Proto::UDP { 0 } else { leg.seq }, leg.len);
            let seen = hit(0, time_ns + 260, [i64::from(len) + 52, 131_072]);
            self.passed.push(ProbeHit { flow, seq, len, ip_id: leg.id, proto: leg.proto, ..seen });
            let bytes = format!("SELECT abalance FROM pgbench_accounts WHERE aid = {};", leg.id);
            self.heads.push(PayloadHead {
                time_ns: time_ns - 100,
                flow,
                seq,
                of_bytes: len,
                event: 0,
                record: 0,
                cpu: 3,
                ip_id: leg.id,
                hop: Hop::DevRecv,
                proto: leg.proto,
                bytes: bytes.into_bytes().into_iter().take(32).collect(),
            });
        }
        let receiving = hop.direction() == magscope_core::Direction::Rx;
        let flow = if receiving { leg.rx } else { leg.tx };
        let sched = matches!(hop, Hop::TaskWake | Hop::TaskRun);
        let udp = leg.proto == Proto::UDP;
        let packet = !hop.knows_process() && hop != Hop::SockReady;
        let at_return = udp && hop == Hop::AppSend;
        let tid = match (hop.knows_process() || hop == Hop::IpOut, receiving) {
            (false, _) => 0,
            (true, true) => leg.reader,
            (true, false) => leg.sender,
        };
        let ready = hop == Hop::SockReady;
        let end = if udp { 0 } else { leg.seq.wrapping_add(leg.len) };
        self.pending.push(Event {
            flow: if sched { FlowId::NONE } else { flow },
            socket: flow.0, // for a wake-up: the socket that woke the reader
            extent: ExtentKind::Stream.of(if udp || sched {
                0
            } else if ready {
                end
            } else {
                leg.seq
            }),
            len: if ready || sched { 0 } else { leg.len },
            skb: if packet { u32::from(leg.id) | 0x10_0000 } else { 0 },
            tgid: tid,
            tid,
            detail: DetailKind::DropReason.of(if hop == Hop::SkbDrop { 2 } else { 0 }),
            record: 0,
            cpu: (tid % 8) as u16,
            ip_id: if packet { leg.id } else { 0 },
            segs: u16::from(packet),
            tcp_flags: if packet && !udp { 24 } else { 0 },
            flags: if at_return { EventFlags::AT_RETURN } else { EventFlags::default() },
            proto: leg.proto,
            ..Event::at(hop, time_ns)
        });
    }
}

/// A hit with two values.
fn hit(probe: u8, time_ns: u64, values: [i64; 2]) -> ProbeHit {
    ProbeHit {
        time_ns,
        record: time_ns as u32,
        cpu: 3,
        probe,
        known: 0b11,
        values: [values[0], values[1], 0, 0],
        ..ProbeHit::default()
    }
}
