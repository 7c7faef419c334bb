//! Filters and samplers in the kernel: the numbers of accepted and rejected events equal the kernel's own
//! counters exactly.

use crate::common::{self, waits};

use common::counters::counter;
use common::{
    CLIENT, CLIENT6, Net, Pair, Recording, SERVER, SERVER6, can_capture, can_capture_with, finish, hops, quiet,
    undisturbed,
};
use magscope_core::journey::{Correlator, Journey, Limits, Verdict};
use magscope_core::node::Ability;
use magscope_core::{CaptureFilter, Event, Hop, HopCount, Proto};
use magscope_probe::{CaptureOptions, Counters, HostFacts, Sampler, Setting, default_hops, plan};
use magscope_report::ReportBuilder;
use rustix::net::sockopt;
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::Duration;

fn filter(text: &str) -> CaptureFilter {
    CaptureFilter::parse(text).expect(text)
}

fn of(counters: &Counters, hop: Hop) -> HopCount {
    let none = HopCount { time_ns: 0, hop, kept: 0, filtered: 0, undecided: 0, sampled: 0, synthesised: 0 };
    counters.hops.iter().find(|count| count.hop == hop).copied().unwrap_or(none)
}

/// Counts: accepted, filtered, undecided, sampled.
fn account(counters: &Counters, hop: Hop) -> [u64; 4] {
    let count = of(counters, hop);
    [count.kept, count.filtered, count.undecided, count.sampled]
}

/// Two pairs of sockets send 100 and 50 datagrams of 300 and 900 bytes.
fn traffic(net: &Net, second: [&str; 2]) {
    let (one, two) = (Pair::new(net, CLIENT, SERVER, 5100), Pair::new(net, second[0], second[1], 5200));
    one.send(100, 300);
    two.send(50, 900);
}

const SECOND: [&str; 2] = ["10.78.1.1", "10.78.1.2"];

/// Two hosts with two addresses each.
fn of_two_addresses() -> Net {
    let net = quiet();
    for (host, address) in [&net.client, &net.server].into_iter().zip(SECOND) {
        host.run(|| common::ip(&["addr", "add", &format!("{address}/24"), "dev", "v0"]));
    }
    net
}

#[test]
fn each_filter_keeps_what_it_says_and_counts_the_rest() {
    if !can_capture_with(&[Ability::Filter]) {
        return;
    }
    undisturbed(|| {
        let net = of_two_addresses();
        let (client, server) = (net.client.target.inode, net.server.target.inode);
        let at = [Hop::AppSend, Hop::IpOut, Hop::DevXmit, Hop::DevRecv, Hop::IpIn, Hop::UdpRecv, Hop::AppRecv];
        let mut recording = net.capture_with(CaptureOptions {
            hops: hops(&at),
            filter: Some(filter("port 1")),
            ..CaptureOptions::default()
        });
        for (text, hop, expected) in [
            ("port 5100", Hop::DevXmit, [100, 50, 0, 0]),
            ("port 5100-5101", Hop::DevXmit, [100, 50, 0, 0]),
            ("not port 5100", Hop::DevXmit, [50, 100, 0, 0]),
            ("sport 5101", Hop::DevXmit, [100, 50, 0, 0]),
            ("sport 5100", Hop::DevXmit, [0, 150, 0, 0]),
            ("dport 5100", Hop::DevRecv, [100, 50, 0, 0]),
            ("host 10.78.0.0/24", Hop::IpIn, [100, 50, 0, 0]),
            ("src 10.78.0.1", Hop::DevRecv, [100, 50, 0, 0]),
            ("dst 10.78.0.1", Hop::DevRecv, [0, 150, 0, 0]),
            ("host 10.78.1.0/24", Hop::AppSend, [50, 100, 0, 0]),
            ("src 10.78.1.1/32", Hop::UdpRecv, [50, 100, 0, 0]),
            ("udp", Hop::IpOut, [150, 0, 0, 0]),
            ("tcp", Hop::IpOut, [0, 150, 0, 0]),
            ("len > 300", Hop::DevXmit, [50, 100, 0, 0]),
            ("len 300 or len 900", Hop::DevRecv, [150, 0, 0, 0]),
            ("tx", Hop::DevXmit, [150, 0, 0, 0]),
            ("tx", Hop::DevRecv, [0, 150, 0, 0]),
            ("hop = dev.recv and port 5200", Hop::DevRecv, [50, 100, 0, 0]),
            ("hop != dev.recv", Hop::DevRecv, [0, 150, 0, 0]),
            ("iface v0", Hop::DevXmit, [150, 0, 0, 0]),
            ("not iface v0", Hop::DevRecv, [0, 150, 0, 0]),
            ("iface v0", Hop::AppSend, [0, 0, 150, 0]),
            ("not iface v0", Hop::AppSend, [0, 0, 150, 0]),
            ("iface v0 or port 5100", Hop::AppSend, [100, 0, 50, 0]),
            ("cpu 0-1023", Hop::DevXmit, [150, 0, 0, 0]),
            ("cpu 1023", Hop::DevXmit, [0, 150, 0, 0]),
            ("netns client", Hop::DevXmit, [150, 0, 0, 0]),
            ("netns server", Hop::DevXmit, [0, 150, 0, 0]),
            (
                "port 5100 and (len < 300 or host 10.78.1.1) or (port 5200 and not len 1)",
                Hop::DevXmit,
                [50, 100, 0, 0],
            ),
            (&format!("netns {client}"), Hop::AppSend, [150, 0, 0, 0]),
            (&format!("netns {server}"), Hop::AppRecv, [150, 0, 0, 0]),
        ] {
            recording.change(&Setting::Filter(Some(filter(text)))).expect(text);
            let mut counters = || recording.capture().counters().expect("counters");
            let before = account(&counters(), hop);
            traffic(&net, SECOND);
            let after = account(&counters(), hop);
            let became: Vec<u64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
            assert_eq!(became, expected, "{text} at {hop}");
        }
        finish(recording);
    });
}

