//! Compares every kind of probe with every other on the same packets. The captures run in parallel, so their
//! events must agree byte for byte; the exceptions are listed here.

use crate::common;

use common::{
    CLIENT, CLIENT6, Net, Recording, SERVER, SERVER6, can_capture, lost_nothing, refused, undisturbed,
};
use magscope_core::hop::HopSet;
use magscope_core::journey::{Correlator, Limits, Verdict};
use magscope_core::node::{Backend, Service};
use magscope_core::source::Source;
use magscope_core::{Event, EventFlags, Hop, Proto};
use magscope_probe::{Capture, CaptureOptions, HostFacts, ProbeError, default_hops, plan_by};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

const PORT: u16 = 5300;

/// Kinds to compare. System-call tracepoints are a different attach point, not another kind at the same one.
const KINDS: [Option<Backend>; 7] = [
    None,
    Some(Backend::TpBtf),
    Some(Backend::Netfilter),
    Some(Backend::CgroupSkb),
    Some(Backend::Fentry),
    Some(Backend::KprobeMulti),
    Some(Backend::Kprobe),
];

fn name(kind: Option<Backend>) -> &'static str {
    kind.map_or("cheapest", Backend::name)
}

fn address(ip: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip.parse().expect("an address"), port)
}

/// Every hop except the scheduler's, which cover all tasks.
fn network_hops() -> HopSet {
    Hop::ALL.iter().copied().filter(|hop| hop.rank().is_some()).collect()
}

/// Reproducible sizes: small, large, and around the segmentation limits.
fn sizes(count: usize, most: usize) -> Vec<usize> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..count).map(|_| 1 + (next() % most as u64) as usize).collect()
}

/// Requests and responses over TCP and datagrams over UDP, IPv4 and IPv6; returns the bytes sent by TCP clients.
fn traffic(net: &Net) -> usize {
    let mut sent = 0;
    for (server, client, port) in [(SERVER, CLIENT, PORT), (SERVER6, CLIENT6, PORT + 1)] {
        let listener = net.server.run(|| TcpListener::bind(address(server, port)).expect("bind"));
        let echo = std::thread::spawn(move || {
            let (mut peer, _) = listener.accept().expect("accept");
            let mut buffer = vec![0; 9_000];
            while let n @ 1.. = peer.read(&mut buffer).expect("read") {
                peer.write_all(&buffer[..n]).expect("write");
            }
        });
        let mut stream = net.client.run(|| TcpStream::connect(address(server, port)).expect("connect"));
        stream.set_nodelay(true).expect("no delay");
        let mut buffer = vec![7; 40_000];
        for size in sizes(60, 40_000) {
            stream.write_all(&buffer[..size]).expect("write");
            stream.read_exact(&mut buffer[..size]).expect("read");
            sent += size;
        }
        drop(stream);
        echo.join().expect("the echo");

        let far = net.server.run(|| UdpSocket::bind(address(server, port)).expect("bind"));
        far.set_read_timeout(Some(Duration::from_secs(30))).expect("a time-out");
        let near = net.client.run(|| UdpSocket::bind(address(client, 0)).expect("bind"));
        near.connect(address(server, port)).expect("connect");
        for size in sizes(100, 1_400) {
            near.send(&buffer[..size]).expect("send");
            assert_eq!(common::receive(&far, &mut buffer).expect("recv"), size);
        }
    }
    sent
}

/// Fields of a hit that every kind must report equally.
type EventFields = (u64, u32, u32, u16, u16, u8, u16);

fn fields_of(event: &Event) -> EventFields {
    // A flag distinguishes an offered length from an accepted one for the same bytes.
    let flags = event.flags.without(EventFlags::AT_RETURN).0;
    (event.flow.0, event.extent.number(), event.len, event.ip_id, event.segs, event.tcp_flags, flags)
}

/// Number of equal hits at a hop.
type Tally = BTreeMap<EventFields, i64>;

fn tally_at(recording: &Recording, hop: Hop) -> Tally {
    let mut tally = Tally::new();
    let ours = |event: &&Event| {
        // a socket without a peer has no flow and belongs to this test
        let flow = recording.flows.get(&event.flow.0);

        flow.is_none_or(|f| [f.local.port(), f.remote.port()].iter().any(|p| (PORT..PORT + 2).contains(p)))
    };
    for event in recording.events.iter().filter(|e| e.hop == hop).filter(ours) {
        *tally.entry(fields_of(event)).or_default() += 1;
    }
    tally
}

