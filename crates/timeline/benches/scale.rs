//! CPU time of a viewer per event, by the number of hosts: the live walk (correlate, align, join) over 2 to
//! 10,000 simulated hosts.
//!
//! `cargo bench -p magscope-timeline --bench scale [-- EVENTS HOSTS…]`. The traffic is simulated, between pairs of
//! hosts or between neighbours in a tree. Each host has a clock of its own, hours from any other's. It sends
//! 1,000 events per second in batches of a tenth of a second; the total is the same for any number of hosts.
//! The output is the CPU time per event, the memory per host at the end, and the share of traffic joined across
//! hosts.

#[path = "../../core/benches/counting/mod.rs"]
mod counting;
#[path = "../../core/benches/spent/mod.rs"]
mod spent;

use counting::HELD;
use magscope_core::clock::ClockSample;
use magscope_core::journey::{Across, Limits};
use magscope_core::node::{NetnsName, NodeInfo};
use magscope_core::source::{Progress, Source, SourceError};
use magscope_core::{Batch, Event, Flow, Generator, GeneratorOptions, Task};
use magscope_timeline::align::Online;
use magscope_timeline::merged_reader::{Piece, Walker};
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Events per second from each host.
const RATE: u64 = 1_000;
/// Batches per second from each host, each with a reading of its clocks.
const BATCHES: u64 = 10;

/// Instant at which the generator begins, nanoseconds.
const BEGIN_NS: u64 = 1_000_000_000;

/// A host's batches, generated in advance.
struct Host {
    info: NodeInfo,
    batches: VecDeque<Batch>,
}

impl Source for Host {
    fn info(&self) -> &NodeInfo {
        &self.info
    }

    fn next(&mut self, batch: &mut Batch, _: Duration) -> Result<Progress, SourceError> {
        batch.clear();
        Ok(match self.batches.pop_front() {
            Some(next) => {
                *batch = next;
                Progress::More
            }
            None => Progress::End,
        })
    }
}

