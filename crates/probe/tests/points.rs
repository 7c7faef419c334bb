//! Points of connections: attempts to connect that end, resets by either side, and SYN-ACKs that are sent again.

use crate::common;

use common::connection::{Connection, listen};
use common::counters::counter;
use common::disturb::drop_arrivals;
use common::{Host, Net, Recording, SERVER, SERVER6, address, can_capture, finish, hops, sockets, waits};
use magscope_core::{ConnectionState, Event, Hop};
use std::io::ErrorKind;
use std::net::TcpStream;

const POINTS: [Hop; 4] = [Hop::TcpSendReset, Hop::TcpRecvReset, Hop::TcpOpen, Hop::TcpSynack];

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
    let net = Net::new();
    let recording = net.capture(hops(&POINTS));
    for to in [SERVER, SERVER6] {
        drop(Connection::open(&net, to, 5_601));
    }
    let recording = finish(recording).0;
    let open = |at_server| vec![(Hop::TcpOpen, ESTABLISHED, 0, at_server); 2];
    assert_eq!(points(&recording, &net.client, 5_601), open(false));
    assert_eq!(points(&recording, &net.server, 5_601), open(true));
}

#[test]
fn a_closed_port_refuses_and_both_ends_show_it() {
    if !can_capture() {
        return;
    }
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
}

#[test]
fn a_program_that_closes_without_lingering_resets_its_connection() {
    if !can_capture() {
        return;
    }
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
}

#[test]
fn a_lost_acknowledgement_leaves_a_connection_half_open() {
    if !can_capture() {
        return;
    }
    let net = Net::new();
    let recording = net.capture(hops(&POINTS));
    let listener = listen(&net.server, SERVER, 5_604);
    if !drop_arrivals(&net.server, "tcp flags == ack") {
        return;
    }
    let client = net.client.run(|| TcpStream::connect(address(SERVER, 5_604)).expect("the SYN-ACK arrives"));
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
}
