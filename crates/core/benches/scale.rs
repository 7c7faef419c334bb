//! What a viewer's work on an event costs with the number of hosts: the live walk (correlate, align, join) over 2 to 10,000 simulated
//! hosts.
//!
//! `cargo bench -p magscope-core --bench scale [-- EVENTS HOSTS…]`. A simulation: generated traffic between pairs of hosts, each
//! with a clock of its own that is hours from any other's, 1,000 events a second from each host in batches of a tenth of a second, as many events in
//! all whatever the hosts are. Told are processor time an event, what the walk holds of a host at its end, and how much of the traffic was joined
//! across the hosts.

mod counting;
mod spent;

use counting::HELD;
use magscope_core::align::Online;
use magscope_core::clock::ClockSample;
use magscope_core::journey::{Across, Limits};
use magscope_core::node::{NetnsName, NodeInfo};
use magscope_core::source::{Progress, Source, SourceError};
use magscope_core::together::{Piece, Walker};
use magscope_core::{Batch, Generator, GeneratorOptions};
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Events a second from each host.
const RATE: u64 = 1_000;
/// Batches a second from each host, each with a reading of its clocks.
const BATCHES: u64 = 10;

/// A host's batches, made before.
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

/// Both ends of the traffic of one pair.
fn pair(number: u64, events: u64) -> [Host; 2] {
    let mut generator = Generator::new(GeneratorOptions {
        flows: 4,
        events,
        events_per_s: RATE * 2,
        batch_events: (RATE * 2 / BATCHES) as usize,
        seed: number + 1,
        ..GeneratorOptions::default()
    });
    let namespaces: Vec<NetnsName> = generator.info().netns.clone();
    let mut hosts = [0, 1].map(|end: usize| {
        let info = NodeInfo {
            host: format!("host-{}", number * 2 + end as u64),
            boot_id: format!("boot-{}", number * 2 + end as u64),
            netns: vec![namespaces[end].clone()],
            ..generator.info().clone()
        };
        Host { info, batches: VecDeque::new() }
    });
    let address = |at: SocketAddr| {
        let [.., last] = match at.ip() {
            IpAddr::V4(ip) => ip.octets(),
            IpAddr::V6(_) => unreachable!("the generator has none"),
        };
        SocketAddr::from((Ipv4Addr::new(10, (number >> 8) as u8, number as u8, last), at.port()))
    };
    let mut ends = HashMap::new();
    let mut batch = Batch::default();
    let mut more = true;
    while more {
        more = generator.next(&mut batch, Duration::ZERO).expect("it never fails") == Progress::More;
        let mut halves: [Batch; 2] = [Batch::default(), Batch::default()];
        for flow in &batch.flows {
            let end = usize::from(flow.netns == namespaces[1].netns);
            ends.insert(flow.id, end);
            let mut flow = *flow;
            (flow.local, flow.remote) = (address(flow.local), address(flow.remote));
            halves[end].flows.push(flow);
        }
        for half in &mut halves {
            half.tasks.clone_from(&batch.tasks);
        }
        for event in &batch.events {
            // What has no flow is the reader's waking.
            halves[ends.get(&event.flow).copied().unwrap_or(1)].events.push(*event);
        }
        let monotonic_ns = batch.watermark_ns;
        for (end, mut half) in halves.into_iter().enumerate() {
            let ahead_ns = (number * 2 + end as u64) * 7_000_000_000_000;
            half.clock.push(ClockSample {
                monotonic_ns,
                raw_ns: monotonic_ns,
                width_ns: 50,
                ..ClockSample::default()
            });
            for sample in &mut half.clock {
                sample.monotonic_ns += ahead_ns;
                sample.raw_ns += ahead_ns;
            }
            half.events.iter_mut().for_each(|event| event.time_ns += ahead_ns);
            half.watermark_ns = monotonic_ns + ahead_ns;
            hosts[end].batches.push_back(half);
        }
    }
    hosts
}

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let all = numbers.first().copied().unwrap_or(4_000_000);
    let counts = if numbers.len() > 1 { &numbers[1..] } else { &[2, 10, 100, 1_000, 10_000] };
    println!(
        "{:>8}{:>12}{:>12}{:>12}{:>14}{:>12}",
        "hosts", "events", "ns an event", "events/s", "KiB a host", "joined"
    );
    for hosts in counts {
        let pairs = (hosts / 2).max(1);
        let before = HELD.load(Ordering::Relaxed);
        let sources: Vec<Host> = (0..pairs).flat_map(|number| pair(number, all / pairs)).collect();
        let events: u64 =
            sources.iter().flat_map(|host| &host.batches).map(|batch| batch.events.len() as u64).sum();
        let infos: Vec<NodeInfo> = sources.iter().map(|host| host.info.clone()).collect();
        let online = Online::new(&infos);
        let since_ns = spent::ns();
        let sources = sources.into_iter().map(|host| Box::new(host) as Box<dyn Source>).collect();
        let mut walker = Walker::live(sources, &online, Limits::default(), Duration::ZERO);
        let (mut joined, mut halves) = (0_u64, 0_u64);
        let mut visit = |piece: Piece<'_>| {
            if let Piece::Journey(journey, ..) = piece {
                let both = !(journey.tx_flow.is_none() || journey.rx_flow.is_none());
                joined += u64::from(both && journey.across != Across::OneClock);
                halves += u64::from(!both);
            }
        };
        while walker.step(&mut visit).expect("a source that never fails") == Progress::More {}
        let ns = spent::ns() - since_ns;
        // What was made before has been read and is gone.
        let held = HELD.load(Ordering::Relaxed).saturating_sub(before) as u64;
        println!(
            "{hosts:>8}{events:>12}{:>12}{:>12.0}{:>14}{:>11.2}%",
            ns / events.max(1),
            events as f64 * 1e9 / ns as f64,
            held / 1024 / hosts,
            joined as f64 * 100.0 / (joined + halves).max(1) as f64,
        );
    }
}
