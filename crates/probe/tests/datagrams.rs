//! Datagrams of every kind on real sockets: one journey per receiver, with the right length.

use crate::common::{self, sockets, waits};

use common::counters::counter;
use common::{CLIENT, CLIENT6, Host, Net, Recording, SERVER, SERVER6, can_capture, finish, ip, undisturbed};
use magscope_core::journey::{Correlator, Journey, Verdict};
use magscope_core::node::{Backend, Service};
use magscope_core::{FlowId, Hop, Proto};
use magscope_probe::plan::full_hops;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::time::Duration;

const TX: [Hop; 4] = [Hop::IpOut, Hop::IpPost, Hop::DevQueue, Hop::DevXmit];
const RX: [Hop; 6] = [Hop::DevRecv, Hop::IpPre, Hop::IpIn, Hop::UdpRecv, Hop::SockReady, Hop::AppRecv];

fn address(ip: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip.parse().expect("an address"), port)
}

fn v4(ip: &str, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(ip.parse().expect("an address"), port)
}

fn bind(host: &Host, at: SocketAddr) -> UdpSocket {
    let socket = host.run(|| UdpSocket::bind(at).expect("bind"));
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
    socket
}

/// A sender that is connected to a receiver, and the receiver.
fn pair(net: &Net, from: &str, to: &str, port: u16) -> (UdpSocket, UdpSocket) {
    let server = bind(&net.server, address(to, port));
    let client = bind(&net.client, address(from, 0));
    client.connect(address(to, port)).expect("connect");
    // IPv6 resolves its neighbour first; a datagram that waits for this is sent in another packet's context.
    client.send(&[0]).expect("send");
    recv(&server);
    (client, server)
}

fn recv(socket: &UdpSocket) -> usize {
    common::receive(socket, &mut vec![0; 65536]).expect("recv")
}

/// The journeys to a port in order of their ends, without the initial one-byte datagram.
fn journeys_to(recording: Recording, port: u16) -> (Vec<Journey>, Correlator) {
    let (recording, _) = finish(recording);
    let (journeys, correlator) = recording.journeys();
    let to_port = |j: &Journey| {
        let flow = |id: FlowId| correlator.flow(id);
        flow(j.tx_flow).is_some_and(|f| f.remote.port() == port)
            || flow(j.rx_flow).is_some_and(|f| f.local.port() == port)
    };
    let mine = journeys.into_iter().filter(|j| to_port(j) && j.bytes() != 1).collect();
    (mine, correlator)
}

/// Complete, with every one of these hops passed in order.
fn is_whole(journey: &Journey, hops: &[Hop]) {
    assert_eq!((journey.verdict, journey.disordered()), (Verdict::Complete, 0), "{journey:?}");
    assert!(!journey.ambiguous, "{journey:?}");
    let times: Vec<_> = hops.iter().map(|hop| journey.rungs.time_ns(*hop)).collect();
    assert!(times.iter().all(Option::is_some) && times.is_sorted(), "{times:?} in {journey:?}");
}

fn expected_hops() -> Vec<Hop> {
    [&TX[..], &RX].concat()
}

fn fragments(from: &str, to: &str, port: u16) {
    let net = Net::new();
    let recording = net.capture(full_hops());
    let (client, server) = pair(&net, from, to, port);
    let sizes = [4000, 1473, 1400, 30_000];
    for size in sizes {
        client.send(&vec![1; size]).expect("send");
        assert_eq!(recv(&server), size);
    }
    let (mine, correlator) = journeys_to(recording, port);
    assert_eq!(mine.iter().map(|j| j.bytes() as usize).collect::<Vec<_>>(), sizes);
    for journey in &mine {
        is_whole(journey, &expected_hops());
        let cut = journey.bytes() > 1452;
        assert_eq!(journey.ip_id != 0, cut || from == CLIENT, "what is cut has an identification: {journey:?}");
    }
    assert!(correlator.counters().later_fragments > 0);
    assert_eq!(correlator.counters().stray_fragments, 0);
}

#[test]
fn a_datagram_in_fragments_is_one_journey_v4() {
    if can_capture() {
        undisturbed(|| {
            fragments(CLIENT, SERVER, 5201);
        });
    }
}

#[test]
fn a_datagram_in_fragments_is_one_journey_v6() {
    if can_capture() {
        undisturbed(|| {
            fragments(CLIENT6, SERVER6, 5202);
        });
    }
}