/// Outcome counts of the traffic at a hop with an initial filter.
fn counted(net: &Net, second: [&str; 2], text: &str, hop: Hop) -> [u64; 4] {
    let options =
        CaptureOptions { hops: hops(&[hop]), filter: Some(filter(text)), ..CaptureOptions::default() };
    let recording = net.capture_with(options);
    traffic(net, second);
    let (_, counters) = finish(recording);
    account(&counters, hop)
}

#[test]
fn a_process_is_known_where_it_is_at_work_and_where_its_sockets_are_remembered() {
    if !can_capture_with(&[Ability::Filter]) {
        return;
    }
    undisturbed(|| {
        let net = of_two_addresses();
        let own = std::process::id();
        let thread = std::fs::read_to_string("/proc/thread-self/comm").expect("a name");
        let facts = HostFacts::read().expect("facts");
        // If app.send is recorded at its return, the first datagram of each socket is sent before its process
        // is recorded.
        let at_return =
            plan(&facts, hops(&[Hop::AppSend])).probes.iter().any(|probe| probe.point == "sock_send_length");
        let first = if at_return { 2 } else { 0 };
        for (text, hop, expected) in [
            (format!("tgid {own}"), Hop::AppSend, [150, 0, 0, 0]),
            (format!("not tgid {own}"), Hop::AppRecv, [0, 150, 0, 0]),
            ("uid root".to_owned(), Hop::AppSend, [150, 0, 0, 0]),
            ("uid 65534".to_owned(), Hop::AppSend, [0, 150, 0, 0]),
            (format!("comm \"{}\"", thread.trim()), Hop::AppSend, [150, 0, 0, 0]),
            ("comm no-such".to_owned(), Hop::AppSend, [0, 150, 0, 0]),
            (format!("tgid {own}"), Hop::DevXmit, [150 - first, 0, first, 0]),
            (format!("not tgid {own}"), Hop::DevXmit, [0, 150 - first, first, 0]),
            // and the receiver's process is recorded at its first receive
            (format!("tgid {own}"), Hop::DevRecv, [148, 0, 2, 0]),
            (format!("tgid {own} and port 5200"), Hop::UdpRecv, [49, 99, 2, 0]),
            (format!("port 5200 and tgid {own}"), Hop::UdpRecv, [49, 100, 1, 0]),
        ] {
            assert_eq!(counted(&net, SECOND, &text, hop), expected, "{text} at {hop}");
        }
    });
}

