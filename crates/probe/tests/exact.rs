//! Exact counts on real sockets: every datagram at every hop once, every byte of a stream at every hop once.

use crate::common::{self, waits};

use common::sockets::tid;
use common::{CLIENT, CLIENT6, Net, Recording, SERVER, SERVER6, address, can_capture, finish, undisturbed};
use magscope_core::{Event, EventFlags, Hop};
use magscope_probe::CaptureOptions;
use magscope_probe::plan::full_hops;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::Duration;

const TX_PACKET: [Hop; 5] = [Hop::IpOut, Hop::IpPost, Hop::DevQueue, Hop::DevXmit, Hop::DevDone];
const RX_PACKET: [Hop; 3] = [Hop::DevRecv, Hop::IpPre, Hop::IpIn];

/// Sends `count` datagrams of `size` bytes from client to server, with at most `burst` unread.
fn datagrams(net: &Net, from: &str, to: &str, port: u16, count: usize, size: usize) {
    let server = net.server.run(|| UdpSocket::bind(address(to, port)).expect("bind"));
    server.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
    let client = net.client.run(|| UdpSocket::bind(address(from, 0)).expect("bind"));
    client.connect(address(to, port)).expect("connect");
    let (payload, mut buffer) = (vec![7u8; size], vec![0u8; 65536]);
    for _ in 0..count {
        assert_eq!(client.send(&payload).expect("send"), size);
        assert_eq!(common::receive(&server, &mut buffer).expect("recv"), size);
    }
}

/// Sends `total` bytes from client to server in writes of `chunk`, and closes.
fn stream(net: &Net, to: &str, port: u16, total: usize, chunk: usize) {
    let listener = net.server.run(|| TcpListener::bind(address(to, port)).expect("bind"));
    let reader = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().expect("accept");
        let (mut got, mut buffer) = (0, vec![0u8; 20_000]);
        loop {
            match peer.read(&mut buffer).expect("read") {
                0 => return got,
                n => got += n,
            }
        }
    });
    let mut client = net.client.run(|| TcpStream::connect(address(to, port)).expect("connect"));
    let payload = vec![3u8; chunk];
    let mut left = total;
    while left > 0 {
        let n = left.min(chunk);
        client.write_all(&payload[..n]).expect("write");
        left -= n;
    }
    drop(client);
    assert_eq!(reader.join().expect("reader"), total);
}

fn of_path(recording: &Recording, hop: Hop, netns: u32, port: u16) -> Vec<Event> {
    recording.at(hop, netns, port).into_iter().copied().collect()
}

fn udp_counts(from: &str, to: &str, port: u16) {
    const COUNT: usize = 500;
    const SIZE: usize = 700;
    let net = Net::new();
    let recording = net.capture(full_hops());
    datagrams(&net, from, to, port, COUNT, SIZE);
    let (recording, _) = finish(recording);

    let (client, server) = (net.client.target.inode, net.server.target.inode);
    for (hops, netns) in [(&TX_PACKET[..], client), (&RX_PACKET[..], server), (&[Hop::UdpRecv][..], server)] {
        for hop in hops.iter().filter(|h| recording.served.contains(**h)) {
            let events = of_path(&recording, *hop, netns, port);
            assert_eq!(events.len(), COUNT, "{hop}");
            assert!(events.iter().all(|e| e.len as usize == SIZE), "{hop}");
            let other = if netns == client { server } else { client };
            assert_eq!(recording.at(*hop, other, port).len(), 0, "{hop} on the wrong side");
        }
    }
    // the connected sender has a flow; the unconnected receiver has only its cookie
    let sends = of_path(&recording, Hop::AppSend, client, port);
    assert_eq!(sends.len(), COUNT);
    let own = std::process::id();
    assert!(sends.iter().all(|e| e.tgid == own));
    // recorded at the call if the function can be probed, else at the return; never a mixture
    let packets = of_path(&recording, Hop::IpOut, client, port);
    let at_return = sends[0].flags.contains(EventFlags::AT_RETURN);
    for (send, packet) in sends.iter().zip(&packets) {
        assert_eq!(send.flags.contains(EventFlags::AT_RETURN), at_return);
        assert_eq!(send.time_ns > packet.time_ns, at_return, "{send:?} {packet:?}");
    }
    let sockets: std::collections::HashSet<u64> =
        of_path(&recording, Hop::UdpRecv, server, port).iter().map(|e| e.socket).collect();
    assert_eq!(sockets.len(), 1, "one receiving socket");
    for hop in [Hop::SockReady, Hop::AppRecv] {
        let events: Vec<_> =
            recording.events.iter().filter(|e| e.hop == hop && sockets.contains(&e.socket)).collect();
        assert_eq!(events.len(), COUNT, "{hop}");
    }
}