#[test]
fn a_datagram_that_lost_a_fragment_is_lost_behind_the_device() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let (net, port) = (Net::new(), 5203);
        // the first of two fragments carries 1000 of 2000 bytes; the second is never sent
        let recording = net.capture(full_hops());
        let (_client, server) = pair(&net, CLIENT, SERVER, port);
        let raw = net.client.run(|| sockets::raw(libc::AF_INET, libc::IPPROTO_RAW));
        let mut packet = sockets::ipv4_header(CLIENT, SERVER, libc::IPPROTO_UDP as u8, 77, 0x2000, 1008);
        packet.extend([0x30, 0x39]); // port 12345
        packet.extend(port.to_be_bytes());
        packet.extend(2008_u16.to_be_bytes());
        packet.extend([0; 1002]);
        let before = counter(&net.server, "Ip", "ReasmReqds");
        net.client.run(|| sockets::send_raw(&raw, v4(SERVER, 0), &packet));
        waits::until("the fragment arrives", || counter(&net.server, "Ip", "ReasmReqds") > before);
        server.set_nonblocking(true).expect("non-blocking");
        assert!(common::receive(&server, &mut [0; 3000]).is_err(), "half a datagram is none");
        let (mine, _) = journeys_to(recording, port);
        assert_eq!(mine.len(), 1, "{mine:?}");
        assert_eq!((mine[0].bytes(), mine[0].ip_id), (2000, 77));
        assert!(!mine[0].rungs.has(Hop::IpIn) && !mine[0].rungs.has(Hop::AppRecv), "{:?}", mine[0]);
        assert!(!matches!(mine[0].verdict, Verdict::Complete), "{:?}", mine[0]);
    });
}

/// Sends a super-packet of four datagrams; the device or the receiver splits it, or nobody does.
fn super_packet(from: &str, to: &str, port: u16, offload: bool, merged_read: bool) {
    let net = Net::new();
    if !offload {
        net.client.run(|| sockets::ethtool(&["-K", "v0", "tx-udp-segmentation", "off"]));
    }
    let recording = net.capture(full_hops());
    let (client, server) = pair(&net, from, to, port);
    sockets::set(&client, libc::SOL_UDP, libc::UDP_SEGMENT, 1000);
    if merged_read {
        sockets::set(&server, libc::SOL_UDP, libc::UDP_GRO, 1);
    }
    for _ in 0..3 {
        assert_eq!(client.send(&[1; 3500]).expect("send"), 3500);
        let mut got = 0;
        while got < 3500 {
            got += recv(&server);
        }
        assert_eq!(got, 3500);
    }
    let (mine, _) = journeys_to(recording, port);
    let sizes: Vec<_> = mine.iter().map(Journey::bytes).collect();
    assert_eq!(sizes, [1000, 1000, 1000, 500].repeat(3));
    for journey in &mine {
        is_whole(journey, &expected_hops());
        assert!(journey.rungs.has(Hop::AppSend) && journey.reader.is_some(), "{journey:?}");
    }
    if from == CLIENT {
        let ids: BTreeSet<_> = mine[..4].iter().map(|j| j.ip_id).collect();
        assert_eq!(ids.len(), 4, "each segment has its own identification");
    }
}

#[test]
fn a_super_packet_that_only_the_receiver_cuts() {
    if can_capture() {
        undisturbed(|| {
            super_packet(CLIENT, SERVER, 5204, true, false);
            super_packet(CLIENT6, SERVER6, 5205, true, false);
        });
    }
}

#[test]
fn a_super_packet_that_is_read_in_one() {
    if can_capture() {
        undisturbed(|| {
            super_packet(CLIENT, SERVER, 5206, true, true);
            super_packet(CLIENT6, SERVER6, 5207, true, true);
        });
    }
}

#[test]
fn a_super_packet_that_is_cut_before_the_device() {
    if can_capture() {
        undisturbed(|| {
            super_packet(CLIENT, SERVER, 5208, false, false);
            super_packet(CLIENT6, SERVER6, 5209, false, false);
        });
    }
}

