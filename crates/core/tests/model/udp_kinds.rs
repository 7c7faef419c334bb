//! Datagrams other than one packet to one socket: super-packets, fragments, groups.

use super::{About, True, World};
use magscope_core::journey::Journey;
use magscope_core::{Event, EventFlags, ExtentKind, Flow, FlowId, Hop, Proto};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

const TX: [Hop; 4] = [Hop::IpOut, Hop::IpPost, Hop::DevQueue, Hop::DevXmit];
const RX: [Hop; 3] = [Hop::DevRecv, Hop::IpPre, Hop::IpIn];

/// Two ends that no other flow has.
fn ends(world: &mut World, v6: bool) -> (SocketAddr, SocketAddr, FlowId, FlowId) {
    let port = 3000 + world.flows.len() as u16;
    let (a, b): (SocketAddr, SocketAddr) = if v6 {
        (
            (Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1), port).into(),
            (Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2), 90).into(),
        )
    } else {
        ((Ipv4Addr::new(10, 0, 1, 1), port).into(), (Ipv4Addr::new(10, 0, 1, 2), 90).into())
    };
    (a, b, world.flow(1, a, b), world.flow(2, b, a))
}

/// Emits an event of a packet and returns a slightly later time.
fn emit(world: &mut World, event: Event, about: About, at_ns: u64) -> u64 {
    world.emit(Event { time_ns: at_ns, ..event }, about) + world.random.within(1, 1500)
}

fn packet(flow: FlowId, len: u32, ip_id: u16, skb: u32) -> Event {
    Event { flow, len, ip_id, skb, segs: 1, proto: Proto::UDP, ..Event::at(Hop::IpOut, 0) }
}

fn new_datagram(world: &mut World, len: u32) -> usize {
    let me = world.datagrams.len();
    world.datagrams.push(me);
    world.lengths.insert(me, len);
    me
}

/// The return of a send, after all of its packets.
fn returned(world: &mut World, from: FlowId, len: u32, about: About, at_ns: u64) -> u64 {
    let tid = 500 + from.0 as u32;
    let event = Event { segs: 0, hop: Hop::AppSend, flags: EventFlags::AT_RETURN, ..packet(from, len, 0, 0) };
    emit(world, Event { tid, tgid: tid, socket: from.0 + 7000, ..event }, about, at_ns)
}

fn ready(world: &mut World, socket: u64, about: About, at_ns: u64) -> u64 {
    let event = Event { socket, hop: Hop::SockReady, segs: 0, cpu: 1, ..packet(FlowId::NONE, 0, 0, 0) };
    emit(world, event, about, at_ns)
}

fn read(world: &mut World, socket: u64, about: About, len: u32, at_ns: u64) -> u64 {
    let tid = 2000 + socket as u32;
    let event = Event { socket, hop: Hop::AppRecv, segs: 0, ..packet(FlowId::NONE, len, 0, 0) };
    emit(world, Event { tid, tgid: tid, ..event }, about, at_ns)
}

/// Sends of several datagrams in one: the device or the receiver may cut them, and the receiver may merge them.
pub fn super_packets(world: &mut World, start_ns: u64) {
    let v6 = world.random.chance(40);
    let (_, _, from, to) = ends(world, v6);
    let socket = 9000 + to.0;
    let (cut_by_device, merged, read_in_one) =
        (world.random.chance(50), world.random.chance(50), world.random.chance(50));
    let overlap = world.random.chance(50);
    let mut at_ns = start_ns;
    for n in 0..world.random.within(1, 8) as u16 {
        let (size, count) = (world.random.within(1, 1400) as u32, world.random.within(2, 9) as u32);
        let last = world.random.within(1, u64::from(size)) as u32;
        let len = size * (count - 1) + last;
        let first = world.datagrams.len();
        for i in 0..count {
            new_datagram(world, if i + 1 == count { last } else { size });
        }
        let all = About::Run(first, count as usize);
        let base = if v6 { 0 } else { 100 + n * if overlap { 1 } else { 64 } };
        let skb = world.buffer();
        let whole = Event {
            segs: count as u16,
            extent: ExtentKind::Segments.of(size),
            socket: from.0 + 7000,
            ..packet(from, len, base, skb)
        };
        let id_of = |i: u32| if v6 { 0 } else { base + i as u16 };
        let len_of = |i: u32| if i + 1 == count { last } else { size };
        let tid = 500 + from.0 as u32;
        for hop in TX[..if cut_by_device { 3 } else { 4 }].iter().copied() {
            let who = if hop == Hop::IpOut { tid } else { 0 };
            at_ns = emit(world, Event { hop, tid: who, tgid: who, ..whole }, all, at_ns);
        }
        let mut buffers = vec![skb; count as usize];
        if cut_by_device {
            for i in 0..count {
                buffers[i as usize] = world.buffer();
                let one = packet(from, len_of(i), id_of(i), buffers[i as usize]);
                let about = About::Datagram(first + i as usize);
                at_ns = emit(world, Event { hop: Hop::DevXmit, ..one }, about, at_ns);
                at_ns = emit(world, Event { hop: Hop::DevDone, ..one }, about, at_ns);
            }
        } else {
            at_ns = emit(world, Event { hop: Hop::DevDone, ..whole }, all, at_ns);
        }
        // On one host no packet is lost in between: the same buffers leave the other device.
        let is_whole = !cut_by_device || merged && !v6;
        let came = Event { flow: to, cpu: 1, socket: 0, skb: buffers[0], ..whole };
        if is_whole {
            for hop in RX {
                at_ns = emit(world, Event { hop, ..came }, all, at_ns);
            }
        }
        let one = |i: u32| Event { cpu: 1, ..packet(to, len_of(i), id_of(i), buffers[i as usize]) };
        if is_whole && read_in_one {
            at_ns = emit(world, Event { hop: Hop::UdpRecv, socket, ..came }, all, at_ns);
            at_ns = ready(world, socket, all, at_ns);
            at_ns = returned(world, from, len, all, at_ns);
            at_ns = read(world, socket, all, len, at_ns);
            continue;
        }
        let mut reported = Vec::new();
        for i in 0..count {
            let about = About::Datagram(first + i as usize);
            let mut event = one(i);
            if is_whole {
                event.skb = world.buffer(); // it is segmented only here
            } else {
                for hop in RX {
                    at_ns = emit(world, Event { hop, ..event }, about, at_ns);
                }
            }
            at_ns = emit(world, Event { hop: Hop::UdpRecv, socket, ..event }, about, at_ns);
            at_ns = ready(world, socket, about, at_ns);
            reported.push((about, event.len));
        }
        at_ns = returned(world, from, len, all, at_ns);
        for (about, len) in reported {
            at_ns = read(world, socket, about, len, at_ns);
        }
    }
}

