//! Networks that lose, delay, reorder and duplicate packets. Every byte still belongs to one journey, and the
//! journeys balance with the counters of sockets, rules and queues.

use crate::common;

use common::account::Books;
use common::connection::Connection;
use common::counters::counter;
use common::disturb::{drop_arrivals, dropped_by_netem, dropped_by_rule, left_netem, netem, only_ipv4_of_ours};
use common::tcp_info::TcpInfo;
use common::{CLIENT, Net, Recording, SERVER, SERVER6, address, can_capture, finish, ip, undisturbed, waits};
use magscope_core::journey::{Correlator, Journey, Verdict};
use magscope_core::{Event, Hop};
use magscope_probe::plan::full_hops;
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::Duration;

/// Drops in the capture on a host, for the reason with this kernel name.
fn seen_drops(recording: &Recording, netns: u32, reason: &str) -> u64 {
    let is_it = |e: &&Event| {
        e.hop == Hop::SkbDrop
            && recording.flows.get(&e.flow.0).is_some_and(|f| f.netns == netns)
            && recording.info.drop_reason(e.drop_reason()) == reason
    };
    recording.events.iter().filter(is_it).count() as u64
}

/// Result of a disturbed connection.
struct Survived {
    net: Net,
    recording: Recording,
    client: TcpInfo,
    up: Vec<Journey>,
    /// Closed after all counting: a loss at its end would be counted but not captured.
    _connection: Connection,
}

/// Connects, disturbs the network with `disturb` and sends both ways until all data has arrived. Returns `None`
/// if the network cannot be disturbed here.
fn tcp_survives(
    to: &str,
    port: u16,
    sizes: (usize, usize),
    disturb: impl FnOnce(&Net, u16) -> bool,
) -> Option<Survived> {
    let net = Net::new();
    let mut recording = net.capture(full_hops());
    let connection = Connection::open(&net, to, port);
    if !disturb(&net, connection.from().port()) {
        return None;
    }
    let up = connection.upload((0..sizes.0 / 4_000).map(|_| 4_000), 30_000);
    let down = connection.download((0..sizes.1 / 2_500).map(|_| 2_500), 4_000);
    let (client, server) = settled(&connection, &mut recording);
    let recording = finish(recording).0;
    let books = Books::open(&recording);
    let (from, to) = (connection.from(), connection.to());
    let direction = books.one_direction(&net, from, to, true);
    direction.balances(up, &client, &server);
    let back = books.one_direction(&net, from, to, false);
    back.balances(down, &server, &client);
    assert_eq!(counter(&net.client, "Tcp", "RetransSegs"), u64::from(client.total_retrans));
    assert_eq!(counter(&net.server, "Tcp", "RetransSegs"), u64::from(server.total_retrans));
    assert_eq!(books.resent_bytes(), client.bytes_retrans + server.bytes_retrans);
    let up = direction.journeys;
    drop((back.journeys, books));
    Some(Survived { net, recording, client, up, _connection: connection })
}

/// Counters of both sockets once they change no more: a spurious retransmission may still be in flight after the
/// last acknowledgement.
fn settled(connection: &Connection, recording: &mut Recording) -> (TcpInfo, TcpInfo) {
    let segments = |(client, server): &(TcpInfo, TcpInfo)| {
        (client.segs_in, client.segs_out, server.segs_in, server.segs_out)
    };
    let mut counted = connection.counted();
    loop {
        recording.drain(Duration::from_millis(400));
        let later = connection.counted();
        if segments(&later) == segments(&counted) {
            return later;
        }
        counted = later;
    }
}

/// Number of retransmitted journeys.
fn resent(journeys: &[Journey]) -> usize {
    journeys.iter().filter(|j| j.retransmits() > 0).count()
}

