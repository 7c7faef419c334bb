//! Datagrams: senders, a network and one socket that reads in order.

use super::{About, World};
use magscope_core::{Event, EventFlags, FlowId, Hop, Proto};
use std::collections::VecDeque;

/// Some datagrams of one or more senders to one socket with occasional reads.
pub fn run(world: &mut World, start_ns: u64) {
    match world.random.within(0, 7) {
        0 => return super::udp_kinds::super_packets(world, start_ns),
        1 => return super::udp_kinds::fragments(world, start_ns),
        2 => return super::udp_kinds::group(world, start_ns),
        _ => {}
    }
    let senders = world.random.within(1, 3);
    let ends: Vec<_> = (0..senders).map(|_| world.connect(Proto::UDP)).collect();
    let socket = 9000 + world.flows.len() as u64;
    let count = world.random.within(1, 30);
    let even = world.random.chance(50);
    // IPv6 has no identifications, and another host has another buffer: only the order is left
    let nameless = world.random.chance(20);
    let mut arrivals = Vec::new();
    let mut at_ns = start_ns;
    for n in 0..count {
        let end = ends[world.random.within(0, senders - 1) as usize];
        let len = if even { 100 } else { world.random.within(1, 1472) as u32 };
        let ip_id = if nameless { 0 } else { n as u16 + 1 };
        at_ns = send(world, end, at_ns, ip_id, len, &mut arrivals);
        at_ns += world.random.within(1, 40_000);
    }
    arrivals.sort_unstable();
    receive(world, socket, &arrivals);
}

/// Instant of the arrival, datagram, the receiver's flow, identification, length.
type Arrival = (u64, usize, u64, u16, u32);

fn send(
    world: &mut World,
    (from, to): (FlowId, FlowId),
    at_ns: u64,
    ip_id: u16,
    len: u32,
    arrivals: &mut Vec<Arrival>,
) -> u64 {
    let me = world.datagrams.len();
    world.datagrams.push(me);
    let skb = world.buffer();
    let tid = 500 + from.0 as u32;
    let packet = Event {
        flow: from,
        len,
        ip_id,
        skb,
        segs: 1,
        proto: Proto::UDP,
        socket: from.0 + 7000,
        ..Event::at(Hop::IpOut, 0)
    };
    let mut at_ns = at_ns;
    for hop in [Hop::IpOut, Hop::IpPost, Hop::DevQueue, Hop::DevXmit] {
        let who = if hop == Hop::IpOut { tid } else { 0 };
        let event = Event { hop, time_ns: at_ns, tid: who, tgid: who, ..packet };
        at_ns = world.emit(event, About::Datagram(me)) + world.random.within(1, 2000);
    }
    let weather = world.weather;
    let mut which = me;
    for copy in 0..=u64::from(world.random.chance(weather.duplicated)) {
        if world.random.chance(weather.lost) {
            continue;
        }
        let mut wait = world.random.within(1_000, 5_000) + 8_000 * copy;
        if world.random.chance(weather.delayed) {
            wait += world.random.within(1_000, 300_000);
        }
        arrivals.push((at_ns + wait, which, to.0, ip_id, len));
        // A further arrival is a journey of its own.
        which = world.datagrams.len();
        world.datagrams.push(me);
    }
    if which != me {
        world.datagrams.pop();
    }
    let done = Event { hop: Hop::DevDone, time_ns: at_ns, ..packet };
    at_ns = world.emit(done, About::Datagram(me)) + 100;
    let returned = Event {
        ip_id: 0,
        skb: 0,
        segs: 0,
        tid,
        tgid: tid,
        flags: EventFlags::AT_RETURN,
        time_ns: at_ns,
        hop: Hop::AppSend,
        ..packet
    };
    world.emit(returned, About::Datagram(me))
}

fn receive(world: &mut World, socket: u64, arrivals: &[Arrival]) {
    let tid = 2000 + socket as u32;
    let mut queue: VecDeque<(usize, u32)> = VecDeque::new();
    let mut read_at_ns = None;
    let mut now_ns = 0;
    let mut next = 0;
    loop {
        let arrival = arrivals.get(next).filter(|a| read_at_ns.is_none_or(|at| a.0 < at));
        if let Some(&(at_ns, which, flow, ip_id, len)) = arrival {
            next += 1;
            let mut at_ns = at_ns.max(now_ns);
            let skb = world.buffer();
            let packet = Event {
                flow: FlowId(flow),
                len,
                ip_id,
                skb,
                segs: 1,
                proto: Proto::UDP,
                socket,
                cpu: 1,
                ..Event::at(Hop::DevRecv, 0)
            };
            for hop in [Hop::DevRecv, Hop::IpPre, Hop::IpIn, Hop::UdpRecv] {
                let event = Event { hop, time_ns: at_ns, ..packet };
                at_ns = world.emit(event, About::Datagram(which)) + world.random.within(1, 1000);
            }
            let reported = Event {
                hop: Hop::SockReady,
                time_ns: at_ns,
                len: 0,
                ip_id: 0,
                skb: 0,
                segs: 0,
                flow: FlowId::NONE,
                ..packet
            };
            at_ns = world.emit(reported, About::Datagram(which)) + 10;
            queue.push_back((which, len));
            if read_at_ns.is_none() {
                let wake = Event { tid, tgid: tid, socket, cpu: 1, ..Event::at(Hop::TaskWake, at_ns) };
                at_ns = world.emit(wake, About::Nothing) + world.random.within(10, 50_000);
                let run = Event { hop: Hop::TaskRun, time_ns: at_ns, ..wake };
                read_at_ns = Some(world.emit(run, About::Nothing) + world.random.within(10, 5000));
            }
            now_ns = at_ns;
        } else if let Some(at_ns) = read_at_ns {
            let at_ns = at_ns.max(now_ns);
            now_ns = at_ns;
            let Some((which, len)) = queue.pop_front() else {
                read_at_ns = None;
                continue;
            };
            let read =
                Event { tid, tgid: tid, socket, len, proto: Proto::UDP, ..Event::at(Hop::AppRecv, at_ns) };
            now_ns = world.emit(read, About::Datagram(which)) + 1;
            read_at_ns = Some(now_ns + world.random.within(10, 60_000));
        } else {
            return;
        }
    }
}