/// Hosts with traffic between neighbours: of pairs, or in a tree, which connects each host to all others.
fn world(hosts: u64, tree: bool, all: u64) -> Vec<Host> {
    // In both directions, because one direction bounds the clocks from one side only.
    let talks = if tree { (hosts - 1) * 2 } else { hosts };
    let mut world: Vec<(Vec<Event>, Batch, NodeInfo)> = Vec::new();
    for number in 0..hosts {
        let host = format!("host-{number}");
        world.push((
            Vec::new(),
            Batch::default(),
            NodeInfo { boot_id: host.clone(), host, ..NodeInfo::default() },
        ));
    }
    let mut end_ns = 0;
    for number in 0..talks {
        let pair = number / 2;
        let mut ends = if tree { [pair + 1, pair / 2] } else { [pair * 2, pair * 2 + 1] };
        if number % 2 == 1 {
            ends.reverse();
        }
        let mut generator = Generator::new(GeneratorOptions {
            flows: 4,
            events: all / talks,
            events_per_s: RATE * hosts / talks,
            batch_events: 4_096,
            seed: number + 1,
            ..GeneratorOptions::default()
        });
        let namespaces: Vec<NetnsName> = generator.info().netns.clone();
        let address = |at: SocketAddr| {
            let IpAddr::V4(ip) = at.ip() else { unreachable!("the generator has no other") };
            SocketAddr::from((Ipv4Addr::new(10, (number >> 8) as u8, number as u8, ip.octets()[3]), at.port()))
        };
        // Threads of one host that read for different neighbours are distinct.
        let threads = number as u32 * 1_000;
        let (mut of, mut batch, mut more) = (HashMap::new(), Batch::default(), true);
        while more {
            more = generator.next(&mut batch, Duration::ZERO).expect("it never fails") == Progress::More;
            for flow in &batch.flows {
                let end = usize::from(flow.netns == namespaces[1].netns);
                of.insert(flow.id, end);
                let (local, remote) = (address(flow.local), address(flow.remote));
                world[ends[end] as usize].1.flows.push(Flow { local, remote, ..*flow });
            }
            for (end, host) in ends.iter().enumerate() {
                let (_, announced, info) = &mut world[*host as usize];
                info.coverage = generator.info().coverage.clone();
                info.clock.clone_from(&generator.info().clock);
                info.netns = vec![namespaces[end].clone()];
                let own =
                    |task: &Task| Task { tid: task.tid + threads, tgid: task.tgid + threads, ..task.clone() };
                announced.tasks.extend(batch.tasks.iter().map(own));
            }
            for event in &batch.events {
                // An event without a flow is the reader's wake-up.
                let end = of.get(&event.flow).copied().unwrap_or(1);
                let own = |id: u32| if id == 0 { 0 } else { id + threads };
                world[ends[end] as usize].0.push(Event {
                    tid: own(event.tid),
                    tgid: own(event.tgid),
                    ..*event
                });
            }
            end_ns = end_ns.max(batch.watermark_ns);
        }
    }
    let host = |(number, (mut events, announced, info)): (u64, (Vec<Event>, Batch, NodeInfo))| {
        events.sort_by_key(|event| event.time_ns);
        let ahead_ns = number * 7_000_000_000_000;
        let mut batches = VecDeque::from([announced]);
        let mut rest = &events[..];
        // One more tick than the traffic has, so that clocks are read after its last event.
        for tick in 0..=end_ns.saturating_sub(BEGIN_NS) * BATCHES / 1_000_000_000 + 2 {
            let monotonic_ns = BEGIN_NS + tick * 1_000_000_000 / BATCHES;
            let (now, later) = rest.split_at(rest.partition_point(|event| event.time_ns <= monotonic_ns));
            rest = later;
            let time_ns = monotonic_ns + ahead_ns;
            let own = |event: &Event| Event { time_ns: event.time_ns + ahead_ns, ..*event };
            let clock =
                ClockSample { monotonic_ns: time_ns, raw_ns: time_ns, width_ns: 50, ..ClockSample::default() };
            batches.push_back(Batch {
                events: now.iter().map(own).collect(),
                clock: vec![clock],
                watermark_ns: time_ns,
                ..Batch::default()
            });
        }
        Host { info, batches }
    };
    (0..).zip(world).map(host).collect()
}

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let all = numbers.first().copied().unwrap_or(4_000_000);
    let counts = if numbers.len() > 1 { &numbers[1..] } else { &[2, 10, 100, 1_000, 10_000] };
    println!(
        "{:>8} {:<6}{:>12}{:>12}{:>12}{:>14}{:>12}{:>12}",
        "hosts", "", "events", "ns an event", "events/s", "KiB a host", "joined", "of known ±"
    );
    for (hosts, tree) in counts.iter().flat_map(|hosts| [(*hosts, false), (*hosts, true)]) {
        if tree && hosts < 3 {
            continue;
        }
        let before = HELD.load(Ordering::Relaxed);
        let sources = world(hosts, tree, all);
        let events: u64 =
            sources.iter().flat_map(|host| &host.batches).map(|batch| batch.events.len() as u64).sum();
        let infos: Vec<NodeInfo> = sources.iter().map(|host| host.info.clone()).collect();
        let online = Online::new(&infos);
        let since_ns = spent::ns();
        let sources = sources.into_iter().map(|host| Box::new(host) as Box<dyn Source>).collect();
        let mut walker = Walker::live(sources, &online, Limits::default(), Duration::ZERO);
        let (mut joined, mut halves, mut bounded) = (0_u64, 0_u64, 0_u64);
        let mut visit = |piece: Piece<'_>| {
            if let Piece::Journey(journey, ..) = piece {
                let both = !(journey.tx_flow.is_none() || journey.rx_flow.is_none());
                joined += u64::from(both && journey.across != Across::OneClock);
                halves += u64::from(!both);
                bounded += u64::from(matches!(journey.across, Across::Bounded { .. }));
            }
        };
        while walker.step(&mut visit).expect("a source that never fails") == Progress::More {}
        let ns = spent::ns() - since_ns;
        // Earlier data have been read and freed.
        let held = HELD.load(Ordering::Relaxed).saturating_sub(before) as u64;
        println!(
            "{hosts:>8} {:<6}{events:>12}{:>12}{:>12.0}{:>14}{:>11.2}%{:>11.2}%",
            if tree { "tree" } else { "pairs" },
            ns / events.max(1),
            events as f64 * 1e9 / ns as f64,
            held / 1024 / hosts,
            joined as f64 * 100.0 / (joined + halves).max(1) as f64,
            bounded as f64 * 100.0 / joined.max(1) as f64,
        );
    }
}
