//! Journeys compared with a `tcpdump` capture of the same traffic on the same device.

use crate::common;

use common::account::{Books, OneDirection};
use common::connection::Connection;
use common::wire::{Tcpdump, WirePacket};
use common::{CLIENT, CLIENT6, Net, SERVER, SERVER6, address, can_capture, finish, undisturbed};
use magscope_core::{Event, EventFlags, Hop, Proto};
use magscope_probe::plan::full_hops;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;

fn ethtool(arguments: &[&str]) -> bool {
    Command::new("ethtool").args(arguments).output().is_ok_and(|output| output.status.success())
}

/// Packets with payload in this direction, in tcpdump's order.
fn in_direction(packets: &[WirePacket], from: SocketAddr, to: SocketAddr) -> Vec<WirePacket> {
    packets.iter().filter(|p| (p.from, p.to) == (from, to)).cloned().collect()
}

/// The packet of each event. A process and a softirq can send for one socket on two CPUs at once; tcpdump and
/// the probe may then see different orders.
fn of_events(packets: &[WirePacket], events: &[Event]) -> Vec<WirePacket> {
    let mut left: Vec<&WirePacket> = packets.iter().collect();
    let packet_of = |event: &Event| {
        let same = |p: &&WirePacket| (p.seq, p.payload_bytes, p.ip_id) == (event.seq(), event.len, event.ip_id);
        let at = left.iter().position(same).unwrap_or_else(|| panic!("tcpdump has no packet of {event:?}"));
        let packet = left.remove(at).clone();
        assert_eq!((event.ttl, event.tos), packet.ttl_and_tos, "{event:?} {packet:?}");
        assert_eq!(event.flags.contains(EventFlags::WHOLE), packet.whole, "{event:?} {packet:?}");
        assert_eq!(event.flags.contains(EventFlags::IPV6), packet.from.is_ipv6());
        assert_eq!(event.proto == Proto::TCP, packet.is_tcp);
        packet
    };
    let found = events.iter().map(packet_of).collect();
    assert!(left.is_empty(), "no event of {left:?}");
    found
}

/// Checks the times. tcpdump sees a packet immediately before `dev.xmit`, and one CPU sends its packets in
/// sequence. A single clock offset must therefore place each event between its packet and that CPU's next one,
/// within the slew of `CLOCK_REALTIME`.
fn times_interleave(packets: &[WirePacket], events: &[Event]) {
    const SLEW_NS: i64 = 100_000;
    let packets = of_events(packets, events);
    let ahead = |packet: &WirePacket, event: &Event| packet.realtime_ns - event.time_ns as i64;
    let least = packets.iter().zip(events).map(|(p, e)| ahead(p, e)).max().expect("packets");
    let next = packets.iter().skip(1).zip(events.windows(2)).filter(|(_, pair)| pair[0].cpu == pair[1].cpu);
    let most = next.map(|(p, pair)| ahead(p, &pair[0])).min().unwrap_or(i64::MAX);
    assert!(
        least <= most.saturating_add(SLEW_NS),
        "an event before its packet or after the next: {least} {most}"
    );
}

/// Each packet is one event, each payload byte belongs to one journey, and the first copy of each journey is sent with
/// the first packet that covers it.
fn wire_is_covered(direction: &OneDirection, packets: &[WirePacket]) {
    let events: Vec<Event> = direction.payload_at(Hop::DevXmit).copied().collect();
    let packets = of_events(packets, &events);

    for journey in &direction.journeys {
        let start = direction.place(journey.range.start as u32);
        let end = start + journey.bytes();
        let covers = |p: &WirePacket| {
            let from = direction.place(p.seq);
            from <= start && end <= from + u64::from(p.payload_bytes)
        };
        let first = packets.iter().position(covers).unwrap_or_else(|| panic!("in no packet: {journey:?}"));
        // Two CPUs may reorder the segments in the receiver, and the sender then sends one again.
        let first_copy = journey.copies.iter().find(|copy| copy.number == 1);
        let rungs = first_copy.map_or(&journey.rungs, |copy| &copy.rungs);
        assert_eq!(rungs.time_ns(Hop::DevXmit), Some(events[first].time_ns), "{journey:?}");
    }
    for packet in &packets {
        let (from, to) =
            (direction.place(packet.seq), direction.place(packet.seq) + u64::from(packet.payload_bytes));
        let inside = direction.journeys.iter().filter(|j| {
            let start = direction.place(j.range.start as u32);
            from <= start && start < to
        });
        assert_eq!(
            inside.map(magscope_core::journey::Journey::bytes).sum::<u64>(),
            u64::from(packet.payload_bytes)
        );
    }
}

/// A stream in both directions, captured by a probe and by tcpdump; returns the largest payload of a packet on
/// the wire.
fn tcp_against_tcpdump(to: &str, port: u16, tso: bool) -> Option<u32> {
    let net = Net::new();
    if !tso {
        for host in [&net.client, &net.server] {
            if !host.run(|| ethtool(&["-K", "v0", "tso", "off", "gso", "off"])) {
                println!("skipped, because ethtool cannot switch segmentation off");
                return None;
            }
        }
    }
    let dump = Tcpdump::start(&net.client, &format!("tcp-{port}"))?;
    let recording = net.capture(full_hops());
    let connection = Connection::open(&net, to, port);
    let up = connection.upload((0..60).map(|i| 100 + i * 777), 30_000);
    let down = connection.download((0..40).map(|i| 40_000 - i * 900), 9_000);
    let (client, server) = connection.settled();
    let recording = finish(recording).0;
    let packets = dump.stop(&net.client, to);

    let books = Books::open(&recording);
    let (from, to) = (connection.from(), connection.to());
    let up_direction = books.one_direction(&net, from, to, true);
    up_direction.balances(up, &client, &server);
    let on_wire = in_direction(&packets, from, to);
    wire_is_covered(&up_direction, &on_wire);
    times_interleave(&on_wire, &up_direction.payload_at(Hop::DevXmit).copied().collect::<Vec<_>>());
    // received packets pass tcpdump before GRO merges them
    let down_direction = books.one_direction(&net, from, to, false);
    down_direction.balances(down, &server, &client);
    wire_is_covered(&down_direction, &in_direction(&packets, to, from));
    assert_eq!(on_wire.iter().map(|p| u64::from(p.payload_bytes)).sum::<u64>(), client.bytes_sent);
    on_wire.iter().map(|p| p.payload_bytes).max()
}