/// Difference of two tallies: positive where the first has more.
fn differences(a: &Tally, b: &Tally) -> Tally {
    let mut left = a.clone();
    for (what, times) in b {
        *left.entry(*what).or_default() -= times;
    }
    left.retain(|_, times| *times != 0);
    left
}

/// The ranges of each byte stream: flow, start, end, and verdict.
type Pieces = BTreeMap<(u64, u64, u64, String), u32>;

/// TCP's journeys of this test from the events at `hops` alone.
fn pieces(recording: &Recording, hops: HopSet) -> Pieces {
    let mut correlator = Correlator::new(hops, Limits::default());
    let mut journeys = Vec::new();
    for batch in &recording.batches {
        let mut batch = batch.clone();
        batch.events.retain(|event| hops.contains(event.hop));
        correlator.push(&batch, &mut journeys);
    }
    correlator.finish(&mut journeys);
    let mut pieces = Pieces::new();
    for journey in journeys.iter().filter(|journey| journey.proto == Proto::TCP) {
        let piece =
            (journey.tx_flow.0, journey.range.start, journey.range.end, journey.verdict.name().to_owned());
        *pieces.entry(piece).or_default() += 1;
    }
    pieces
}

/// Hops in both recordings with events at the same point: a send recorded at its return is no hop of a journey.
fn hops_of_both(a: &Recording, b: &Recording) -> HopSet {
    let at_return = |recording: &Recording| {
        let mut sends = recording.events.iter().filter(|event| event.hop == Hop::AppSend);
        sends.any(|event| event.flags.contains(EventFlags::AT_RETURN))
    };
    let mut hops = HopSet(a.served.0 & b.served.0);
    if at_return(a) != at_return(b) {
        hops.remove(Hop::AppSend);
    }
    hops
}

fn start(net: &Net, kind: Option<Backend>, hops: HopSet) -> Option<Recording> {
    let facts = HostFacts::read().expect("facts");
    if plan_by(&facts, hops, kind).probes.is_empty() {
        println!("{}: skipped, because nothing of it works on {}", name(kind), facts.kernel);
        return None;
    }
    Some(net.capture_with(CaptureOptions { hops, backend: kind, ..CaptureOptions::default() }))
}

#[test]
fn every_kind_of_probe_tells_the_same_about_the_same_packets() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let net = Net::new();
        let mut hops = network_hops();
        // on some kernels only by system calls, a different attach point
        hops.remove(Hop::UdpSend);
        // veth has no GRO by default
        hops.remove(Hop::NapiPoll);
        // the same backend on every kernel
        hops.remove(Hop::TaskWake);
        hops.remove(Hop::TaskRun);
        let running: Vec<_> =
            KINDS.into_iter().filter_map(|kind| Some((kind, start(&net, kind, hops)?))).collect();
        traffic(&net);
        let mut done = Vec::new();
        for (kind, mut recording) in running {
            recording.drain(Duration::from_millis(200));
            recording.stop();
            lost_nothing(&recording);
            done.push((kind, recording));
        }
        let (_, base) = &done[0];
        let mut compared = BTreeMap::<Hop, Vec<&str>>::new();
        for hop in base.served.iter() {
            assert!(!tally_at(base, hop).is_empty(), "{hop} saw nothing");
        }
        for (kind, recording) in done.iter().skip(1) {
            let (mut missing, mut more, mut where_not) = (0, 0, Vec::new());
            for hop in HopSet(base.served.0 & recording.served.0).iter() {
                let different = differences(&tally_at(recording, hop), &tally_at(base, hop));
                more += different.values().filter(|times| **times > 0).sum::<i64>();
                missing -= different.values().filter(|times| **times < 0).sum::<i64>();
                if !different.is_empty() {
                    where_not.push((hop, different));
                }
                compared.entry(hop).or_default().push(name(*kind));
            }
            // Captures at one attach point disturb each other during interrupts; each capture reports its
            // missed hits as refused runs.
            let counted_as_refused = missing <= refused(recording) as i64 && more <= refused(base) as i64;
            assert!(counted_as_refused, "{} against the cheapest: {where_not:?}", name(*kind));
            if !where_not.is_empty() {
                println!("{}: the same but for {} hits that were told as refused", name(*kind), missing + more);
                continue;
            }
            if !recording.served.contains(Hop::AppRecv) {
                continue;
            }
            let hops = hops_of_both(base, recording);
            let (expected, reported) = (pieces(base, hops), pieces(recording, hops));
            assert!(expected.len() > 100, "{} pieces", expected.len());
            assert!(reported == expected, "{}: other journeys than the cheapest", name(*kind));
            println!(
                "{}: {} journeys of TCP, the same pieces of the same streams",
                name(*kind),
                reported.len()
            );
        }
        for (hop, kinds) in &compared {
            println!(
                "{hop}: {} hits, the same by {}",
                tally_at(base, *hop).values().sum::<i64>(),
                kinds.join(", ")
            );
        }
        assert!(compared.len() >= 12, "{compared:?}");
    });
}

