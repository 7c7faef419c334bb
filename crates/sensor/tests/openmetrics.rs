//! Compares the metrics formats with independent parsers.

use magscope_core::journey::Limits;
use magscope_core::node::DropReason;
use magscope_core::source::{Progress, Source, SourceError};
use magscope_core::synthesis::{Sum, Synthesis};
use magscope_core::{
    Batch, DetailKind, Event, FlowId, Generator, GeneratorOptions, Hop, HopCount, Loss, LossCause,
};
use magscope_sensor::exposition::Format;
use magscope_sensor::openmetrics::{Dialect, write};
use magscope_sensor::{
    Began, BreakCount, CauseCount, ClockHint, ClockRelation, DropCount, GradeCount, HopState, HopTally,
    HostSnapshot, JourneyCount, KernelHop, KernelTally, LeftOut, PairTimes, SelfUsage, Sensor, ServiceTally,
    Snapshot, Tally, Times,
};
use magscope_timeline::join::OneClock;
use magscope_timeline::merged_reader::walk;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Generated traffic with drops, losses and a sampler.
struct Troubled(Generator, magscope_core::node::NodeInfo, bool);

impl Source for Troubled {
    fn info(&self) -> &magscope_core::node::NodeInfo {
        &self.1
    }

    fn next(&mut self, batch: &mut Batch, timeout: Duration) -> Result<Progress, SourceError> {
        let progress = self.0.next(batch, timeout)?;
        if !std::mem::replace(&mut self.2, true) {
            let at_ns = batch.events.last().map_or(0, |event| event.time_ns);
            for reason in [2, 2, 77] {
                batch.events.push(Event {
                    detail: DetailKind::DropReason.of(reason),
                    ..Event::at(Hop::SkbDrop, at_ns)
                });
            }
            batch.losses.push(Loss {
                cpu: 1,
                from_ns: at_ns,
                to_ns: at_ns,
                count: 7,
                cause: LossCause::RingFull,
            });
            batch.late = 2;
            let count = HopCount {
                time_ns: at_ns,
                hop: Hop::TcpState,
                kept: 10,
                filtered: 3,
                undecided: 0,
                sampled: 30,
                synthesised: 0,
            };
            batch.counts.push(count);
            let row = |of, n, sum, buckets| Synthesis {
                from_ns: 0,
                to_ns: at_ns,
                hop: Hop::DevXmit,
                of,
                n,
                sum,
                buckets,
            };
            let bucket = magscope_core::histogram::bucket(3_000) as u16;
            batch.synthesis.push(row(Sum::Since(Hop::DevQueue), 2, 6_000, vec![(bucket, 2)]));
            batch.synthesis.push(row(Sum::Begun, 1, 0, Vec::new()));
            batch.synthesis.push(row(Sum::Flow(FlowId(7)), 3, 192, Vec::new()));
            batch.synthesis.push(Synthesis { hop: Hop::SkbDrop, ..row(Sum::Reason(2), 5, 0, Vec::new()) });
        }
        Ok(progress)
    }
}

fn snapshot() -> Snapshot {
    let options = GeneratorOptions { events: 20_000, lose_every: 50, ..GeneratorOptions::default() };
    let generator = Generator::new(options);
    let mut info = generator.info().clone();
    info.drop_reasons = vec![DropReason { number: 2, name: "no \"socket\"\\\n\u{1b}[31m".to_owned() }];
    let mut sensor = Sensor::new(std::slice::from_ref(&info), false);
    let mut source = Troubled(generator, info, false);
    walk(&mut [&mut source], &OneClock, Limits::default(), Duration::ZERO, |piece| sensor.add(&piece))
        .expect("a walk");
    let mut snapshot = sensor.snapshot(SelfUsage { version: "1.2.3".to_owned(), cpu_ns: 1_500_000_000 });
    snapshot.hosts[0].utc_error_ns = Some(40_000);
    snapshot.clocks = vec![ClockRelation {
        a: "web-1".to_owned(),
        b: "web-2".to_owned(),
        state: "suspect".to_owned(),
        half_width_ns: Some(27_500),
        steps: 1,
        last_step_ns: Some(5_000_000),
        sources_refuted: 2,
        hints: vec![ClockHint { hint: "collapse".to_owned(), text: "the bounds narrow".to_owned() }],
        packets_used: 333,
        packets_rejected: 4,
    }];
    snapshot
}

#[test]
fn the_text_is_what_it_was() {
    let snapshot = snapshot();
    insta::assert_snapshot!("metrics", write(&snapshot, Dialect::OpenMetrics));
    insta::assert_snapshot!("metrics_plain", write(&snapshot, Dialect::Prometheus));
}

