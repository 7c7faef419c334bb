//! ULM and BP: writing, reading and writing again gives the same lines.

use crate::common;

use common::{Files, Recording, recordings};
use magscope_core::node::{Backend, Coverage, HopService, NodeInfo, Service};
use magscope_core::{Batch, Event, EventFlags, ExtentKind, Flow, FlowId, GeneratorOptions, Hop, Proto, Task};
use magscope_export::format::marked::Marked;
use magscope_export::format::netlogger::{Dialect, Events, NetLogger, parse};
use magscope_export::mark::Marks;
use magscope_export::{Chosen, TimeLine};
use proptest::prelude::*;

fn written(recording: &Recording, dialect: Dialect, to_utc_ns: i64) -> String {
    let files = Files::default();
    let line = TimeLine { to_utc_ns: Some(to_utc_ns) };
    let marks = Marks::new(std::slice::from_ref(&recording.info), line, Chosen::default());
    let writer = NetLogger::new(files.create("log"), dialect, std::slice::from_ref(&recording.info));
    recording.export(&mut Marked::new(marks, writer));
    String::from_utf8(files.bytes("log")).expect("text")
}

fn read(log: &str) -> Recording {
    let mut events = Events::new([]);
    for line in log.lines() {
        events.line(&parse(line).unwrap_or_else(|error| panic!("{error}: {line}")));
    }
    assert_eq!(events.unknown.len(), 0, "{:?}", events.unknown);
    let batches = vec![events.take(true)];
    Recording { info: events.info("the log"), batches }
}

/// The lines without journey numbers, which depend on the order of ends.
fn lines(log: &str) -> Vec<String> {
    let number = |field: &str| field.starts_with("ID=") || field.starts_with("guid=");
    let mut lines: Vec<String> = log
        .lines()
        .map(|line| line.split(' ').filter(|field| !number(field)).collect::<Vec<_>>().join(" "))
        .collect();
    lines.sort_unstable();
    lines
}

