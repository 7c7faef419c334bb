//! Datagrams to groups of IPv6, which carry no identification: every member has one journey of each, that takes no longer than the
//! programs noted themselves; and the kernel's own reports to groups are taken for no others.

use crate::common::{self, sockets, waits};

use common::{CLIENT, CLIENT6, Host, Net, Recording, address, can_capture, finish, undisturbed};
use magscope_core::journey::{Journey, Verdict};
use magscope_core::{Event, Flow, FlowId, Hop, Proto};
use magscope_probe::clock::monotonic_ns;
use magscope_probe::plan::full_hops;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::process::Command;
use std::time::Duration;

const DATAGRAMS: usize = 10;
/// Of each: all are as long.
const BYTES: usize = 200;
const PORT: u16 = 5241;

/// The index of the device on a host.
fn device(host: &Host) -> u32 {
    let output = host.run(|| Command::new("ip").args(["-o", "link", "show", "v0"]).output()).expect("iproute2");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_once(':').and_then(|(index, _)| index.trim().parse().ok()).expect("a device")
}

fn member(host: &Host, group: Ipv6Addr) -> UdpSocket {
    let device = device(host);
    let socket = host.run(|| sockets::bind_shared(address("::", PORT), &[libc::SO_REUSEADDR]));
    socket.join_multicast_v6(&group, device).expect("join");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
    socket
}

/// When a call began and when it had returned.
type Note = (u64, u64);

fn noted<T>(call: impl FnOnce() -> T) -> (T, Note) {
    let begin_ns = monotonic_ns();
    let done = call();
    (done, (begin_ns, monotonic_ns()))
}

/// Sends to the group and reads at every member: each datagram before the next, or all of them at once. What the sender noted, and
/// each member.
fn talk(net: &Net, group: Ipv6Addr, members: &[UdpSocket], at_once: bool) -> (Vec<Note>, Vec<Vec<Note>>) {
    let to = SocketAddrV6::new(group, PORT, 0, device(&net.client));
    let sender = net.client.run(|| UdpSocket::bind(address(CLIENT6, 0)).expect("bind"));
    let (mut sent, mut read) = (Vec::new(), vec![Vec::new(); members.len()]);
    let send = |sent: &mut Vec<Note>| {
        let (done, note) = noted(|| sender.send_to(&[7; BYTES], to));
        assert_eq!(done.expect("send"), BYTES);
        sent.push(note);
    };
    let receive = |read: &mut [Vec<Note>]| {
        for (member, notes) in members.iter().zip(read) {
            let (done, note) = noted(|| common::receive(member, &mut [0; 2 * BYTES]));
            assert_eq!(done.expect("recv"), BYTES);
            notes.push(note);
        }
    };
    for _ in 0..DATAGRAMS {
        send(&mut sent);
        if !at_once {
            receive(&mut read);
        }
    }
    for _ in 0..DATAGRAMS * usize::from(at_once) {
        receive(&mut read);
    }
    (sent, read)
}