#[test]
fn tcp_with_segments_lost_by_rule_v4() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let lossy = |net: &Net, _: u16| drop_arrivals(&net.server, "meta length > 500 numgen inc mod 9 == 4");
        let Some(survived) = tcp_survives(SERVER, 5401, (2_400_000, 100_000), lossy) else { return };
        let dropped = dropped_by_rule(&survived.net.server);
        assert!(dropped > 5, "{dropped} dropped");
        let netns = survived.net.server.target.inode;
        assert_eq!(seen_drops(&survived.recording, netns, "netfilter_drop"), dropped);
        assert!(survived.client.total_retrans > 0 && resent(&survived.up) > 0);
        // The rule dropped packets seen at `ip.pre`: each is a copy that ends there and must arrive again.
        let waited = |j: &&Journey| {
            let first = j.copies.first().map(|copy| copy.rungs);
            first.is_some_and(|rungs| rungs.has(Hop::IpPre) && !rungs.has(Hop::IpIn))
                && j.copy > 1
                && j.spans().any(|(_, span)| span.is_some_and(|span| span.is_wait))
        };
        assert!(survived.up.iter().any(|j| waited(&j)));
    });
}

#[test]
fn tcp_with_segments_lost_by_rule_v6() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let lossy = |net: &Net, _: u16| drop_arrivals(&net.server, "meta length > 500 numgen inc mod 7 == 2");
        let Some(survived) = tcp_survives(SERVER6, 5402, (600_000, 100_000), lossy) else { return };
        let netns = survived.net.server.target.inode;
        let dropped = dropped_by_rule(&survived.net.server);
        assert!(dropped > 5, "{dropped} dropped");
        assert_eq!(seen_drops(&survived.recording, netns, "netfilter_drop"), dropped);
        assert!(resent(&survived.up) > 0);
    });
}

#[test]
fn tcp_with_acknowledgements_lost_by_rule() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let lossy = |net: &Net, port: u16| {
            drop_arrivals(&net.client, &format!("tcp dport {port} meta length < 100 numgen inc mod 3 != 0"))
        };
        if let Some(survived) = tcp_survives(SERVER, 5403, (400_000, 100_000), lossy) {
            assert!(dropped_by_rule(&survived.net.client) > 5);
        }
    });
}

#[test]
fn tcp_over_a_link_that_goes_down_for_a_moment() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let net = Net::new();
        let mut recording = net.capture(full_hops());
        let connection = Connection::open(&net, SERVER, 5404);
        let (mut up, mut down) = (0, 0);
        for _ in 0..4 {
            std::thread::scope(|scope| {
                net.server.run(|| ip(&["link", "set", "v0", "down"]));
                let before = TcpInfo::of(&connection.client).bytes_sent;
                let (connection, net) = (&connection, &net);
                let again = scope.spawn(move || {
                    waits::until("a segment is lost", || TcpInfo::of(&connection.client).bytes_sent > before);
                    net.server.run(|| ip(&["link", "set", "v0", "up"]));
                });
                up += connection.upload([4_000; 300], 30_000);
                down += connection.download([2_500; 40], 4_000);
                again.join().expect("a link");
            });
        }
        let (client, server) = settled(&connection, &mut recording);
        let recording = finish(recording).0;
        let books = Books::open(&recording);
        let (from, to) = (connection.from(), connection.to());
        books.one_direction(&net, from, to, true).is_whole(up, &client, &server);
        books.one_direction(&net, from, to, false).is_whole(down, &server, &client);
        assert_eq!(books.resent_bytes(), client.bytes_sent - up + server.bytes_sent - down);
        assert!(client.bytes_sent > up || server.bytes_sent > down, "the link was meant to lose some");
    });
}

/// Sends `count` datagrams whose length is their number; returns the received numbers in order. `expected` is the
/// number that arrives of those sent so far, once nothing is under way.
fn numbered_datagrams(
    net: &Net,
    port: u16,
    count: usize,
    expected: impl Fn(usize) -> Option<usize>,
) -> Vec<usize> {
    let server = net.server.run(|| UdpSocket::bind(address(SERVER, port)).expect("bind"));
    server.set_nonblocking(true).expect("non-blocking");
    let client = net.client.run(|| UdpSocket::bind(address(CLIENT, 0)).expect("bind"));
    let payload = vec![0; count];
    let mut buffer = vec![0; count + 1];
    let mut read = Vec::new();
    for burst in (1..=count).collect::<Vec<_>>().chunks(20) {
        for length in burst {
            client.send_to(&payload[..*length], address(SERVER, port)).expect("send");
        }
        // the buffer never fills: an unread datagram was lost before it
        waits::until("each datagram arrives or is lost", || {
            while let Ok(length) = common::receive(&server, &mut buffer) {
                read.push(length);
            }
            expected(*burst.last().expect("a burst")) == Some(read.len())
        });
    }
    read
}