#[test]
fn datagrams_that_the_receiver_merges() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let (net, port) = (Net::new(), 5210);
        net.client.run(|| sockets::ethtool(&["-K", "v0", "tx-udp-segmentation", "off", "tso", "off"]));
        // GRO gives the device its own poll, which merges packets
        net.server.run(|| sockets::ethtool(&["-K", "v0", "gro", "on"]));
        let recording = net.capture(full_hops());
        let (client, server) = pair(&net, CLIENT, SERVER, port);
        sockets::set(&client, libc::SOL_UDP, libc::UDP_SEGMENT, 1000);
        sockets::set(&server, libc::SOL_UDP, libc::UDP_GRO, 1);
        let mut merged = 0;
        for _ in 0..20 {
            client.send(&[1; 4000]).expect("send");
            let mut got = 0;
            while got < 4000 {
                let n = recv(&server);
                merged += usize::from(n > 1000);
                got += n;
            }
        }
        assert!(merged > 0, "nothing was merged");
        let (mine, _) = journeys_to(recording, port);
        assert_eq!(mine.len(), 80);
        for journey in &mine {
            assert_eq!(journey.bytes(), 1000);
            is_whole(journey, &expected_hops());
        }
    });
}

#[test]
fn each_message_of_a_batch_is_a_journey_of_its_own() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let (net, port) = (Net::new(), 5211);
        let recording = net.capture(full_hops());
        let server = bind(&net.server, address(SERVER, port));
        let client = bind(&net.client, address(CLIENT, 0));
        let payloads: Vec<_> = [100, 100, 200, 0, 100].map(|n| vec![1; n]).into();
        assert_eq!(sockets::send_many(&client, v4(SERVER, port), &payloads), 5);
        // a busy machine delivers some of them later
        let mut read = sockets::receive_many(&server, 8);
        while read.len() < 5 {
            read.extend(sockets::receive_many(&server, 8));
        }
        assert_eq!(read, [100, 100, 200, 0, 100]);
        let (mut mine, _) = journeys_to(recording, port);
        // Journeys close in the order in which they become final.
        mine.sort_by_key(|journey| journey.rungs.time_ns(Hop::IpOut));
        assert_eq!(mine.iter().map(Journey::bytes).collect::<Vec<_>>(), [100, 100, 200, 0, 100]);
        for journey in &mine {
            is_whole(journey, &expected_hops());
            assert!(journey.rungs.has(Hop::AppSend), "{journey:?}");
        }
        let reads: Vec<_> = mine.iter().map(|j| j.rungs.time_ns(Hop::AppRecv)).collect();
        assert!(reads.is_sorted(), "in the order of the queue: {reads:?}");
    });
}

/// Checks the datagrams from the client to `group` at two sockets of each host.
fn group(net: &Net, group: Ipv4Addr, port: u16, join: impl Fn(&Host, &str) -> UdpSocket) {
    const COUNT: usize = 20;
    let receivers = [
        join(&net.client, CLIENT),
        join(&net.client, CLIENT),
        join(&net.server, SERVER),
        join(&net.server, SERVER),
    ];
    let recording = net.capture(full_hops());
    let client = bind(&net.client, address(CLIENT, 0));
    client.set_broadcast(true).expect("broadcast");
    for n in 0..COUNT {
        client.send_to(&vec![1; 100 + n], (group, port)).expect("send");
        for socket in &receivers {
            assert_eq!(recv(socket), 100 + n);
        }
    }
    let inodes = [net.client.target.inode, net.server.target.inode];
    // A looped-back copy does not pass the function that serves `ip.post` without netfilter.
    let links = recording.info().coverage.of(Hop::IpPost).is_some_and(
        |service| matches!(service, Service::Served { backend, .. } if *backend == Backend::Netfilter),
    );
    let (mine, correlator) = journeys_to(recording, port);
    assert_eq!(mine.len(), 4 * COUNT);
    for n in 0..COUNT {
        let of_one: Vec<_> = mine.iter().filter(|j| j.bytes() == 100 + n as u64).collect();
        let hosts: Vec<_> = of_one.iter().filter_map(|j| correlator.flow(j.rx_flow).map(|f| f.netns)).collect();
        assert_eq!(inodes.map(|netns| hosts.iter().filter(|h| **h == netns).count()), [2, 2]);
        let sent: BTreeSet<_> = of_one.iter().map(|j| j.rungs.time_ns(Hop::IpOut)).collect();
        assert_eq!(sent.len(), 1, "all share the sender's half");
        let read: BTreeSet<_> = of_one.iter().map(|j| j.rungs.time_ns(Hop::AppRecv)).collect();
        assert_eq!(read.len(), 4, "and each has its own read");
        for journey in of_one {
            let is_far = correlator.flow(journey.rx_flow).is_some_and(|f| f.netns == inodes[1]);
            is_whole(journey, &[&TX[..if is_far || links { 2 } else { 1 }], &RX].concat());
            assert!(journey.rungs.has(Hop::AppSend), "{journey:?}");
            assert_eq!(
                journey.rungs.has(Hop::DevXmit),
                is_far,
                "what is looped back leaves no device: {journey:?}"
            );
        }
    }
}

