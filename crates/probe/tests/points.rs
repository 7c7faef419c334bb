//! Points of connections: attempts to connect that end, resets by either side, and SYN-ACKs that are sent again.

use crate::common;

use common::connection::{Connection, listen};
use common::counters::counter;
use common::disturb::drop_arrivals;
use common::{
    CLIENT, Host, Net, Recording, SERVER, SERVER6, address, can_capture, finish, hops, sockets, undisturbed,
    waits,
};
use magscope_core::{ConnectionState, Event, Hop};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};

const POINTS: [Hop; 5] =
    [Hop::TcpSendReset, Hop::TcpRecvReset, Hop::TcpOpen, Hop::TcpSynack, Hop::TcpChallengeAck];

/// A point, as a test compares it: hop, detail, error number, and true if the local port is that of the server.
type Point = (Hop, u32, u32, bool);

/// The points of a port within a host, in the order of time.
fn points(recording: &Recording, host: &Host, port: u16) -> Vec<Point> {
    let of = |event: &Event| {
        let flow = recording.flows.get(&event.flow.0).filter(|flow| flow.netns == host.target.inode)?;
        let at_server = flow.local.port() == port;
        let is_it = POINTS.contains(&event.hop) && (at_server || flow.remote.port() == port);
        is_it.then_some((event.hop, event.detail.number(), event.extent.open_error(), at_server))
    };
    recording.events.iter().filter_map(of).collect()
}

const ESTABLISHED: u32 = 1;
const CLOSED: u32 = 7;

#[test]
fn the_states_are_those_of_the_kernel() {
    assert_eq!(ConnectionState::from_number(ESTABLISHED), ConnectionState::Established);
    assert_eq!(ConnectionState::from_number(CLOSED), ConnectionState::Closed);
}

#[test]
fn connections_are_established_at_both_ends() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let net = Net::new();
        let recording = net.capture(hops(&POINTS));
        for to in [SERVER, SERVER6] {
            drop(Connection::open(&net, to, 5_601));
        }
        let recording = finish(recording).0;
        let open = |at_server| vec![(Hop::TcpOpen, ESTABLISHED, 0, at_server); 2];
        assert_eq!(points(&recording, &net.client, 5_601), open(false));
        assert_eq!(points(&recording, &net.server, 5_601), open(true));
    });
}

#[test]
fn a_closed_port_refuses_and_both_ends_show_it() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let net = Net::new();
        let recording = net.capture(hops(&POINTS));
        for to in [SERVER, SERVER6] {
            let refused = net.client.run(|| TcpStream::connect(address(to, 5_602)));
            assert_eq!(refused.expect_err("nobody listens").kind(), ErrorKind::ConnectionRefused);
        }
        let recording = finish(recording).0;
        let sent = points(&recording, &net.server, 5_602);
        // Before Linux 6.10 the kernel does not report a reset without a socket, and has no reasons.
        let reported = if recording.info.reset_reasons.is_empty() { 0 } else { 2 };
        assert_eq!(sent.len(), reported, "{sent:?}");
        for (hop, reason, error, at_server) in sent {
            assert_eq!((hop, error, at_server), (Hop::TcpSendReset, 0, true));
            assert_eq!(recording.info.reset_reason(reason), "no_socket");
        }
        let refused = libc::ECONNREFUSED.unsigned_abs();
        let received = [(Hop::TcpRecvReset, 0, 0, false), (Hop::TcpOpen, CLOSED, refused, false)];
        assert_eq!(points(&recording, &net.client, 5_602), [received, received].concat());
        // The kernel's own count: every reset that a host sent.
        assert_eq!(counter(&net.server, "Tcp", "OutRsts"), 2);
    });
}

#[test]
fn a_program_that_closes_without_lingering_resets_its_connection() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let net = Net::new();
        let recording = net.capture(hops(&POINTS));
        let Connection { client, server, .. } = Connection::open(&net, SERVER, 5_603);
        sockets::reset_at_close(&client);
        drop(client);
        waits::until("the server has the reset", || server.take_error().is_ok_and(|error| error.is_some()));
        let recording = finish(recording).0;
        let client: Vec<Point> = points(&recording, &net.client, 5_603);
        assert_eq!(client[0], (Hop::TcpOpen, ESTABLISHED, 0, false));
        assert_eq!(client.iter().map(|point| point.0).collect::<Vec<_>>(), [Hop::TcpOpen, Hop::TcpSendReset]);
        let server: Vec<Hop> = points(&recording, &net.server, 5_603).iter().map(|point| point.0).collect();
        assert_eq!(server, [Hop::TcpOpen, Hop::TcpRecvReset]);
    });
}

