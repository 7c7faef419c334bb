//! Packets freed in the queues of closed sockets, rows that add up, and steps by protocol.

use crate::common::*;
use magscope_core::context::NodeContext;
use magscope_core::deciders::{DropRule, FilterChain, FilterFamily, FilterHook};
use magscope_core::journey::{Correlator, Limits, Verdict};
use magscope_core::node::{Coverage, DropReason, NodeInfo, Service};
use magscope_core::{Batch, DetailKind, Event, FlowId, Hop, HopCount, Proto};
use magscope_report::Report;
use magscope_report::ReportBuilder;

const DROP: u32 = 3;
const PURGE: u32 = 77;

fn node() -> NodeInfo {
    let reason = |number, name: &str| DropReason { number, name: name.to_owned() };
    let mut coverage = Coverage::full(magscope_core::node::Backend::Generator);
    for row in coverage.hops.iter_mut().filter(|row| matches!(row.hop, Hop::AppSend | Hop::DevDone)) {
        row.service = Service::Off;
    }
    let drop_reasons = vec![reason(DROP, "no_socket"), reason(PURGE, "queue_purge")];
    NodeInfo { host: "one".to_owned(), drop_reasons, coverage, ..NodeInfo::default() }
}

/// A datagram that arrives and is freed by the kernel for this reason.
fn freed(at_ns: u64, id: u16, skb: u32, reason: u32) -> Vec<Event> {
    let drop = Event {
        detail: DetailKind::DropReason.of(reason),
        ..udp(Hop::SkbDrop, at_ns + 80, SERVER, id, skb, 100)
    };
    [down(at_ns, id, 1, 100), up(at_ns + 50, id, skb, 100), vec![drop]].concat()
}

fn report(node: &NodeInfo, batch: &Batch) -> Report {
    let mut correlator = Correlator::of_node(node, Limits::default());
    let (mut report, mut done) = (ReportBuilder::new(node), Vec::new());
    report.batch(batch);
    correlator.push(batch, &mut done);
    correlator.finish(&mut done);
    for journey in &done {
        report.journey(journey, &NodeContext { correlator: &correlator, node });
    }
    report.finish()
}

#[test]
fn a_socket_that_closes_drops_nothing() {
    let events = [freed(0, 1, 2, DROP), freed(1_000, 2, 3, PURGE), freed(2_000, 3, 4, PURGE)].concat();
    let mut correlator = Correlator::of_node(&node(), Limits::default());
    let mut done = Vec::new();
    correlator.push(&batch(flows(Proto::UDP), events.clone()), &mut done);
    correlator.finish(&mut done);
    done.sort_by_key(|journey| journey.ip_id);
    let lost: Vec<bool> = done.iter().map(|journey| journey.verdict.is_lost()).collect();
    assert_eq!(lost, [true, false, false], "{:?}", done.iter().map(|j| j.verdict).collect::<Vec<_>>());
    assert!(matches!(done[0].verdict, Verdict::Dropped { reason: DROP, .. }));
    assert_eq!(correlator.counters().cleaned_up, 2);
    let report = report(&node(), &batch(flows(Proto::UDP), events));
    assert_eq!((report.drops.dropped, report.drops.cleaned_up), (1, 2));
    assert_eq!((report.drops.reasons[0].reason.as_str(), report.verdicts[0].dropped), ("no_socket", 1));
    let text = report.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("The kernel dropped 1 packet: 1 no_socket."), "{text}");
    assert!(text.contains("2 packets of closed sockets, which is no drop: queue_purge."), "{text}");
}

/// A segment without data that arrives, and that the kernel frees for this reason.
fn segment(at_ns: u64, tcp_flags: u8, reason: u32) -> Vec<Event> {
    let ip_id = at_ns as u16;
    let arrived = run(&PACKET_RX[..1], at_ns, SERVER, 500, 0);
    let detail = DetailKind::DropReason.of(reason);
    let drop = Event { detail, ..tcp(Hop::SkbDrop, at_ns + 80, SERVER, 500, 0) };
    let events = arrived.into_iter().chain([drop]);
    events.map(|event| Event { tcp_flags, ip_id, ..event }).collect()
}