#[test]
fn the_start_of_a_udp_send_is_seen_where_it_is_asked_for() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        if !magscope_probe::HostFacts::read().expect("facts").syscall_tracepoints {
            println!("skipped, because tracefs is not mounted");
            return;
        }
        let net = Net::new();
        let recording = net.capture([Hop::UdpSend, Hop::IpOut].into_iter().collect());
        datagrams(&net, CLIENT, SERVER, 5011, 200, 300);
        let (recording, _) = finish(recording);
        let sends = of_path(&recording, Hop::UdpSend, net.client.target.inode, 5011);
        let packets = of_path(&recording, Hop::IpOut, net.client.target.inode, 5011);
        assert_eq!((sends.len(), packets.len()), (200, 200));
        for (send, packet) in sends.iter().zip(&packets) {
            assert_eq!((send.len, send.tgid, send.tid), (300, std::process::id(), packet.tid));
            assert!(send.time_ns < packet.time_ns);
        }
    });
}

#[test]
fn every_udp_datagram_is_seen_once_at_every_hop_v4() {
    if can_capture() {
        undisturbed(|| {
            udp_counts(CLIENT, SERVER, 5001);
        });
    }
}

#[test]
fn every_udp_datagram_is_seen_once_at_every_hop_v6() {
    if can_capture() {
        undisturbed(|| {
            udp_counts(CLIENT6, SERVER6, 5002);
        });
    }
}

/// The union of what `events` cover, relative to `base`, as a list of touching ranges; `overlap` counts bytes twice.
fn union(events: &[Event], base: u32) -> (Vec<(u64, u64)>, u64) {
    let range = |e: &Event| {
        let start = u64::from(e.seq().wrapping_sub(base));
        (start, start + u64::from(e.len))
    };
    let mut ranges: Vec<_> = events.iter().filter(|e| e.len > 0).map(range).collect();
    ranges.sort_unstable();
    let (mut merged, mut overlap): (Vec<(u64, u64)>, u64) = (Vec::new(), 0);
    for (start, end) in ranges {
        match merged.last_mut() {
            Some(last) if start <= last.1 => {
                overlap += last.1.min(end) - start;
                last.1 = last.1.max(end);
            }
            _ => merged.push((start, end)),
        }
    }
    (merged, overlap)
}

fn tcp_covers(to: &str, port: u16, total: usize, chunk: usize) {
    let net = Net::new();
    let recording = net.capture(full_hops());
    stream(&net, to, port, total, chunk);
    let (recording, _) = finish(recording);

    let (client, server) = (net.client.target.inode, net.server.target.inode);
    let syn = of_path(&recording, Hop::IpOut, client, port).into_iter().find(|e| e.tcp_flags & 2 != 0);
    let base = syn.expect("the SYN was seen").seq();
    let whole = vec![(0, total as u64)];
    let retransmits = recording.at(Hop::TcpRetransmit, client, port).len();
    let sides = [
        (&[Hop::AppSend, Hop::TcpSend][..], client),
        (&TX_PACKET[..], client),
        (&RX_PACKET[..], server),
        (&[Hop::TcpRecv, Hop::AppCopy, Hop::AppRecv][..], server),
    ];
    for (hops, netns) in sides {
        for hop in hops.iter().filter(|h| recording.served.contains(**h)) {
            let events = of_path(&recording, *hop, netns, port);
            let (covered, overlap) = union(&events, base);
            assert_eq!(covered, whole, "{hop}: a hole");
            if *hop == Hop::TcpSend {
                continue; // the rest of a call is recorded again after a migration to another CPU
            }
            assert!(overlap == 0 || retransmits > 0, "{hop}: {overlap} bytes twice without a retransmission");
        }
    }
}

#[test]
fn every_byte_of_a_stream_is_seen_at_every_hop_v4() {
    if can_capture() {
        undisturbed(|| {
            tcp_covers(SERVER, 5003, 3_000_000, 100_000);
        });
    }
}

#[test]
fn every_byte_of_a_stream_is_seen_at_every_hop_v6() {
    if can_capture() {
        undisturbed(|| {
            tcp_covers(SERVER6, 5004, 3_000_000, 77_777);
        });
    }
}

#[test]
fn many_small_writes_are_covered_too() {
    if can_capture() {
        undisturbed(|| {
            tcp_covers(SERVER, 5005, 20_000, 10);
        });
    }
}

#[test]
fn two_flows_at_once_never_mix() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let net = Net::new();
        let recording = net.capture(full_hops());
        std::thread::scope(|scope| {
            scope.spawn(|| stream(&net, SERVER, 5006, 400_000, 1_000));
            scope.spawn(|| stream(&net, SERVER, 5007, 300_000, 3_000));
        });
        let (recording, _) = finish(recording);
        for (port, total) in [(5006, 400_000u64), (5007, 300_000)] {
            let events = of_path(&recording, Hop::AppRecv, net.server.target.inode, port);
            assert_eq!(events.iter().map(|e| u64::from(e.len)).sum::<u64>(), total);
            assert_eq!(events.iter().map(|e| e.socket).collect::<std::collections::HashSet<_>>().len(), 1);
            let sent = of_path(&recording, Hop::AppSend, net.client.target.inode, port);
            assert_eq!(sent.iter().map(|e| u64::from(e.len)).sum::<u64>(), total);
        }
    });
}