fn comes_back(options: GeneratorOptions, names: &[String]) -> Result<(), TestCaseError> {
    let recording = Recording::generated(options, names);
    for dialect in [Dialect::Ulm, Dialect::Bp] {
        let log = written(&recording, dialect, 1_767_323_045_000_000_000);
        let again = written(&read(&log), dialect, 0);
        let (was, is) = (lines(&log), lines(&again));
        prop_assert!(was.len() > 100);
        let other = was.iter().zip(&is).find(|(was, is)| was != is);
        prop_assert!(was == is, "{} lines were {}; first other {other:#?}", is.len(), was.len());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_line_comes_back((options, names) in recordings()) {
        comes_back(options, &names)?;
    }
}

const SENT: FlowId = FlowId(1);
const CAME: FlowId = FlowId(2);
const SIZES: [u32; 4] = [1_000, 1_000, 1_000, 500];

/// Three calls that send four datagrams each as one super-packet (`UDP_SEGMENT`), which the sender's device or
/// the receiver's socket splits.
fn super_packets(v6: bool, at_return: bool, cut_by_device: bool) -> Recording {
    let flags = if v6 { EventFlags::IPV6 } else { EventFlags::default() };
    let mut events = Vec::new();
    for call in 0..3_u16 {
        let t0 = 1_000_000 + u64::from(call) * 100_000;
        // The identifications wrap within the first one.
        let ip_id = if v6 { 0 } else { 65_533_u16.wrapping_add(call * 4) };
        let at = |hop: Hop, ns: u64| {
            let flow = if hop.direction() == magscope_core::Direction::Tx { SENT } else { CAME };
            Event { flow, proto: Proto::UDP, flags, ..Event::at(hop, t0 + ns) }
        };
        let send = Event { tgid: 5, tid: 5, socket: 50, len: 3_500, ..at(Hop::AppSend, 0) };
        if at_return {
            events.push(Event { time_ns: t0 + 900, flags: flags.with(EventFlags::AT_RETURN), ..send });
        } else {
            events.push(send);
        }
        let skb = u32::from(call + 1) * 0x1000;
        let whole = |hop, ns| Event {
            extent: ExtentKind::Segments.of(1_000),
            len: 3_500,
            segs: 4,
            ip_id,
            skb,
            ..at(hop, ns)
        };
        let one = |hop, ns, n: u16| Event {
            len: SIZES[usize::from(n)],
            segs: 1,
            ip_id: if v6 { 0 } else { ip_id.wrapping_add(n) },
            skb: skb + u32::from(n),
            ..at(hop, ns + u64::from(n))
        };
        events.push(Event { tid: 5, tgid: 5, socket: 50, ..whole(Hop::IpOut, 100) });
        for (hop, ns) in [(Hop::DevXmit, 200), (Hop::DevRecv, 300), (Hop::IpIn, 400)] {
            if cut_by_device {
                events.extend((0..4).map(|n| one(hop, ns, n)));
            } else {
                events.push(whole(hop, ns));
            }
        }
        events.extend((0..4).map(|n| Event { socket: 70, ..one(Hop::UdpRecv, 500, n) }));
        let read = |n: u16| Event {
            tgid: 7,
            tid: 7,
            socket: 70,
            len: SIZES[usize::from(n)],
            ..at(Hop::AppRecv, 1_000 + 10 * u64::from(n))
        };
        events.extend((0..4).map(read));
    }
    events.sort_by_key(|event| event.time_ns);
    let ends = if v6 { ["[fd00::1]:4000", "[fd00::2]:80"] } else { ["10.0.0.1:4000", "10.0.0.2:80"] };
    let [local, remote] = ends.map(|end| end.parse().expect("an address"));
    let sent = Flow { id: SENT, netns: 1, proto: Proto::UDP, local, remote };
    let task = |tid, comm: &str| Task { tgid: tid, tid, uid: 0, cgroup: 0, comm: comm.to_owned() };
    let hops: std::collections::BTreeSet<Hop> = events.iter().map(|event| event.hop).collect();
    let service = |hop: &Hop| HopService {
        hop: *hop,
        service: if hops.contains(hop) {
            Service::Served { backend: Backend::Generator, point: String::new(), note: String::new() }
        } else {
            Service::Missing { because: "not asked for".to_owned() }
        },
    };
    let coverage = Coverage { hops: Hop::ALL.iter().map(service).collect(), ..Coverage::default() };
    let batch = Batch {
        watermark_ns: events.last().map_or(0, |event| event.time_ns),
        events,
        flows: vec![sent, Flow { id: CAME, local: remote, remote: local, ..sent }],
        tasks: vec![task(5, "writer"), task(7, "reader")],
        ..Batch::default()
    };
    Recording { info: NodeInfo { host: "a".to_owned(), coverage, ..NodeInfo::default() }, batches: vec![batch] }
}

#[test]
fn every_datagram_of_one_call_keeps_its_send() {
    for (v6, at_return, cut) in (0..8).map(|n| (n & 1 != 0, n & 2 != 0, n & 4 != 0)) {
        let recording = super_packets(v6, at_return, cut);
        for dialect in [Dialect::Ulm, Dialect::Bp] {
            let log = written(&recording, dialect, 1_767_323_045_000_000_000);
            let sends = log.lines().filter(|l| l.contains("EVNT=app.send ") || l.contains("event=app.send "));
            assert_eq!(sends.count(), 12, "{log}");
            let again = written(&read(&log), dialect, 0);
            assert_eq!(
                lines(&again),
                lines(&log),
                "v6: {v6}, at return: {at_return}, cut by the device: {cut}"
            );
        }
    }
}

#[test]
fn bytes_of_a_datagram_that_was_read_in_part_are_counted() {
    let mut recording = super_packets(false, false, false);
    let reads = recording.batches[0].events.iter_mut().filter(|event| event.hop == Hop::AppRecv);
    let not_read: u64 = reads.map(|event| std::mem::replace(&mut event.len, 100) - 100).map(u64::from).sum();
    let info = std::slice::from_ref(&recording.info);
    let marks = Marks::new(info, TimeLine { to_utc_ns: Some(0) }, Chosen::default());
    let files = Files::default();
    let writer = NetLogger::new(files.create("log"), Dialect::Ulm, info);
    let written = recording.export(&mut Marked::new(marks, writer));
    let read_in_part: Vec<_> =
        written.left_out.iter().filter(|(words, _)| words.contains("read in part")).collect();
    assert!(
        matches!(read_in_part.as_slice(), [(words, n)] if *n == not_read && words.ends_with(&format!(": app.recv {n}"))),
        "{:?}",
        written.left_out
    );
}

/// The log of a generated capture as if its two ends were two hosts with equal thread ids.
fn of_two_hosts(log: &str) -> String {
    let rx = |line: &str| {
        let event = line.split(' ').find_map(|field| field.strip_prefix("NL.EVNT="));
        let hop = event.and_then(|event| event.parse::<Hop>().ok());
        hop.is_some_and(|hop| hop.direction() == magscope_core::Direction::Rx)
    };
    let host = |line: &str| if rx(line) { "vm-2" } else { "vm-1" };
    let field = |line: &str, field: &str| match field.split_once('=') {
        Some(("HOST", _)) => format!("HOST={}", host(line)),
        Some(("MAG.NODE", _)) => "MAG.NODE=init".to_owned(),
        _ => field.to_owned(),
    };
    let each =
        log.lines().map(|line| line.split(' ').map(|f| field(line, f)).collect::<Vec<_>>().join(" ") + "\n");
    each.collect()
}

/// Events of the hops above the packets, by hop.
fn upper(recording: &Recording) -> Vec<(Hop, usize)> {
    let hops = [Hop::SockReady, Hop::TaskWake, Hop::TaskRun];
    let events = || recording.batches.iter().flat_map(|batch| &batch.events).filter(|e| e.proto == Proto::TCP);
    hops.map(|hop| (hop, events().filter(|event| event.hop == hop).count())).to_vec()
}

#[test]
fn a_log_of_two_hosts_keeps_their_names() {
    let options = GeneratorOptions { events: 20_000, ..GeneratorOptions::default() };
    let names = ["client".to_owned(), "server".to_owned()];
    let recording = Recording::generated(options, &names);
    let log = of_two_hosts(&written(&recording, Dialect::Ulm, 1_767_323_045_000_000_000));
    assert!(log.contains("HOST=vm-1 ") && log.contains("HOST=vm-2 "));
    let back = read(&log);
    let again = written(&back, Dialect::Ulm, 0);
    let names = |log: &str| {
        let name = |field: &&str| field.starts_with("HOST=") || field.starts_with("MAG.NODE=");
        let mut all: Vec<String> =
            log.lines().map(|line| line.split(' ').filter(name).collect::<Vec<_>>().join(" ")).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(names(&again).len(), names(&log).len());
    assert!(names(&again) == names(&log), "{:?} was {:?}", names(&again).first(), names(&log).first());
}

#[test]
fn a_log_has_as_many_wake_ups_as_the_capture_had() {
    let options = GeneratorOptions { events: 20_000, ..GeneratorOptions::default() };
    let recording = Recording::generated(options, &["a".to_owned(), "b".to_owned()]);
    for dialect in [Dialect::Ulm, Dialect::Bp] {
        let back = read(&written(&recording, dialect, 0));
        for ((hop, was), (_, is)) in upper(&recording).into_iter().zip(upper(&back)) {
            // A log lacks events without a journey; additional events would be false.
            assert!(is <= was, "{hop}: {is} of {was}");
        }
    }
}

#[test]
fn netloggers_size_is_bytes() {
    let line = "DATE=20070215110703.2102 HOST=a NL.EVNT=ip.out ID=1 SRC=10.1.1.10 DST=10.1.1.11 SZ=1448";
    assert_eq!(read(line).batches[0].events[0].len, 1_448);
}