#[test]
fn addresses_of_both_families_are_compared() {
    if !can_capture_with(&[Ability::Filter]) {
        return;
    }
    undisturbed(|| {
        let net = Net::new();
        for (text, hop, expected) in [
            ("host fd78::/64 and udp", Hop::DevXmit, 50),
            ("src fd78::1", Hop::UdpRecv, 50),
            ("dst fd78::2/127", Hop::AppSend, 50),
            ("host fd78::3", Hop::AppSend, 0),
            ("host ::/0 and port 5200", Hop::DevRecv, 50),
            ("host 0.0.0.0/0", Hop::DevRecv, 100),
            ("not host fd78::1 and udp", Hop::IpIn, 100),
        ] {
            assert_eq!(counted(&net, [CLIENT6, SERVER6], text, hop)[0], expected, "{text} at {hop}");
        }
    });
}

fn sampled(
    net: &Net,
    sampler: Sampler,
    flow_one_in: u32,
    pairs: &[Pair],
    each: usize,
) -> (Recording, Counters) {
    let at = hops(&[Hop::DevXmit, Hop::DevRecv, Hop::AppSend]);
    let samplers = vec![(Hop::DevXmit, sampler)];
    let recording =
        net.capture_with(CaptureOptions { hops: at, samplers, flow_one_in, ..CaptureOptions::default() });
    for pair in pairs {
        pair.send(each, 100);
    }
    finish(recording)
}

#[test]
fn one_in_n_of_each_cpu_is_exact_and_other_hops_are_untouched() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let net = quiet();
        let pairs = [Pair::new(&net, CLIENT, SERVER, 5300)];
        let sampler = Sampler { one_in: 7, ..Sampler::default() };
        let (recording, counters) = sampled(&net, sampler, 1, &pairs, 1000);
        // the first of seven events on each CPU
        let count = of(&counters, Hop::DevXmit);
        assert_eq!((count.seen(), count.filtered, count.undecided), (1000, 0, 0));
        let cpus = recording.events.iter().filter(|e| e.hop == Hop::DevXmit).map(|e| e.cpu);
        let cpus: std::collections::BTreeSet<u16> = cpus.collect();
        let (least, most) = (1000 / 7, 1000 / 7 + cpus.len() as u64);
        assert!((least..=most).contains(&count.kept), "{} of {} CPUs", count.kept, cpus.len());
        if cpus.len() == 1 {
            assert_eq!(count.kept, 143);
        }
        assert!((count.weight() - 7.0).abs() < 0.2);
        assert_eq!(account(&counters, Hop::DevRecv), [1000, 0, 0, 0]);
        assert_eq!(account(&counters, Hop::AppSend), [1000, 0, 0, 0]);
        let last = recording.batches.iter().rev().flat_map(|b| &b.counts).find(|c| c.hop == Hop::DevXmit);
        assert_eq!(
            last.map(|c| (c.kept, c.sampled)),
            Some((count.kept, count.sampled)),
            "goes along with the events"
        );
    });
}

#[test]
fn one_an_interval_leaves_at_least_so_long_between_two() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let net = quiet();
        let pairs = [Pair::new(&net, CLIENT, SERVER, 5400)];
        let interval = Duration::from_millis(2);
        let (recording, counters) = sampled(&net, Sampler { interval, ..Sampler::default() }, 1, &pairs, 3000);
        let times: Vec<u64> =
            recording.events.iter().filter(|e| e.hop == Hop::DevXmit).map(|e| e.time_ns).collect();
        assert_eq!(of(&counters, Hop::DevXmit).seen(), 3000);
        assert!(times.len() >= 2, "3000 datagrams take longer than 2 ms");
        assert!(times.windows(2).all(|two| two[1] - two[0] >= 2_000_000));
        // and no longer than needed: the first event after each interval is accepted
        let span = times.last().expect("some") - times[0];
        assert!(times.len() as u64 <= span / 2_000_000 + 1);
    });
}