/// Datagrams in fragments, some of which are lost, doubled or late.
pub fn fragments(world: &mut World, start_ns: u64) {
    let v6 = world.random.chance(30);
    let (a, b, from, to) = ends(world, v6);
    let host = |end: SocketAddr| SocketAddr::new(end.ip(), 0);
    let (from_host, to_host) = (world.flow(1, host(a), host(b)), world.flow(2, host(b), host(a)));
    let socket = 9000 + to.0;
    let weather = world.weather;
    let mut at_ns = start_ns;
    for n in 0..world.random.within(1, 8) as u16 {
        let len = world.random.within(1500, 9000) as u32;
        let me = new_datagram(world, len);
        let about = About::Datagram(me);
        // Identifications of this world alone: several such worlds share the hosts.
        let ip_id = from.0 as u16 * 16 + n + 1;
        let whole_id = if v6 { 0 } else { ip_id };
        let skb = world.buffer();
        let whole = Event { socket: from.0 + 7000, ..packet(from, len, whole_id, skb) };
        for hop in TX[..2].iter().copied() {
            at_ns = emit(world, Event { hop, ..whole }, about, at_ns);
        }
        let mut parts: Vec<Event> = Vec::new();
        let mut offset = 0;
        while offset < len + 8 {
            let bytes = (len + 8 - offset).min(1480);
            let more = if offset + bytes < len + 8 { EventFlags::MORE } else { EventFlags(0) };
            let part = if offset == 0 {
                Event {
                    flags: more,
                    extent: ExtentKind::FirstFragment.of(bytes),
                    ..packet(from, len, ip_id, skb)
                }
            } else {
                let flags = more.with(EventFlags::FRAGMENT);
                Event {
                    flags,
                    extent: ExtentKind::LaterFragment.of(offset),
                    ..packet(from_host, bytes, ip_id, world.buffer())
                }
            };
            parts.push(part);
            offset += bytes;
        }
        for part in &parts {
            for hop in [Hop::DevQueue, Hop::DevXmit, Hop::DevDone] {
                at_ns = emit(world, Event { hop, ..*part }, about, at_ns);
            }
        }
        at_ns = returned(world, from, len, about, at_ns);
        let mut arrivals = Vec::new();
        let mut is_lost = false;
        for (i, part) in parts.iter().enumerate() {
            if world.random.chance(weather.lost) {
                is_lost = true;
                continue;
            }
            let wait = if world.random.chance(weather.delayed) { world.random.within(0, 20_000) } else { 0 };
            arrivals.push((at_ns + 3000 * i as u64 + wait, *part));
        }
        arrivals.sort_by_key(|a| a.0);
        for (arrives_ns, part) in arrivals {
            let flow = if part.flow == from { to } else { to_host };
            at_ns = at_ns.max(arrives_ns);
            // A second one directly after the first; the first fragment is not doubled while the others are in
            // flight
            let doubled = !is_lost && world.random.chance(weather.duplicated);
            for _ in 0..=u64::from(doubled) {
                for hop in RX[..2].iter().copied() {
                    at_ns = emit(world, Event { hop, flow, cpu: 1, ..part }, about, at_ns);
                }
            }
        }
        if !is_lost {
            let came = Event { flow: to, socket: 0, cpu: 1, ..whole };
            at_ns = emit(world, Event { hop: Hop::IpIn, ..came }, about, at_ns);
            at_ns = emit(world, Event { hop: Hop::UdpRecv, socket, ..came }, about, at_ns);
            at_ns = ready(world, socket, about, at_ns);
            at_ns = read(world, socket, about, len, at_ns);
        }
    }
}

