//! Packets lost once or twice: the kernel reports the cause of each retransmission, and each is a copy of its
//! journey.

use crate::common;

use common::counters::counter;
use common::disturb::short_queue;
use common::{Host, Net, Recording, SERVER, can_capture, lost_nothing, undisturbed};
use magscope_core::blame::Blame;
use magscope_core::journey::{Journey, Resend, SentCopy, Verdict};
use magscope_core::{EventFlags, Hop, Proto};
use magscope_probe::plan::full_hops;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

/// Bytes of a message: with its headers, less than twice and more than half of what a quota below lets through.
const MESSAGE: usize = 1000;

fn nft(rules: &str) -> bool {
    Command::new("nft").arg(rules).output().is_ok_and(|output| output.status.success())
}

/// Drops matching packets on the host, up to `bytes` bytes; returns false if that is impossible.
fn drops(host: &Host, matches: &str, bytes: usize) -> bool {
    let rule = format!("add rule ip lossy in {matches} quota until {bytes} bytes drop");
    let chain = "add chain ip lossy in { type filter hook input priority 0; }";
    let done = host.run(|| nft("add table ip lossy") && nft(chain) && nft(&rule));
    if !done {
        println!("skipped, because nft cannot drop packets here");
    }
    done
}

/// Sends messages, each its own packet of one letter. Returns the recording, and the sender, because the end of
/// the stream may also be retransmitted.
fn send(net: &Net, port: u16, letters: &[u8]) -> (Recording, TcpStream) {
    let mut recording = net.capture(full_hops());
    let address = SocketAddr::new(SERVER.parse().expect("an address"), port);
    let listener = net.server.run(|| TcpListener::bind(address).expect("bind"));
    let mut all = vec![0; letters.len() * MESSAGE];
    let reader = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().expect("accept");
        peer.read_exact(&mut all).expect("read");
    });
    let mut client = net.client.run(|| TcpStream::connect(address).expect("connect"));
    client.set_nodelay(true).expect("a TCP socket");
    for letter in letters {
        client.write_all(&vec![*letter; MESSAGE]).expect("write");
    }
    reader.join().expect("reader");
    recording.drain(Duration::from_millis(200));
    recording.stop();
    lost_nothing(&recording);
    (recording, client)
}

/// The retransmitted journeys.
fn resent(recording: &Recording) -> Vec<Journey> {
    let (mut journeys, _) = recording.journeys();
    journeys.retain(|j| j.retransmits() > 0);
    journeys
}

/// Number of expired timers of the sender. After a long pause of the host, a timer may expire before the
/// acknowledgements arrive.
fn timers(net: &Net) -> u64 {
    ["TCPLossProbes", "TCPTimeouts"].iter().map(|name| counter(&net.client, "TcpExt", name)).sum()
}

/// The reported causes of retransmission; the number of each must equal the kernel's counter.
fn resends_in(net: &Net, recording: &Recording) -> Vec<Resend> {
    let reported = recording.events.iter().filter(|e| e.hop == Hop::TcpRetransmit);
    let reported: Vec<_> = reported.map(magscope_core::Event::resend_reason).collect();
    assert_eq!(reported.len() as u64, counter(&net.client, "Tcp", "RetransSegs"), "{reported:?}");
    let counters: [(Resend, &[&str]); 3] = [
        (Resend::Fast, &["TCPFastRetrans"]),
        (Resend::TailLossProbe, &["TCPLossProbes"]),
        (Resend::Timeout, &["TCPTimeouts", "TCPSlowStartRetrans"]),
    ];
    for (kind, names) in counters {
        let count = reported.iter().filter(|reported| **reported == kind).count() as u64;
        let counted: u64 = names.iter().map(|name| counter(&net.client, "TcpExt", name)).sum();
        assert_eq!(count, counted, "{kind}: {reported:?}");
    }
    reported
}

fn kinds(journey: &Journey) -> Vec<Resend> {
    journey.copies.iter().skip(1).map(|copy| copy.kind).collect()
}

/// The packet of the copy arrived, and the journey's hops are those of that copy.
fn made_good(journey: &Journey, copy: &SentCopy) {
    let path = [Hop::IpOut, Hop::DevXmit, Hop::DevRecv, Hop::TcpRecv];
    let times: Vec<_> = path.iter().filter_map(|hop| copy.rungs.time_ns(*hop)).collect();
    assert_eq!(times.len(), path.len(), "{journey:#?}");
    assert!(times.is_sorted() && !copy.ambiguous, "{journey:#?}");
    assert_eq!(journey.copy, copy.number, "{journey:#?}");
    assert!(path.iter().all(|hop| copy.rungs.time_ns(*hop) == journey.rungs.time_ns(*hop)), "{journey:#?}");
    assert!(copy.retransmit_ns > copy.rungs.time_ns(Hop::IpOut), "told of after it went out");
}

/// With timestamps, the default on Linux, the payload starts 32 bytes into the segment.
fn first_byte(letter: u8) -> String {
    format!("tcp dport 5131-5139 @th,256,8 {letter}")
}