#[test]
fn by_flow_journeys_stay_whole_and_both_ends_agree() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let net = quiet();
        let pairs: Vec<Pair> = (0..40).map(|i| Pair::new(&net, CLIENT, SERVER, 6000 + 2 * i)).collect();
        let (recording, counters) = sampled(&net, Sampler::default(), 4, &pairs, 5);
        let flow_of = |event: &Event| recording.flows[&event.flow.0];
        let ports = |hop: Hop| -> std::collections::BTreeMap<u16, usize> {
            let mut ports = std::collections::BTreeMap::new();
            for event in recording.events.iter().filter(|e| e.hop == hop) {
                let flow = flow_of(event);
                *ports.entry(flow.local.port().min(flow.remote.port())).or_default() += 1;
            }
            ports
        };
        let flows = ports(Hop::DevXmit);
        assert!(!flows.is_empty() && flows.len() < 40, "{} of 40 flows", flows.len());
        assert!(flows.values().all(|packets| *packets == 5), "flows are kept whole");
        assert_eq!(flows, ports(Hop::DevRecv), "the receiver, which has the ends swapped, keeps the same");
        assert_eq!(flows, ports(Hop::AppSend));
        for hop in [Hop::DevXmit, Hop::DevRecv, Hop::AppSend] {
            assert_eq!(of(&counters, hop).seen(), 200, "{hop}");
            assert_eq!(of(&counters, hop).sampled, 200 - flows.len() as u64 * 5, "{hop}");
        }
    });
}

/// One socket receives datagrams of many flows, of which one in four is accepted, and reads them late. Order
/// identifies the datagram of each read, and rejected ones count in the order. In the second round the buffer
/// has room for only a few.
#[test]
fn by_flow_a_socket_without_a_peer_is_followed_to_its_reads() {
    const CLIENTS: usize = 32;
    const ROUNDS: usize = 20;
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        for room in [None, Some(8_000)] {
            let net = quiet();
            let server = net.server.run(|| UdpSocket::bind(common::address(SERVER, 6300)).expect("bind"));
            if let Some(bytes) = room {
                sockopt::set_socket_recv_buffer_size(&server, bytes).expect("SO_RCVBUF");
            }
            server.set_nonblocking(true).expect("non-blocking");
            // fixed ports: their flows are always the same ones, of which some are kept
            let client = |nth| {
                let own = common::address(CLIENT, 6301 + nth);
                let client = net.client.run(|| UdpSocket::bind(own).expect("bind"));
                client.connect(common::address(SERVER, 6300)).expect("connect");
                client
            };
            let clients: Vec<UdpSocket> = (0..CLIENTS as u16).map(client).collect();
            let recording = net.capture_with(CaptureOptions {
                hops: default_hops(),
                flow_one_in: 4,
                ..CaptureOptions::default()
            });
            // datagram numbers in read order
            let mut reads: Vec<usize> = Vec::new();
            for round in 0..ROUNDS {
                for (n, client) in clients.iter().enumerate() {
                    client.send(&((round * CLIENTS + n) as u64).to_le_bytes().repeat(32)).expect("send");
                }
                let mut datagram = [0; 256];
                waits::until("each datagram is read or dropped", || {
                    while common::receive(&server, &mut datagram).is_ok() {
                        reads.push(usize::from_le_bytes(datagram[..8].try_into().expect("eight bytes")));
                    }
                    let dropped = counter(&net.server, "Udp", "RcvbufErrors") as usize;
                    reads.len() + dropped == (round + 1) * CLIENTS
                });
            }
            let (recording, counters) = finish(recording);
            let reported: Vec<u64> = recording
                .events
                .iter()
                .filter(|event| event.hop == Hop::AppRecv && event.len > 0)
                .map(|event| event.time_ns)
                .collect();
            assert_eq!(reported.len(), reads.len(), "every read is reported");
            let mut correlator = Correlator::of_node(&recording.info, Limits::default());
            let mut done = Vec::new();
            recording.batches.iter().for_each(|batch| correlator.push(batch, &mut done));
            correlator.finish(&mut done);
            done.sort_by_key(Journey::start_ns);
            let mut flows = BTreeMap::<u16, usize>::new();
            // Without a reason, a drop of a rejected datagram does not show that the queue was full. Later reads may be
            // marked, or assigned to no datagram.
            let knows_reasons =
                recording.info.coverage.left_out.iter().all(|row| row.ability != Ability::DropReasons);
            let (mut read, mut dropped, mut marked) = (0, 0, 0);
            for journey in &done {
                let port = correlator.flow(journey.tx_flow).expect("a flow").local.port();
                let n = clients
                    .iter()
                    .position(|c| c.local_addr().expect("bound").port() == port)
                    .expect("a client");
                let round = flows.entry(port).or_default();
                let number = *round * CLIENTS + n;
                *round += 1;
                if let Some(at) = reads.iter().position(|read| *read == number) {
                    read += 1;
                    let is_marked = journey.ambiguous || journey.verdict == Verdict::ReadUnseen;
                    if is_marked && !knows_reasons {
                        marked += 1;
                        continue;
                    }
                    assert_eq!((journey.verdict, journey.ambiguous), (Verdict::Complete, false), "{journey:?}");
                    assert_eq!(
                        journey.rungs.time_ns(Hop::AppRecv),
                        reported.get(at).copied(),
                        "{number}: {journey:?}"
                    );
                } else {
                    dropped += 1;
                    assert!(matches!(journey.verdict, Verdict::Dropped { .. }), "{number}: {journey:?}");
                }
            }
            println!(
                "{} of {CLIENTS} flows: {read} datagrams read, {marked} of them marked, {dropped} dropped",
                flows.len()
            );
            assert!(room.is_some() || marked == 0, "nothing was dropped");
            assert!(
                !flows.is_empty() && flows.len() < CLIENTS && flows.values().all(|rounds| *rounds == ROUNDS)
            );
            assert_eq!(dropped > 0, room.is_some());
            assert_eq!(of(&counters, Hop::UdpRecv).sampled, 0, "all arrivals are told");
        }
    });
}

