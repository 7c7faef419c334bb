//! Datagrams without an identification: lost, repeated, reordered, and with lost records. Whatever their pairing is, no
//! crossing has its receipt before its sending.

use crate::clock_world::random::Random;
use magscope_core::journey::{Correlator, Limits};
use magscope_core::node::{Backend, Coverage, NodeInfo};
use magscope_core::{Batch, Event, EventFlags, Flow, FlowId, Hop, Loss, LossCause, Proto};
use magscope_timeline::join::{Crossing, JoinLimits, Joiner, OneClock};
use std::net::SocketAddr;

const SECOND: u64 = 1_000_000_000;
const BEGIN: u64 = 100 * SECOND;

fn worlds() -> u64 {
    std::env::var("MAGSCOPE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(300)
}

fn flow(host: usize, number: u16, ipv6: bool) -> Flow {
    let end = |host: u16, port: u16| {
        if ipv6 {
            SocketAddr::new([0xfd00, 0, 0, 0, 0, 0, 0, host].into(), port)
        } else {
            SocketAddr::new([10, 0, 0, host as u8].into(), port)
        }
    };
    let (client, server) = (end(1, 40_000 + number), end(2, 53));
    let (local, remote) = if host == 0 { (client, server) } else { (server, client) };
    let id = FlowId(u64::from(number) * 2 + host as u64 + 1);
    Flow { id, netns: host as u32 + 1, proto: Proto::UDP, local, remote }
}

/// What two hosts record of datagrams from the first to the second, by one true clock.
struct Hosts {
    ipv6: bool,
    events: [Vec<Event>; 2],
    losses: [Vec<Loss>; 2],
    begin_ns: [u64; 2],
}

impl Hosts {
    fn new(ipv6: bool) -> Self {
        Hosts { ipv6, events: Default::default(), losses: Default::default(), begin_ns: [BEGIN; 2] }
    }

    fn see(&mut self, host: usize, number: u16, time_ns: u64, len: u32) {
        let hops = if host == 0 {
            [(Hop::UdpSend, time_ns - 2_000), (Hop::DevXmit, time_ns)]
        } else {
            [(Hop::DevRecv, time_ns), (Hop::UdpRecv, time_ns + 1_000)]
        };
        for (hop, at) in hops {
            let flags = if self.ipv6 { EventFlags::IPV6 } else { EventFlags(0) };
            let event = Event {
                flow: flow(host, number, self.ipv6).id,
                len,
                proto: Proto::UDP,
                segs: 1,
                flags,
                ..Event::at(hop, at)
            };
            self.events[host].push(event);
        }
    }

    fn crossings(mut self, flows: u16) -> Vec<Crossing> {
        let info = NodeInfo { coverage: Coverage::full(Backend::Generator), ..NodeInfo::default() };
        let mut correlators = [0, 1].map(|_| Correlator::of_node(&info, Limits::default()));
        let mut joiner = Joiner::new(&OneClock, JoinLimits::default());
        let mut crossings = Vec::new();
        for host in [0, 1] {
            self.events[host].retain(|event| event.time_ns >= self.begin_ns[host]);
            self.events[host].sort_by_key(|event| event.time_ns);
            self.losses[host].sort_by_key(|loss| loss.to_ns);
        }
        // A batch each tenth of a second, of both in turn.
        for from in (BEGIN..BEGIN + 90 * SECOND).step_by(SECOND as usize / 10) {
            let span = from..from + SECOND / 10;
            for host in [0, 1] {
                if span.end <= self.begin_ns[host] {
                    continue;
                }
                let events =
                    self.events[host].iter().filter(|e| span.contains(&e.time_ns)).copied().collect::<Vec<_>>();
                let losses =
                    self.losses[host].iter().filter(|loss| span.contains(&loss.to_ns)).copied().collect();
                let clock = vec![magscope_core::clock::ClockSample {
                    monotonic_ns: from.max(self.begin_ns[host]),
                    ..Default::default()
                }];
                let mut batch = Batch { events, losses, clock, watermark_ns: span.end, ..Batch::default() };
                if span.contains(&self.begin_ns[host]) || span.start == BEGIN {
                    batch.flows = (0..flows).map(|number| flow(host, number, self.ipv6)).collect();
                }
                correlators[host].push(&batch, &mut Vec::new());
                joiner.push_events(host as u16, &info, &batch, &correlators[host]);
                crossings.extend(joiner.take_crossings());
            }
        }
        crossings
    }
}

fn loss(at_ns: u64) -> Loss {
    Loss { cpu: 0, from_ns: at_ns - 3_000, to_ns: at_ns + 1, count: 1, cause: LossCause::RingFull }
}

#[test]
fn no_receipt_is_before_its_sending() {
    let (mut all, mut quick) = (0, 0);
    for seed in 0..worlds() {
        let mut random = Random(seed ^ 0xda7a);
        let mut hosts = Hosts::new(random.chance(0.5));
        hosts.begin_ns = [0, 1].map(|_| BEGIN + random.below(4 * SECOND));
        let flows = 1 + random.below(12) as u16;
        let (lost, repeated, unrecorded) =
            (random.between(0.0, 0.3), random.between(0.0, 0.3), random.between(0.0, 0.01));
        for number in 0..flows {
            // Some begin before the recordings, and pause.
            let mut t = BEGIN - 3 * SECOND + random.below(60 * SECOND);
            let gap = random.magnitude(1e5, 3e9);
            let lengths = 1 + random.below(6) as u32;
            for _ in 0..random.below(200) {
                t += random.exponential(gap) as u64;
                if random.chance(0.01) {
                    t += random.below(10 * SECOND);
                }
                if t > BEGIN + 80 * SECOND {
                    break;
                }
                let len = 50 + random.below(lengths.into()) as u32 * 10;
                if random.chance(unrecorded) {
                    hosts.losses[0].push(loss(t));
                } else {
                    hosts.see(0, number, t, len);
                }
                let copies = if random.chance(repeated) { 2 } else { 1 };
                for _ in 0..copies {
                    let arrived = t + 20_000 + random.exponential(3e6).min(5e8) as u64;
                    if random.chance(unrecorded) {
                        hosts.losses[1].push(loss(arrived));
                    } else if !random.chance(lost) {
                        hosts.see(1, number, arrived, len);
                    }
                }
            }
        }
        for crossing in hosts.crossings(flows) {
            let Crossing { tx_node, rx_node, sent_ns, received_ns } = crossing;
            assert_eq!((tx_node, rx_node), (0, 1), "seed {seed}");
            assert!(received_ns >= sent_ns + 20_000, "seed {seed}: {crossing:?}");
            all += 1;
            quick += u64::from(received_ns < sent_ns + 20_000_000);
        }
    }
    println!("{all} crossings, {quick} within 20 ms");
    assert!(quick > worlds() * 3);
}

#[test]
fn the_first_of_each_length_counts_where_the_beginning_was_seen() {
    for ipv6 in [false, true] {
        let mut hosts = Hosts::new(ipv6);
        // Flow 0 begins too early. Of flow 1 each length counts once, and none after a gap.
        for (number, t, len) in
            [(0, 1, 60), (0, 5, 70), (1, 5, 60), (1, 6, 60), (1, 7, 70), (1, 9, 80), (2, 9, 60), (2, 12, 60)]
        {
            hosts.see(0, number, BEGIN + t * SECOND, len);
            hosts.see(1, number, BEGIN + t * SECOND + 30_000, len);
        }
        hosts.losses[0].push(loss(BEGIN + 8 * SECOND));
        let found: Vec<u64> =
            hosts.crossings(3).iter().map(|crossing| (crossing.sent_ns - BEGIN) / SECOND).collect();
        assert_eq!(found, [5, 7], "IPv6: {ipv6}");
    }
}
