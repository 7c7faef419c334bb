//! Statistics against brute force, and halves against the complete capture.

use crate::common;
use common::*;
use magscope_core::context::NodeContext;
use magscope_core::journey::{Correlator, Journey, Limits};
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Event, EventFlags, FlowId, Generator, GeneratorOptions, Hop, Proto};
use magscope_report::stats::HopPairStats;
use magscope_report::stats::layers::{Layers, Units, is_border};
use magscope_report::stats::running::{Running, Window};
use magscope_report::{GroupBy, Label, Role};
use magscope_report::{Report, ReportBuilder};
use proptest::prelude::*;
use std::collections::HashMap;
use std::time::Duration;

/// Every event and journey of a generated capture, and its report.
fn report(
    options: GeneratorOptions,
    ask: impl FnOnce(ReportBuilder) -> ReportBuilder,
) -> (Vec<Event>, Vec<Journey>, Report) {
    let mut generator = Generator::new(options);
    let node = generator.info().clone();
    let mut correlator = Correlator::new(node.coverage.served(), Limits::default());
    let mut report = ask(ReportBuilder::new(&node));
    let (mut batch, mut done) = (Batch::default(), Vec::new());
    let (mut events, mut journeys) = (Vec::new(), Vec::new());
    loop {
        let progress = generator.next(&mut batch, Duration::ZERO).unwrap();
        events.extend_from_slice(&batch.events);
        report.batch(&batch);
        correlator.push(&batch, &mut done);
        if progress == Progress::End {
            correlator.finish(&mut done);
        }
        for journey in done.drain(..) {
            report.journey(&journey, &NodeContext { correlator: &correlator, node: &node });
            journeys.push(journey);
        }
        if progress == Progress::End {
            return (events, journeys, report.finish());
        }
    }
}

const PLAIN: GeneratorOptions = GeneratorOptions {
    flows: 12,
    events: 60_000,
    events_per_s: 1_000_000,
    batch_events: 8_192,
    max_message_bytes: 65_536,
    lose_every: 11,
    seed: 5,
};

/// Possible events of a stack, and some impossible ones.
fn events() -> impl Strategy<Value = Vec<Event>> {
    let hop = prop::sample::select(Hop::ALL);
    let time = prop_oneof![0..1_000_000_u64, any::<u64>()];
    let len = prop_oneof![Just(0), 1..100_000_u32, any::<u32>()];
    let rest = (0..4_u64, 0..3_u64, prop_oneof![Just(6_u8), Just(17), any::<u8>()], 0..40_u16, any::<u8>());
    let event =
        (hop, time, len, rest).prop_map(|(hop, time_ns, len, (flow, socket, proto, segs, flags))| Event {
            flow: FlowId(flow),
            socket,
            len,
            segs,
            flags: EventFlags(if flags < 200 { 0 } else { u16::from(flags) << 2 | 3 }),
            proto: Proto(proto),
            ..Event::at(hop, time_ns)
        });
    prop::collection::vec(event, 0..300)
}

fn layers<'a>(events: impl IntoIterator<Item = &'a Event>) -> Layers {
    let mut layers = Layers::default();
    events.into_iter().for_each(|event| layers.event(0, event));
    layers
}