#[test]
fn every_receiver_of_a_multicast_has_its_journey() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let (net, port) = (Net::new(), 5212);
        let to = Ipv4Addr::new(239, 1, 1, 1);
        for host in [&net.client, &net.server] {
            host.run(|| ip(&["route", "add", "239.0.0.0/8", "dev", "v0"]));
        }
        group(&net, to, port, |host, me| {
            let socket = host.run(|| sockets::bind_shared(address("0.0.0.0", port), &[libc::SO_REUSEADDR]));
            let me: IpAddr = me.parse().expect("an address");
            let IpAddr::V4(me) = me else { panic!("IPv4") };
            socket.join_multicast_v4(&to, &me).expect("join");
            socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
            socket
        });
    });
}

#[test]
fn every_receiver_of_a_broadcast_has_its_journey() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let (net, port) = (Net::new(), 5213);
        for (host, me) in [(&net.client, CLIENT), (&net.server, SERVER)] {
            host.run(|| {
                ip(&["addr", "del", &format!("{me}/24"), "dev", "v0"]);
                ip(&["addr", "add", &format!("{me}/24"), "brd", "10.78.0.255", "dev", "v0"]);
            });
        }
        group(&net, Ipv4Addr::new(10, 78, 0, 255), port, |host, _| {
            let socket = host.run(|| sockets::bind_shared(address("0.0.0.0", port), &[libc::SO_REUSEADDR]));
            socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
            socket
        });
    });
}

#[test]
fn the_start_of_a_send_is_the_first_rung_where_it_is_asked_for() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        if !magscope_probe::HostFacts::read().expect("facts").syscall_tracepoints {
            println!("skipped, because tracefs is not mounted");
            return;
        }
        let (net, port) = (Net::new(), 5214);
        let recording = net.capture(full_hops().iter().chain([Hop::UdpSend]).collect());
        let (client, server) = pair(&net, CLIENT, SERVER, port);
        for n in 0..50 {
            client.send(&vec![1; 100 + n]).expect("send");
            recv(&server);
        }
        let (mine, _) = journeys_to(recording, port);
        assert_eq!(mine.len(), 50);
        for journey in &mine {
            is_whole(journey, &[&[Hop::UdpSend][..], &expected_hops()].concat());
        }
    });
}

#[test]
fn echoes_are_journeys_up_to_ip() {
    undisturbed(|| {
        const COUNT: u16 = 5;
        if !can_capture() {
            return;
        }
        let net = Net::new();
        let recording = net.capture(full_hops());
        let id = 4242;
        // the last one is fragmented
        for number in 0..COUNT {
            let size = if number + 1 == COUNT { 3000 } else { 56 };
            net.client.run(|| sockets::echo(v4(SERVER, 0), id, number, size));
        }
        let (mine, correlator) = journeys_to(recording, id);
        assert_eq!(mine.len(), 2 * usize::from(COUNT), "{mine:?}");
        let client = net.client.target.inode;
        let asked =
            mine.iter().filter(|j| correlator.flow(j.tx_flow).is_some_and(|f| f.netns == client)).count();
        assert_eq!(asked, usize::from(COUNT), "half of them are answers");
        for journey in &mine {
            assert_eq!(journey.proto, Proto::ICMP);
            is_whole(journey, &[&TX[..], &RX[..3]].concat());
            assert!([56, 3000].contains(&journey.bytes()), "{journey:?}");
        }
    });
}

#[test]
fn raw_packets_of_any_protocol_are_journeys_up_to_ip() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let net = Net::new();
        let recording = net.capture(full_hops());
        let raw = net.client.run(|| sockets::raw(libc::AF_INET, 253)); // experimental protocol (RFC 3692)
        let server = net.server.run(|| sockets::raw(libc::AF_INET, 253));
        for size in [10, 20, 30] {
            net.client.run(|| sockets::send_raw(&raw, v4(SERVER, 0), &vec![7; size]));
            let mut packet = [0; 100];
            assert_eq!(rustix::io::read(&server, &mut packet), Ok(20 + size), "with its header");
        }
        let (recording, _) = finish(recording);
        let mine: Vec<_> = recording.journeys().0.into_iter().filter(|j| j.proto == Proto(253)).collect();
        assert_eq!(mine.iter().map(Journey::bytes).collect::<Vec<_>>(), [10, 20, 30]);
        for journey in &mine {
            is_whole(journey, &[&TX[..], &RX[..3]].concat());
        }
    });
}