#[test]
fn loopback_is_seen_on_both_paths() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let net = Net::new();
        let recording = net.capture(full_hops());
        let socket = net.client.run(|| UdpSocket::bind("127.0.0.1:5008").expect("bind"));
        socket.connect("127.0.0.1:5008").expect("connect");
        for _ in 0..100 {
            socket.send(&[1; 50]).expect("send");
            common::receive(&socket, &mut [0; 100]).expect("recv");
        }
        let (recording, _) = finish(recording);
        for hop in TX_PACKET.iter().chain(&RX_PACKET).chain(&[Hop::UdpRecv, Hop::AppSend, Hop::AppRecv]) {
            assert_eq!(recording.at(*hop, net.client.target.inode, 5008).len(), 100, "{hop}");
        }
    });
}

#[test]
fn what_a_full_ring_loses_is_counted_to_the_last_event() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let net = Net::new();
        let options =
            CaptureOptions { hops: full_hops(), ring_bytes_per_cpu: 4096, ..CaptureOptions::default() };
        let mut recording = net.capture_with(options);
        for _ in 0..5 {
            // only `drain` reads meanwhile
            datagrams(&net, CLIENT, SERVER, 5009, 300, 100);
            recording.drain(Duration::from_millis(60));
        }
        let counters = recording.stop();
        assert!(counters.lost() > 0, "the ring was meant to be too small");
        assert_eq!(
            recording.numbered() + recording.outside() + recording.lost(),
            counters.hits,
            "seen + reported lost = hits"
        );
        assert_eq!(recording.lost(), counters.lost());
        let losses = recording.batches.iter().flat_map(|b| &b.losses).filter(|l| l.from_ns < l.to_ns).count();
        assert!(losses >= 4, "losses are told where they were, not once at the end: {losses}");
    });
}

#[test]
fn the_cost_of_a_hit_can_be_measured() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let facts = magscope_probe::HostFacts::read().expect("facts");
        let hops = [Hop::DevXmit, Hop::TcpRecv].into_iter().collect();
        let cost =
            magscope_probe::cost::measure(&facts, hops, 3).expect("measured").expect("the traffic passes here");
        // one UDP packet, one TCP segment and at most its acknowledgement, plus TCP's receive for the last two
        assert!((3.0..=5.0).contains(&cost.hits), "{cost:?}");
        assert!(cost.bare_ns > 0.0);
        let never = [Hop::TcpRetransmit].into_iter().collect();
        assert_eq!(magscope_probe::cost::measure(&facts, never, 1).expect("measured"), None);
    });
}

/// A hop that needs another program's state is served even if that program's hop is not requested.
#[test]
fn every_hop_can_be_captured_alone() {
    const COUNT: usize = 10;
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let alone = [
            Hop::AppSend,
            Hop::IpOut,
            Hop::IpPost,
            Hop::DevQueue,
            Hop::DevXmit,
            Hop::DevDone,
            Hop::DevRecv,
            Hop::IpPre,
            Hop::IpIn,
            Hop::UdpRecv,
            Hop::SockReady,
            Hop::AppRecv,
            Hop::TaskWake,
            Hop::TaskRun,
        ];
        for hop in alone {
            let net = Net::new();
            let recording = net.capture([hop].into_iter().collect());
            let server = net.server.run(|| UdpSocket::bind(address(SERVER, 5010)).expect("bind"));
            let client = net.client.run(|| UdpSocket::bind(address(CLIENT, 0)).expect("bind"));
            let (got, (named, name)) = (AtomicUsize::new(0), mpsc::channel());
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    named.send(tid()).expect("the sender waits");
                    for _ in 0..COUNT {
                        common::receive(&server, &mut [0; 100]).expect("recv");
                        got.fetch_add(1, SeqCst);
                    }
                });
                let reader = name.recv().expect("its number");
                for nth in 0..COUNT {
                    // the reader sleeps in recv each time, so that a wake-up occurs
                    waits::until("the reader has read all", || got.load(SeqCst) == nth);
                    waits::until_asleep(reader);
                    client.send_to(&[1; 50], address(SERVER, 5010)).expect("send");
                }
            });
            let (recording, _) = finish(recording);
            let seen = recording.events.iter().filter(|e| e.hop == hop).count();
            assert_eq!(recording.events.len(), seen, "{hop}: others came along");
            // Some kernels trace neither interrupts during their first process nor switches away from it.
            assert!(seen > COUNT / 2, "{hop} alone was seen {seen} times of {COUNT}");
        }
    });
}
