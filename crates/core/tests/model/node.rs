//! A node between two ends: every packet that leaves one of them passes it, or is lost before.

use super::{About, Random, True, World};
use magscope_core::{DetailKind, Direction, Event, EventFlags, Flow, FlowId, Hop, Proto};
use std::net::{Ipv4Addr, SocketAddr};

/// Its network namespace.
pub const NETNS: u32 = 900;
/// Numbers of its flows begin here.
const FIRST_FLOW: u64 = 100_000;
/// Nodes have buffers of their own from this one on.
pub const FIRST_BUFFER: u32 = 5_000_000;

/// The copies that nodes make have these buffers, so far behind those of the packets.
const COPIES: u32 = 2_000_000;

/// Puts a node between the ends of every connection, and of the datagrams that are neither cut nor sent to a group.
/// Some of them get the node's address. Of some TCP connections it copies every packet into another buffer.
pub fn between_all(world: &mut World) {
    let mirrored = world.flows.windows(2).filter(|pair| pair[0].mirrors(&pair[1]));
    let pairs: Vec<(FlowId, FlowId)> = mirrored.map(|pair| (pair[0].id, pair[1].id)).collect();
    for (n, (a, b)) in pairs.into_iter().enumerate() {
        if is_plain(world, a, b) {
            between(world, a, b, n as u16);
        }
    }
}

fn flow(world: &World, id: FlowId) -> Flow {
    *world.flows.iter().find(|flow| flow.id == id).expect("a flow")
}

pub fn is_plain(world: &World, a: FlowId, b: FlowId) -> bool {
    let odd = EventFlags::FRAGMENT.0 | EventFlags::MORE.0 | EventFlags::GROUP.0;
    let mut own = world.events.iter().filter(|t| t.event.flow == a || t.event.flow == b);
    let is_whole = |t: &True| {
        t.event.flags.0 & odd == 0 && (t.event.proto == Proto::TCP || !matches!(t.about, About::Run(..)))
    };
    own.all(is_whole)
}

fn between(world: &mut World, a: FlowId, b: FlowId, n: u16) {
    let (inner, outer) = (FlowId(FIRST_FLOW + 2 * u64::from(n)), FlowId(FIRST_FLOW + 1 + 2 * u64::from(n)));
    let client = flow(world, a);
    if world.random.chance(60) {
        let own = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 20_000 + n));
        let server = world.flows.iter_mut().find(|flow| flow.id == b).expect("a flow");
        server.remote = own;
    }
    let server = flow(world, b);
    world.flows.push(Flow { id: inner, netns: NETNS, local: client.remote, remote: client.local, ..client });
    world.flows.push(Flow { id: outer, netns: NETNS, local: server.remote, remote: server.local, ..client });
    let leaves = |t: &&True| t.event.hop == Hop::DevXmit && (t.event.flow == a || t.event.flow == b);
    let leaving: Vec<True> = world.events.iter().filter(leaves).copied().collect();
    // A sequence of its own: the worlds of earlier failures stay as they are.
    let mut own = Random(leaving.len() as u64 ^ u64::from(n));
    let copies = server.proto == Proto::TCP && own.chance(40);
    for packet in leaving {
        if !has_arrived(world, &packet) && world.random.chance(50) {
            continue; // lost before
        }
        let forth = packet.event.flow == a;
        let (enters, leaves) = if forth { (inner, outer) } else { (outer, inner) };
        // Used again soon, but not before the packet has left.
        let skb = FIRST_BUFFER + 1000 * u32::from(n) + world.buffer() % 40;
        let passed = !world.random.chance(5) || has_arrived(world, &packet);
        let segments = world.passes.get(&packet.event.time_ns).cloned();
        let mut at_ns = packet.event.time_ns + world.random.within(1, 300);
        let stops = [
            (Hop::DevRecv, enters, 3),
            (Hop::IpPre, enters, 3),
            (Hop::IpPost, leaves, 4),
            (Hop::DevXmit, leaves, 4),
        ];
        for (hop, flow, ifindex) in stops {
            if hop.direction() == Direction::Tx && !passed {
                break;
            }
            let mut event =
                Event { hop, flow, skb, ifindex, time_ns: at_ns, socket: 0, tid: 0, tgid: 0, ..packet.event };
            if copies {
                // Nothing comes back meanwhile: the acknowledgement stays the same.
                event.detail = DetailKind::Ack.of(1_000_000 + u32::from(n) * 2 + u32::from(forth));
                event.skb += u32::from(hop.direction() == Direction::Tx) * COPIES;
            }
            at_ns = world.emit(event, packet.about);
            if let Some(segments) = &segments {
                world.passes.insert(at_ns, segments.clone());
            }
            at_ns += world.random.within(1, 300);
        }
    }
}

