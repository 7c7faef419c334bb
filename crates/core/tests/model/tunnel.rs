//! A tunnel between two ends: what leaves one of them is inside a packet of another flow, which is cut, lost or dropped
//! with what it holds.

use super::node::is_plain;
use super::{About, Segment, True, World, truth};
use magscope_core::journey::{Journey, Verdict};
use magscope_core::node::InterfaceName;
use magscope_core::{DetailKind, Event, Flow, FlowId, Hop, Proto};
use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};

/// Numbers of outer flows begin here.
const FIRST_FLOW: u64 = 400_000;
/// The tunnel's interface and the one below, in each namespace.
const TUNNEL: u32 = 7;
const BELOW: u32 = 2;
/// What the headers of an inner packet and of the tunnel add.
const ADDED: u32 = 74;

/// A packet that left: what identifies the outer packet of each of its segments.
struct Sent {
    from: u64,
    to: u64,
    first_id: u16,
    left_ns: u64,
}

/// Bytes of which stream and pass, or which datagram.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Packet {
    Pass(usize, usize),
    Datagram(usize),
}

/// The outer packets of a world.
#[derive(Default)]
struct Tunnel {
    sent: HashMap<Packet, Vec<Sent>>,
    /// Next identification in each direction.
    next_id: HashMap<FlowId, u16>,
}

/// Puts a tunnel between the ends of most connections, and of most datagrams that are neither cut nor sent to a group. All
/// have the same outer addresses.
pub fn around_all(world: &mut World) {
    let mirrored = world.flows.windows(2).filter(|pair| pair[0].mirrors(&pair[1]));
    let pairs: Vec<(Flow, Flow)> = mirrored.map(|pair| (pair[0], pair[1])).collect();
    let mut tunnel = Tunnel::default();
    let mut inner: HashMap<FlowId, FlowId> = HashMap::new();
    for (a, b) in pairs {
        if is_plain(world, a.id, b.id) && world.random.chance(80) {
            let outer = outer_flows(world, a.netns, b.netns);
            inner.extend([(a.id, outer.0), (b.id, outer.1)]);
        }
    }
    let packets: Vec<usize> = (0..world.events.len()).filter(|n| world.events[*n].event.segs > 0).collect();
    let at = |world: &World, n: &usize, hop| world.events[*n].event.hop == hop;
    let sent: Vec<usize> = packets.iter().copied().filter(|n| at(world, n, Hop::DevXmit)).collect();
    let received: Vec<usize> = packets.into_iter().filter(|n| at(world, n, Hop::DevRecv)).collect();
    for n in sent {
        if let Some(own) = inner.get(&world.events[n].event.flow) {
            tunnel.send(world, n, *own);
        }
    }
    for n in received {
        if let Some(own) = inner.get(&world.events[n].event.flow) {
            tunnel.receive(world, n, *own);
        }
    }
}

/// The outer flows of two namespaces, from each side; one pair of flows for each two namespaces.
fn outer_flows(world: &mut World, a: u32, b: u32) -> (FlowId, FlowId) {
    let id = |netns: u32| FlowId(FIRST_FLOW + u64::from(netns));
    if !world.flows.iter().any(|flow| flow.id == id(a)) {
        let address = |last| SocketAddr::from((Ipv4Addr::new(198, 51, 100, last), 4789));
        for (netns, local, remote) in [(a, address(1), address(2)), (b, address(2), address(1))] {
            world.flows.push(Flow { id: id(netns), netns, proto: Proto::UDP, local, remote });
            for (index, kind) in [(TUNNEL, "vxlan"), (BELOW, "")] {
                let (name, kind) = (format!("if{index}"), kind.to_owned());
                world.interfaces.push(InterfaceName { netns, index, name, kind });
            }
        }
    }
    (id(a), id(b))
}

/// True for a flow of outer packets.
pub const fn is_outer(id: FlowId) -> bool {
    id.0 >= FIRST_FLOW
}

/// The packets in an event: each with its pass and bytes, or as a datagram.
fn packets(world: &World, t: &True) -> Vec<(Packet, Segment)> {
    match t.about {
        About::Bytes { stream, .. } => {
            let of = |s: &Segment| (Packet::Pass(stream, s.pass), *s);
            world.passes.get(&t.event.time_ns).into_iter().flatten().map(of).collect()
        }
        About::Datagram(n) => {
            let to = u64::from(t.event.len);
            let whole = Segment { from: 0, to, pass: 0, ip_id: t.event.ip_id };
            vec![(Packet::Datagram(world.datagrams[n]), whole)]
        }
        About::Run(..) | About::Nothing => Vec::new(),
    }
}

