//! The kernel's sums, compared with sums over the events of the same hits. The comparison covers every bucket
//! of every pair of hops, and every packet and byte of every flow.

use crate::common;

use common::{
    CLIENT, Net, Pair, Recording, SERVER, address, can_capture, can_capture_with, finish, quiet, undisturbed,
};
use magscope_core::hop::HopSet;
use magscope_core::node::Ability;
use magscope_core::synthesis::{Sum, Synthesis, outermost, rated};
use magscope_core::{CaptureFilter, Event, EventFlags, Hop, HopCount, Proto, Task, histogram};
use magscope_probe::plan::full_hops;
use magscope_probe::{CaptureOptions, Counters, Detail, ProbeError, Setting};
use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Hops that two CPUs may hit concurrently for one socket: there the kernel's order can differ from that of the
/// times.
fn is_call(hop: Hop) -> bool {
    use Hop::{AppCopy, AppRecv, AppSend, SockReady, TaskRun, TaskWake, TcpSend, UdpSend};
    matches!(hop, AppSend | TcpSend | UdpSend | SockReady | TaskWake | TaskRun | AppCopy | AppRecv)
}

/// Sums of one capture, over all its intervals.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sums {
    buckets: BTreeMap<(Hop, Hop), BTreeMap<u16, u64>>,
    sum_ns: BTreeMap<(Hop, Hop), u64>,
    begun: BTreeMap<Hop, u64>,
    rates: BTreeMap<(Hop, Sum), (u64, u64)>,
}

