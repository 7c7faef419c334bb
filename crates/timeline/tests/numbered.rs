//! Datagrams whose identifications turn: lost, in outages, and in recordings that overlap in part. No bound excludes the
//! true difference of the clocks, and no time on the wire the true one.
//!
//! `MAGSCOPE_CASES` sets the number of worlds.

use crate::clock_world::random::Random;
use crate::recording::Recording;
use magscope_core::clock::ClockSample;
use magscope_core::journey::{Across, Journey, Limits};
use magscope_core::node::{Backend, Coverage, NodeInfo};
use magscope_core::{Batch, Event, Flow, FlowId, Hop, Proto};
use magscope_timeline::align::Alignment;
use magscope_timeline::join::{Timeline, Unaligned};
use magscope_timeline::merged_reader::{self, Piece};
use magscope_timeline::pair::Estimate;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;
const BEGIN: u64 = 100 * SECOND;
/// The flow takes so many identifications for each datagram: few datagrams make a turn.
const STEP: u64 = 128;
const PER_TURN: u64 = (1 << 16) / STEP;

fn worlds() -> u64 {
    std::env::var("MAGSCOPE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(200)
}

/// A datagram by true time; `received_ns` is `None` for a lost one.
#[derive(Clone, Copy, Debug)]
struct Datagram {
    from: usize,
    id: u16,
    len: u32,
    sent_ns: u64,
    received_ns: Option<u64>,
}

/// Two hosts. The clock of the second is ahead of true time.
struct Hosts {
    ahead_ns: u64,
    datagrams: Vec<Datagram>,
    recorded: [Range<u64>; 2],
    /// Error of the wall clock of the second host.
    wall_error_ns: i64,
    /// Programs steer the wall clocks.
    disciplined: bool,
}

impl Hosts {
    /// Datagrams of one or both directions, each at `period_ns`.
    fn new(random: &mut Random, turns: f64) -> Self {
        let count = (PER_TURN as f64 * turns) as u64;
        let (period_ns, delay_ns) = (random.magnitude(1e5, 1e7), random.magnitude(1e4, 1e8));
        let (loss, lengths) = (random.between(0.0, 0.3), 1 + random.below(3));
        let outage = random.chance(0.3).then(|| random.below(count.max(1)));
        let mut datagrams = Vec::new();
        for from in 0..=random.below(2) as usize {
            // Those of the two directions differ.
            let first = 2 * random.below(1 << 15) + from as u64;
            for n in 0..count {
                let is_out = outage.is_some_and(|at| (at..at + PER_TURN / 2).contains(&n));
                let sent_ns = BEGIN + (n as f64 * period_ns) as u64;
                let arrival_ns = sent_ns + (delay_ns * (1.0 + random.between(0.0, 0.2))) as u64;
                datagrams.push(Datagram {
                    from,
                    id: ((first + n * STEP) as u16).max(2),
                    len: 100 + random.below(lengths) as u32,
                    sent_ns,
                    received_ns: (!is_out && !random.chance(loss)).then_some(arrival_ns),
                });
            }
        }
        let span_ns = (count as f64 * period_ns) as u64 + 2 * delay_ns as u64;
        let mut hosts = Hosts {
            ahead_ns: random.magnitude(1e3, 3.6e12) as u64,
            datagrams,
            recorded: [0, 1].map(|_| BEGIN - SECOND..BEGIN + span_ns + SECOND),
            wall_error_ns: random.between(-1e10, 1e10) as i64,
            disciplined: false,
        };
        if random.chance(0.5) {
            // The recordings have the middle in common.
            let part_ns = |random: &mut Random| (random.between(0.0, 0.5) * span_ns as f64) as u64;
            let late = random.below(2) as usize;
            hosts.recorded[late].start = BEGIN + part_ns(random);
            hosts.recorded[1 - late].end = BEGIN + span_ns - part_ns(random);
        }
        hosts
    }

    fn own_ns(&self, host: usize, true_ns: u64) -> u64 {
        true_ns + if host == 1 { self.ahead_ns } else { 0 }
    }

    fn flow(host: usize) -> Flow {
        let ends: [SocketAddr; 2] = [([10, 0, 0, 1], 5_000).into(), ([10, 0, 0, 2], 6_000).into()];
        let (local, remote) = (ends[host], ends[1 - host]);
        Flow { id: FlowId(host as u64 + 1), netns: host as u32 + 1, proto: Proto::UDP, local, remote }
    }

    fn events(&self, host: usize) -> Vec<Event> {
        let mut events = Vec::new();
        for (number, datagram) in (1..).zip(&self.datagrams) {
            let seen: &[(Hop, u64)] = match datagram.received_ns {
                _ if datagram.from == host => {
                    &[(Hop::UdpSend, datagram.sent_ns - 2_000), (Hop::DevXmit, datagram.sent_ns)]
                }
                Some(at_ns) => &[(Hop::DevRecv, at_ns), (Hop::UdpRecv, at_ns + 1_000)],
                None => &[],
            };
            events.extend(seen.iter().map(|(hop, at_ns)| Event {
                flow: Self::flow(host).id,
                proto: Proto::UDP,
                len: datagram.len,
                ip_id: if *hop == Hop::UdpSend { 0 } else { datagram.id },
                skb: number,
                segs: 1,
                ..Event::at(*hop, *at_ns)
            }));
        }
        events.retain(|event| self.recorded[host].contains(&event.time_ns));
        events.sort_by_key(|event| event.time_ns);
        events
    }

    fn recording(&self, host: usize) -> Recording {
        let (from, to) = (self.recorded[host].start, self.recorded[host].end);
        let mut events = self.events(host).into_iter().peekable();
        let mut batches = Vec::new();
        for begin in (from..to).step_by(SECOND as usize / 10) {
            let end = begin + SECOND / 10;
            let mut batch = Batch { watermark_ns: self.own_ns(host, end), ..Batch::default() };
            while let Some(event) = events.next_if(|event| event.time_ns < end) {
                batch.events.push(Event { time_ns: self.own_ns(host, event.time_ns), ..event });
            }
            let at_ns = self.own_ns(host, begin);
            batch.clock.push(ClockSample {
                monotonic_ns: at_ns,
                raw_ns: at_ns,
                realtime_ns: at_ns as i64,
                width_ns: 50,
                status: u32::from(self.disciplined),
                ..ClockSample::default()
            });
            batches.push(batch);
        }
        batches[0].flows = vec![Self::flow(host)];
        let seen = [Hop::UdpSend, Hop::DevXmit, Hop::DevRecv, Hop::UdpRecv];
        let mut coverage = Coverage::full(Backend::Generator);
        coverage.hops.retain(|row| seen.contains(&row.hop));
        let boot_id = format!("boot{host}");
        let info = NodeInfo { host: format!("host{host}"), boot_id, coverage, ..NodeInfo::default() };
        Recording { info, batches: batches.into_iter() }
    }

    fn align(&self) -> Alignment {
        let rough = Unaligned { to_utc_ns: vec![0, self.wall_error_ns - self.ahead_ns as i64] };
        let [mut a, mut b] = [0, 1].map(|host| self.recording(host));
        let aligned = merged_reader::align(&mut [&mut a, &mut b], &rough, Limits::default(), Duration::ZERO);
        aligned.expect("no source fails")
    }

    fn joined(&self, timeline: &dyn Timeline) -> Vec<Journey> {
        let [mut a, mut b] = [0, 1].map(|host| self.recording(host));
        let mut joined = Vec::new();
        let walked =
            merged_reader::walk(&mut [&mut a, &mut b], timeline, Limits::default(), Duration::ZERO, |piece| {
                match piece {
                    Piece::Journey(journey, ..) => joined.push(journey.clone()),
                    Piece::Batch(..) => {}
                }
            });
        let walked = walked.expect("no source fails");
        // What another turn could explain is counted.
        let is_uncertain = |j: &&Journey| j.tx_node != j.rx_node && j.ambiguous && j.across == Across::Apart;
        let uncertain: u64 = walked.pairings.iter().map(|pairing| pairing.uncertain).sum();
        assert!(uncertain >= joined.iter().filter(is_uncertain).count() as u64);
        assert_eq!(uncertain, walked.join.uncertain);
        joined
    }

    /// Instants of the second recording, on the clock of the first.
    fn check_bounds(&self, alignment: &Alignment, seed: u64) -> bool {
        let (from, to) = (self.recorded[0].start, self.recorded[0].end);
        let mut is_bounded = false;
        for at_ns in (from..to).step_by(((to - from) / 16) as usize) {
            if let Some(bounds) = alignment.bounds_at(0, 1, at_ns).map(|sourced| sourced.bounds) {
                assert!(bounds.contains(self.ahead_ns as i64), "world {seed}: {bounds:?}, {}", self.ahead_ns);
                is_bounded |= bounds.lower.is_some() || bounds.upper.is_some();
            }
        }
        is_bounded
    }

    /// Checks the times on the wire; returns their number. Times are on the clock of the first host, which is true.
    fn check_journeys(&self, journeys: &[Journey], seed: u64) -> usize {
        let mut times = 0;
        for journey in journeys {
            let wire = journey.latencies().find(|l| l.from == Hop::DevXmit && l.to == Hop::DevRecv);
            let Some((wire, left_ns)) = wire.zip(journey.rungs.time_ns(Hop::DevXmit)) else { continue };
            let bounds = wire.bounds_ns.0.saturating_sub(1)..=wire.bounds_ns.1 + 1;
            let is_it = |d: &&Datagram| {
                d.from == usize::from(journey.tx_node)
                    && d.sent_ns.abs_diff(left_ns) <= wire.half_width_ns + 100
                    && d.received_ns.is_some_and(|at_ns| bounds.contains(&(at_ns - d.sent_ns)))
            };
            assert!(self.datagrams.iter().any(|d| is_it(&d)), "world {seed}: {wire:?} of {journey:?}");
            times += 1;
        }
        times
    }
}

/// The clocks' difference is certain to within `width_ns`.
struct Aligned {
    ahead_ns: i64,
    width_ns: u64,
}

impl Timeline for Aligned {
    fn shift_ns(&self, node: u16, _: u64) -> Option<i64> {
        Some(if node == 1 { -self.ahead_ns } else { 0 })
    }

    fn difference_ns(&self, a: u16, b: u16, _: u64) -> Option<Estimate> {
        let ns = (i64::from(b) - i64::from(a)) * self.ahead_ns;
        let width_ns = if a == b { 0 } else { self.width_ns };
        Some(Estimate { ns, below_ns: width_ns, above_ns: width_ns })
    }

    fn rough_ns(&self, node: u16, at_ns: u64) -> i64 {
        at_ns as i64 + self.shift_ns(node, at_ns).unwrap_or(0)
    }
}

#[test]
fn turned_identifications_bound_no_clock_falsely() {
    let (mut bounded, mut times) = (0, 0);
    for seed in 0..worlds() {
        let mut random = Random(seed);
        let turns = random.between(0.1, 4.0);
        let hosts = Hosts::new(&mut random, turns);
        let alignment = hosts.align();
        bounded += u64::from(hosts.check_bounds(&alignment, seed));
        times += hosts.check_journeys(&hosts.joined(&alignment), seed);
    }
    assert!(bounded > worlds() / 20, "{bounded} worlds with a bound");
    assert!(times > 0, "no time on the wire");
}

/// The receiver was recorded a day before the sender, with the same ports and identifications.
#[test]
fn recordings_of_different_days_bound_no_clock() {
    const DAY: u64 = 86_400 * SECOND;
    let datagram = |id: u16, day: u64, is_received: bool| {
        let sent_ns = BEGIN + day * DAY + u64::from(id) * 1_000_000;
        let received_ns = is_received.then_some(sent_ns + 50_000);
        Datagram { from: 0, id, len: 100, sent_ns, received_ns }
    };
    let days = [0, 1].map(|day| BEGIN + day * DAY - SECOND..BEGIN + day * DAY + 10 * SECOND);
    let world = |disciplined| Hosts {
        ahead_ns: 0,
        datagrams: (100..200).flat_map(|id| [datagram(id, 0, true), datagram(id, 1, false)]).collect(),
        recorded: [days[1].clone(), days[0].clone()],
        wall_error_ns: 0,
        disciplined,
    };
    let bounds = |hosts: &Hosts| {
        let bounds = hosts.align().bounds_at(0, 1, BEGIN + DAY + SECOND);
        bounds.is_some_and(|sourced| sourced.bounds.lower.is_some() || sourced.bounds.upper.is_some())
    };
    let hosts = world(true);
    assert!(!bounds(&hosts));
    let alignment = hosts.align();
    assert_eq!(alignment.recorded_apart_ns(0, 1), Some(DAY - 11 * SECOND + SECOND / 10));
    let joined = hosts.joined(&alignment);
    let across: Vec<&Journey> = joined.iter().filter(|j| j.tx_node != j.rx_node).collect();
    assert!(!across.is_empty(), "nothing joined");
    assert!(across.iter().all(|j| j.ambiguous && j.across == Across::Apart), "{across:?}");
    // A wall clock that nothing disciplines is no proof.
    assert!(bounds(&world(false)));
}

/// Worlds in which a datagram takes less than half a turn.
fn quick_world(random: &mut Random) -> Hosts {
    loop {
        let turns = random.between(0.5, 4.0);
        let mut hosts = Hosts::new(random, turns);
        let period_ns = hosts.datagrams[1].sent_ns - hosts.datagrams[0].sent_ns;
        let delays = hosts.datagrams.iter().filter_map(|d| Some(d.received_ns? - d.sent_ns));
        if delays.max().is_some_and(|most| most < period_ns * PER_TURN / 3) {
            hosts.wall_error_ns = 0;
            return hosts;
        }
    }
}

#[test]
fn a_time_on_the_wire_is_of_one_datagram() {
    let mut times = 0;
    for seed in 0..worlds() {
        let mut random = Random(seed);
        let hosts = quick_world(&mut random);
        let width_ns = if random.chance(0.5) { 0 } else { random.magnitude(1e3, 1e9) as u64 };
        let timeline = Aligned { ahead_ns: hosts.ahead_ns as i64, width_ns };
        times += hosts.check_journeys(&hosts.joined(&timeline), seed);
    }
    assert!(times > 1_000, "{times}");
}