/// A SYN of an established connection's client, as a forger without its sequence numbers sends it.
fn forged_syn(from_port: u16, to_port: u16) -> Vec<u8> {
    let mut segment = [from_port.to_be_bytes(), to_port.to_be_bytes()].concat();
    segment.extend([0; 8]); // sequence and acknowledgement number
    segment.extend([0x50, 0x02, 0xff, 0xff, 0, 0, 0, 0]); // length of the header, SYN, window
    let addresses = [CLIENT, SERVER].map(|ip| ip.parse::<Ipv4Addr>().expect("an address").octets()).concat();
    let pseudo = [addresses, vec![0, libc::IPPROTO_TCP as u8, 0, segment.len() as u8]].concat();
    let words = pseudo.iter().chain(&segment).copied().collect::<Vec<u8>>();
    let sum: u32 = words.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
    segment[16..18].copy_from_slice(&checksum.to_be_bytes());
    let mut packet = sockets::ipv4_header(CLIENT, SERVER, libc::IPPROTO_TCP as u8, 7, 0, segment.len() as u16);
    packet.extend(segment);
    packet
}

#[test]
fn a_forged_syn_is_challenged_and_the_connection_goes_on() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let net = Net::new();
        let recording = net.capture(hops(&POINTS));
        if !recording.served.contains(Hop::TcpChallengeAck) {
            println!("skipped, because this kernel has neither fentry nor kprobes for tcp.challenge_ack");
            return;
        }
        let connection = Connection::open(&net, SERVER, 5_605);
        let port = connection.client.local_addr().expect("its end").port();
        let raw = net.client.run(|| sockets::raw(libc::AF_INET, libc::IPPROTO_RAW));
        let to = SocketAddrV4::new(SERVER.parse().expect("an address"), 0);
        net.client.run(|| sockets::send_raw(&raw, to, &forged_syn(port, 5_605)));
        let challenged = || counter(&net.server, "TcpExt", "TCPChallengeACK");
        waits::until("the server challenges it", || challenged() > 0);
        let recording = finish(recording).0;
        let server = points(&recording, &net.server, 5_605);
        assert_eq!(server, [(Hop::TcpOpen, ESTABLISHED, 0, true), (Hop::TcpChallengeAck, 0, 0, true)]);
        assert_eq!(challenged(), 1, "the kernel's own count");
    });
}

#[test]
fn a_lost_acknowledgement_leaves_a_connection_half_open() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let net = Net::new();
        let recording = net.capture(hops(&POINTS));
        let listener = listen(&net.server, SERVER, 5_604);
        if !drop_arrivals(&net.server, "tcp flags == ack") {
            return;
        }
        let client =
            net.client.run(|| TcpStream::connect(address(SERVER, 5_604)).expect("the SYN-ACK arrives"));
        let resent =
            || counter(&net.server, "TcpExt", "TCPSynRetrans") + counter(&net.server, "Tcp", "RetransSegs");
        waits::until("the server sends its SYN-ACK again", || resent() > 0);
        // The client's FIN would be the lost acknowledgement.
        let recording = finish(recording).0;
        drop((client, listener));
        let half_open = points(&recording, &net.server, 5_604);
        let synacks: Vec<&Point> = half_open.iter().filter(|point| point.0 == Hop::TcpSynack).collect();
        assert!(!synacks.is_empty(), "{half_open:?}");
        for (point, number) in synacks.iter().zip(1..) {
            assert_eq!(**point, (Hop::TcpSynack, number, 0, true));
        }
        assert!(half_open.iter().all(|point| point.0 != Hop::TcpOpen), "{half_open:?}");
        let client = points(&recording, &net.client, 5_604);
        assert_eq!(client.first(), Some(&(Hop::TcpOpen, ESTABLISHED, 0, false)));
    });
}