impl Sums {
    fn of_kernel<'a>(all: impl Iterator<Item = &'a Synthesis>) -> Self {
        let mut sums = Sums::default();
        for row in all {
            assert!(row.from_ns <= row.to_ns, "{row:?}");
            match row.of {
                Sum::Since(from) => {
                    assert_eq!(row.n, row.buckets.iter().map(|(_, n)| u64::from(*n)).sum::<u64>());
                    let buckets = sums.buckets.entry((from, row.hop)).or_default();
                    row.buckets
                        .iter()
                        .for_each(|(bucket, n)| *buckets.entry(*bucket).or_default() += u64::from(*n));
                    *sums.sum_ns.entry((from, row.hop)).or_default() += row.sum;
                }
                Sum::Begun => *sums.begun.entry(row.hop).or_default() += row.n,
                of => {
                    let rate = sums.rates.entry((row.hop, of)).or_default();
                    (rate.0, rate.1) = (rate.0 + row.n, rate.1 + row.sum);
                }
            }
        }
        sums
    }

    fn passed(&mut self, last: Option<(Hop, u64)>, event: &Event) {
        let Some((from, at_ns)) = last else {
            *self.begun.entry(event.hop).or_default() += 1;
            return;
        };
        let ns = event.time_ns.saturating_sub(at_ns);
        let buckets = self.buckets.entry((from, event.hop)).or_default();
        *buckets.entry(histogram::bucket(ns) as u16).or_default() += 1;
        *self.sum_ns.entry((from, event.hop)).or_default() += ns;
    }

    /// The rule of `bpf/synthesis.h`, on events.
    fn of_events(events: &[Event], rated_hops: &[Hop], cgroups: &HashMap<u32, u64>) -> Self {
        let mut sums = Sums::default();
        let mut packets: HashMap<u32, (u32, Hop, u64)> = HashMap::new();
        let mut calls: HashMap<(u64, bool), (Hop, u64)> = HashMap::new();
        let mut handed: HashMap<u16, (u32, u32, u64)> = HashMap::new();
        for e in events {
            let rx = e.hop.direction() == magscope_core::Direction::Rx;
            let mark = (e.hop, e.time_ns);
            let later = |last: &(Hop, u64)| last.0 < e.hop;
            if rated_hops.contains(&e.hop) {
                let (of, n) = match e.hop {
                    Hop::AppSend | Hop::AppRecv => (Sum::Cgroup(cgroups[&e.tid]), 1),
                    Hop::SkbDrop => (Sum::Reason(e.drop_reason()), u64::from(e.segs)),
                    _ => (Sum::Flow(e.flow), u64::from(e.segs)),
                };
                let rate = sums.rates.entry((e.hop, of)).or_default();
                (rate.0, rate.1) = (rate.0 + n, rate.1 + u64::from(e.len));
            }
            if is_call(e.hop) || matches!(e.hop, Hop::TcpRetransmit | Hop::SockFull | Hop::SockDestroy) {
                let alone = e.flags.contains(EventFlags::AT_RETURN) || e.socket == 0 || !is_call(e.hop);
                let last = if alone { None } else { calls.insert((e.socket, rx), mark) };
                sums.passed(last.filter(later), e);
                continue;
            }
            let ip_id = if e.proto == Proto::TCP { 0 } else { u32::from(e.ip_id) << 8 };
            let wire = e.extent.number() ^ e.len.rotate_left(16) ^ ip_id ^ u32::from(e.proto.0) << 24;
            let mut last = if e.hop == Hop::DevDone {
                let handed = handed.remove(&e.cpu).filter(|(skb, of, _)| (*skb, *of) == (e.skb, wire));
                handed.map(|(_, _, ns)| (Hop::DevXmit, ns))
            } else {
                let before = packets.insert(e.skb, (wire, e.hop, e.time_ns));
                before.filter(|(of, hop, _)| *of == wire && *hop < e.hop).map(|(_, hop, ns)| (hop, ns))
            };
            if e.hop == Hop::DevXmit {
                handed.insert(e.cpu, (e.skb, wire, e.time_ns));
            }
            let tx = e.hop.direction() == magscope_core::Direction::Tx;
            if last.is_none() && e.socket != 0 && e.len > 0 && tx {
                last = calls.get(&(e.socket, false)).copied();
            }
            if e.socket != 0 && matches!(e.hop, Hop::TcpRecv | Hop::UdpRecv) {
                calls.insert((e.socket, true), mark);
            }
            sums.passed(last, e);
        }
        sums
    }

    /// Hits included in the sums of a hop.
    fn hits(&self, hop: Hop) -> u64 {
        let since = self.buckets.iter().filter(|((_, to), _)| *to == hop);
        since.flat_map(|(_, buckets)| buckets.values()).sum::<u64>()
            + self.begun.get(&hop).copied().unwrap_or(0)
    }

    /// Without the hops of socket calls.
    fn of_packets(mut self) -> Self {
        self.buckets.retain(|(from, to), _| !is_call(*from) && !is_call(*to));
        self.sum_ns.retain(|(from, to), _| !is_call(*from) && !is_call(*to));
        self.begun.clear();
        self
    }
}

fn capture(net: &Net, detail: Detail, sums: u32) -> Recording {
    let options = CaptureOptions {
        hops: full_hops(),
        detail,
        sums,
        ring_bytes_per_cpu: 32 << 20,
        ..CaptureOptions::default()
    };
    net.capture_with(options)
}

fn sums_of(recording: &Recording) -> Sums {
    Sums::of_kernel(recording.batches.iter().flat_map(|batch| &batch.synthesis))
}

fn from_events(recording: &Recording) -> Sums {
    let tasks = recording.batches.iter().flat_map(|batch| &batch.tasks);
    let cgroups = tasks.map(|Task { tid, cgroup, .. }| (*tid, *cgroup)).collect();
    let rated_hops: Vec<Hop> = rated(recording.served).iter().collect();
    Sums::of_events(&recording.events, &rated_hops, &cgroups)
}

fn count(counters: &Counters, hop: Hop) -> HopCount {
    let none = HopCount { time_ns: 0, hop, kept: 0, filtered: 0, undecided: 0, sampled: 0, synthesised: 0 };
    counters.hops.iter().find(|count| count.hop == hop).copied().unwrap_or(none)
}

