//! Correlation of real traffic gives the true journeys.

use crate::common;

use common::counters::counter;
use common::sockets::tid;
use common::tcp_info::TcpInfo;
use common::waits;
use common::{CLIENT, CLIENT6, Net, SERVER, SERVER6, address, can_capture, finish, undisturbed};
use magscope_core::journey::{Correlator, Journey, Verdict};
use magscope_core::{FlowId, Hop, Proto};
use magscope_probe::plan::{default_hops, full_hops};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::Duration;

/// Journeys whose sender's or receiver's flow has `port` as the remote or local port respectively.
fn towards(journeys: &[Journey], correlator: &Correlator, port: u16) -> Vec<Journey> {
    let to_port = |j: &&Journey| {
        let flow = |id: FlowId| correlator.flow(id);
        flow(j.tx_flow).is_some_and(|f| f.remote.port() == port)
            || flow(j.rx_flow).is_some_and(|f| f.local.port() == port)
    };
    journeys.iter().filter(to_port).cloned().collect()
}

fn rung(journey: &Journey, hop: Hop) -> u64 {
    journey.rung(hop).unwrap_or_else(|| panic!("{hop} is missing in {journey:?}")).time_ns
}

fn udp_journeys(from: &str, to: &str, port: u16) {
    const COUNT: usize = 300;
    let net = Net::new();
    let recording = net.capture(full_hops());
    let server = net.server.run(|| UdpSocket::bind(address(to, port)).expect("bind"));
    let client = net.client.run(|| UdpSocket::bind(address(from, 0)).expect("bind"));
    for i in 0..COUNT {
        // different sizes reveal a confusion of two datagrams
        client.send_to(&vec![0; 100 + i % 7], address(to, port)).expect("send");
        common::receive(&server, &mut [0; 2000]).expect("recv");
    }
    let recording = finish(recording).0;
    let (journeys, correlator) = recording.journeys();
    let mine = towards(&journeys, &correlator, port);
    assert_eq!(mine.len(), COUNT);
    let mut sizes: Vec<u64> = mine.iter().map(Journey::bytes).collect();
    let mut expected: Vec<u64> = (0..COUNT).map(|i| 100 + i as u64 % 7).collect();
    sizes.sort_unstable();
    expected.sort_unstable();
    assert_eq!(sizes, expected);
    for journey in &mine {
        assert_eq!(journey.verdict, Verdict::Complete, "{journey:?}");
        assert!(!journey.tx_flow.is_none() && !journey.rx_flow.is_none(), "both halves joined");
        let up = [Hop::IpOut, Hop::IpPost, Hop::DevQueue, Hop::DevXmit, Hop::DevRecv, Hop::IpPre, Hop::IpIn];
        let last = [Hop::UdpRecv, Hop::SockReady, Hop::AppRecv];
        let times: Vec<u64> = up.iter().chain(&last).map(|hop| rung(journey, *hop)).collect();
        assert!(times.is_sorted(), "time runs up the ladder: {times:?}");
    }
}

#[test]
fn udp_datagrams_become_whole_journeys_v4() {
    if can_capture() {
        undisturbed(|| {
            udp_journeys(CLIENT, SERVER, 5101);
        });
    }
}

#[test]
fn udp_datagrams_become_whole_journeys_v6() {
    if can_capture() {
        undisturbed(|| {
            udp_journeys(CLIENT6, SERVER6, 5102);
        });
    }
}