#[test]
fn a_reset_of_an_ended_connection_is_no_drop() {
    let (reset, syn) = (segment(1_000, 4 | 16, DROP), segment(2_000, 2, DROP));
    let report = report(&node(), &batch(flows(Proto::TCP), [reset, syn].concat()));
    assert_eq!((report.drops.dropped, report.drops.cleaned_up), (1, 1));
    let text = report.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    let words = "freed 1 packet that reset ended connections and hold no data, which is no drop: ignored_rst.";
    assert!(text.contains(words), "{text}");
}

#[test]
fn the_rule_that_refuses_connections_is_named() {
    let chain = FilterChain {
        netns: 2,
        family: FilterFamily::Inet,
        table: "fw".to_owned(),
        chain: "i".to_owned(),
        hook: FilterHook::Input,
        policy: false,
        rule: Some(DropRule { chain: "i".to_owned(), handle: 2 }),
        others: false,
    };
    let reason = DropReason { number: DROP, name: "netfilter_drop".to_owned() };
    let node = NodeInfo { drop_reasons: vec![reason], chains: vec![chain], lists_deciders: true, ..node() };
    let events = [segment(1_000, 2, DROP), segment(2_000, 2, DROP)].concat();
    let report = report(&node, &batch(flows(Proto::TCP), events));
    let by = "netfilter table `inet fw`, chain `i` at input, rule handle 2";
    let row = report.drops.deciders.first().expect("a rule");
    assert_eq!((row.dropped_by.as_str(), row.journeys, row.segments_without_data), (by, 0, 2));
    let text = report.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(&format!("Dropped 2 segments without data: {by}.")), "{text}");
}

#[test]
fn rows_by_namespace_add_up_to_the_hop() {
    let mut events = [freed(0, 1, 2, DROP), freed(1_000, 2, 3, PURGE)].concat();
    // Sends of a socket whose flow was never announced.
    events.extend((0..7).map(|n| udp(Hop::UdpSend, 3_000 + n, FlowId(999), 0, 0, 50)));
    events.extend((0..2).map(|n| udp(Hop::UdpSend, 4_000 + n, CLIENT, 0, 0, 50)));
    events.extend((0..3).map(|n| udp(Hop::UdpSend, 5_000 + n, SERVER, 0, 0, 50)));
    let sample = |flow| magscope_core::TcpSample { flow, ..magscope_core::TcpSample::default() };
    let tcp = [CLIENT, SERVER, SERVER, FlowId(999)].map(sample).to_vec();
    let report = report(&node(), &Batch { tcp, ..batch(flows(Proto::UDP), events) });
    assert!(report.hops.iter().any(|row| row.hop == Hop::TcpState && row.nodes.len() == 3));
    for row in report.hops.iter().filter(|row| !row.nodes.is_empty()) {
        let sums = row.nodes.iter().fold((0, 0), |(n, bytes), node| (n + node.events, bytes + node.bytes));
        assert_eq!(sums, (row.events, row.bytes), "{}", row.hop);
    }
    let sends = report.hops.iter().find(|row| row.hop == Hop::UdpSend).unwrap();
    let rows: Vec<_> = sends.nodes.iter().map(|node| (node.node.as_str(), node.events)).collect();
    assert_eq!(rows, [("netns:1", 2), ("netns:2", 3), ("not known", 7)]);
}