/// Requests and answers over one connection, each a segment that is read before the next: no two CPUs handle a
/// socket concurrently.
fn requests(net: &Net, port: u16, count: usize) {
    let listener = net.server.run(|| TcpListener::bind(address(SERVER, port)).expect("bind"));
    let near = net.client.run(|| TcpStream::connect(address(SERVER, port)).expect("connect"));
    let (far, _) = listener.accept().expect("accept");
    let mut buffer = vec![5; 1_400];
    for nth in 0..count {
        let size = 1 + nth * 7919 % 1_400;
        for (mut from, mut to) in [(&near, &far), (&far, &near)] {
            from.write_all(&buffer[..size]).expect("write");
            to.read_exact(&mut buffer[..size]).expect("read");
        }
    }
}

#[test]
fn every_cell_and_every_sum_is_that_of_the_events() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let net = quiet();
        let recording = capture(&net, Detail::Both, 1_000);
        let pair = Pair::new(&net, CLIENT, SERVER, 5800);
        for size in [0, 1, 64, 700, 1_400] {
            pair.send(200, size);
        }
        requests(&net, 5810, 150);
        let (recording, counters) = finish(recording);
        assert_eq!(recording.outside(), 0, "nothing went on before and after");
        let (kernel, events) = (sums_of(&recording), from_events(&recording));
        assert!(kernel.buckets.len() > 8 && kernel.rates.len() >= 8, "{kernel:?}");
        for (pair, buckets) in &events.buckets {
            assert_eq!(kernel.buckets.get(pair), Some(buckets), "{} to {}", pair.0, pair.1);
        }
        assert_eq!(kernel, events);
        for hop in Hop::ALL.iter().filter(|hop| **hop != Hop::TcpState) {
            let counted = count(&counters, *hop);
            assert_eq!((kernel.hits(*hop), counted.synthesised), (counted.kept, 0), "{hop}");
        }
        let flows = kernel.rates.iter().filter(|((hop, _), _)| *hop == Hop::DevXmit);
        assert_eq!(
            flows.filter(|((_, of), _)| matches!(of, Sum::Flow(_))).count(),
            3,
            "one of UDP, two of TCP"
        );
    });
}

/// Pause before the next send. All events are stored for counting, so some ten thousand datagrams a second
/// suffice. The rate then drops: a delayed reader has only the room of its rings.
fn pace(sent: u64) {
    std::thread::sleep(if sent < 2_500 { Duration::from_micros(100) } else { Duration::from_millis(5) });
}

/// Calls of each thread of a load at least, however busy the machine is.
const LEAST_CALLS: u64 = 300;

/// Sends from two threads until `done`: datagrams that are read, and a stream.
fn load(net: &Net, port: u16, done: &AtomicBool, sent: &AtomicU64) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let pair = Pair::new(net, CLIENT, SERVER, port);
            for calls in 0.. {
                if done.load(Relaxed) && calls >= LEAST_CALLS {
                    break;
                }
                pair.send(5, 100);
                sent.fetch_add(5, Relaxed);
                pace(calls);
            }
        });
        scope.spawn(|| {
            let listener = net.server.run(|| TcpListener::bind(address(SERVER, port + 5)).expect("bind"));
            let mut near = net.client.run(|| TcpStream::connect(address(SERVER, port + 5)).expect("connect"));
            let (mut far, _) = listener.accept().expect("accept");
            let reader = std::thread::spawn(move || {
                let mut buffer = vec![0; 30_000];
                while far.read(&mut buffer).expect("read") > 0 {}
            });
            for calls in 0.. {
                if done.load(Relaxed) && calls >= LEAST_CALLS {
                    break;
                }
                near.write_all(&[1; 9_000]).expect("write");
                pace(calls);
            }
            drop(near);
            reader.join().expect("read to the end");
        });
    });
}