/// Compares the estimate of a sampled capture with the truth at a hop. Events must be exact, because the kernel
/// counts them. Bytes must lie within five standard deviations of a random choice; `units` are the bytes of
/// each unit.
fn estimated_right(recording: &Recording, counters: &Counters, hop: Hop, sent: [u64; 2], units: &[u64]) {
    let mut builder = ReportBuilder::new(recording.info()).throughput();
    recording.batches.iter().for_each(|batch| _ = builder.batch(batch));
    let report = builder.finish();
    let seconds = report.duration_ns as f64 / 1e9;
    let row = report.hops.iter().find(|row| row.hop == hop).expect("a row");
    let seen = of(counters, hop).seen();
    assert_eq!(seen, sent[0], "the kernel saw every one");
    let estimate = row.events_per_s * seconds;
    assert!(row.estimated && (estimate / seen as f64 - 1.0).abs() < 1e-9, "{hop}: {estimate} of {seen}");

    let weight = of(counters, hop).weight();
    let sigma =
        (weight * (weight - 1.0) * units.iter().map(|bytes| (bytes * bytes) as f64).sum::<f64>()).sqrt();
    let layers = report.throughput.as_ref().expect("asked for");
    let udp = layers.protocols.iter().find(|protocol| protocol.proto == Proto::UDP).expect("UDP");
    let border = udp.borders.iter().find(|border| border.hop == hop).expect("a border");
    let estimate = border.bytes_per_s * seconds;
    println!("{hop}: 1 of {weight:.2}; {estimate:.0} bytes for {} ± {sigma:.0}", sent[1]);
    assert!(border.estimated && (estimate - sent[1] as f64).abs() < 5.0 * sigma, "{hop}: {estimate} ± {sigma}");
    let text = report.to_string();
    assert!(text.contains("≈"), "{text}");
}

#[test]
fn rates_of_a_sampled_capture_are_those_of_all_there_was() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let net = quiet();
        let at = hops(&[Hop::DevXmit, Hop::DevRecv]);
        // datagrams of very different sizes, one in ten of them at one hop
        let pair = Pair::new(&net, CLIENT, SERVER, 5800);
        let samplers = vec![(Hop::DevXmit, Sampler { one_in: 10, ..Sampler::default() })];
        let recording = net.capture_with(CaptureOptions { hops: at, samplers, ..CaptureOptions::default() });
        let (mut state, mut bytes) = (7_u64, 0);
        for _ in 0..5_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let size = 1 + (state >> 33) as usize % 1_400;
            pair.send(1, size);
            bytes += size as u64;
        }
        let (recording, counters) = finish(recording);
        let lengths = recording.events.iter().filter(|e| e.hop == Hop::DevXmit).map(|e| u64::from(e.len));
        estimated_right(&recording, &counters, Hop::DevXmit, [5_000, bytes], &lengths.collect::<Vec<_>>());
        let mut builder = ReportBuilder::new(recording.info());
        recording.batches.iter().for_each(|batch| _ = builder.batch(batch));
        let plain = builder.finish().hops.into_iter().find(|row| row.hop == Hop::DevRecv).expect("a row");
        assert!(!plain.estimated, "nothing was left out there");

        // whole flows of very different weight, one in four of them
        let pairs: Vec<Pair> = (0..150).map(|i| Pair::new(&net, CLIENT, SERVER, 6_500 + 2 * i)).collect();
        let recording =
            net.capture_with(CaptureOptions { hops: at, flow_one_in: 4, ..CaptureOptions::default() });
        let (mut sent, mut bytes) = (0, 0);
        for (i, pair) in pairs.iter().enumerate() {
            let (count, size) = (1 + i % 9, 100 + 7 * i);
            pair.send(count, size);
            sent += count as u64;
            bytes += (count * size) as u64;
        }
        let (recording, counters) = finish(recording);
        let mut flows = std::collections::BTreeMap::<u64, u64>::new();
        for event in recording.events.iter().filter(|e| e.hop == Hop::DevRecv) {
            *flows.entry(event.flow.0).or_default() += u64::from(event.len);
        }
        assert!(flows.len() < 150 && !flows.is_empty());
        estimated_right(
            &recording,
            &counters,
            Hop::DevRecv,
            [sent, bytes],
            &flows.into_values().collect::<Vec<_>>(),
        );
    });
}

