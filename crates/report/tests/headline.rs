//! The headline of reports over made-up captures, each with one thing that is wrong, or none.

use crate::common::*;
use magscope_core::batch::{Loss, LossCause};
use magscope_core::context::NodeContext;
use magscope_core::journey::{Correlator, Limits};
use magscope_core::node::{Backend, Coverage, DropReason, NodeInfo};
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, DetailKind, Event, FlowId, Generator, GeneratorOptions, Hop, Proto, Task};
use magscope_report::{HeadlineKind, Report, ReportBuilder, render_text};
use std::time::Duration;

const FULL: u32 = 6;

fn node() -> NodeInfo {
    let reasons = vec![DropReason { number: FULL, name: "socket_rcvbuff".to_owned() }];
    NodeInfo {
        host: "one".to_owned(),
        drop_reasons: reasons,
        coverage: Coverage::full(Backend::Generator),
        ..NodeInfo::default()
    }
}

fn report_of(node: &NodeInfo, source: &mut dyn FnMut(&mut Batch) -> bool) -> Report {
    let mut correlator = Correlator::of_node(node, Limits::default());
    let (mut report, mut batch, mut done) = (ReportBuilder::new(node), Batch::default(), Vec::new());
    loop {
        let goes_on = source(&mut batch);
        correlator.push(&batch, &mut done);
        report.batch(&batch);
        if !goes_on {
            correlator.finish(&mut done);
        }
        for journey in done.drain(..) {
            report.journey(&journey, &NodeContext { correlator: &correlator, node });
        }
        if !goes_on {
            return report.finish();
        }
    }
}

fn report(events: Vec<Event>, losses: Vec<Loss>) -> Report {
    let task = Task { tid: 7, tgid: 7, uid: 0, cgroup: 0, comm: "consumer".to_owned() };
    let mut all = Some(Batch { tasks: vec![task], losses, ..batch(flows(Proto::UDP), events) });
    report_of(&node(), &mut |batch| {
        *batch = all.take().unwrap_or_default();
        false
    })
}

fn generated(options: GeneratorOptions) -> Report {
    generated_under(options, &[])
}

/// The report of generated traffic that is said to be recorded under these settings.
fn generated_under(options: GeneratorOptions, settings: &[&str]) -> Report {
    let mut generator = Generator::new(options);
    let mut node = generator.info().clone();
    node.settings.extend(settings.iter().map(|setting| (*setting).to_owned()));
    report_of(&node, &mut |batch| {
        generator.next(batch, Duration::ZERO).expect("it never fails") != Progress::End
    })
}

/// A datagram that arrives and is read after a wait for a CPU.
fn whole(at_ns: u64, id: u16, wait_ns: u64) -> Vec<Event> {
    let woken = by(udp(Hop::TaskWake, at_ns + 60, FlowId::NONE, 0, 0, 0), 7, SOCKET);
    let runs = by(udp(Hop::TaskRun, at_ns + 70 + wait_ns, FlowId::NONE, 0, 0, 0), 7, SOCKET);
    let (sent, arrived) = (down(at_ns, id, u32::from(id), 100), up(at_ns + 50, id, u32::from(id) + 1_000, 100));
    [sent, arrived, vec![woken, runs, read(at_ns + 80 + wait_ns, 100)]].concat()
}

/// A datagram that its socket has no room for.
fn dropped(at_ns: u64, id: u16) -> Vec<Event> {
    let skb = u32::from(id) + 1_000;
    let detail = DetailKind::DropReason.of(FULL);
    let drop = Event { detail, ..udp(Hop::SkbDrop, at_ns + 80, SERVER, id, skb, 100) };
    let mut arrived = up(at_ns + 50, id, skb, 100);
    arrived.pop(); // the socket is not ready for it
    [down(at_ns, id, u32::from(id), 100), arrived, vec![drop]].concat()
}

const APART_NS: u64 = 100_000_000;

#[test]
fn a_full_receive_buffer_is_named_with_its_reader() {
    let of = |n: u16| {
        let at_ns = u64::from(n) * APART_NS + 1;
        if n % 20 < 17 { dropped(at_ns, n + 1) } else { whole(at_ns, n + 1, 100) }
    };
    let report = report((0..100).flat_map(of).collect(), Vec::new());
    assert_eq!(report.headline.kind, HeadlineKind::Loss, "{:?}", report.headline);
    let text = &report.headline.text;
    let expected = "85 % of datagrams to :80 dropped: the receive buffer is full (socket_rcvbuff), reader `consumer` (85 of 100)";
    assert_eq!(text, expected);
}