#[test]
fn steps_of_two_protocols_are_two_rows() {
    let tcp_flows = flows(Proto::TCP);
    let udp_flows = flows(Proto::UDP).into_iter().map(|flow| {
        let id = FlowId(flow.id.0 + 1_000);
        magscope_core::Flow { id, ..flow }
    });
    let all: Vec<_> = tcp_flows.into_iter().chain(udp_flows).collect();
    let datagram = [down(0, 9, 1, 100), up(50, 9, 2, 100), vec![read(90, 100)]].concat();
    let other = |flow: FlowId| if flow.is_none() { flow } else { FlowId(flow.0 + 1_000) };
    let datagram = datagram.into_iter().map(|e| Event { flow: other(e.flow), ..e });
    let stream = [
        vec![tcp(Hop::TcpSend, 200, CLIENT, 100, 50)],
        run(&PACKET_TX, 210, CLIENT, 100, 50),
        run(&PACKET_RX, 250, SERVER, 100, 50),
        vec![tcp(Hop::SockReady, 260, SERVER, 150, 0), tcp(Hop::AppRecv, 300, SERVER, 100, 50)],
    ];
    let mut events: Vec<Event> = datagram.chain(stream.concat()).collect();
    events.sort_by_key(|event| event.time_ns);
    let report = report(&node(), &batch(all, events));
    let recv = report.hops.iter().find(|row| row.hop == Hop::AppRecv).unwrap();
    assert_eq!(recv.latency, None, "two protocols have no latency in common");
    let rows: Vec<_> = recv.protocols.iter().map(|of| (of.proto, of.latency.n, of.latency.max_ns)).collect();
    assert_eq!(
        rows.iter().map(|(proto, n, _)| (*proto, *n)).collect::<Vec<_>>(),
        [(Proto::TCP, 1), (Proto::UDP, 1)]
    );
    assert_ne!(rows[0].2, rows[1].2);
    let only = report.hops.iter().find(|row| row.hop == Hop::TcpRecv).unwrap();
    assert!(only.latency.is_some() && only.protocols.is_empty());
}

#[test]
fn bytes_of_a_sampled_hop_are_corrected_as_its_events_are() {
    let events: Vec<Event> = (0..10).map(|n| udp(Hop::DevXmit, 100 + n, CLIENT, 0, 0, 1_000)).collect();
    let count = |recorded, sampled| HopCount {
        time_ns: 200,
        hop: Hop::DevXmit,
        kept: recorded,
        filtered: 0,
        undecided: 0,
        sampled,
        synthesised: 0,
    };
    let sampled = Batch { counts: vec![count(10, 90)], ..batch(flows(Proto::UDP), events) };
    let report = report(&node(), &sampled);
    let row = report.hops.iter().find(|row| row.hop == Hop::DevXmit).unwrap();
    assert_eq!((row.events, row.bytes), (10, 10_000), "of what came");
    assert_eq!((row.all_events, row.all_bytes), (Some(100.0), Some(100_000.0)));
    assert!(report.to_string().contains("≈100 kB"), "{report}");
}

#[test]
fn rates_are_of_the_observed_time() {
    const S: u64 = 1_000_000_000;
    let events: Vec<Event> = (0..40).map(|n| udp(Hop::UdpSend, 2 * S + n, CLIENT, 0, 0, 50)).collect();
    let of = |report: ReportBuilder| {
        let mut report = report;
        report.batch(&batch(flows(Proto::UDP), events.clone()));
        report.batch(&Batch { watermark_ns: 10 * S, ..Batch::default() });
        report.batch(&Batch { watermark_ns: u64::MAX, ..Batch::default() });
        report.finish()
    };
    let rate = |report: &Report| {
        let row = report.hops.iter().find(|row| row.hop == Hop::UdpSend).unwrap();
        (report.duration_ns, row.events_per_s)
    };
    let report = of(ReportBuilder::new(&node()));
    assert_eq!(rate(&report), (8 * S, 5.0), "an idle end");
    let report = of(ReportBuilder::new(&node()).observed(0, 10 * S));
    assert_eq!((rate(&report), report.start_ns, report.end_ns), ((10 * S, 4.0), 0, 10 * S), "and beginning");
}