#[test]
fn journeys_are_whole_by_every_kind_that_sees_both_ends() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let net = Net::new();
        for kind in KINDS {
            let Some(mut recording) = start(&net, kind, network_hops()) else { continue };
            let sent = traffic(&net);
            recording.drain(Duration::from_millis(200));
            recording.stop();
            lost_nothing(&recording);
            if !recording.served.contains(Hop::AppRecv) {
                println!("{}: no journeys, because app.recv is none of its hops", name(kind));
                continue;
            }
            let (journeys, correlator) = recording.journeys();
            let to_server = |port: u16, proto| {
                let flow = |j: &magscope_core::journey::Journey| correlator.flow(j.rx_flow).copied();
                let mine = journeys.iter().filter(move |j| j.proto == proto);
                mine.filter(move |j| flow(j).is_some_and(|f| f.local.port() == port)).collect::<Vec<_>>()
            };
            let (mut bytes, mut datagrams) = (0, 0);
            for port in [PORT, PORT + 1] {
                for journey in to_server(port, Proto::TCP) {
                    assert_eq!(journey.verdict, Verdict::Complete, "{}: {journey:?}", name(kind));
                    assert!(journey.rungs.has(Hop::AppRecv), "{}: {journey:?}", name(kind));
                    bytes += journey.bytes();
                }
                datagrams +=
                    to_server(port, Proto::UDP).iter().filter(|j| j.verdict == Verdict::Complete).count();
            }
            assert_eq!(bytes, sent as u64, "{}: every byte, once", name(kind));
            if recording.served.contains(Hop::UdpRecv) {
                assert_eq!(datagrams, 200, "{}", name(kind));
            }
            println!("{}: {} journeys, every byte of TCP once", name(kind), journeys.len());
        }
    });
}

/// Prints the durations; asserts only that nothing is left attached.
#[test]
fn every_kind_attaches_and_detaches() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let facts = HostFacts::read().expect("facts");
        for kind in KINDS {
            let plan = plan_by(&facts, default_hops(), kind);
            let options = CaptureOptions { hops: default_hops(), backend: kind, ..CaptureOptions::default() };
            let begin = Instant::now();
            let mut capture = match Capture::start_on(&facts, options) {
                Ok(capture) => capture,
                Err(ProbeError::NothingToServe { because, .. }) => {
                    println!("{}: skipped, because {because}", name(kind));
                    continue;
                }
                Err(error) => panic!("{}: {error}", name(kind)),
            };
            let attached = begin.elapsed();
            let begin = Instant::now();
            capture.stop();
            println!(
                "{}: {} programs of the default hops attached in {} ms, detached in {} ms",
                name(kind),
                plan.programs().len(),
                attached.as_millis(),
                begin.elapsed().as_millis()
            );
            for row in &capture.info().coverage.hops {
                if let (None, Service::Served { backend, point, .. }) = (kind, &row.service) {
                    println!("  {:<15} {backend} {point}", row.hop);
                }
            }
            let served = capture.info().coverage.served();
            assert!(served.iter().all(|hop| default_hops().contains(hop)));
            assert_eq!(served, plan.served(), "nothing was refused that the plan had promised");
        }
    });
}

#[test]
fn a_kind_that_this_kernel_lacks_is_refused_in_words() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let facts = HostFacts::default();
        let facts = HostFacts { btf: true, capabilities: u64::MAX, kernel: "5.15".to_owned(), ..facts };
        for kind in [Backend::Fentry, Backend::Kprobe, Backend::KprobeMulti] {
            let options =
                CaptureOptions { hops: HopSet::all(), backend: Some(kind), ..CaptureOptions::default() };
            let Err(error) = Capture::start_on(&facts, options) else {
                panic!("nothing of {kind} works there")
            };
            assert!(error.to_string().contains("5.15 has no"), "{error}");
        }
    });
}
