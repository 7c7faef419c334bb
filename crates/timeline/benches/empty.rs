//! The cost of a segment without payload for the alignment: acknowledgements of a million, on two hosts.
//!
//! `cargo bench -p magscope-timeline --bench empty`

use magscope_core::journey::{Correlator, Limits};
use magscope_core::node::{Backend, Coverage, NodeInfo};
use magscope_core::{Batch, DetailKind, Event, EventFlags, ExtentKind, Flow, FlowId, Hop, Proto};
use magscope_timeline::join::{JoinLimits, Joiner, OneClock};
use std::hint::black_box;
use std::net::SocketAddr;
use std::time::Instant;

const SEGMENTS: u32 = 1_000_000;
const BATCH: usize = 4_096;
const RUNS: usize = 5;

fn event(flow: FlowId, hop: Hop, time_ns: u64, number: u32, ipv6: bool) -> Event {
    Event {
        flow,
        extent: ExtentKind::Stream.of(1),
        detail: DetailKind::Ack.of(number * 2_896),
        ip_id: if ipv6 { 0 } else { number as u16 | 1 },
        segs: 1,
        tcp_flags: 16,
        flags: if ipv6 { EventFlags::IPV6 } else { EventFlags(0) },
        ..Event::at(hop, time_ns)
    }
}

fn main() {
    let info = NodeInfo { coverage: Coverage::full(Backend::Generator), ..NodeInfo::default() };
    for ipv6 in [false, true] {
        let end = |host: u8, port| {
            let v6 = [0xfd00, 0, 0, 0, 0, 0, 0, u16::from(host)];
            if ipv6 { SocketAddr::new(v6.into(), port) } else { SocketAddr::new([10, 0, 0, host].into(), port) }
        };
        let flow = |id, local, remote| Flow { id: FlowId(id), netns: 1, proto: Proto::TCP, local, remote };
        let flows = [flow(1, end(1, 40_000), end(2, 5_001)), flow(2, end(2, 5_001), end(1, 40_000))];
        // The sender of acknowledgements is host 1.
        let batches = |host: usize, hop: Hop, delay_ns: u64| -> Vec<Batch> {
            let numbers: Vec<u32> = (0..SEGMENTS).collect();
            let batch = |numbers: &[u32]| {
                let at = |n: &u32| 1_000_000 + u64::from(*n) * 10_000 + delay_ns;
                let events = numbers.iter().map(|n| event(flows[host].id, hop, at(n), *n, ipv6)).collect();
                Batch { events, ..Batch::default() }
            };
            numbers.chunks(BATCH).map(batch).collect()
        };
        let hosts = [batches(0, Hop::DevRecv, 25_000), batches(1, Hop::DevXmit, 0)];
        let correlators = [(0, Hop::TcpRecv), (1, Hop::TcpXmit)].map(|(host, hop): (usize, Hop)| {
            let mut correlator = Correlator::of_node(&info, Limits::default());
            let first = Batch {
                flows: vec![flows[host]],
                events: vec![event(flows[host].id, hop, 1, 0, ipv6)],
                ..Batch::default()
            };
            correlator.push(&first, &mut Vec::new());
            correlator
        });
        let run = || {
            let mut joiner = Joiner::new(&OneClock, JoinLimits::default());
            let (began, mut crossings) = (Instant::now(), 0);
            for (sent, received) in hosts[1].iter().zip(&hosts[0]) {
                joiner.push_events(1, &info, sent, &correlators[1]);
                joiner.push_events(0, &info, received, &correlators[0]);
                crossings += black_box(joiner.take_crossings()).len();
            }
            (began.elapsed().as_nanos() as f64 / f64::from(SEGMENTS), crossings)
        };
        let mut runs: Vec<(f64, usize)> = (0..RUNS).map(|_| run()).collect();
        runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (ns, crossings) = runs[0];
        println!(
            "IPv{}: {ns:.0} ns a segment for both of its ends, the least of {RUNS} runs; {crossings} crossings of {SEGMENTS}",
            if ipv6 { 6 } else { 4 }
        );
    }
}
