//! libpcap filter expressions, compared with a tcpdump that runs the same expression.

use crate::common;

use common::wire::Tcpdump;
use common::{CLIENT, Net, Pair, Recording, SERVER, can_capture_with, finish, hops, quiet, undisturbed};
use magscope_core::node::Ability;
use magscope_core::{CaptureFilter, Hop};
use magscope_probe::pcap::{PcapError, compile};
use magscope_probe::{CaptureOptions, Counters, Setting};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

fn there_is_libpcap() -> bool {
    match compile("ip") {
        Err(error @ (PcapError::NoLibrary(_) | PcapError::Static)) => {
            println!("skipped, because {error}");
            false
        }
        _ => true,
    }
}

/// Datagrams of two sizes and a connection, with its setup and teardown.
fn traffic(net: &Net) {
    Pair::new(net, CLIENT, SERVER, 5100).send(100, 300);
    Pair::new(net, CLIENT, SERVER, 5200).send(50, 900);
    let listener = net.server.run(|| TcpListener::bind((SERVER, 5300)).expect("bind"));
    let mut near = net.client.run(|| TcpStream::connect((SERVER, 5300)).expect("connect"));
    let (mut far, _) = listener.accept().expect("accept");
    let mut buffer = [0; 700];
    for _ in 0..40 {
        near.write_all(&[1; 700]).expect("send");
        far.read_exact(&mut buffer).expect("recv");
        far.write_all(&[2; 10]).expect("send");
        near.read_exact(&mut buffer[..10]).expect("recv");
    }
    drop(near);
    assert_eq!(far.read(&mut buffer).expect("the end"), 0);
}

/// Counts: accepted, filtered, undecided.
fn account(counters: &Counters, hop: Hop) -> [u64; 3] {
    let count = counters.hops.iter().find(|count| count.hop == hop);
    count.map_or([0; 3], |count| [count.kept, count.filtered, count.undecided])
}

#[test]
fn an_expression_keeps_what_tcpdump_keeps() {
    if !can_capture_with(&[Ability::Pcap]) || !there_is_libpcap() {
        return;
    }
    undisturbed(|| {
        let net = quiet();
        for (nth, text) in [
            "udp port 5100",
            "tcp port 5300 and net 10.78.0.0/24",
            "ip and not udp",
            "src host 10.78.0.1 and dst port 5200",
            "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
            "ip[2:2] > 500",
            "portrange 5000-5250 and not port 5100",
            // the first byte of payload, wherever the headers end
            "tcp[((tcp[12:1] & 0xf0) >> 2):1] = 1",
            "udp[8] = 7 and (ip[8] - 1) * 2 / 2 % 64 = 63",
            "ip6",
        ]
        .into_iter()
        .enumerate()
        {
            // a final marker packet shows that tcpdump has seen everything before it
            let both = format!("({text}) or udp port 9");
            let Some(tcpdump) = Tcpdump::start_with(&net.server, &format!("pcap-{nth}"), &["-Q", "in", &both])
            else {
                return;
            };
            // combined with a capture filter; both must accept
            let recording = net.capture_with(CaptureOptions {
                hops: hops(&[Hop::DevRecv]),
                filter: Some(CaptureFilter::parse("netns server").expect("a filter")),
                pcap: Some(text.to_owned()),
                ..CaptureOptions::default()
            });
            traffic(&net);
            let counters = finish(recording).1;
            let theirs = tcpdump.count(&net.client, SERVER);
            let [accepted, filtered, undecided] = account(&counters, Hop::DevRecv);
            assert_eq!((accepted, undecided), (theirs, 0), "{text}; {filtered} filtered");
            assert!(
                filtered > 0 && (accepted > 0 || text == "ip6"),
                "{text}: {accepted} kept, {filtered} filtered"
            );
        }
    });
}

#[test]
fn where_there_is_no_packet_its_headers_are_made_up_as_far_as_they_are_known() {
    if !can_capture_with(&[Ability::Pcap]) || !there_is_libpcap() {
        return;
    }
    undisturbed(|| {
        let net = quiet();
        for (text, hop, expected) in [
            ("udp port 5100", Hop::AppSend, [100, 50, 0]),
            ("src port 5101 and src net 10.78.0.0/24", Hop::AppSend, [100, 50, 0]),
            ("dst port 5100", Hop::AppRecv, [100, 50, 0]),
            ("src port 5100", Hop::AppRecv, [0, 150, 0]),
            ("tcp", Hop::AppSend, [0, 150, 0]),
            ("ip6 or port 5200", Hop::AppSend, [50, 100, 0]),
            // a call has no packet length, no flags and no payload
            ("greater 500", Hop::AppSend, [0, 0, 150]),
            ("udp port 5100 and udp[8] = 7", Hop::AppSend, [0, 50, 100]),
            ("udp[8] = 7", Hop::IpOut, [150, 0, 0]),
            ("udp[400] = 7", Hop::DevXmit, [0, 100, 50]),
            ("greater 500", Hop::UdpRecv, [50, 100, 0]),
        ] {
            let (one, two) = (Pair::new(&net, CLIENT, SERVER, 5100), Pair::new(&net, CLIENT, SERVER, 5200));
            let recording = net.capture_with(CaptureOptions {
                hops: hops(&[hop]),
                pcap: Some(text.to_owned()),
                ..CaptureOptions::default()
            });
            one.send(100, 300);
            two.send(50, 900);
            assert_eq!(account(&finish(recording).1, hop), expected, "{text} at {hop}");
        }
    });
}

#[test]
fn an_expression_is_changed_while_it_runs_and_a_wrong_one_changes_nothing() {
    if !can_capture_with(&[Ability::Pcap]) || !there_is_libpcap() {
        return;
    }
    undisturbed(|| {
        let net = quiet();
        let pair = Pair::new(&net, CLIENT, SERVER, 5400);
        let mut recording = net.capture(hops(&[Hop::DevXmit]));
        pair.send(10, 100);
        let change =
            |recording: &mut Recording, text: &str| recording.change(&text.parse::<Setting>().expect(text));
        change(&mut recording, "pcap port 1").expect("a change");
        pair.send(20, 100);
        let refused = change(&mut recording, "pcap port prot").expect_err("no expression").to_string();
        assert!(refused.contains("libpcap says: "), "{refused}");
        pair.send(5, 100);
        assert_eq!(recording.capture().in_force(), ["pcap port 1"]);
        change(&mut recording, "pcap port 5400").expect("a change");
        pair.send(30, 100);
        change(&mut recording, "pcap off").expect("a change");
        pair.send(40, 100);
        let counters = finish(recording).1;
        assert_eq!(account(&counters, Hop::DevXmit), [10 + 30 + 40, 20 + 5, 0]);
    });
}