/// Runs `work` under load on all CPUs; returns the number of datagrams.
fn under_load(net: &Net, port: u16, work: impl FnOnce()) -> u64 {
    let (done, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let loading = scope.spawn(|| load(net, port, &done, &sent));
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        done.store(true, Relaxed);
        loading.join().expect("the load ends");
        worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    sent.load(Relaxed)
}

#[test]
fn under_load_on_all_cpus_every_hit_is_added_up_once() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let net = quiet();
        let mut recording = capture(&net, Detail::Both, 1_000);
        let sent = under_load(&net, 5820, || recording.drain(Duration::from_millis(1_500)));
        let (recording, counters) = finish(recording);
        let (kernel, events) = (sums_of(&recording), from_events(&recording));
        for hop in Hop::ALL.iter().filter(|hop| **hop != Hop::TcpState) {
            assert_eq!(kernel.hits(*hop), count(&counters, *hop).kept, "{hop}");
        }
        assert_eq!(kernel.rates, events.rates, "to the last packet and byte");
        let datagrams = kernel.hits(Hop::UdpRecv);
        assert_eq!(datagrams, sent);
        assert_eq!(kernel.of_packets(), events.of_packets(), "a packet is at one place at a time");
    });
}

#[test]
fn no_record_is_written_and_all_hits_are_accounted_for() {
    if !can_capture_with(&[Ability::Filter]) {
        return;
    }
    undisturbed(|| {
        let net = quiet();
        let filter = Some(CaptureFilter::parse("udp").expect("a filter"));
        let options = CaptureOptions {
            hops: full_hops(),
            detail: Detail::Histograms,
            sums: 100,
            filter,
            ..CaptureOptions::default()
        };
        let mut recording = net.capture_with(options);
        let sent = under_load(&net, 5830, || recording.drain(Duration::from_millis(1_200)));
        let (recording, counters) = finish(recording);
        assert_eq!((recording.events.len(), recording.numbered(), counters.hits), (0, 0, 0));
        assert_eq!(recording.batches.iter().map(|batch| batch.tcp.len()).sum::<usize>(), 0);
        let kernel = sums_of(&recording);
        for hop in [Hop::IpOut, Hop::DevQueue, Hop::DevXmit, Hop::DevDone, Hop::DevRecv, Hop::IpPre, Hop::IpIn]
        {
            if recording.served.contains(hop) {
                let of = count(&counters, hop);
                assert_eq!((of.synthesised, of.kept, kernel.hits(hop)), (sent, 0, sent), "{hop}");
                assert!(of.filtered > 100, "the stream is not wanted: {of:?}");
            }
        }
        let last = recording.batches.iter().rev().flat_map(|b| &b.counts).find(|c| c.hop == Hop::DevXmit);
        assert_eq!(last.map(|count| count.synthesised), Some(sent), "told at the end");
        let (packets, bytes) = kernel
            .rates
            .iter()
            .filter(|((hop, _), _)| *hop == Hop::DevXmit)
            .fold((0, 0), |(packets, bytes), (_, rate)| (packets + rate.0, bytes + rate.1));
        assert_eq!((packets, bytes), (sent, sent * 100));
        let ends: Vec<u64> = recording.batches.iter().flat_map(|b| &b.synthesis).map(|row| row.to_ns).collect();
        assert!(ends.is_sorted() && ends.first() < ends.last(), "more than one interval, in order");
        let flows = recording.batches.iter().flat_map(|b| &b.flows).count();
        assert!(flows >= 2, "what the sums are of is told: {flows}");
    });
}