fn of_group(group: &str, members_here: usize, members_there: usize, at_once: bool) {
    let (net, group) = (Net::new(), group.parse().expect("a group"));
    let mut recording = net.capture(full_hops());
    let here = (0..members_here).map(|_| member(&net.client, group));
    let there = (0..members_there).map(|_| member(&net.server, group));
    let members: Vec<UdpSocket> = here.chain(there).collect();
    let (sent, read) = talk(&net, group, &members, at_once);
    // The kernel reports a membership more than once, some time after the other.
    let is_report = |e: &&Event| e.proto == Proto::ICMPV6 && e.hop == Hop::DevXmit;
    let server = net.server.target.inode;
    let reports = |recording: &Recording| {
        let there = |e: &&Event| recording.flows.get(&e.flow.0).is_some_and(|f| f.netns == server);
        recording.events.iter().filter(is_report).filter(there).count()
    };
    waits::until("the second report is sent", || {
        recording.drain(Duration::from_millis(50));
        reports(&recording) >= 2
    });
    let (recording, _) = finish(recording);
    let (journeys, correlator) = recording.journeys();
    let to_group = |j: &&Journey| {
        let port = |flow: FlowId, of: fn(&Flow) -> u16| correlator.flow(flow).map(of);
        port(j.tx_flow, |f| f.remote.port()) == Some(PORT) || port(j.rx_flow, |f| f.local.port()) == Some(PORT)
    };
    let mine: Vec<&Journey> = journeys.iter().filter(to_group).collect();
    assert_eq!(mine.len(), DATAGRAMS * members.len(), "{mine:#?}");
    for journey in &mine {
        assert_eq!((journey.verdict, journey.bytes()), (Verdict::Complete, BYTES as u64), "{journey:#?}");
        assert_eq!(journey.disordered(), 0, "{journey:#?}");
    }
    // The n-th that was sent is the n-th that a member read.
    let mut found = BTreeSet::new();
    for (member, notes) in read.iter().enumerate() {
        for (n, ((begin_ns, _), (_, end_ns))) in sent.iter().zip(notes).enumerate() {
            let inside = |j: &&&Journey| {
                let at = |hop| j.rungs.time_ns(hop);
                let (out, read) = (at(Hop::IpOut), at(Hop::AppRecv));
                let (asked_ns, _) = notes[n];
                out.is_some_and(|ns| (sent[n].0..=sent[n].1).contains(&ns))
                    && read.is_some_and(|ns| (asked_ns..=*end_ns).contains(&ns))
            };
            let own: Vec<_> = mine.iter().filter(inside).collect();
            assert_eq!(own.len(), 1, "datagram {n} at member {member}: {own:#?}");
            assert!(own[0].total_ns().is_some_and(|ns| ns <= end_ns - begin_ns), "{:#?}", own[0]);
            assert!(found.insert(own[0].id), "each is of one datagram and one member: {:#?}", own[0]);
        }
    }
    let reports: Vec<&Journey> = journeys.iter().filter(|j| j.proto == Proto::ICMPV6).collect();
    assert!(!reports.is_empty());
    for report in reports.iter().filter(|j| j.verdict == Verdict::Complete) {
        let (Some(out_ns), Some(in_ns)) = (report.rungs.time_ns(Hop::DevXmit), report.rungs.time_ns(Hop::IpIn))
        else {
            continue;
        };
        let later = recording.events.iter().filter(is_report).filter(|e| e.flow == report.tx_flow);
        let later = later.filter(|e| e.time_ns > out_ns && e.time_ns < in_ns).count();
        assert_eq!(later, 0, "a report is received before the next is sent: {report:#?}");
    }
}

#[test]
fn a_member_has_one_journey_of_each_datagram_to_its_group() {
    if can_capture() {
        undisturbed(|| of_group("ff02::4242", 0, 1, false));
        undisturbed(|| of_group("ff05::4242", 0, 1, true));
    }
}

#[test]
fn members_on_both_hosts_have_each_their_journey_of_each_datagram() {
    if can_capture() {
        undisturbed(|| of_group("ff02::4243", 2, 1, false));
        undisturbed(|| of_group("ff05::4243", 2, 1, true));
    }
}

/// The sender's own host gets a copy of each, which no socket there wants: the kernel frees it, and nothing is lost.
#[test]
fn a_broadcast_that_its_own_host_ignores_is_dropped_nowhere() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let net = Net::new();
        let recording = net.capture(full_hops());
        let reader = net.server.run(|| UdpSocket::bind(("0.0.0.0", PORT)).expect("bind"));
        reader.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
        let sender = net.client.run(|| UdpSocket::bind(address(CLIENT, 0)).expect("bind"));
        sender.set_broadcast(true).expect("a socket");
        let SocketAddr::V4(own) = address(CLIENT, PORT) else { unreachable!("over IPv4") };
        let [a, b, c, _] = own.ip().octets();
        for _ in 0..DATAGRAMS {
            sender.send_to(&[7; BYTES], (Ipv4Addr::new(a, b, c, 255), PORT)).expect("send");
            assert_eq!(common::receive(&reader, &mut [0; 2 * BYTES]).expect("recv"), BYTES);
        }
        let (recording, _) = finish(recording);
        let (journeys, _) = recording.journeys();
        let mine = journeys.iter().filter(|j| j.proto == Proto::UDP && j.bytes() == BYTES as u64);
        let verdicts: Vec<Verdict> = mine.map(|journey| journey.verdict).collect();
        let names_reasons = !recording.info.drop_reasons.is_empty();
        if names_reasons {
            assert_eq!(verdicts, [Verdict::Complete; DATAGRAMS]);
        } else {
            println!("skipped, because this kernel gives no reasons for drops: a broadcast that is ignored");
        }
    });
}