/// True if a part of the packet was received.
pub fn has_arrived(world: &World, packet: &True) -> bool {
    let receives = |t: &&True| t.event.hop == Hop::DevRecv && t.event.time_ns > packet.event.time_ns;
    let mut arrivals = world.events.iter().filter(receives);
    match packet.about {
        About::Datagram(me) => {
            arrivals.any(|t| matches!(t.about, About::Datagram(of) if world.datagrams[of] == me))
        }
        About::Bytes { stream, .. } => {
            let pass = |time_ns: u64| world.passes.get(&time_ns).into_iter().flatten();
            let mine: Vec<_> = pass(packet.event.time_ns).map(|s| s.pass).collect();
            let is_of = |t: &True| matches!(t.about, About::Bytes { stream: of, .. } if of == stream);
            arrivals.any(|t| {
                let meets = |s: &super::Segment| {
                    mine.contains(&s.pass)
                        && matches!(packet.about, About::Bytes { from, to, .. } if s.from < to && from < s.to)
                };
                is_of(t) && pass(t.event.time_ns).any(meets)
            })
        }
        // A handshake.
        About::Nothing | About::Run(..) => true,
    }
}

/// True if each byte of the packet was received with it.
fn has_wholly_arrived(world: &World, packet: &True) -> bool {
    let About::Bytes { stream, from, to } = packet.about else { return has_arrived(world, packet) };
    let pass_at = |t: &True, byte| world.pass_at(t.event.time_ns, byte);
    [from, to - 1].into_iter().chain((from..to).step_by(50)).all(|byte| {
        let mut arrivals = world.events.iter().filter(|t| t.event.hop == Hop::DevRecv);
        arrivals.any(|t| {
            let has_byte =
                matches!(t.about, About::Bytes { stream: s, from, to } if s == stream && from <= byte && byte < to);
            has_byte && pass_at(t, byte) == pass_at(packet, byte)
        })
    })
}

/// True for a flow of a node between the ends, or of packets around theirs.
pub const fn is_nodes(id: FlowId) -> bool {
    id.0 >= FIRST_FLOW
}

/// Gives copies of packets that arrive to a host that they are not for, as a bridge that floods or a mirror does. The
/// host drops them. Copies begin when the receiver is known.
pub fn strangers(world: &mut World) {
    for to in world.flows.clone() {
        let own = world.events.iter().filter(|t| t.event.flow == to.id);
        let certain = own.filter(|t| matches!(t.event.hop, Hop::IpIn | Hop::TcpRecv | Hop::UdpRecv));
        let Some(since_ns) = certain.map(|t| t.event.time_ns).min() else { continue };
        let Some(from) = world.flows.iter().find(|from| from.mirrors(&to)).map(|from| from.id) else {
            continue;
        };
        if !is_plain(world, from, to.id) {
            continue;
        }
        let id = FlowId(2 * FIRST_FLOW + to.id.0);
        world.flows.push(Flow { id, netns: NETNS + 1, ..to });
        let leaves =
            |t: &&True| t.event.hop == Hop::DevXmit && t.event.flow == from && t.event.time_ns > since_ns;
        let leaving: Vec<True> = world.events.iter().filter(leaves).copied().collect();
        for packet in leaving.into_iter().filter(|packet| packet.event.len > 0) {
            if has_wholly_arrived(world, &packet) && world.random.chance(60) {
                copy_to_stranger(world, packet.event, id);
            }
        }
    }
}

fn copy_to_stranger(world: &mut World, packet: Event, flow: FlowId) {
    let skb = FIRST_BUFFER + 500_000 + world.buffer() % 40;
    let copy = Event { hop: Hop::DevRecv, flow, skb, ifindex: 9, socket: 0, tid: 0, tgid: 0, ..packet };
    let at_ns = packet.time_ns + world.random.within(1, 8_000);
    let at_ns = world.emit(Event { time_ns: at_ns, ..copy }, About::Nothing) + world.random.within(1, 300);
    let detail = DetailKind::DropReason.of(8);
    world.emit(Event { hop: Hop::SkbDrop, time_ns: at_ns, detail, ..copy }, About::Nothing);
}