#[test]
fn what_finds_no_room_is_the_rest_and_nothing_is_missing() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let net = quiet();
        let recording = capture(&net, Detail::Both, 16);
        let server = net.server.run(|| UdpSocket::bind(address(SERVER, 5840)).expect("bind"));
        server.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
        for nth in 0..200 {
            let client = net.client.run(|| UdpSocket::bind(address(CLIENT, 0)).expect("bind"));
            client.send_to(&vec![1; nth], address(SERVER, 5840)).expect("send");
            common::receive(&server, &mut [0; 300]).expect("recv");
        }
        let (recording, _) = finish(recording);
        let (kernel, events) = (sums_of(&recording), from_events(&recording));
        for hop in [Hop::DevXmit, Hop::DevRecv] {
            let all = |sums: &Sums| {
                let at = sums.rates.iter().filter(|((at, _), _)| *at == hop);
                at.fold((0, 0), |(n, bytes), (_, rate)| (n + rate.0, bytes + rate.1))
            };
            assert_eq!(all(&kernel), all(&events), "{hop}: all packets are somewhere");
            let (rest, _) = kernel.rates.get(&(hop, Sum::Rest)).copied().unwrap_or_default();
            assert!((100..200).contains(&rest), "{hop}: {rest} had no room");
        }
        // an entry that found room never exceeds the true sum
        for (key, rate) in kernel.rates.iter().filter(|((_, of), _)| matches!(of, Sum::Flow(_))) {
            let whole = events.rates.get(key).copied().unwrap_or_default();
            assert!(rate.0 <= whole.0 && rate.1 <= whole.1, "{key:?}");
        }
    });
}

#[test]
fn switching_a_thousand_times_under_load_loses_nothing() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let net = quiet();
        let mut recording = capture(&net, Detail::Full, 1_000);
        let switches = std::env::var("MAGSCOPE_SWITCHES").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000);
        let order = [Detail::Histograms, Detail::Full, Detail::Both, Detail::Compact];
        let mut before = None;
        let sent = under_load(&net, 5850, || {
            let links = recording.capture().switchable();
            for (round, detail) in order.iter().cycle().take(switches).enumerate() {
                recording.change(&Setting::Detail(*detail)).expect("switched");
                let in_force = recording.capture().in_force();
                let wanted = (*detail != Detail::Full).then(|| format!("detail {}", detail.word()));
                assert_eq!(in_force.into_iter().find(|s| s.starts_with("detail")), wanted);
                std::thread::sleep(Duration::from_micros(500));
                if round % 10 == 0 {
                    recording.drain(Duration::from_millis(1));
                }
            }
            before = Some(links);
        });
        assert_eq!(before, Some(recording.capture().switchable()));
        let (recording, counters) = finish(recording);
        for hop in [Hop::IpOut, Hop::DevQueue, Hop::DevXmit, Hop::DevRecv, Hop::IpPre, Hop::IpIn, Hop::UdpRecv]
        {
            if !recording.served.contains(hop) || hop == Hop::UdpRecv {
                continue;
            }
            let of = count(&counters, hop);
            assert!(of.kept > 0 && of.synthesised > 0, "both ways were gone: {of:?}");
            assert_eq!((of.filtered, of.undecided, of.sampled), (0, 0, 0));
        }
        let received = count(&counters, Hop::UdpRecv);
        assert_eq!(received.kept + received.synthesised, sent, "each datagram once, one way or the other");
        let changes = recording.batches.iter().map(|batch| batch.changes.len()).sum::<usize>();
        assert_eq!(changes, switches, "every change is an event of the session");
    });
}

