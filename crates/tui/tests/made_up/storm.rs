//! Many flows of a single datagram each, from many clients to one server, as in a scan or at a busy resolver.

use super::{CLIENT, SERVER};
use magscope_core::{Batch, Event, Flow, FlowId, Hop, Proto};
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;

/// Events per flow.
pub const EVENTS: u64 = 6;
/// Time between flows.
const APART_NS: u64 = 10_000;
/// Hops of a datagram, with the time since its send.
const PATH: [(Hop, u64); EVENTS as usize] = [
    (Hop::IpOut, 0),
    (Hop::DevXmit, 700),
    (Hop::DevRecv, 2_900),
    (Hop::IpIn, 3_400),
    (Hop::UdpRecv, 3_900),
    (Hop::AppRecv, 6_000),
];

/// The flows of these numbers with all events of their datagrams.
pub fn flows(numbers: Range<u64>) -> Batch {
    let watermark_ns = super::START_NS + numbers.end * APART_NS;
    let mut batch = Batch { watermark_ns, ..Batch::default() };
    for n in numbers {
        let (sent, taken) = (FlowId(2 * n + 1), FlowId(2 * n + 2));
        let client =
            SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + (n >> 14) as u32), 1024 + (n & 0x3fff) as u16));
        let server = SocketAddr::from((Ipv4Addr::new(10, 255, 0, 1), 53));
        let flow = |id, netns, local, remote| Flow { id, netns, proto: Proto::UDP, local, remote };
        batch.flows.extend([flow(sent, CLIENT, client, server), flow(taken, SERVER, server, client)]);
        batch.events.extend(PATH.map(|(hop, later)| Event {
            flow: if later < 2_000 { sent } else { taken },
            len: 64,
            ip_id: n as u16,
            skb: n as u32 + 1,
            cpu: (n % 8) as u16,
            proto: Proto::UDP,
            segs: 1,
            // The server has one socket for all, each client its own.
            socket: if later < 2_000 { 100 + n } else { 7 },
            tgid: if hop == Hop::AppRecv { 70 } else { 0 },
            tid: if hop == Hop::AppRecv { 70 } else { 0 },
            // An occasional slow one.
            ..Event::at(hop, super::START_NS + n * APART_NS + later + if n % 997 == 0 { later } else { 0 })
        }));
    }
    // Slow datagrams are still in flight when the next begins.
    batch.events.sort_by_key(|event| event.time_ns);
    batch
}