#[test]
fn a_wait_for_a_cpu_is_named_with_its_thread() {
    let of = |n: u16| whole(u64::from(n) * APART_NS + 1, n + 1, 20_000_000);
    let report = report((0..50).flat_map(of).collect(), Vec::new());
    assert_eq!(report.headline.kind, HeadlineKind::Slow, "{:?}", report.headline);
    let text = &report.headline.text;
    assert!(text.starts_with("udp to :80: p99 20.0 ms, 100 % waiting for a CPU (`consumer`)"), "{text}");
}

#[test]
fn retransmissions_are_counted() {
    let options = GeneratorOptions { events: 60_000, flows: 4, lose_every: 20, ..GeneratorOptions::default() };
    let report = generated(options);
    assert_eq!(report.headline.kind, HeadlineKind::Retransmissions, "{:?}", report.headline);
    assert!(report.headline.text.contains(" resent"), "{:?}", report.headline);
}

#[test]
fn retransmissions_of_sampled_events_are_a_lower_bound() {
    let options =
        || GeneratorOptions { events: 60_000, flows: 4, lose_every: 20, ..GeneratorOptions::default() };
    let exact = generated(options()).headline.text;
    assert!(exact.contains(" % of byte ranges ") && exact.contains(" resent ("), "{exact}");
    let flows = generated_under(options(), &["sample flows 1/4"]).headline.text;
    assert!(flows.contains(" % of recorded byte ranges "), "{flows}");
    let torn = generated_under(options(), &["sample 1/10 tcp.retransmit"]).headline.text;
    assert!(torn.starts_with("at least ") && !torn.contains(" %") && !torn.contains(" of "), "{torn}");
}

#[test]
fn an_idle_host_has_no_traffic_and_no_praise() {
    let report = report(Vec::new(), Vec::new());
    assert_eq!(report.headline.kind, HeadlineKind::Unknown);
    assert_eq!(report.headline.text, "no traffic seen");
}

#[test]
fn nothing_is_wrong_with_quick_and_whole_journeys() {
    let of = |n: u16| whole(u64::from(n) * APART_NS + 1, n + 1, 1_000);
    let report = report((0..50).flat_map(of).collect(), Vec::new());
    assert_eq!(report.headline.kind, HeadlineKind::NothingWrong, "{:?}", report.headline);
    assert_eq!(report.headline.text, "nothing is wrong: 10 journeys/s, p99 1.08 µs, no drop");
    let first = render_text(&report, 80).lines().next().map(str::to_owned);
    assert_eq!(first.as_deref(), Some("nothing is wrong: 10 journeys/s, p99 1.08 µs, no drop"));
}

#[test]
fn missed_events_are_part_of_the_line() {
    let loss = Loss { cpu: 0, from_ns: 1, to_ns: u64::MAX / 2, count: 900, cause: LossCause::RingFull };
    let lossy = |losses: Vec<Loss>| {
        let of = |n: u16| whole(u64::from(n) * APART_NS + 1, n + 1, 1_000);
        report((0..50).flat_map(of).collect(), losses)
    };
    let late = Loss { from_ns: 60 * APART_NS, to_ns: 61 * APART_NS, ..loss };
    let headline = lossy(vec![late]).headline;
    assert!(headline.text.starts_with("nothing wrong seen: "), "{headline:?}");
    assert!(headline.text.contains("900 events missed"), "{headline:?}");
    let headline = lossy(vec![loss]).headline;
    assert!(
        headline.kind != HeadlineKind::NothingWrong || headline.text.contains("900 events missed"),
        "{headline:?}"
    );
}

#[test]
fn traffic_behind_a_filter_is_not_praised() {
    let node = NodeInfo { settings: vec!["filter port = 80".to_owned()], ..node() };
    let of = |n: u16| whole(u64::from(n) * APART_NS + 1, n + 1, 1_000);
    let mut all = Some(batch(flows(Proto::UDP), (0..50).flat_map(of).collect()));
    let report = report_of(&node, &mut |batch| {
        *batch = all.take().unwrap_or_default();
        false
    });
    let text = &report.headline.text;
    assert!(text.starts_with("nothing wrong in what the filter or sampler lets through: "), "{text}");
}

#[test]
fn drops_that_are_not_captured_are_not_denied() {
    let mut node = node();
    for row in node.coverage.hops.iter_mut().filter(|row| row.hop == Hop::SkbDrop) {
        row.service = magscope_core::node::Service::Off;
    }
    let of = |n: u16| whole(u64::from(n) * APART_NS + 1, n + 1, 1_000);
    let mut all = Some(batch(flows(Proto::UDP), (0..50).flat_map(of).collect()));
    let report = report_of(&node, &mut |batch| {
        *batch = all.take().unwrap_or_default();
        false
    });
    assert!(report.headline.text.contains("drops are not captured"), "{:?}", report.headline);
}