/// What an outer packet with a part of another one is about.
fn about(whole: About, part: &Segment) -> About {
    match whole {
        About::Bytes { stream, .. } => About::Bytes { stream, from: part.from, to: part.to },
        other => other,
    }
}

/// Emits a hop of an outer packet that holds a part of an event's packet.
fn emit(world: &mut World, inner: &True, part: &Segment, event: Event) -> u64 {
    let len = (part.to - part.from) as u32 + ADDED;
    let bare = Event { flags: inner.event.flags, cpu: inner.event.cpu, ..Event::at(event.hop, event.time_ns) };
    let Event { flow, skb, ip_id, segs, socket, detail, .. } = event;
    let event =
        Event { flow, skb, ip_id, segs, socket, detail, len, ifindex: BELOW, proto: Proto::UDP, ..bare };
    let at_ns = world.emit(event, about(inner.about, part));
    if world.passes.contains_key(&inner.event.time_ns) {
        world.passes.insert(at_ns, vec![*part]);
    }
    at_ns
}

impl Tunnel {
    /// The tunnel's device accepts a packet.
    fn send(&mut self, world: &mut World, n: usize, flow: FlowId) {
        let inner = world.events[n];
        let Some((packet, whole)) = packets(world, &inner).pop() else { return };
        let skb = if inner.event.skb == 0 { world.buffer() } else { inner.event.skb };
        (world.events[n].event.ifindex, world.events[n].event.skb) = (TUNNEL, skb);
        let segs = inner.event.segs;
        let next_id = self.next_id.entry(flow).or_insert(u16::MAX - 40);
        let first_id = if *next_id > u16::MAX - segs { 1 } else { *next_id };
        *next_id = first_id + segs;
        let arrives = super::node::has_arrived(world, &inner);
        let is_dropped = !arrives && world.random.chance(30);
        let cut_at = match world.random.within(0, 2) {
            0 if segs > 1 => Hop::DevQueue,
            1 if segs > 1 => Hop::DevXmit,
            _ => Hop::AppRecv,
        };
        let parts = cut(world, &inner, &whole);
        let buffers: Vec<u32> = parts.iter().map(|_| world.buffer()).collect();
        let mut at_ns = inner.event.time_ns;
        for hop in [Hop::IpOut, Hop::IpPost, Hop::DevQueue, Hop::DevXmit] {
            let is_at_device = matches!(hop, Hop::DevQueue | Hop::DevXmit);
            let socket = if is_at_device { inner.event.socket } else { 0 };
            let outer = Event { flow, skb, ip_id: first_id, segs, socket, ..Event::at(hop, 0) };
            if hop == Hop::DevXmit && is_dropped && cut_at > Hop::DevXmit {
                let detail = DetailKind::DropReason.of(9);
                let drop = Event { hop: Hop::SkbDrop, time_ns: at_ns + 20, detail, ..outer };
                emit(world, &inner, &whole, drop);
                break;
            }
            if hop < cut_at {
                let time_ns = at_ns + world.random.within(1, 100);
                at_ns = emit(world, &inner, &whole, Event { time_ns, ..outer });
                continue;
            }
            for (k, (part, skb)) in parts.iter().zip(&buffers).enumerate() {
                let ip_id = first_id + k as u16;
                let time_ns = at_ns + world.random.within(2, 12);
                let segment = Event { skb: *skb, ip_id, segs: 1, time_ns, ..outer };
                at_ns = emit(world, &inner, part, segment);
            }
        }
        let sent = Sent { from: whole.from, to: whole.to, first_id, left_ns: at_ns };
        self.sent.entry(packet).or_default().push(sent);
    }

