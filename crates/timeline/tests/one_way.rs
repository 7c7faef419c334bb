//! A bulk transfer in one direction, recorded on two hosts with clocks of their own. Only segments without payload
//! cross in the other direction.

use crate::clock_world;
use crate::recording::Recording;

use clock_world::clock::Crystal;
use clock_world::delay::{Jitter, Path};
use clock_world::random::Random;
use clock_world::{SECOND, Settings};
use magscope_core::clock::ClockSample;
use magscope_core::journey::Limits;
use magscope_core::node::{Backend, Coverage, NodeInfo};
use magscope_core::source::{Progress, Source};
use magscope_core::{
    Batch, Detail, DetailKind, Event, EventFlags, ExtentKind, Flow, FlowId, Hop, Loss, LossCause, Proto,
};
use magscope_timeline::align::{Alignment, Online};
use magscope_timeline::join::{Timeline, Unaligned};
use magscope_timeline::merged_reader::{self, Walker};
use magscope_timeline::pair::State;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

const SEGMENT_BYTES: u32 = 1_448;
const SYN: u8 = 2;
const ACK: u8 = 16;

fn worlds() -> u64 {
    std::env::var("MAGSCOPE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(60)
}

#[derive(Clone, Copy, Debug)]
struct Transfer {
    ipv6: bool,
    /// The recordings have the beginning of the connection.
    started: bool,
    /// Share of segments that the path loses, in each direction.
    loss: f64,
    /// Share of records that the sender of acknowledgements loses.
    lost_records: f64,
    /// The receiver sees the sender under another address.
    translated: bool,
    segments: u32,
}

/// The hops that these hosts serve.
fn coverage() -> Coverage {
    let seen = [Hop::TcpXmit, Hop::DevXmit, Hop::DevRecv, Hop::TcpRecv, Hop::AppRecv];
    let mut coverage = Coverage::full(Backend::Generator);
    coverage.hops.retain(|row| seen.contains(&row.hop));
    coverage
}

/// Two hosts: what each records, by true time, and their clocks.
struct Hosts {
    clocks: [Crystal; 2],
    flows: [Flow; 2],
    events: [Vec<(i64, Event)>; 2],
    lost: Vec<i64>,
    floors_ns: [f64; 2],
    span_ns: i64,
}

/// The packet hops of one end.
const TX: [(Hop, i64); 2] = [(Hop::TcpXmit, -2_000), (Hop::DevXmit, 0)];
const RX: [(Hop, i64); 2] = [(Hop::DevRecv, 0), (Hop::TcpRecv, 1_500)];

#[derive(Clone, Copy)]
struct Segment {
    seq: u32,
    ack: u32,
    len: u32,
    id: u16,
    flags: u8,
}

impl Hosts {
    fn see(&mut self, host: usize, t: i64, hops: [(Hop, i64); 2], segment: Segment) {
        for (hop, after) in hops {
            let event = self.event(host, hop, segment);
            self.events[host].push((t + after, event));
        }
    }

    fn event(&self, host: usize, hop: Hop, Segment { seq, ack, len, id, flags }: Segment) -> Event {
        let ipv6 = self.flows[host].local.is_ipv6();
        Event {
            flow: self.flows[host].id,
            extent: ExtentKind::Stream.of(seq),
            len,
            detail: if hop == Hop::AppRecv { Detail::None } else { DetailKind::Ack.of(ack) },
            ip_id: if ipv6 { 0 } else { id },
            segs: 1,
            tcp_flags: flags,
            flags: if ipv6 { EventFlags::IPV6 } else { EventFlags(0) },
            ..Event::at(hop, 0)
        }
    }

    fn new(random: &mut Random, transfer: Transfer) -> Self {
        let settings = Settings::any(random, 0);
        let crystal = |random: &mut Random, start: u64| {
            let mut crystal = Crystal::new(start, random.between(-95.0, 95.0));
            crystal.sway = (random.between(0.0, 3.0), random.magnitude(1e9, 1e11), random.between(0.0, 6.0));
            crystal
        };
        let start = random.magnitude(1e13, 1e15) as u64;
        let ahead = random.magnitude(1e3, 3.6e12) as u64;
        let clocks = [crystal(random, start), crystal(random, start + ahead)];
        let address = |host: u8| -> IpAddr {
            if transfer.ipv6 { [0xfd00, 0, 0, 0, 0, 0, 0, host.into()].into() } else { [10, 0, 0, host].into() }
        };
        let end = |host: u8, port: u16| SocketAddr::new(address(host), port);
        // A translator gives the sender the address of host 9 and another port.
        let seen = if transfer.translated { end(9, 61_000) } else { end(1, 40_000) };
        let flow = |id: u64, local, remote| Flow {
            id: FlowId(id),
            netns: id as u32,
            proto: Proto::TCP,
            local,
            remote,
        };
        let flows = [flow(1, end(1, 40_000), end(2, 5_001)), flow(2, end(2, 5_001), seen)];
        let floor = random.magnitude(20_000.0, 2e6);
        let asymmetry = random.between(-0.9, 0.9);
        let mut hosts = Hosts {
            clocks,
            flows,
            events: [Vec::new(), Vec::new()],
            lost: Vec::new(),
            floors_ns: [floor * (1.0 + asymmetry), floor * (1.0 - asymmetry)],
            span_ns: 0,
        };
        let jitter = if random.chance(0.5) {
            [Jitter::Exponential { mean_ns: floor * random.between(0.05, 1.0) }; 2]
        } else {
            settings.jitter
        };
        hosts.transfer(random, transfer, jitter);
        hosts
    }

    fn transfer(&mut self, random: &mut Random, transfer: Transfer, jitter: [Jitter; 2]) {
        let path = |i: usize| Path { floor_ns: self.floors_ns[i], jitter: jitter[i], route_change: None };
        let paths = [path(0), path(1)];
        let (first, theirs) = (random.next() as u32, random.next() as u32);
        let mut ids = [random.next() as u16, random.next() as u16];
        let mut id = |host: usize| {
            ids[host] = ids[host].wrapping_add(1).max(1);
            ids[host]
        };
        let trip = (self.floors_ns[0] + self.floors_ns[1]) as i64;
        if transfer.started {
            let syn = Segment { seq: first.wrapping_sub(1), ack: 0, len: 0, id: id(0), flags: SYN };
            let answer = Segment { seq: theirs.wrapping_sub(1), ack: first, len: 0, id: 0, flags: SYN | ACK };
            let t = -3 * trip;
            let at = t + paths[0].delay_ns(random, t);
            let back = at + 10_000 + paths[1].delay_ns(random, at);
            self.see(0, t, TX, syn);
            self.see(1, at, RX, syn);
            self.see(1, at + 10_000, TX, answer);
            self.see(0, back, RX, answer);
        }
        // Data, and again what was lost.
        let mut t = 0;
        let mut arrivals: BTreeMap<(i64, u32), Segment> = BTreeMap::new();
        for number in 0..transfer.segments {
            t += random.exponential(2e6) as i64;
            let seq = first.wrapping_add(number * SEGMENT_BYTES);
            let mut sent = t;
            loop {
                let segment = Segment { seq, ack: theirs, len: SEGMENT_BYTES, id: id(0), flags: ACK };
                self.see(0, sent, TX, segment);
                if !random.chance(transfer.loss) {
                    arrivals.insert((sent + paths[0].delay_ns(random, sent), number), segment);
                    break;
                }
                sent += 3 * trip + 1_000_000;
            }
        }
        self.span_ns = t;
        // Acknowledgements: of every second segment, and at once of any out of order.
        let mut there: Vec<bool> = vec![false; transfer.segments as usize];
        let (mut next, mut unanswered, mut before_ns) = (0, 0, 0);
        for ((arrived, number), segment) in arrivals {
            self.see(1, arrived, RX, segment);
            let read = Event { tgid: 7, tid: 7, ..self.event(1, Hop::AppRecv, segment) };
            there[number as usize] = true;
            let in_order = number == next;
            while there.get(next as usize) == Some(&true) {
                self.events[1].push((
                    arrived + 4_000,
                    Event { extent: ExtentKind::Stream.of(first.wrapping_add(next * SEGMENT_BYTES)), ..read },
                ));
                next += 1;
            }
            unanswered += 1;
            if in_order && unanswered < 2 {
                continue;
            }
            unanswered = 0;
            let sent = (arrived + 3_000 + random.exponential(2_000.0) as i64).max(before_ns + 500);
            before_ns = sent;
            let ack = Segment {
                seq: theirs,
                ack: first.wrapping_add(next * SEGMENT_BYTES),
                len: 0,
                id: id(1),
                flags: ACK,
            };
            if random.chance(transfer.lost_records) {
                self.lost.push(sent);
            } else {
                self.see(1, sent, TX, ack);
            }
            if !random.chance(transfer.loss) {
                self.see(0, sent + paths[1].delay_ns(random, sent), RX, ack);
            }
        }
    }

    fn recordings(&self) -> [Recording; 2] {
        [0, 1].map(|host| {
            let clock = &self.clocks[host];
            let read = |t: i64| clock.read(t);
            let mut events: Vec<Event> =
                self.events[host].iter().map(|(t, event)| Event { time_ns: read(*t), ..*event }).collect();
            events.sort_by_key(|event| event.time_ns);
            let (from, to) = (-SECOND, self.span_ns + 2 * SECOND);
            let mut samples = (from..to).step_by(100_000_000).map(|t| ClockSample {
                monotonic_ns: read(t),
                raw_ns: read(t),
                realtime_ns: t + 1_000_000_000_000_000_000,
                width_ns: 50,
                ..ClockSample::default()
            });
            let mut batches = Vec::new();
            for events in events.chunks(300) {
                let mut batch = Batch { events: events.to_vec(), ..Batch::default() };
                batch.watermark_ns = events.last().map_or(0, |event| event.time_ns);
                let (first, last) = (events.first().map_or(0, |e| e.time_ns), batch.watermark_ns);
                if host == 1 {
                    let lost = self.lost.iter().map(|t| read(*t)).filter(|at| (first..=last).contains(at));
                    batch.losses = lost
                        .map(|at| Loss {
                            cpu: 0,
                            from_ns: at - 3_000,
                            to_ns: at + 1,
                            count: 2,
                            cause: LossCause::RingFull,
                        })
                        .collect();
                }
                batch.clock.extend(samples.by_ref().take_while(|sample| sample.monotonic_ns <= last));
                batches.push(batch);
            }
            batches[0].flows = vec![self.flows[host]];
            batches.push(Batch { clock: samples.collect(), watermark_ns: read(to), ..Batch::default() });
            let info = NodeInfo {
                host: format!("host{host}"),
                boot_id: format!("boot{host}"),
                coverage: coverage(),
                ..NodeInfo::default()
            };
            Recording { info, batches: batches.into_iter() }
        })
    }

    fn rough(&self) -> Unaligned {
        Unaligned { to_utc_ns: self.clocks.iter().map(|clock| -(clock.read(0) as i64)).collect() }
    }

    fn aligned(&self) -> Alignment {
        let [mut a, mut b] = self.recordings();
        let limits = Limits::default();
        merged_reader::align(&mut [&mut a, &mut b], &self.rough(), limits, Duration::ZERO).expect("no failure")
    }

    /// R of A, and the difference, at a true instant.
    fn truth(&self, t: i64) -> (u64, i64) {
        let [a, b] = [0, 1].map(|host| self.clocks[host].read(t));
        (a, b.wrapping_sub(a) as i64)
    }
}

/// Checks every claim; returns the half width by half the quickest round trip, at the median.
fn check(hosts: &Hosts, random: &mut Random, seed: u64, transfer: Transfer) -> f64 {
    let alignment = hosts.aligned();
    assert_eq!(alignment.state(0, 1), Some(State::Certified), "seed {seed}: {transfer:?}");
    let pair = alignment.pair(0, 1).expect("packets crossed");
    for _ in 0..100 {
        let (a, d) = hosts.truth(random.between(-0.1, 1.1).mul_add(hosts.span_ns as f64, 0.0) as i64);
        let bounds = pair.bounds_at(a);
        assert!(bounds.contains(d), "seed {seed}: {d} is not in {bounds:?}: {transfer:?}");
    }
    assert_eq!((pair.counts().rejected, pair.steps()), (0, 0), "seed {seed}: {transfer:?}");
    // The time line of journeys has the same values, and the errors of both nodes' clocks beside them.
    for _ in 0..20 {
        let (a, d) = hosts.truth((random.unit() * hosts.span_ns as f64) as i64);
        let shown = alignment.difference_at(0, 1, a);
        let shown_ns = shown.estimate_ns.expect("inside");
        assert!(shown.bounds.contains(d) && shown.bounds.contains(shown_ns));
        let used = alignment.difference_ns(0, 1, a).expect("two-sided");
        assert!(used.ns.abs_diff(shown_ns) < 1_000, "{used:?} in journeys, {shown:?}");
        let ends = shown.bounds.lower.zip(shown.bounds.upper).expect("both");
        let more = [ends.0.checked_sub(used.ends_ns().0), used.ends_ns().1.checked_sub(ends.1)];
        assert!(more.iter().all(|more| more.is_some_and(|ns| (0..1_000).contains(&ns))), "{used:?}, {shown:?}");
    }
    let [_, median_ns, ..] = pair.half_widths_ns().expect("two-sided");
    median_ns as f64 / f64::midpoint(hosts.floors_ns[0], hosts.floors_ns[1])
}

fn any(random: &mut Random, ipv6: bool) -> Transfer {
    let some =
        |random: &mut Random, most: f64| if random.chance(0.5) { random.between(0.0, most) } else { 0.0 };
    Transfer {
        ipv6,
        started: random.chance(0.5),
        loss: some(random, 0.1),
        lost_records: some(random, 0.02),
        translated: random.chance(0.2),
        segments: 600 + random.below(1_500) as u32,
    }
}

/// Over any path, with lost and doubled acknowledgements, lost records and an address translator.
#[test]
fn no_claim_from_segments_without_payload_is_wrong() {
    for seed in 0..worlds() {
        let mut random = Random(seed);
        let transfer = any(&mut random, seed % 2 == 0);
        let hosts = Hosts::new(&mut random, transfer);
        check(&hosts, &mut random, seed, transfer);
    }
}

/// On a path with queues of its own size and without loss.
#[test]
fn a_transfer_in_one_direction_has_bounds_near_half_the_round_trip() {
    for ipv6 in [false, true] {
        let mut ratios: Vec<f64> = (0..worlds().min(60))
            .map(|seed| {
                let mut random = Random(seed ^ 0x0e1);
                let transfer = Transfer { loss: 0.0, lost_records: 0.0, ..any(&mut random, ipv6) };
                let mut hosts = Hosts::new(&mut random, transfer);
                let quiet =
                    [Jitter::Exponential { mean_ns: hosts.floors_ns[0].min(hosts.floors_ns[1]) * 0.5 }; 2];
                hosts.events = [Vec::new(), Vec::new()];
                hosts.transfer(&mut random, transfer, quiet);
                check(&hosts, &mut random, seed, transfer)
            })
            .collect();
        ratios.sort_by(f64::total_cmp);
        let (median, most) = (ratios[ratios.len() / 2], ratios[ratios.len() - 1]);
        println!(
            "ipv6 {ipv6}: half width ÷ half the quickest round trip {median:.3} at the median, {most:.3} at most"
        );
        assert!(median <= 1.3, "{median}");
    }
}

/// The same while the recordings are read, as live sources.
#[test]
fn live_sources_have_these_bounds_too() {
    for ipv6 in [false, true] {
        let mut random = Random(5);
        let transfer = Transfer { ipv6, ..any(&mut random, ipv6) };
        let hosts = Hosts::new(&mut random, transfer);
        let recordings = hosts.recordings();
        let online = Online::new(recordings.iter().map(|recording| &recording.info));
        let sources = recordings.map(|recording| Box::new(recording) as Box<dyn Source>).into();
        let mut walker = Walker::live(sources, &online, Limits::default(), Duration::ZERO);
        while walker.step(&mut |_| {}).expect("no failure") == Progress::More {}
        online.look(|alignment| {
            let pair = alignment.pair(0, 1).expect("packets crossed");
            let (a, d) = hosts.truth(hosts.span_ns);
            let bounds = pair.bounds_at(a);
            assert!(bounds.width_ns().is_some() && bounds.contains(d), "{d} is not in {bounds:?}");
        });
    }
}