#[test]
fn sums_are_those_of_the_events() {
    let mut generator =
        Generator::new(GeneratorOptions { events: 20_000, lose_every: 50, ..GeneratorOptions::default() });
    let (mut batch, mut events, mut bytes) = (Batch::default(), [0_u64; 64], [0_u64; 64]);
    while generator.next(&mut batch, Duration::ZERO).expect("more") == Progress::More {
        for event in &batch.events {
            events[usize::from(event.hop.id())] += 1;
            bytes[usize::from(event.hop.id())] += u64::from(event.len);
        }
    }
    let snapshot = snapshot();
    let host = &snapshot.hosts[0];
    for hop in Hop::ALL.iter().filter(|hop| **hop != Hop::SkbDrop) {
        let tally = host.total.hop(*hop);
        assert_eq!(
            (tally.events, tally.bytes),
            (events[usize::from(hop.id())], bytes[usize::from(hop.id())]),
            "{hop}"
        );
    }
    assert!(events[usize::from(Hop::TcpRetransmit.id())] > 0, "some are sent again");
    assert_eq!(host.total.drops.iter().map(|drop| drop.n).collect::<Vec<_>>(), [2, 1]);
    assert_eq!((host.total.lost(), host.total.late), (7, 2));
    assert_eq!(host.window, host.total, "all of it within a minute");
    assert!(host.state(Hop::TcpState).is_some_and(|state| (state.weight - 4.0).abs() < 1e-9));
    let kernel = &host.total.kernel;
    let hops: Vec<_> = kernel.hops.iter().map(|hop| (hop.hop, hop.events, hop.bytes)).collect();
    assert_eq!(hops, [(Hop::DevXmit, 3, Some(192)), (Hop::SkbDrop, 0, Some(0))]);
    assert_eq!(
        (kernel.latencies[0].times.n, kernel.latencies[0].times.sum_ns, kernel.drops[0].n),
        (2, 6_000, 5)
    );
    let journeys: u64 = host.total.journeys.iter().map(|journey| journey.n).sum();
    assert!(journeys > 0 && host.total.queue.n > 0 && host.total.wakeup.n > 0, "{host:?}");
    // JSON round trip
    let json = serde_json::to_string(&snapshot).expect("JSON");
    assert_eq!(serde_json::from_str::<Snapshot>(&json).expect("the same"), snapshot);
}

proptest! {
    #[test]
    fn whatever_was_sensed_becomes_messages(snapshot in any_sensed()) {
        // Length-delimited messages that end with the answer.
        let mut left = &Format::Protobuf.write(&snapshot)[..];
        while !left.is_empty() {
            let length = prost::decode_length_delimiter(&mut left).expect("a length");
            left = left.get(length..).expect("so much");
        }
    }
}

fn hop() -> impl Strategy<Value = Hop> {
    proptest::sample::select(Hop::ALL)
}

fn times() -> impl Strategy<Value = Times> {
    let native = proptest::collection::vec((any::<i32>(), any::<u64>()), 0..20);
    (any::<u64>(), any::<u64>(), proptest::collection::vec(any::<u64>(), 0..40), native)
        .prop_map(|(n, sum_ns, bounds, native)| Times { n, sum_ns, bounds, native, ..Times::default() })
}

/// Arbitrary data under unique names.
fn name() -> impl Strategy<Value = String> {
    proptest::collection::vec(any::<char>(), 0..12).prop_map(String::from_iter)
}

fn tally() -> impl Strategy<Value = Tally> {
    let hops = proptest::collection::btree_map(hop(), (any::<u64>(), any::<u64>()), 0..8);
    let drops = proptest::collection::btree_map(name(), any::<u64>(), 0..5);
    let losses = proptest::collection::btree_map(name(), any::<u64>(), 0..5);
    let journeys = proptest::collection::btree_map((name(), name()), any::<u64>(), 0..5);
    let pairs = proptest::collection::btree_map((hop(), hop()), times(), 0..5);
    (hops, drops, losses, journeys, pairs, times(), any::<u64>()).prop_map(
        |(hops, drops, losses, journeys, pairs, queue, late)| Tally {
            hops: hops.into_iter().map(|(hop, (events, bytes))| HopTally { hop, events, bytes }).collect(),
            drops: drops.iter().map(|(reason, n)| DropCount { reason: reason.clone(), n: *n }).collect(),
            cleaned_up: drops.into_iter().map(|(reason, n)| DropCount { reason, n }).collect(),
            losses: losses.into_iter().map(|(cause, records)| CauseCount { cause, records }).collect(),
            resent: Vec::new(),
            journeys: journeys
                .into_iter()
                .map(|((proto, verdict), n)| JourneyCount { proto, verdict, n })
                .collect(),
            latencies: pairs
                .into_iter()
                .map(|((from, to), times)| PairTimes { from, to, proto: "tcp".to_owned(), times })
                .collect(),
            services: vec![ServiceTally {
                proto: "tcp".to_owned(),
                port: Some(443),
                process: "a\"\n".to_owned(),
                grades: vec![GradeCount { grade: "turn".to_owned(), n: late }],
                total: queue.clone(),
                answer: queue.clone(),
            }],
            late,
            clock_breaks: vec![BreakCount { kind: "realtime".to_owned(), n: late }],
            wakeup: queue.clone(),
            kernel: KernelTally {
                latencies: vec![PairTimes {
                    from: Hop::IpOut,
                    to: Hop::DevXmit,
                    proto: String::new(),
                    times: queue.clone(),
                }],
                hops: vec![KernelHop { hop: Hop::DevXmit, events: late, bytes: Some(late) }],
                drops: vec![DropCount { reason: "a\"\n".to_owned(), n: late }],
                cleaned_up: vec![DropCount { reason: "b".to_owned(), n: late }],
            },
            queue,
        },
    )
}