/// Datagrams to a group of one or two sockets on each of two hosts, which may miss some.
pub fn group(world: &mut World, start_ns: u64) {
    let port = 3000 + world.flows.len() as u16;
    let (sender, group) = ((Ipv4Addr::new(10, 0, 1, 1), port), (Ipv4Addr::new(239, 1, 1, 1), 90));
    let from = world.flow(1, sender.into(), group.into());
    let hosts: Vec<(FlowId, u64)> = (2..4)
        .map(|netns| (world.flow(netns, group.into(), sender.into()), world.random.within(1, 2)))
        .collect();
    let weather = world.weather;
    let nameless = world.random.chance(30);
    let mut at_ns = start_ns;
    for n in 0..world.random.within(1, 10) as u16 {
        let len = world.random.within(1, 1400) as u32;
        let me = new_datagram(world, len);
        let about = About::Datagram(me);
        let skb = world.buffer();
        let sent = Event { socket: from.0 + 7000, ..packet(from, len, if nameless { 0 } else { n + 1 }, skb) };
        for hop in TX.into_iter().chain([Hop::DevDone]) {
            at_ns = emit(world, Event { hop, ..sent }, about, at_ns);
        }
        at_ns = returned(world, from, len, about, at_ns);
        let mut reached = 0;
        let mut reads = Vec::new();
        for (flow, sockets) in &hosts {
            if world.random.chance(weather.lost) {
                continue;
            }
            let came = Event { flow: *flow, socket: 0, cpu: 1, flags: EventFlags::GROUP, ..sent };
            for hop in RX {
                at_ns = emit(world, Event { hop, ..came }, about, at_ns);
            }
            for i in 0..*sockets {
                let socket = 9000 + 10 * flow.0 + i;
                at_ns = emit(world, Event { hop: Hop::UdpRecv, socket, ..came }, about, at_ns);
                at_ns = ready(world, socket, about, at_ns);
                reads.push(socket);
                reached += 1;
                if reached > 1 {
                    world.datagrams.push(me); // one more receiver, one more journey
                }
            }
        }
        for socket in reads {
            at_ns = read(world, socket, about, len, at_ns);
        }
    }
}

/// Namespace of the bridge.
const BRIDGE: u32 = 800;

/// Puts a bridge between the sender and the receivers of each datagram to a group. It copies the packet to two ports, in
/// the same buffer and with the same addresses; the copy in one of them waits.
pub fn bridge_between(world: &mut World) {
    let senders: Vec<Flow> =
        world.flows.iter().filter(|flow| flow.remote.ip().is_multicast()).copied().collect();
    for sender in senders {
        let came_in = world.flow(BRIDGE, sender.remote, sender.local);
        let goes_out = world.flow(BRIDGE, sender.local, sender.remote);
        let of_sender = |t: &&True| t.event.flow == sender.id && t.event.hop == Hop::DevXmit;
        let leaving: Vec<True> = world.events.iter().filter(of_sender).copied().collect();
        for packet in leaving {
            let arrives = |t: &&True| t.about == packet.about && t.event.hop == Hop::DevRecv;
            let first_ns = world.events.iter().filter(arrives).map(|t| t.event.time_ns).min();
            let left_ns = packet.event.time_ns;
            if first_ns.is_some_and(|ns| ns < left_ns + 200) {
                continue; // no time for a bridge
            }
            let copy = Event { socket: 0, ..packet.event };
            let came = Event { flow: came_in, ifindex: 3, flags: EventFlags::GROUP, ..copy };
            let at_ns = emit(world, Event { hop: Hop::DevRecv, ..came }, packet.about, left_ns + 20);
            let at_ns = at_ns.min(left_ns + 60);
            for ifindex in [4, 5] {
                let port = Event { flow: goes_out, ifindex, ..copy };
                let wait = if ifindex == 5 { 80 } else { 10 };
                emit(world, Event { hop: Hop::DevQueue, ..port }, packet.about, at_ns + u64::from(ifindex));
                emit(world, Event { hop: Hop::DevXmit, ..port }, packet.about, at_ns + wait);
            }
        }
    }
}

/// Each receiver of a datagram to a group has the hops of its own host.
pub fn arrival_is_own(world: &World, journey: &Journey) -> Result<(), String> {
    let is_own = |hop: Hop| {
        let truth = journey.rungs.time_ns(hop).and_then(|ns| world.event_at(ns));
        truth.is_none_or(|t| t.event.flow == journey.rx_flow)
    };
    let has_all = journey.rx_flow.is_none() || RX.iter().all(|hop| journey.rungs.has(*hop) && is_own(*hop));
    if has_all { Ok(()) } else { Err(format!("lacks its own arrival: {journey:?}")) }
}
