//! Reconstructs the headers of a packet from its event and flow.
//!
//! Unknown fields are 0, except two fields in which 0 has a special meaning. A TCP window of 0 stops the
//! sender, and a UDP checksum of 0 is invalid over IPv6: both have all bits set instead ([`UNKNOWN`]).

use magscope_core::{Direction, Event, EventFlags, Flow, Proto};
use std::net::{IpAddr, SocketAddr};

/// An unknown field that must not be 0.
const UNKNOWN: [u8; 2] = [0xff; 2];
/// Bytes of the header of ICMP and of an IPv6 fragment.
const ICMP_HEADER: u32 = 8;
const FRAGMENT_HEADER: u32 = 8;
/// The number of the fragment header (RFC 8200, 4.5).
const IPV6_FRAGMENT: u8 = 44;

/// Headers, and the original packet length with payload (for TCP without options, which are unknown).
pub fn of(event: &Event, flow: &Flow) -> (Vec<u8>, u32) {
    let sent = event.hop.direction() == Direction::Tx;
    let (from, to) = if sent { (flow.local, flow.remote) } else { (flow.remote, flow.local) };
    let fragment = event.flags.contains(EventFlags::FRAGMENT);
    let transport = if fragment { Vec::new() } else { transport(event, flow.proto, from, to) };
    // A first fragment has its own length in its extent; its `len` is that of the whole datagram.
    let more = event.flags.contains(EventFlags::MORE);
    let unseen = if !fragment && matches!(flow.proto, Proto::ICMP | Proto::ICMPV6) { ICMP_HEADER } else { 0 };
    let carried = if more && !fragment {
        event.extent.fragment_bytes()
    } else {
        event.len.saturating_add(transport.len() as u32).saturating_add(unseen)
    };
    let mut packet = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let total = u16::try_from(carried.saturating_add(20)).unwrap_or(0);
            let offset = if fragment { (event.extent.fragment_offset() / 8) as u16 & 0x1fff } else { 0 };
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
            let is_part = fragment || more;
            let payload = carried.saturating_add(if is_part { FRAGMENT_HEADER } else { 0 });
            let mut ip = vec![0x60 | event.tos >> 4, event.tos << 4, 0, 0];
            ip.extend(u16::try_from(payload).unwrap_or(0).to_be_bytes());
            ip.extend([if is_part { IPV6_FRAGMENT } else { flow.proto.0 }, event.ttl]);
            ip.extend(octets(from));
            ip.extend(octets(to));
            if is_part {
                let offset = if fragment { event.extent.fragment_offset() as u16 & 0xfff8 } else { 0 };
                ip.extend([flow.proto.0, 0]);
                ip.extend((offset | u16::from(more)).to_be_bytes());
                // Only the low half of the identification was captured.
                ip.extend(u32::from(event.ip_id).to_be_bytes());
            }
            ip
        }
    };
    let original_len = carried.saturating_add(packet.len() as u32);
    packet.extend(transport);
    // A packet is never shorter than its written part.
    let original_len = original_len.max(packet.len() as u32);
    (packet, original_len)
}

fn transport(event: &Event, proto: Proto, from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let mut out = Vec::new();
    match proto {
        Proto::TCP => {
            out.extend(from.port().to_be_bytes());
            out.extend(to.port().to_be_bytes());
            // A SYN uses a sequence number before the first byte, and an event has the number of its first
            // byte.
            let syn = u32::from(event.tcp_flags & 2 != 0);
            out.extend(event.seq().wrapping_sub(syn).to_be_bytes());
            out.extend(event.detail.ack().to_be_bytes());
            out.extend([0x50, event.tcp_flags]);
            out.extend(UNKNOWN);
            // Checksum and urgent pointer.
            out.extend([0; 4]);
        }
        Proto::UDP => {
            out.extend(from.port().to_be_bytes());
            out.extend(to.port().to_be_bytes());
            out.extend(u16::try_from(event.len.saturating_add(8)).unwrap_or(0).to_be_bytes());
            out.extend(if from.is_ipv6() { UNKNOWN } else { [0; 2] });
        }
        // Other protocols: the type is unknown.
        _ => {}
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::{ExtentKind, FlowId, Hop};

    fn flow(proto: Proto, v6: bool) -> Flow {
        let ends = if v6 { ["[fd00::1]:4000", "[fd00::2]:80"] } else { ["10.0.0.1:4000", "10.0.0.2:80"] };
        let [local, remote] = ends.map(|end| end.parse().expect("an address"));
        Flow { id: FlowId(1), netns: 1, proto, local, remote }
    }

    #[test]
    fn a_fragment_of_ipv6_has_its_header() {
        let flags = EventFlags::IPV6.with(EventFlags::MORE);
        let at = Event { proto: Proto::UDP, ip_id: 0x1234, ..Event::at(Hop::DevXmit, 1) };
        let first = Event { flags, len: 3_000, extent: ExtentKind::FirstFragment.of(1_448), ..at };
        let (bytes, len) = of(&first, &flow(Proto::UDP, true));
        assert_eq!((len, &bytes[4..7]), (1_496, &[0x05, 0xb0, 44][..]));
        assert_eq!(bytes[40..48], [17, 0, 0, 1, 0, 0, 0x12, 0x34]);
        assert_eq!(bytes[48..52], [0x0f, 0xa0, 0, 80], "the ports come after it");
        let last = Event {
            flags: EventFlags::IPV6.with(EventFlags::FRAGMENT),
            extent: ExtentKind::LaterFragment.of(2_896),
            len: 112,
            ..at
        };
        let (bytes, len) = of(&last, &flow(Proto::UDP, true));
        assert_eq!((bytes.len(), len, bytes[6]), (48, 160, 44));
        assert_eq!(bytes[40..44], [17, 0, 0x0b, 0x50]);
        let whole = Event { flags: EventFlags::IPV6, len: 100, ..at };
        assert_eq!(of(&whole, &flow(Proto::UDP, true)).0[6], 17);
    }

    #[test]
    fn what_was_not_captured_is_no_value_of_its_own() {
        let tcp = Event { proto: Proto::TCP, tcp_flags: 0x10, ..Event::at(Hop::DevXmit, 1) };
        let window = |v6: bool| of(&tcp, &flow(Proto::TCP, v6)).0[if v6 { 40 } else { 20 }..][14..16].to_vec();
        assert_eq!([window(false), window(true)], [UNKNOWN.to_vec(), UNKNOWN.to_vec()]);
        let udp = Event { proto: Proto::UDP, len: 10, ..Event::at(Hop::DevXmit, 1) };
        assert_eq!(of(&udp, &flow(Proto::UDP, true)).0[46..48], UNKNOWN);
        assert_eq!(of(&udp, &flow(Proto::UDP, false)).0[26..28], [0, 0]);
    }

    #[test]
    fn icmp_has_its_header_in_its_length() {
        let ping = Event { proto: Proto::ICMP, len: 56, ..Event::at(Hop::DevXmit, 1) };
        let (bytes, len) = of(&ping, &flow(Proto::ICMP, false));
        assert_eq!((bytes.len(), len, &bytes[2..4]), (20, 84, &[0, 84][..]));
    }
}
