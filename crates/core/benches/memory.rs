//! Memory of a journey in flight, all tables included. The result is the bytes of a correlator with a given
//! number of open journeys, at its peak, from the counting allocator.

mod counting;

use counting::{HELD, MOST};
use magscope_core::flow::{Flow, FlowId, Proto};
use magscope_core::hop::HopSet;
use magscope_core::journey::{Correlator, Limits};
use magscope_core::{Batch, Event, ExtentKind, Hop};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;

/// Number of flows that the journeys are spread over, in the case of many.
const MANY: u32 = 200;

fn flow(id: u64, proto: Proto, n: u32, receives: bool) -> Flow {
    let end = |host| SocketAddr::from((Ipv4Addr::from([10, 0, (n >> 8) as u8, host]), 1000 + n as u16));
    let (local, remote) = if receives { (end(2), end(1)) } else { (end(1), end(2)) };
    Flow { id: FlowId(id), netns: 1, proto, local, remote }
}

/// `count` journeys over `flows` flows, sent, arrived and not read.
fn fill(proto: Proto, count: u32, flows: u32, resent: bool) -> Correlator {
    let limits = Limits { max_pieces: count as usize + 1, max_age_ns: u64::MAX / 4, ..Limits::default() };
    let mut correlator = Correlator::new(HopSet::all(), limits);
    let mut done = Vec::new();
    let tx = |n: u32| u64::from(n) * 2 + 1;
    let announced = (0..flows).flat_map(|n| [flow(tx(n), proto, n, false), flow(tx(n) + 1, proto, n, true)]);
    correlator.push(&Batch { flows: announced.collect(), ..Batch::default() }, &mut done);
    let arrives = if proto == Proto::TCP { Hop::TcpRecv } else { Hop::UdpRecv };
    let again: &[Hop] = if resent { &[Hop::TcpXmit, Hop::IpOut, Hop::DevXmit] } else { &[] };
    let mut time_ns = 1_000_000;
    for i in 0..count {
        let (n, nth) = (i % flows, i / flows);
        let first = (proto == Proto::TCP).then_some(Hop::TcpXmit);
        let hops = first.into_iter().chain([Hop::IpOut, Hop::DevQueue, Hop::DevXmit]);
        let there = [Hop::DevRecv, Hop::IpIn, arrives];
        let event = |hop: Hop| {
            time_ns += 100;
            Event {
                flow: FlowId(tx(n) + u64::from(hop >= Hop::DevRecv)),
                extent: ExtentKind::Stream.of(if proto == Proto::TCP { nth * 1000 } else { 0 }),
                len: 1000,
                // Each datagram has a distinct name, as hot buffers and identifications have for a while.
                skb: i + 1,
                ip_id: (nth % 65_535 + 1) as u16,
                segs: 1,
                proto,
                ..Event::at(hop, time_ns)
            }
        };
        let events = hops.chain(again.iter().copied()).chain(there).map(event).collect();
        correlator.push(&Batch { events, ..Batch::default() }, &mut done);
    }
    assert_eq!(correlator.in_flight(), count as usize, "{:?}", correlator.counters());
    correlator
}

fn main() {
    println!("{:<34}{:>10}{:>14}{:>14}", "bytes a journey in flight", "journeys", "held", "at its most");
    for (name, proto, resent) in
        [("TCP", Proto::TCP, false), ("TCP, each sent twice", Proto::TCP, true), ("UDP", Proto::UDP, false)]
    {
        for flows in [1, MANY] {
            for count in [10_000, 100_000, 250_000] {
                let before = HELD.load(Ordering::Relaxed);
                MOST.store(before, Ordering::Relaxed);
                let correlator = fill(proto, count, flows, resent);
                let per = |bytes: usize| (bytes - before) as f64 / f64::from(count);
                let (held, most) = (per(HELD.load(Ordering::Relaxed)), per(MOST.load(Ordering::Relaxed)));
                println!("{:<34}{count:>10}{held:>14.0}{most:>14.0}", format!("{name}, {flows} flows"));
                drop(correlator);
            }
        }
    }
}