#[test]
fn super_packets_are_what_tcpdump_saw_v4() {
    undisturbed(|| {
        if can_capture()
            && let Some(most) = tcp_against_tcpdump(SERVER, 5301, true)
        {
            assert!(most > 1448, "super-packets were meant to pass");
        }
    });
}

#[test]
fn super_packets_are_what_tcpdump_saw_v6() {
    undisturbed(|| {
        if can_capture()
            && let Some(most) = tcp_against_tcpdump(SERVER6, 5302, true)
        {
            assert!(most > 1428, "super-packets were meant to pass");
        }
    });
}

#[test]
fn segments_are_what_tcpdump_saw_v4() {
    undisturbed(|| {
        if can_capture()
            && let Some(most) = tcp_against_tcpdump(SERVER, 5303, false)
        {
            assert_eq!(most, 1448);
        }
    });
}

#[test]
fn segments_are_what_tcpdump_saw_v6() {
    undisturbed(|| {
        if can_capture()
            && let Some(most) = tcp_against_tcpdump(SERVER6, 5304, false)
        {
            assert_eq!(most, 1428);
        }
    });
}

/// Sets DSCP expedited forwarding and a distinct time to live.
fn mark(socket: &UdpSocket, ipv6: bool) {
    let options = if ipv6 {
        [(libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, 37), (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, 0xb8)]
    } else {
        [(libc::IPPROTO_IP, libc::IP_TTL, 37), (libc::IPPROTO_IP, libc::IP_TOS, 0xb8)]
    };
    for (level, name, value) in options {
        let value: libc::c_int = value;
        // SAFETY: the kernel reads one int.
        #[allow(unsafe_code)]
        let failed = unsafe {
            libc::setsockopt(
                std::os::fd::AsRawFd::as_raw_fd(socket),
                level,
                name,
                (&raw const value).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        assert_eq!(failed, 0);
    }
}

fn udp_against_tcpdump(from: &str, to: &str, port: u16) {
    let net = Net::new();
    let Some(dump) = Tcpdump::start(&net.client, &format!("udp-{port}")) else { return };
    let recording = net.capture(full_hops());
    let server = net.server.run(|| UdpSocket::bind(address(to, port)).expect("bind"));
    let client = net.client.run(|| UdpSocket::bind(address(from, 0)).expect("bind"));
    mark(&client, from.contains(':'));
    for i in 0..400 {
        client.send_to(&vec![0; 1 + i % 1_400], address(to, port)).expect("send");
        common::receive(&server, &mut [0; 2_000]).expect("recv");
    }
    let from = client.local_addr().expect("an address");
    let recording = finish(recording).0;
    let packets = in_direction(&dump.stop(&net.client, to), from, address(to, port));
    assert_eq!(packets.len(), 400);

    let (journeys, correlator) = recording.journeys();
    let mut mine: Vec<_> =
        journeys.iter().filter(|j| correlator.flow(j.tx_flow).is_some_and(|f| f.local == from)).collect();
    mine.sort_by_key(|j| j.rungs.time_ns(Hop::DevXmit));
    let lengths: Vec<u32> = mine.iter().map(|j| j.bytes() as u32).collect();
    assert_eq!(lengths, packets.iter().map(|p| p.payload_bytes).collect::<Vec<_>>());
    let ids: Vec<u16> = mine.iter().map(|j| j.ip_id).collect();
    assert_eq!(ids, packets.iter().map(|p| p.ip_id).collect::<Vec<_>>());
    let mut events: Vec<Event> = recording.events.iter().filter(|e| e.hop == Hop::DevXmit).copied().collect();
    events.retain(|e| correlator.flow(e.flow).is_some_and(|f| f.local == from));
    assert!(events.iter().all(|e| (e.ttl, e.tos) == (37, 0xb8)), "what the socket asked for");
    // and at every hop that reads the packet's header
    let with_header =
        [Hop::IpOut, Hop::IpPost, Hop::DevQueue, Hop::DevDone, Hop::DevRecv, Hop::IpPre, Hop::IpIn];
    for hop in with_header.into_iter().chain([Hop::UdpRecv]).filter(|hop| recording.served.contains(*hop)) {
        let mine = |e: &&Event| {
            let flow = correlator.flow(e.flow);
            e.hop == hop && flow.is_some_and(|f| f.local == from || f.remote == from)
        };
        let seen: Vec<_> = recording.events.iter().filter(mine).map(|e| (e.ttl, e.tos)).collect();
        assert_eq!(seen, vec![(37, 0xb8); 400], "{hop}");
    }
    times_interleave(&packets, &events);
}

#[test]
fn datagrams_are_what_tcpdump_saw_v4() {
    if can_capture() {
        undisturbed(|| {
            udp_against_tcpdump(CLIENT, SERVER, 5305);
        });
    }
}

#[test]
fn datagrams_are_what_tcpdump_saw_v6() {
    if can_capture() {
        undisturbed(|| {
            udp_against_tcpdump(CLIENT6, SERVER6, 5306);
        });
    }
}
