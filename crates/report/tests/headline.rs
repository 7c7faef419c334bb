//! The headline of reports over made-up captures, each with one thing that is wrong, or none.

use crate::common::*;
use magscope_core::batch::{Loss, LossCause};
use magscope_core::context::NodeContext;
use magscope_core::journey::{Correlator, Limits};
use magscope_core::node::{Backend, Coverage, DropReason, NodeInfo};
use magscope_core::source::{Progress, Source};
use magscope_core::{
    Batch, DetailKind, Event, FlowId, Generator, GeneratorOptions, Hop, Proto, Task, TcpSample,
};
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

/// Four answers that the kernel drops at their client.
fn dropped_answers(with_resets: bool) -> Report {
    const NO_REASON: u32 = 2;
    let reason = DropReason { number: NO_REASON, name: "not_specified".to_owned() };
    let node = NodeInfo { drop_reasons: vec![reason], ..node() };
    let of = |n: u32| {
        let (at_ns, seq) = (u64::from(n) * APART_NS + 1, 100 + n * 50);
        let mut events = vec![tcp(Hop::TcpSend, at_ns, SERVER, seq, 50)];
        events.extend(run(&PACKET_TX, at_ns + 10, SERVER, seq, 50));
        events.push(tcp(Hop::DevRecv, at_ns + 20, CLIENT, seq, 50));
        if with_resets {
            events.push(Event { flow: CLIENT, ..Event::at(Hop::TcpSendReset, at_ns + 30) });
        }
        let detail = DetailKind::DropReason.of(NO_REASON);
        events.push(Event { detail, ..tcp(Hop::SkbDrop, at_ns + 40, CLIENT, seq, 50) });
        events
    };
    let mut all = Some(batch(flows(Proto::TCP), (0..4).flat_map(of).collect()));
    report_of(&node, &mut |batch| {
        *batch = all.take().unwrap_or_default();
        false
    })
}

#[test]
fn answers_to_a_closed_connection_are_no_loss() {
    let headline = dropped_answers(true).headline;
    assert_eq!(headline.kind, HeadlineKind::Slow, "{headline:?}");
    let text = &headline.text;
    assert!(text.contains(" of byte ranges from :80 came after the client had closed"), "{text}");
    let headline = dropped_answers(false).headline;
    assert_eq!(headline.kind, HeadlineKind::Loss, "{headline:?}");
    assert!(headline.text.contains(" from :80 dropped: reason not_specified"), "{headline:?}");
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
    let loss = Loss { cpu: 0, from_ns: 1, to_ns: u64::MAX / 2, count: 90, cause: LossCause::RingFull };
    let lossy = |losses: Vec<Loss>| {
        let of = |n: u16| whole(u64::from(n) * APART_NS + 1, n + 1, 1_000);
        report((0..50).flat_map(of).collect(), losses)
    };
    let late = Loss { from_ns: 60 * APART_NS, to_ns: 61 * APART_NS, ..loss };
    let headline = lossy(vec![late]).headline;
    assert!(headline.text.starts_with("nothing wrong seen: "), "{headline:?}");
    assert!(headline.text.contains("90 events missed"), "{headline:?}");
    let most = lossy(vec![Loss { count: 9_000, ..late }]).headline;
    let text = "unknown: 94 % of the events are missing";
    assert_eq!((most.text.as_str(), most.kind), (text, HeadlineKind::MissedEvents));
    let headline = lossy(vec![loss]).headline;
    assert!(
        headline.kind != HeadlineKind::NothingWrong || headline.text.contains("90 events missed"),
        "{headline:?}"
    );
}