#[test]
fn while_few_hops_are_on_every_packet_is_counted_and_others_cost_nothing() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let net = quiet();
        let mut recording = capture(&net, Detail::Histograms, 100);
        let all = recording.capture().hops();
        let others = HopSet(all.0 & !outermost(all).0);
        let pair = Pair::new(&net, CLIENT, SERVER, 5880);
        pair.send(20, 300);
        recording.change(&Setting::Disable(others)).expect("they go off");
        pair.send(70, 300);
        let hits = recording.capture().counters().expect("counters").cpus;
        let passed = hits.iter().map(|cpu| cpu.accepted).sum::<u64>();
        assert_eq!(hits.iter().map(|cpu| cpu.outermost).sum::<u64>(), 90 + 90, "sent and received");
        pair.send(100, 300);
        let more =
            recording.capture().counters().expect("counters").cpus.iter().map(|cpu| cpu.accepted).sum::<u64>();
        assert_eq!(more - passed, 100 + 100, "at a hop each way and nowhere else");
        recording.change(&Setting::Enable(others)).expect("they come on");
        pair.send(30, 300);
        let (recording, counters) = finish(recording);
        let kernel = sums_of(&recording);
        for hop in [Hop::DevXmit, Hop::DevRecv] {
            let flows = kernel.rates.iter().filter(|((at, of), _)| *at == hop && matches!(of, Sum::Flow(_)));
            let sums = flows.fold((0, 0), |all, (_, of)| (all.0 + of.0, all.1 + of.1));
            assert_eq!(sums, (220, 220 * 300), "{hop}");
        }
        if recording.served.contains(Hop::IpOut) {
            assert_eq!(count(&counters, Hop::IpOut).synthesised, 50);
        }
    });
}

/// Journeys as text: protocol, verdict, bytes from the beginning of their flow, hops.
fn journey_lines(recording: &Recording) -> Vec<String> {
    let (journeys, _) = recording.journeys();
    let mut first: HashMap<_, u64> = HashMap::new();
    for journey in &journeys {
        let start = first.entry(journey.tx_flow).or_insert(journey.range.start);
        *start = journey.range.start.min(*start);
    }
    let reported = journeys.iter().map(|journey| {
        // on a busy machine a reader sleeps before its datagram is there
        let is_sleep = |hop: &&Hop| matches!(hop, Hop::TaskWake | Hop::TaskRun);
        let hops = Hop::path().iter().filter(|hop| !is_sleep(hop) && journey.rung(**hop).is_some());
        let hops: Vec<_> = hops.collect();
        let from = first[&journey.tx_flow];
        let range = (journey.range.start - from, journey.range.end - from);
        format!("{} {:?} {range:?} {hops:?}", journey.proto, journey.verdict)
    });
    let mut reported: Vec<String> = reported.collect();
    reported.sort_unstable();
    reported
}

#[test]
fn compact_journeys_are_the_full_ones_and_nothing_is_beside_them() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let of = |detail| {
            let net = quiet();
            let options = CaptureOptions {
                hops: full_hops(),
                detail,
                snap: vec![(Hop::DevXmit, 32)],
                ..CaptureOptions::default()
            };
            let recording = net.capture_with(options);
            let pair = Pair::new(&net, CLIENT, SERVER, 5860);
            for size in [1, 64, 1_400] {
                pair.send(50, size);
            }
            requests(&net, 5870, 50);
            finish(recording).0
        };
        let (full, compact) = (of(Detail::Full), of(Detail::Compact));
        let has_both = |recording: &Recording| {
            let samples = recording.batches.iter().map(|batch| batch.tcp.len()).sum::<usize>();
            (samples > 0, recording.heads().count() > 0)
        };
        assert_eq!((has_both(&full), has_both(&compact)), ((true, true), (false, false)));
        let (full, compact) = (journey_lines(&full), journey_lines(&compact));
        assert!(full.len() >= 250, "{}", full.len());
        let other = full.iter().zip(&compact).find(|(full, compact)| full != compact);
        assert_eq!((other, full.len()), (None, compact.len()));
    });
}

#[test]
fn without_room_there_are_no_histograms() {
    if !can_capture() {
        return;
    }
    let net = quiet();
    let mut recording = capture(&net, Detail::Full, 0);
    let refused = recording.change(&Setting::Detail(Detail::Histograms));
    assert!(matches!(refused, Err(ProbeError::NoRoom)), "{refused:?}");
    recording.change(&Setting::Detail(Detail::Compact)).expect("that takes none");
    recording.stop();
}