fn any_sensed() -> impl Strategy<Value = Snapshot> {
    let state =
        (proptest::option::of(name()), any::<f64>(), proptest::option::of((any::<u64>(), any::<u64>())));
    let began = proptest::option::of((any::<u64>(), proptest::option::of(any::<i64>())));
    let host = (tally(), name(), began, proptest::collection::btree_map(hop(), state, 0..8), any::<u64>());
    let hosts = proptest::collection::btree_map(name(), host, 0..4);
    let clocks = proptest::collection::btree_map((name(), name()), proptest::option::of(any::<u64>()), 0..4);
    (hosts, name(), any::<u64>(), clocks).prop_map(|(hosts, version, cpu_ns, clocks)| Snapshot {
        named: true,
        clocks: clocks
            .into_iter()
            .map(|((a, b), half_width_ns)| ClockRelation { a, b, half_width_ns, ..ClockRelation::default() })
            .collect(),
        clocks_left_out: cpu_ns,
        own: SelfUsage { version, cpu_ns },
        hosts: hosts
            .into_iter()
            .map(|(host, (total, kernel, began, hops, fed_ns))| HostSnapshot {
                host,
                kernel,
                began: began.map(|(ns, to_utc_ns)| Began { ns, to_utc_ns }),
                fed_ns,
                hops: hops
                    .into_iter()
                    .map(|(hop, (unserved, weight, left_out))| HopState {
                        hop,
                        unserved,
                        gap: None,
                        weight,
                        left_out: left_out.map(|(filtered, sampled)| LeftOut {
                            filtered,
                            undecided: 0,
                            sampled,
                        }),
                    })
                    .collect(),
                total,
                ..HostSnapshot::default()
            })
            .collect(),
    })
}

/// Parses texts from stdin, given as JSON, with Prometheus' Python client, and prints the number of samples of
/// each.
const PARSE: &str = r"
import json, sys
from prometheus_client.openmetrics import parser
from prometheus_client import parser as plain
texts = json.load(sys.stdin)
for strict, old in texts:
    families = list(parser.text_string_to_metric_families(strict))
    again = list(plain.text_string_to_metric_families(old))
    print(sum(len(family.samples) for family in families), len(again))
";

#[test]
fn a_parser_of_others_takes_whatever_was_sensed() {
    let home = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    let python = home.unwrap_or_default().join("magnet-scope/clients/bin/python");
    let there = Command::new(&python).args(["-c", "import prometheus_client"]).output();
    if !there.is_ok_and(|output| output.status.success()) {
        let because = "prometheus_client is not there (scripts/setup-clients.sh)";
        // Not `eprintln!`: the harness would hide it for a test that passes.
        let _ = writeln!(std::io::stderr(), "openmetrics: skipped, because {because}");
        return;
    }
    let mut runner = TestRunner::deterministic();
    let drawn = (0..200).map(|_| any_sensed().new_tree(&mut runner).expect("a value").current());
    let all: Vec<Snapshot> = drawn.chain([snapshot(), Snapshot::default()]).collect();
    let texts: Vec<_> = all
        .iter()
        .map(|snapshot| (write(snapshot, Dialect::OpenMetrics), write(snapshot, Dialect::Prometheus)))
        .collect();
    let mut child = Command::new(&python)
        .args(["-c", PARSE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python starts");
    let json = serde_json::to_vec(&texts).expect("JSON");
    child.stdin.take().expect("piped").write_all(&json).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let counts: Vec<&str> = stdout.lines().collect();
    assert_eq!(counts.len(), all.len());
    for ((text, _), line) in texts.iter().zip(counts) {
        let samples = text.split('\n').filter(|line| line.starts_with("magnet_scope_")).count();
        assert_eq!(line.split(' ').next(), Some(samples.to_string().as_str()), "{text}");
    }
}