fn tcp_journeys(to: &str, port: u16, total: usize, chunk: usize, buffer: usize) {
    let net = Net::new();
    let recording = net.capture(full_hops());
    let listener = net.server.run(|| TcpListener::bind(address(to, port)).expect("bind"));
    let reader = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().expect("accept");
        let mut buffer = vec![0; buffer];
        while peer.read(&mut buffer).expect("read") > 0 {}
    });
    let mut client = net.client.run(|| TcpStream::connect(address(to, port)).expect("connect"));
    for _ in 0..total / chunk {
        client.write_all(&vec![1; chunk]).expect("write");
    }
    drop(client);
    reader.join().expect("reader");
    let recording = finish(recording).0;
    let (journeys, correlator) = recording.journeys();
    let mut mine = towards(&journeys, &correlator, port);
    mine.sort_by_key(|j| j.range.start);
    assert!(mine.iter().all(|j| j.proto == Proto::TCP));
    // no hole and no overlap: each journey begins where the one before ends
    let first = mine.first().expect("journeys").range.start;
    let mut at = first;
    for journey in &mine {
        assert_eq!(journey.range.start, at, "a hole or an overlap");
        at = journey.range.end;
        assert_eq!(journey.verdict, Verdict::Complete, "{journey:?}");
        for hop in
            [Hop::TcpSend, Hop::IpOut, Hop::DevXmit, Hop::DevRecv, Hop::TcpRecv, Hop::AppCopy, Hop::AppRecv]
        {
            // `tcp.send` has a tracepoint on some kernels only
            assert_eq!(journey.rungs.has(hop), recording.served.contains(hop), "{hop}: {journey:?}");
        }
        assert!(journey.sender.is_some_and(|who| who.tgid == std::process::id()), "{journey:?}");
        let (sent, left) = (rung(journey, Hop::IpOut), rung(journey, Hop::DevXmit));
        let (came, read) = (rung(journey, Hop::DevRecv), rung(journey, Hop::AppRecv));
        assert!(sent <= left && left <= came && came <= read, "{journey:?}");
    }
    assert_eq!(at - first, total as u64);
}

#[test]
fn a_stream_is_cut_into_whole_journeys_v4() {
    if can_capture() {
        undisturbed(|| {
            tcp_journeys(SERVER, 5103, 2_000_000, 100_000, 30_000);
        });
    }
}

#[test]
fn a_stream_is_cut_into_whole_journeys_v6() {
    if can_capture() {
        undisturbed(|| {
            tcp_journeys(SERVER6, 5104, 2_000_000, 50_000, 70_000);
        });
    }
}

#[test]
fn small_writes_are_journeys_of_their_own() {
    if can_capture() {
        undisturbed(|| {
            tcp_journeys(SERVER, 5105, 30_000, 30, 4_000);
        });
    }
}

#[test]
fn a_reader_that_sleeps_shows_between_ready_and_read() {
    undisturbed(|| {
        const SLEEP: Duration = Duration::from_millis(30);
        if !can_capture() {
            return;
        }
        let net = Net::new();
        let recording = net.capture(default_hops());
        let port = 5106;
        let listener = net.server.run(|| TcpListener::bind(address(SERVER, port)).expect("bind"));
        let mut client = net.client.run(|| TcpStream::connect(address(SERVER, port)).expect("connect"));
        let (mut peer, _) = listener.accept().expect("accept");
        for nth in 1..=5 {
            client.write_all(&[1; 100]).expect("write");
            waits::until("the data arrive", || TcpInfo::of(&peer).bytes_received == nth * 100);
            std::thread::sleep(SLEEP);
            assert_eq!(peer.read(&mut [0; 200]).expect("read"), 100);
        }
        let recording = finish(recording).0;
        let (journeys, correlator) = recording.journeys();
        let mine = towards(&journeys, &correlator, port);
        assert_eq!(mine.len(), 5);
        for journey in &mine {
            let slept = rung(journey, Hop::AppRecv) - rung(journey, Hop::SockReady);
            assert!(slept >= SLEEP.as_nanos() as u64, "{slept} ns");
            assert!(journey.rung(Hop::TaskWake).is_none(), "nobody waited in recv, so nobody was woken");
        }
    });
}