#[test]
fn only_recorded_drops_are_stated_beside_most_events_missing() {
    let (from_ns, to_ns, cause) = (60 * APART_NS, 61 * APART_NS, LossCause::RingFull);
    let lossy = |of: &dyn Fn(u64, u16) -> Vec<Event>| {
        let events = (0_u16..40).flat_map(|n| of(u64::from(n) * APART_NS + 1, n + 1)).collect();
        report(events, vec![Loss { cpu: 0, from_ns, to_ns, count: 90_000, cause }]).headline
    };
    let slow = lossy(&|at_ns, id| whole(at_ns, id, 20_000_000));
    assert_eq!(slow.kind, HeadlineKind::MissedEvents, "{slow:?}");
    assert!(slow.text.starts_with("unknown: 99 % of the events are missing"), "{slow:?}");
    let drops = lossy(&dropped);
    assert_eq!(drops.kind, HeadlineKind::Loss, "{drops:?}");
    assert!(drops.text.starts_with("100 % of datagrams to :80 dropped: "), "{drops:?}");
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

/// The report of one batch of datagrams at a host.
fn report_at(node: &NodeInfo, events: Vec<Event>) -> Report {
    let mut all = Some(batch(flows(Proto::UDP), events));
    report_of(node, &mut |batch| {
        *batch = all.take().unwrap_or_default();
        false
    })
}

#[test]
fn datagrams_that_nobody_read_are_no_loss_of_the_network() {
    const NO_REASON: u32 = 2;
    let reason = |number, name: &str| DropReason { number, name: name.to_owned() };
    let reasons = vec![reason(NO_REASON, "not_specified"), reason(FULL, "socket_rcvbuff")];
    let node = NodeInfo { drop_reasons: reasons, ..node() };
    let freed = |n: u16| {
        let (at_ns, skb) = (u64::from(n) * APART_NS + 1, u32::from(n) + 1_000);
        let detail = DetailKind::DropReason.of(NO_REASON);
        let drop = Event { detail, ..udp(Hop::SkbDrop, at_ns + 80, SERVER, n, skb, 100) };
        [down(at_ns, n, u32::from(n), 100), up(at_ns + 50, n, skb, 100), vec![drop]].concat()
    };
    // Without `sock.ready` nothing shows that it was in the queue.
    let is_of_path = |event: &Event| event.hop != Hop::SockReady;
    let on_path = (10..20).flat_map(freed).filter(is_of_path).collect();
    let headline = report_at(&node, on_path).headline;
    assert_eq!(headline.kind, HeadlineKind::Loss, "{headline:?}");
    assert!(headline.text.contains(" of datagrams to :80 dropped: reason not_specified"), "{headline:?}");
    let headline = report_at(&node, (10..20).flat_map(freed).collect()).headline;
    assert_eq!(headline.kind, HeadlineKind::Slow, "{headline:?}");
    let words = " of datagrams to :80 thrown away unread in the queue of their socket, which was closed";
    assert!(headline.text.contains(words), "{headline:?}");
    // A single loss comes first, and is not among them.
    let events: Vec<Event> = dropped(1, 1).into_iter().chain((10..20).flat_map(freed)).collect();
    let headline = report_at(&node, events).headline;
    assert_eq!(headline.kind, HeadlineKind::Loss, "{headline:?}");
    assert!(headline.text.contains("the receive buffer is full (socket_rcvbuff) (1 of 11)"), "{headline:?}");
}

#[test]
fn a_reason_without_a_name_may_be_no_drop() {
    let node = NodeInfo { drop_reasons: Vec::new(), ..node() };
    let of = |n: u16| dropped(u64::from(n) * APART_NS + 1, n + 1);
    let text = report_at(&node, (0..4).flat_map(of).collect()).headline.text;
    let words = " freed by the kernel for reason 6, which has no name here, so it may be no drop (4 of 4)";
    assert!(text.ends_with(words), "{text}");
}

/// The same packet of another client and another server.
fn of_another(event: Event) -> Event {
    let flow = match event.flow {
        CLIENT => OTHER_CLIENT,
        SERVER => OTHER_SERVER,
        flow => flow,
    };
    let socket = if event.socket == 0 { 0 } else { event.socket + 100 };
    Event { flow, socket, ..event }
}

#[test]
fn of_equal_shares_the_larger_number_is_named() {
    let mut ends = flows(Proto::UDP);
    for flow in &mut ends {
        let other = "10.0.0.2:90".parse().expect("an end");
        match flow.id {
            OTHER_CLIENT => flow.remote = other,
            OTHER_SERVER => flow.local = other,
            _ => {}
        }
    }
    let at_ns = |n: u16| u64::from(n) * APART_NS + 1;
    let few = (0..3).flat_map(|n| dropped(at_ns(n), n + 1));
    let more = (10..18).flat_map(|n| dropped(at_ns(n), n + 1)).map(of_another);
    let mut all = Some(batch(ends, few.chain(more).collect()));
    let report = report_of(&node(), &mut |batch| {
        *batch = all.take().unwrap_or_default();
        false
    });
    let text = &report.headline.text;
    assert!(text.starts_with("100 % of datagrams to :90 dropped: ") && text.ends_with("(8 of 8)"), "{text}");
}

#[test]
fn times_of_ambiguous_journeys_are_no_headline() {
    let of = |n: u16| whole(u64::from(n) * APART_NS + 1, n + 1, 20_000_000);
    let (node, batch) = (node(), batch(flows(Proto::UDP), (0..50).flat_map(of).collect()));
    let mut correlator = Correlator::of_node(&node, Limits::default());
    let (mut report, mut done) = (ReportBuilder::new(&node), Vec::new());
    report.batch(&batch);
    correlator.push(&batch, &mut done);
    correlator.finish(&mut done);
    for journey in &mut done {
        journey.ambiguous = true;
        report.journey(journey, &NodeContext { correlator: &correlator, node: &node });
    }
    let report = report.finish();
    let measured = report.denominator.measured;
    assert!(measured > 40, "{:?}", report.denominator);
    assert_eq!(report.headline.kind, HeadlineKind::NothingWrong, "{:?}", report.headline);
    let words = format!(", no drop; without the times of {measured} ambiguous journeys");
    assert!(report.headline.text.ends_with(&words), "{:?}", report.headline);
    let text = render_text(&report, 200);
    assert!(text.contains(&format!("; {measured} of them ambiguous: ")), "{text}");
}

#[test]
fn one_journey_is_singular() {
    let text = report(whole(1, 1, 100), Vec::new()).headline.text;
    assert!(text.contains("1 journey") && !text.contains("1 journeys"), "{text}");
}

#[test]
fn events_whose_flows_are_missing_are_not_called_traffic_without_payload() {
    let loss = Loss { cpu: u16::MAX, from_ns: 1, to_ns: 2, count: 63, cause: LossCause::Damaged };
    let of = |n: u16| whole(u64::from(n) * APART_NS + 1, n + 1, 1_000);
    let events = (0..50).flat_map(of).collect();
    let mut all = Some(Batch { losses: vec![loss], ..batch(Vec::new(), events) });
    let report = report_of(&node(), &mut |batch| {
        *batch = all.take().unwrap_or_default();
        false
    });
    let text = "no journey can be built: the flows of the events are missing; 63 records missed";
    assert_eq!((report.headline.text.as_str(), report.headline.kind), (text, HeadlineKind::Unknown));
}

#[test]
fn samples_of_tcp_alone_are_no_idle_host() {
    let sample = |time_ns| TcpSample { time_ns, flow: CLIENT, ..TcpSample::default() };
    let tcp = (1..12).map(sample).collect();
    let mut all = Some(Batch { tcp, watermark_ns: 5, ..batch(flows(Proto::TCP), Vec::new()) });
    let report = report_of(&node(), &mut |batch| {
        *batch = all.take().unwrap_or_default();
        false
    });
    assert!(report.headline.text.starts_with("no payload seen"), "{:?}", report.headline);
    let text = render_text(&report, 80);
    assert!(text.contains("\n0 events, 11 samples of TCP's state in "), "{text}");
}
