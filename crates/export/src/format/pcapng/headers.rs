//! The headers of a packet, from what an event and its flow say of it. What was not captured is 0, never a guess.

use magscope_core::{Direction, Event, EventFlags, Flow, Proto};
use std::net::{IpAddr, SocketAddr};

/// Headers, and how many bytes the packet had with its payload (of TCP without options, which were not seen).
pub fn of(event: &Event, flow: &Flow) -> (Vec<u8>, u32) {
    let sent = event.hop.direction() == Direction::Tx;
    let (from, to) = if sent { (flow.local, flow.remote) } else { (flow.remote, flow.local) };
    let fragment = event.flags.contains(EventFlags::FRAGMENT);
    let transport = if fragment { Vec::new() } else { transport(event, flow.proto, from, to) };
    // A first fragment says in `seq` what it carries itself; its `len` is that of the whole datagram.
    let more = event.flags.contains(EventFlags::MORE);
    let carried = if more && !fragment { event.seq } else { event.len.saturating_add(transport.len() as u32) };
    let mut packet = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let total = u16::try_from(carried.saturating_add(20)).unwrap_or(0);
            let offset = if fragment { (event.seq / 8) as u16 & 0x1fff } else { 0 };
            let mut ip = vec![0x45, event.tos];
            ip.extend(total.to_be_bytes());
            ip.extend(event.ip_id.to_be_bytes());
            let whole = event.flags.contains(EventFlags::WHOLE);
            ip.extend((offset | if more { 0x2000 } else { 0 } | if whole { 0x4000 } else { 0 }).to_be_bytes());
            ip.extend([event.ttl, flow.proto.0, 0, 0]);
            ip.extend(from.octets());
            ip.extend(to.octets());
            ip
        }
        (from, to) => {
            let octets = |ip: IpAddr| match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                IpAddr::V6(ip) => ip.octets(),
            };
            let mut ip = vec![0x60 | event.tos >> 4, event.tos << 4, 0, 0];
            ip.extend(u16::try_from(carried).unwrap_or(0).to_be_bytes());
            ip.extend([flow.proto.0, event.ttl]);
            ip.extend(octets(from));
            ip.extend(octets(to));
            ip
        }
    };
    let original_len = carried.saturating_add(packet.len() as u32);
    packet.extend(transport);
    // A packet is never shorter than what is written of it.
    let original_len = original_len.max(packet.len() as u32);
    (packet, original_len)
}

fn transport(event: &Event, proto: Proto, from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let mut out = Vec::new();
    match proto {
        Proto::TCP => {
            out.extend(from.port().to_be_bytes());
            out.extend(to.port().to_be_bytes());
            // A SYN takes a number before the first byte, and an event says where its bytes begin.
            let syn = u32::from(event.tcp_flags & 2 != 0);
            out.extend(event.seq.wrapping_sub(syn).to_be_bytes());
            out.extend(event.detail.to_be_bytes());
            out.extend([0x50, event.tcp_flags]);
            out.extend([0; 6]);
        }
        Proto::UDP => {
            out.extend(from.port().to_be_bytes());
            out.extend(to.port().to_be_bytes());
            out.extend(u16::try_from(event.len.saturating_add(8)).unwrap_or(0).to_be_bytes());
            out.extend([0; 2]);
        }
        // Of the others the type is not known.
        _ => {}
    }
    out
}