#[test]
fn a_reader_that_waits_in_recv_shows_its_wake_up_and_its_run() {
    const COUNT: u64 = 20;
    const BYTES: u64 = 100;
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let net = Net::new();
        let recording = net.capture(default_hops());
        let port = 5107;
        let listener = net.server.run(|| TcpListener::bind(address(SERVER, port)).expect("bind"));
        let mut client = net.client.run(|| TcpStream::connect(address(SERVER, port)).expect("connect"));
        let (mut peer, _) = listener.accept().expect("accept");
        let (got, (named, name)) = (AtomicU64::new(0), mpsc::channel());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                named.send(tid()).expect("the sender waits");
                while got.load(SeqCst) < BYTES * COUNT {
                    let bytes = peer.read(&mut [0; 200]).expect("read") as u64;
                    got.fetch_add(bytes, SeqCst);
                }
            });
            let reader = name.recv().expect("its number");
            for nth in 0..COUNT {
                // then the reader waits for these bytes, and nothing else wakes it
                waits::until("the reader has read all", || got.load(SeqCst) == nth * BYTES);
                waits::until_asleep(reader);
                client.write_all(&[1; BYTES as usize]).expect("write");
            }
        });
        let recording = finish(recording).0;
        let (journeys, correlator) = recording.journeys();
        let mine = towards(&journeys, &correlator, port);
        assert_eq!(mine.len() as u64, COUNT);
        // Some kernels trace no switch away from their first process: a reader that takes its CPU has no run.
        let order = [Hop::SockReady, Hop::TaskWake, Hop::TaskRun, Hop::AppRecv];
        for journey in &mine {
            let times: Vec<u64> = order.iter().filter_map(|hop| Some(journey.rung(*hop)?.time_ns)).collect();
            assert!(times.is_sorted(), "{times:?}");
        }
        let is_whole = |journey: &&Journey| order.iter().all(|hop| journey.rung(*hop).is_some());
        let whole = mine.iter().filter(is_whole).count() as u64;
        assert!(whole > COUNT / 2, "{whole} of {COUNT} have a wake-up and a run: {mine:#?}");
    });
}

#[test]
fn what_a_full_receive_buffer_drops_is_told_with_the_kernels_reason_and_its_own_count() {
    undisturbed(|| {
        const COUNT: usize = 2_000;
        if !can_capture() {
            return;
        }
        let net = Net::new();
        let recording = net.capture(full_hops());
        let port = 5108;
        let before = counter(&net.server, "Udp", "RcvbufErrors");
        let server = net.server.run(|| UdpSocket::bind(address(SERVER, port)).expect("bind"));
        let client = net.client.run(|| UdpSocket::bind(address(CLIENT, 0)).expect("bind"));
        for _ in 0..COUNT {
            client.send_to(&[0; 1000], address(SERVER, port)).expect("send");
        }
        server.set_nonblocking(true).expect("non-blocking");
        let (mut read, mut dropped) = (0, 0);
        waits::until("each datagram is read or dropped", || {
            while common::receive(&server, &mut [0; 2000]).is_ok() {
                read += 1;
            }
            dropped = (counter(&net.server, "Udp", "RcvbufErrors") - before) as usize;
            read + dropped == COUNT
        });
        assert!(dropped > 100, "{read} read, {dropped} dropped");

        let recording = finish(recording).0;
        let (journeys, correlator) = recording.journeys();
        let mine = towards(&journeys, &correlator, port);
        assert_eq!(mine.len(), COUNT);
        let mut gone = 0;
        for journey in &mine {
            match journey.verdict {
                Verdict::Complete => {}
                Verdict::Dropped { hop, reason } => {
                    gone += 1;
                    assert_eq!(hop, Hop::UdpRecv, "{journey:?}");
                    assert_eq!(recording.info.drop_reason(reason), "socket_rcvbuff");
                }
                other => panic!("{other:?}: {journey:?}"),
            }
        }
        assert_eq!(gone, dropped, "the kernel's own counter");
        let full = recording.events.iter().filter(|e| e.hop == Hop::SockFull).count();
        assert_eq!(full, dropped, "sock.full");
    });
}