#[test]
fn a_change_takes_effect_at_once_and_is_told() {
    if !can_capture_with(&[Ability::Filter]) {
        return;
    }
    undisturbed(|| {
        let net = quiet();
        let pair = Pair::new(&net, CLIENT, SERVER, 5500);
        let mut recording = net.capture_with(CaptureOptions {
            hops: hops(&[Hop::DevXmit, Hop::DevRecv]),
            switchable: hops(&[Hop::DevQueue, Hop::AppSend]),
            ..CaptureOptions::default()
        });
        let mut expected = Vec::new();
        let mut change = |recording: &mut Recording, setting: Setting| {
            expected.push(setting.to_string());
            recording.change(&setting).expect("a change");
        };
        pair.send(10, 100);
        change(&mut recording, Setting::Filter(Some(filter("port 1"))));
        pair.send(20, 100);
        change(&mut recording, Setting::Filter(Some(filter("port 5500"))));
        pair.send(30, 100);
        change(&mut recording, Setting::Filter(None));
        change(&mut recording, Setting::Disable(hops(&[Hop::DevXmit])));
        pair.send(40, 100);
        change(&mut recording, Setting::Enable(hops(&[Hop::DevXmit, Hop::DevQueue])));
        pair.send(50, 100);
        change(
            &mut recording,
            Setting::Sample(hops(&[Hop::DevQueue]), Sampler { one_in: 1_000_000, ..Sampler::default() }),
        );
        pair.send(60, 100);
        let refused = recording.change(&Setting::Enable(hops(&[Hop::IpPost]))).expect_err("not loaded");
        assert!(refused.to_string().contains("--hops +ip.post"), "{refused}");
        let refused = recording.change(&Setting::Filter(Some(filter("iface nope")))).expect_err("not there");
        assert!(refused.to_string().contains("nope"), "{refused}");
        let (recording, counters) = finish(recording);
        assert_eq!(account(&counters, Hop::DevXmit), [10 + 30 + 50 + 60, 20, 0, 0]);
        assert_eq!(account(&counters, Hop::DevRecv), [10 + 30 + 40 + 50 + 60, 20, 0, 0]);
        let queue = of(&counters, Hop::DevQueue);
        assert_eq!(queue.seen(), 50 + 60);
        assert!((1..=8).contains(&(queue.kept - 50)), "the first of each CPU: {queue:?}");
        let reported: Vec<_> = recording.batches.iter().flat_map(|b| &b.changes).collect();
        assert_eq!(reported.iter().map(|c| c.what.clone()).collect::<Vec<_>>(), expected);
        assert!(reported.iter().all(|c| c.from_ns <= c.to_ns));
        // every event lies on its side of the change
        let disabled = reported.iter().find(|c| c.what == "disable dev.xmit").expect("a change");
        let enabled = reported.iter().find(|c| c.what.starts_with("enable")).expect("a change");
        let between =
            |e: &&Event| e.hop == Hop::DevXmit && e.time_ns > disabled.to_ns && e.time_ns < enabled.from_ns;
        assert_eq!(recording.events.iter().filter(between).count(), 0);
    });
}