fn towards<'a>(journeys: &'a [Journey], correlator: &Correlator, port: u16) -> Vec<&'a Journey> {
    let is_it = |j: &&Journey| {
        correlator.flow(j.tx_flow).is_some_and(|f| f.remote.port() == port)
            || correlator.flow(j.rx_flow).is_some_and(|f| f.local.port() == port)
    };
    journeys.iter().filter(is_it).collect()
}

/// Datagrams lost in the network: each is one journey. Received ones are complete at their read time; the
/// others are dropped at hop `at` for the named reason.
fn datagrams_are_lost(recording: &Recording, port: u16, sent: usize, read: &[usize], at: Hop, reason: &str) {
    let (journeys, correlator) = recording.journeys();
    let mine = towards(&journeys, &correlator, port);
    assert_eq!(mine.len(), sent, "a datagram is a journey");
    let mut complete = Vec::new();
    for journey in mine {
        assert_eq!(journey.disordered(), 0, "{journey:?}");
        assert!(!journey.ambiguous, "{journey:?}");
        match journey.verdict {
            Verdict::Complete => complete.push(journey),
            Verdict::Dropped { hop, reason: why } => {
                assert_eq!((hop, recording.info.drop_reason(why).as_str()), (at, reason), "{journey:?}");
            }
            other => panic!("{other:?}: {journey:?}"),
        }
    }
    complete.sort_by_key(|j| j.rungs.time_ns(Hop::AppRecv));
    assert_eq!(complete.iter().map(|j| j.bytes() as usize).collect::<Vec<_>>(), read);
}

#[test]
fn datagrams_lost_by_rule() {
    undisturbed(|| {
        const COUNT: usize = 400;
        if !can_capture() {
            return;
        }
        let net = Net::new();
        let recording = net.capture(full_hops());
        if !drop_arrivals(&net.server, "udp dport 5405 numgen inc mod 7 == 3") {
            return;
        }
        let dropped = || dropped_by_rule(&net.server) as usize;
        let read = numbered_datagrams(&net, 5405, COUNT, |sent| sent.checked_sub(dropped()));
        let recording = finish(recording).0;
        assert_eq!(read.len() + dropped(), COUNT);
        datagrams_are_lost(&recording, 5405, COUNT, &read, Hop::IpPre, "netfilter_drop");
    });
}

/// TCP with netem options in both directions.
fn tcp_over_netem(to: &str, port: u16, options: &[&str]) -> Option<Survived> {
    let spoilt = |net: &Net, _: u16| {
        if !to.contains(':') {
            only_ipv4_of_ours(net);
        }
        netem(&net.client, options) && netem(&net.server, options)
    };
    tcp_survives(to, port, (160_000, 60_000), spoilt)
}

#[test]
fn netem_tcp_with_loss() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let Some(survived) = tcp_over_netem(SERVER, 5411, &["delay", "5ms", "loss", "5%"]) else { return };
        for host in [&survived.net.client, &survived.net.server] {
            let dropped = dropped_by_netem(host);
            assert_eq!(seen_drops(&survived.recording, host.target.inode, "qdisc_drop"), dropped);
        }
        // a byte lost in netem was queued at the device and delivered only by a retransmission
        let lost = survived.up.iter().filter(|j| j.retransmits() > 0);
        for journey in lost {
            assert!(journey.rungs.has(Hop::DevQueue) && journey.rungs.has(Hop::DevRecv), "{journey:?}");
        }
    });
}

#[test]
fn netem_tcp_with_delay() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let Some(survived) = tcp_over_netem(SERVER6, 5412, &["delay", "20ms"]) else { return };
        // netem's delay is the minimum time between queue and driver
        for journey in &survived.up {
            let waited = journey.rungs.time_ns(Hop::DevXmit).zip(journey.rungs.time_ns(Hop::DevQueue));
            assert!(waited.is_some_and(|(left, queued)| left - queued >= 20_000_000), "{journey:?}");
        }
    });
}