    /// A packet comes out of the tunnel's device: its outer packets came before.
    fn receive(&self, world: &mut World, n: usize, flow: FlowId) {
        let inner = world.events[n];
        let parts = packets(world, &inner);
        // A kernel that shares a packet with its sender copies it before it takes the inner one out.
        let is_copied = world.random.chance(40);
        let own = if inner.event.skb == 0 { world.buffer() } else { inner.event.skb };
        (world.events[n].event.ifindex, world.events[n].event.skb) = (TUNNEL, own);
        let count = parts.len() as u64;
        for (k, (packet, part)) in parts.into_iter().enumerate() {
            let holds = |sent: &&Sent| sent.from <= part.from && part.to <= sent.to;
            let Some(sent) = self.sent.get(&packet).into_iter().flatten().find(holds) else { continue };
            let nth = match inner.about {
                About::Bytes { stream, .. } => ((part.from - sent.from) / world.streams[stream].mss) as u16,
                _ => 0,
            };
            let skb = if k == 0 && !is_copied { own } else { world.buffer() };
            let mut at_ns = (inner.event.time_ns - 20 * (count - k as u64) - 20).max(sent.left_ns + 1);
            for hop in [Hop::DevRecv, Hop::IpPre, Hop::IpIn] {
                let ip_id = sent.first_id + nth;
                let outer = Event { flow, skb, ip_id, segs: 1, ..Event::at(hop, at_ns) };
                at_ns = emit(world, &inner, &part, outer) + 1;
            }
            if k == 0 {
                world.allocated_ns.insert(own, at_ns); // as a copy; else its buffer has the outer packet
            }
            assert!(at_ns <= inner.event.time_ns + 1, "the outer packet came first");
        }
    }
}

/// The segments of a packet.
fn cut(world: &World, whole: &True, packet: &Segment) -> Vec<Segment> {
    let About::Bytes { stream, .. } = whole.about else { return vec![*packet] };
    let mss = world.streams[stream].mss;
    let of = |from: u64| Segment { from, to: packet.to.min(from + mss), ..*packet };
    (packet.from..packet.to).step_by(mss as usize).map(of).collect()
}

/// Each outer hop of a journey is that of a packet which held it whole, and all hops of a passage are of one packet. A
/// journey that was sent once, and through a tunnel, has the hops of both ends.
pub fn tunnels_are_true(world: &World, journey: &Journey) -> Result<(), String> {
    let own = match journey.proto {
        Proto::TCP => {
            truth::place(world, journey).map(|(stream, range)| (Some((stream, range)), Vec::new()))?
        }
        _ if journey.ambiguous || is_outer(journey.tx_flow) || is_outer(journey.rx_flow) => return Ok(()),
        _ => (None, truth::datagrams(world, journey)?),
    };
    for tunnel in &journey.tunnels {
        let mut seen = None;
        for hop in tunnel.hops() {
            let at_ns = tunnel.rungs.time_ns(hop).unwrap_or_default();
            let say = |what: &str| Err(format!("{hop} at {at_ns} {what}: {journey:?}"));
            let Some(t) = world.event_at(at_ns) else { return say("never was") };
            let flows = [tunnel.tx_flow, tunnel.rx_flow];
            if t.event.hop != hop || !is_outer(t.event.flow) || !flows.contains(&t.event.flow) {
                return say("was another event");
            }
            let holds = match (t.about, &own) {
                (About::Bytes { stream, from, to }, (Some((own, range)), _)) => {
                    stream == *own && from <= range.start && range.end <= to
                }
                (About::Datagram(n), (None, own)) => own.contains(&world.datagrams[n]),
                _ => false,
            };
            if !holds {
                return say("held something else");
            }
            let packet = packets(world, t).into_iter().next().map(|(packet, _)| packet);
            if seen.get_or_insert_with(|| packet.clone()) != &packet {
                return say("was another packet");
            }
        }
    }
    let is_through = |hop| {
        journey.rungs.time_ns(hop).and_then(|at| world.event_at(at)).is_some_and(|t| t.event.ifindex == TUNNEL)
    };
    let is_plain = journey.verdict == Verdict::Complete && journey.copies.is_empty() && !journey.ambiguous;
    let has = |hop: Hop| journey.tunnels.iter().any(|tunnel| tunnel.rungs.has(hop));
    for (inner, outer) in
        [(Hop::DevXmit, [Hop::IpOut, Hop::DevXmit]), (Hop::DevRecv, [Hop::DevRecv, Hop::IpIn])]
    {
        if is_plain && is_through(inner) && !outer.into_iter().all(has) {
            return Err(format!("lacks its outer packet at {inner}: {journey:?}"));
        }
    }
    Ok(())
}