#[test]
fn a_hole_in_the_middle_is_filled_by_a_fast_retransmission() {
    undisturbed(|| {
        let net = Net::new();
        if !can_capture() || !drops(&net.server, &first_byte(b'D'), MESSAGE * 3 / 2) {
            return;
        }
        let (recording, _client) = send(&net, 5131, b"AADBBBBBB");
        let resent = resent(&recording);
        assert!(!resent.is_empty(), "nothing was sent again");
        let (reported, timers) = (resends_in(&net, &recording), timers(&net));
        assert!(reported.contains(&Resend::Fast) || timers > 0, "{reported:?}");
        for journey in &resent {
            assert_eq!(journey.verdict, Verdict::Complete, "{journey:#?}");
            if timers == 0 {
                assert_eq!(kinds(journey), [Resend::Fast], "{journey:#?}");
                made_good(journey, &journey.copies[1]);
            }
        }
        let bytes = resent.iter().map(Journey::bytes).sum::<u64>();
        assert!(bytes == MESSAGE as u64 || timers > 0 && bytes > MESSAGE as u64, "{resent:#?}");
    });
}

#[test]
fn a_lost_tail_is_probed_and_then_waits_for_the_timer() {
    undisturbed(|| {
        let net = Net::new();
        if !can_capture() || !drops(&net.server, &first_byte(b'T'), MESSAGE * 5 / 2) {
            return;
        }
        let (recording, _client) = send(&net, 5132, b"AT");
        let (reported, resent) = (resends_in(&net, &recording), resent(&recording));
        assert_eq!(resent.iter().map(Journey::bytes).sum::<u64>(), MESSAGE as u64);
        for journey in &resent {
            assert_eq!(journey.verdict, Verdict::Complete, "{journey:#?}");
            let kinds = kinds(journey);
            assert_eq!(kinds, reported, "{journey:#?}");
            assert!(
                kinds == [Resend::TailLossProbe, Resend::Timeout] || timers(&net) > 2,
                "{kinds:?} {journey:#?}"
            );
            let (last, lost) = journey.copies.split_last().expect("a copy");
            for copy in lost {
                assert!(copy.rungs.has(Hop::DevRecv) && !copy.rungs.has(Hop::TcpRecv), "{journey:#?}");
            }
            made_good(journey, last);
        }
    });
}

#[test]
fn no_time_in_the_queue_is_of_two_copies() {
    undisturbed(|| {
        let net = Net::new();
        if !can_capture() || !short_queue(&net.client) {
            return;
        }
        let recording = bulk(&net, 5134);
        let resent = resent(&recording);
        let dropped = resent.iter().filter(|j| j.copies.iter().any(|copy| copy.dropped.is_some())).count();
        assert!(dropped > 0, "the queue threw nothing away that was sent again");
        let id_at = |hop: Hop, time_ns: u64| {
            recording.events.iter().find(|e| e.hop == hop && e.time_ns == time_ns).map(|e| (e.ip_id, e.segs))
        };
        let mut measured = 0;
        for journey in &resent {
            for latency in journey.latencies().filter(|l| (l.from, l.to) == (Hop::DevQueue, Hop::DevXmit)) {
                let queued = id_at(latency.from, latency.at_ns - latency.ns);
                let (Some((first, segs)), Some((sent, _))) = (queued, id_at(latency.to, latency.at_ns)) else {
                    panic!("{latency:?} is between no two events: {journey:#?}");
                };
                assert!(sent.wrapping_sub(first) < segs.max(1), "{latency:?} is of two packets: {journey:#?}");
                measured += 1;
            }
            let blame = Blame::of(journey, recording.served).map(|blame| blame.parts().map(|(_, ns)| ns).sum());
            assert_eq!(blame, journey.total_ns(), "{journey:#?}");
        }
        assert!(measured > 0);
        println!(
            "{} journeys sent again, {dropped} of them dropped in the queue, {measured} times in it",
            resent.len()
        );
    });
}

/// Sends enough to fill a window and returns the recording.
fn bulk(net: &Net, port: u16) -> Recording {
    const BYTES: usize = 4 << 20;
    let mut recording = net.capture(full_hops());
    let address = SocketAddr::new(SERVER.parse().expect("an address"), port);
    let listener = net.server.run(|| TcpListener::bind(address).expect("bind"));
    let reader = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().expect("accept");
        peer.read_exact(&mut vec![0; BYTES]).expect("read");
    });
    let mut client = net.client.run(|| TcpStream::connect(address).expect("connect"));
    let writer = std::thread::spawn(move || client.write_all(&vec![7; BYTES]).map(|()| client).expect("write"));
    while !reader.is_finished() {
        recording.drain(Duration::from_millis(50));
    }
    reader.join().expect("reader");
    let _client = writer.join().expect("writer");
    recording.drain(Duration::from_millis(200));
    recording.stop();
    lost_nothing(&recording);
    recording
}

#[test]
fn a_lost_syn_is_sent_again_by_the_timer_and_makes_no_journey() {
    undisturbed(|| {
        let net = Net::new();
        if !can_capture() || !drops(&net.server, "tcp dport 5133 tcp flags syn", 70) {
            return;
        }
        let (recording, _client) = send(&net, 5133, b"A");
        let reported: Vec<_> = recording.events.iter().filter(|e| e.hop == Hop::TcpRetransmit).collect();
        assert_eq!(reported.len(), 1, "{reported:#?}");
        let event = reported[0];
        assert_eq!((event.resend_reason(), event.len), (Resend::Timeout, 0));
        assert_eq!((event.tcp_flags & 2, event.flags.contains(EventFlags::PARTIAL)), (2, false));
        let (journeys, correlator) = recording.journeys();
        let tcp = journeys.iter().filter(|j| j.proto == Proto::TCP); // without neighbour discovery
        assert_eq!(tcp.map(Journey::bytes).sum::<u64>(), MESSAGE as u64);
        assert_eq!(correlator.counters().resets, 0);
    });
}