#[test]
fn netem_tcp_with_reordering() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        tcp_over_netem(SERVER, 5413, &["delay", "10ms", "reorder", "25%", "50%"]);
    });
}

#[test]
fn netem_tcp_with_duplicates() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let Some(survived) = tcp_over_netem(SERVER, 5414, &["delay", "3ms", "duplicate", "20%"]) else {
            return;
        };
        let of = |hop: Hop| survived.recording.events.iter().filter(move |e| e.hop == hop && e.len > 0).count();
        assert!(of(Hop::DevXmit) > of(Hop::DevQueue), "netem was meant to double some");
        assert!(resent(&survived.up) as u32 <= survived.client.total_retrans, "a double is no retransmission");
    });
}

#[test]
fn netem_tcp_with_everything() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        tcp_over_netem(
            SERVER,
            5415,
            &["delay", "8ms", "2ms", "loss", "2%", "duplicate", "3%", "reorder", "10%", "25%"],
        );
    });
}

#[test]
fn netem_udp_with_loss() {
    undisturbed(|| {
        const COUNT: usize = 300;
        if !can_capture() {
            return;
        }
        let net = Net::new();
        only_ipv4_of_ours(&net);
        let recording = net.capture(full_hops());
        if !netem(&net.client, &["delay", "2ms", "loss", "10%"]) {
            return;
        }
        let dropped = || dropped_by_netem(&net.client) as usize;
        let read = numbered_datagrams(&net, 5416, COUNT, |sent| sent.checked_sub(dropped()));
        let recording = finish(recording).0;
        assert!(dropped() > 0);
        assert_eq!(read.len() + dropped(), COUNT);
        datagrams_are_lost(&recording, 5416, COUNT, &read, Hop::DevQueue, "qdisc_drop");
    });
}

#[test]
fn netem_udp_out_of_order() {
    undisturbed(|| {
        const COUNT: usize = 300;
        if !can_capture() {
            return;
        }
        let net = Net::new();
        only_ipv4_of_ours(&net);
        let recording = net.capture(full_hops());
        if !netem(&net.client, &["delay", "5ms", "reorder", "30%", "50%"]) {
            return;
        }
        let read = numbered_datagrams(&net, 5417, COUNT, Some);
        let recording = finish(recording).0;
        assert_eq!(read.len(), COUNT);
        assert!(!read.is_sorted(), "netem was meant to reorder some");
        datagrams_are_lost(&recording, 5417, COUNT, &read, Hop::DevQueue, "none is");
    });
}

/// Each sent datagram is one journey that its first arrival completes. A duplicate makes no second journey of
/// the same sender.
#[test]
fn netem_udp_doubled() {
    undisturbed(|| {
        const COUNT: usize = 300;
        if !can_capture() {
            return;
        }
        let net = Net::new();
        only_ipv4_of_ours(&net);
        let recording = net.capture(full_hops());
        if !netem(&net.client, &["delay", "2ms", "duplicate", "20%"]) {
            return;
        }
        // netem counts a double where it leaves
        let left = |sent| left_netem(&net.client).filter(|left| *left >= sent);
        let read = numbered_datagrams(&net, 5418, COUNT, left);
        let recording = finish(recording).0;
        assert!(read.len() > COUNT, "netem was meant to double some");
        let (journeys, correlator) = recording.journeys();
        let mut of_length: BTreeMap<u64, usize> = BTreeMap::new();
        for journey in towards(&journeys, &correlator, 5418) {
            assert_eq!(journey.disordered(), 0, "{journey:?}");
            if journey.rungs.has(Hop::IpOut) {
                assert_eq!(journey.verdict, Verdict::Complete, "{journey:?}");
                *of_length.entry(journey.bytes()).or_default() += 1;
            }
        }
        assert_eq!(of_length, (1..=COUNT as u64).map(|length| (length, 1)).collect());
    });
}