#[test]
fn sockets_of_two_recordings_with_one_number_are_two() {
    let sent = |time_ns| Event { socket: 7, len: 10, proto: Proto::UDP, ..Event::at(Hop::AppSend, time_ns) };
    let mut two = Layers::default();
    for (node, time_ns) in [(0, 100), (1, 1_000), (0, 200), (1, 1_100)] {
        two.event(node, &sent(time_ns));
    }
    let (_, borders) = two.finish().remove(0);
    assert_eq!(borders[0].1.spacing_ns(), Some(100.0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn quantiles_are_those_of_sorting(times in prop::collection::vec(
        prop_oneof![0..2_000_u64, 0..50_000_000_u64, (0..37_u32).prop_map(|bits| 1 << bits)], 1..600,
    )) {
        let mut stats = HopPairStats::new();
        for ns in &times {
            stats.record(*ns);
        }
        let mut sorted = times.clone();
        sorted.sort_unstable();
        let q = stats.quantiles().unwrap();
        prop_assert_eq!(q.n, times.len() as u64);
        // A value within one part in 128, plus the resolution of a bucket.
        let near = |found: u64, exact: u64| found.abs_diff(exact) <= exact / 100 + 1;
        for (share, found) in [(0.5, q.p50_ns), (0.9, q.p90_ns), (0.99, q.p99_ns), (0.999, q.p999_ns)] {
            let rank = ((share * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len());
            prop_assert!(near(found, sorted[rank - 1]), "{}: {} for {}", share, found, sorted[rank - 1]);
        }
        prop_assert_eq!(q.max_ns, *sorted.last().unwrap(), "the longest is told as it is");
        let buckets = stats.buckets();
        prop_assert_eq!(buckets.iter().map(|bucket| bucket.n).sum::<u64>(), q.n);
        for bucket in buckets {
            let inside = |ns: &&u64| **ns <= bucket.at_most && (**ns > bucket.at_most / 2 || bucket.at_most == 0);
            prop_assert_eq!(times.iter().filter(inside).count() as u64, bucket.n, "{:?}", bucket);
        }
    }

    #[test]
    fn two_halves_make_the_whole(events in events(), cut in any::<prop::sample::Index>()) {
        let (first, second) = events.split_at(if events.is_empty() { 0 } else { cut.index(events.len()) });
        let mut merged = layers(first);
        merged.merge(&layers(second));
        let whole = layers(&events);
        prop_assert_eq!(merged.others(), whole.others());
        prop_assert_eq!(merged.finish(), whole.finish());
        let times = |events: &[Event]| {
            let mut stats = HopPairStats::new();
            for event in events {
                stats.record(event.time_ns);
            }
            stats
        };
        let mut merged = times(first);
        merged.merge(&times(second));
        prop_assert_eq!(merged.quantiles(), times(&events).quantiles());
        prop_assert_eq!(merged.buckets(), times(&events).buckets());
    }

    #[test]
    fn every_byte_of_every_event_is_in_its_border(events in events()) {
        let counted: HashMap<(Proto, Hop), Units> =
            layers(&events).finish().into_iter().flat_map(|(proto, all)| {
                all.into_iter().map(move |(hop, units)| ((proto, hop), units))
            }).collect();
        for proto in [Proto::TCP, Proto::UDP] {
            for hop in Hop::ALL {
                // Order-only records were received like all others.
                let is_excluded = |e: &&Event| e.peeks() || e.flags.contains(EventFlags::FRAGMENT);
                let mine = || events.iter().filter(|e| e.proto == proto && e.hop == *hop);
                let Some(units) = counted.get(&(proto, *hop)) else {
                    prop_assert!(!is_border(*hop) || mine().next().is_none());
                    continue;
                };
                let units_of = || mine().filter(|e| !is_excluded(e) && e.len > 0);
                prop_assert_eq!(units.units, units_of().count() as u64);
                let bytes = units_of().map(|e| u64::from(e.len)).sum::<u64>();
                prop_assert_eq!(units.bytes, bytes);
                prop_assert_eq!(units.strip.slices().map(|s| s.amount).sum::<u64>(), bytes);
                prop_assert_eq!(units.sizes.iter().sum::<u64>(), units.units);
                prop_assert_eq!(units.units + units.empty + units.not_counted, mine().count() as u64);
            }
        }
    }

    #[test]
    fn a_running_average_is_the_sum_over_its_window(
        receives in prop::collection::vec((0..1_000_u64, 0..100_000_u64), 0..120),
        n in 1..40_usize,
    ) {
        let mut running = Running::new(Window::Receives(n as u32));
        let (mut at, mut all): (u64, Vec<(u64, u64)>) = (0, Vec::new());
        for (gap, bytes) in receives {
            at += gap;
            all.push((at, bytes));
            let before = running.latest;
            running.receive(at, bytes);
            let base = all.len().checked_sub(n + 1).map(|base| all[base].0).filter(|base| *base < at);
            let expected = base.map(|base| {
                all[all.len() - n..].iter().map(|(_, b)| *b).sum::<u64>() as f64 * 1e9 / (at - base) as f64
            });
            prop_assert_eq!(running.latest.map(|p| p.bytes_per_s), expected.or(before.map(|p| p.bytes_per_s)));
        }
    }
}

#[test]
fn layers_of_generated_traffic_hold_every_byte_that_was_sent() {
    let (events, _, report) = report(PLAIN, ReportBuilder::throughput);
    let throughput = report.throughput.unwrap();
    for protocol in &throughput.protocols {
        let of = |hop: Hop| protocol.borders.iter().find(|border| border.hop == hop);
        let sent = of(Hop::AppSend).unwrap();
        assert_eq!(sent.bytes, of(Hop::AppRecv).unwrap().bytes);
        let again: u64 = events
            .iter()
            .filter(|e| e.hop == Hop::TcpRetransmit && e.proto == protocol.proto)
            .map(|e| u64::from(e.len))
            .sum();
        assert_eq!(of(Hop::DevXmit).unwrap().bytes, sent.bytes + again, "what is sent again passes again");
        assert!(sent.units > 500 && (sent.mean_bytes - sent.bytes as f64 / sent.units as f64).abs() < 1e-6);
        let gaps = |flow: FlowId| {
            let mine = events.iter().filter(|e| e.hop == Hop::AppSend && e.flow == flow);
            let times: Vec<u64> = mine.map(|e| e.time_ns).collect();
            times.windows(2).map(|w| w[1] - w[0]).collect::<Vec<_>>()
        };
        let mut flows: Vec<FlowId> = events
            .iter()
            .filter(|e| e.hop == Hop::AppSend && e.proto == protocol.proto)
            .map(|e| e.flow)
            .collect();
        flows.sort_unstable();
        flows.dedup();
        let all: Vec<u64> = flows.into_iter().flat_map(gaps).collect();
        let mean = all.iter().sum::<u64>() as f64 / all.len() as f64;
        assert!((sent.spacing_ns.unwrap() - mean).abs() < 1e-6, "{sent:?} {mean}");
    }
}

#[test]
fn groups_hold_every_journey_once_or_twice() {
    for by in GroupBy::ALL {
        let (_, journeys, report) = report(PLAIN, |report| report.by(by).top_flows(3));
        let table = report.groups.unwrap();
        let times = if matches!(by, GroupBy::Flow | GroupBy::Service) { 1 } else { 2 };
        let figures = || table.rows.iter().map(|row| &row.figures).chain([&table.rest]);
        assert_eq!(figures().map(|f| f.journeys).sum::<u64>(), times * journeys.len() as u64, "{by}");
        let bytes: u64 = journeys.iter().map(Journey::bytes).sum();
        assert_eq!(figures().map(|f| f.bytes).sum::<u64>(), times * bytes, "{by}");
        assert_eq!(
            table.rows.len() as u64 + table.others,
            match by {
                GroupBy::Flow => 12,
                GroupBy::Service => 2,
                _ => 4,
            }
        );
        for row in &table.rows {
            assert_eq!(row.figures.histogram.iter().map(|b| b.n).sum::<u64>(), row.figures.whole);
            assert!((row.figures.blame.iter().map(|part| part.share).sum::<f64>() - 1.0).abs() < 1e-9);
            assert!(!row.may_be_more);
        }
        assert!(table.rows.is_sorted_by(|a, b| a.figures.bytes >= b.figures.bytes));
    }
    let (_, _, report) = report(PLAIN, |report| report.by(GroupBy::Process));
    let rows = report.groups.unwrap().rows;
    let sender = rows.iter().find(|row| row.role == Some(Role::Sends)).unwrap();
    assert!(
        matches!(&sender.label, Label::Process { pid: 100, comm, node, .. } if comm == "sender" && node == "client"),
        "{sender:?}"
    );
}

#[test]
fn many_flows_stay_bounded_and_are_counted() {
    let options = GeneratorOptions { flows: 20_000, events: 600_000, ..PLAIN };
    let (_, journeys, report) = report(options, |report| report.window(Window::Receives(10)).by(GroupBy::Flow));
    let mut flows: Vec<FlowId> = journeys.iter().map(|j| j.tx_flow).collect();
    flows.sort_unstable();
    flows.dedup();
    assert!(flows.len() > 10_000 && report.flows.len() == 20 && report.flows_total >= flows.len() as u64);
    let table = report.groups.unwrap();
    let figures = || table.rows.iter().map(|row| &row.figures).chain([&table.rest]);
    assert_eq!(figures().map(|f| f.journeys).sum::<u64>(), journeys.len() as u64);
    assert_eq!(figures().map(|f| f.bytes).sum::<u64>(), journeys.iter().map(Journey::bytes).sum::<u64>());
    let running = report.running.unwrap();
    let received = running.rows.iter().map(|row| row.bytes).sum::<u64>() + running.other_bytes;
    assert_eq!(received, running.all.bytes);
    assert!(running.others > 10_000);
}

#[test]
fn receives_of_a_socket_without_a_peer_have_its_reader() {
    let read = |i: u64| by(udp(Hop::AppRecv, i * 1_000, FlowId::NONE, 0, 0, 100), 7, 99);
    let mut batch = batch(Vec::new(), (1..50).map(read).collect());
    batch.tasks = vec![magscope_core::Task { tgid: 7, tid: 7, uid: 0, cgroup: 1, comm: "resolver".to_owned() }];
    let node = Generator::new(GeneratorOptions::default()).info().clone();
    let mut report = ReportBuilder::new(&node).window(Window::Receives(10));
    report.batch(&batch);
    let running = report.finish().running.unwrap();
    let row = &running.rows[0];
    assert_eq!((row.ends.reader.as_str(), row.receives, row.bytes), ("resolver", 49, 4_900));
    assert_eq!(row.latest.map(|p| p.bytes_per_s.round()), Some(1e8));
    assert_eq!((running.window_receives, running.hops.as_slice()), (Some(10), &[Hop::AppRecv][..]));
}
