//! Reports over captures that leave records out: a filter, a sampler, or the kernel's sums.

use crate::common::*;
use magscope_core::change::{Change, HopCount};
use magscope_core::context::NodeContext;
use magscope_core::journey::{Correlator, Limits};
use magscope_core::node::{Backend, Coverage, DropReason, NodeInfo};
use magscope_core::synthesis::{Sum, Synthesis};
use magscope_core::{Batch, DetailKind, Event, FlowId, Hop, Proto};
use magscope_report::{HeadlineKind, Report, ReportBuilder};

const NO_SOCKET: u32 = 3;
const APART_NS: u64 = 100_000_000;

fn node(settings: &[&str]) -> NodeInfo {
    NodeInfo {
        host: "one".to_owned(),
        settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
        drop_reasons: vec![DropReason { number: NO_SOCKET, name: "no_socket".to_owned() }],
        tells_order: true,
        coverage: Coverage::full(Backend::Generator),
        ..NodeInfo::default()
    }
}

/// A reading of the counters, in which every hit passed the filter.
fn count(hop: Hop, recorded: u64, sampled: u64, synthesised: u64) -> HopCount {
    HopCount { time_ns: 1, hop, kept: recorded, filtered: 0, undecided: 0, sampled, synthesised }
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

fn at_ns(n: u16) -> u64 {
    u64::from(n) * APART_NS + 1
}

/// A datagram that is read.
fn whole(n: u16) -> Vec<Event> {
    let (at_ns, id) = (at_ns(n), n + 1);
    let woken = by(udp(Hop::TaskWake, at_ns + 60, FlowId::NONE, 0, 0, 0), 7, SOCKET);
    let runs = by(udp(Hop::TaskRun, at_ns + 70, FlowId::NONE, 0, 0, 0), 7, SOCKET);
    let (sent, arrived) = (down(at_ns, id, u32::from(id), 100), up(at_ns + 50, id, u32::from(id) + 1_000, 100));
    [sent, arrived, vec![woken, runs, read(at_ns + 80, 100)]].concat()
}

/// A datagram that the kernel drops, with the record of it or without.
fn dropped(n: u16, is_recorded: bool) -> Vec<Event> {
    let (at_ns, id) = (at_ns(n), n + 1);
    let skb = u32::from(id) + 1_000;
    let detail = DetailKind::DropReason.of(NO_SOCKET);
    let drop = Event { detail, ..udp(Hop::SkbDrop, at_ns + 80, SERVER, id, skb, 100) };
    let mut arrived = up(at_ns + 50, id, skb, 100);
    arrived.truncate(2); // it reaches no socket
    let drop = is_recorded.then_some(drop).into_iter().collect();
    [down(at_ns, id, u32::from(id), 100), arrived, drop].concat()
}

fn change(what: &str) -> Change {
    Change { from_ns: 1, to_ns: 2, what: what.to_owned() }
}

fn udp_batch(events: Vec<Event>, counts: Vec<HopCount>) -> Batch {
    Batch { counts, ..batch(flows(Proto::UDP), events) }
}

#[test]
fn sums_of_the_kernel_have_the_weight_of_their_sampler() {
    let sum = |of, n| Synthesis {
        from_ns: 1,
        to_ns: 1_000_000_001,
        hop: Hop::DevXmit,
        of,
        n,
        sum: 0,
        buckets: Vec::new(),
    };
    let batch = Batch {
        synthesis: vec![sum(Sum::Begun, 100)],
        counts: vec![count(Hop::DevXmit, 0, 900, 100)],
        ..Batch::default()
    };
    let report = report(&node(&["detail histograms", "sample 1/10 all"]), &batch);
    let row = report.hops.iter().find(|row| row.hop == Hop::DevXmit).expect("a row");
    assert_eq!((row.all_events, row.events_per_s.round() as u64), (Some(1_000.0), 1_000));
}

#[test]
fn a_filter_or_sampler_of_a_running_capture_narrows_the_headline() {
    let text = |what: &str| {
        let changes = vec![change(what)];
        let batch = udp_batch((0..50).flat_map(whole).collect(), Vec::new());
        let report = report(&node(&[]), &Batch { changes, ..batch });
        assert_eq!(report.headline.kind, HeadlineKind::NothingWrong, "{what}: {:?}", report.verdicts);
        report.headline.text
    };
    for what in ["filter port = 80", "sample flows 1/4", "sample 1/100 skb.drop"] {
        let start = "nothing wrong in what the filter or sampler lets through: ";
        assert!(text(what).starts_with(start), "{what}: {}", text(what));
    }
    assert!(text("filter off").starts_with("nothing is wrong: "), "{}", text("filter off"));
}

/// A reading of the counter of drop records.
fn drop_count(recorded: u64, filtered: u64, undecided: u64, sampled: u64) -> HopCount {
    HopCount { filtered, undecided, ..count(Hop::SkbDrop, recorded, sampled, 0) }
}

#[test]
fn drops_that_the_filter_cannot_decide_are_not_denied() {
    let text_of = |setting: &str, counts| {
        let batch = udp_batch((0..50).flat_map(whole).collect(), counts);
        report(&node(&[setting]), &batch).headline.text
    };
    let text = |counts| text_of("filter src = 10.0.0.1", counts);
    let undecided = text(vec![drop_count(0, 4, 50, 0)]);
    let expected = ", drops are not known; 54 of 54 drop records left out: 4 filtered, 50 undecided";
    assert!(undecided.ends_with(expected), "{undecided}");
    let sampled = text_of("sample 1/100 skb.drop", vec![drop_count(0, 0, 0, 50)]);
    assert!(
        sampled.ends_with(", drops are not known; 50 of 50 drop records left out: 50 sampled out"),
        "{sampled}"
    );
    let flows = text_of("sample flows 1/4", vec![drop_count(0, 0, 0, 50)]);
    let expected = ", no drop recorded; 50 of 50 drop records left out: 50 sampled out";
    assert!(flows.ends_with(expected), "of flows without any record: {flows}");
    // A filter by port leaves out the drops of other ports.
    let filtered = text(vec![drop_count(0, 4, 0, 0)]);
    assert!(filtered.ends_with(", no drop recorded; 4 of 4 drop records left out: 4 filtered"), "{filtered}");
    let uncounted = text(Vec::new());
    assert!(uncounted.ends_with(", no drop recorded"), "{uncounted}");
}

#[test]
fn drops_without_a_journey_are_a_lower_bound_where_records_are_left_out() {
    let detail = DetailKind::DropReason.of(NO_SOCKET);
    let other = Event { detail, ..udp(Hop::SkbDrop, 80, SERVER, 900, 900, 0) };
    let events: Vec<Event> = [other].into_iter().chain((0..50).flat_map(whole)).collect();
    let text =
        |settings: &[&str], counts| report(&node(settings), &udp_batch(events.clone(), counts)).headline.text;
    let all = text(&[], vec![drop_count(1, 0, 0, 0)]);
    assert!(all.ends_with(", none of them dropped; 1 packet (no_socket) without a lost journey"), "{all}");
    let part = text(&["sample 1/10 skb.drop"], vec![drop_count(1, 0, 0, 9)]);
    let expected = ", none of them seen dropped; at least 1 packet (no_socket) without a lost journey; \
                    9 of 10 drop records left out: 9 sampled out";
    assert!(part.ends_with(expected), "{part}");
}

#[test]
fn drops_that_were_switched_off_for_a_time_are_not_denied() {
    let events = (0..50).flat_map(whole).collect();
    let changes = vec![change("disable skb.drop"), change("enable skb.drop")];
    let text = report(&node(&[]), &Batch { changes, ..udp_batch(events, Vec::new()) }).headline.text;
    assert!(text.contains(", no drop recorded; drops were recorded for a part of the time"), "{text}");
}

#[test]
fn a_capture_without_journeys_names_the_drops_that_it_left_out() {
    let batch = Batch { counts: vec![drop_count(0, 0, 9, 0)], ..Batch::default() };
    let headline = report(&node(&["filter len > 9"]), &batch).headline;
    assert_eq!(headline.text, "no traffic seen; 9 of 9 drop records left out: 9 undecided");
}

#[test]
fn a_filter_that_leaves_out_everything_is_named() {
    let filtered = |hop, filtered| HopCount { filtered, ..count(hop, 0, 0, 0) };
    let counts = vec![filtered(Hop::IpOut, 8), filtered(Hop::DevXmit, 48)];
    let text = |setting: &str, events| {
        let batch = Batch { counts: counts.clone(), events, ..Batch::default() };
        report(&node(&[setting]), &batch).headline.text
    };
    let filter = "filter port = 9";
    assert_eq!(text(filter, Vec::new()), "nothing recorded: the filter left out 56 events of 2 hops");
    let sampler = text("sample flows 1/4", Vec::new());
    assert_eq!(sampler, "nothing recorded: the sampler left out 56 events of 2 hops");
    let other = text(filter, vec![Event::at(Hop::TaskRun, 5)]);
    assert_eq!(other, "no payload seen; the filter left out 56 events of 2 hops");
}

/// The headline of a hundred datagrams, every fourth of which the kernel drops; every `recorded`th drop has a record.
fn quarter_dropped(settings: &[&str], recorded: u16, counts: Vec<HopCount>) -> String {
    let of = |n: u16| if n.is_multiple_of(4) { dropped(n, n.is_multiple_of(4 * recorded)) } else { whole(n) };
    let headline = report(&node(settings), &udp_batch((0..100).flat_map(of).collect(), counts)).headline;
    assert_eq!(headline.kind, HeadlineKind::Loss, "{headline:?}");
    headline.text
}

#[test]
fn a_share_of_drops_is_claimed_only_of_complete_records() {
    let all = quarter_dropped(&[], 1, vec![drop_count(25, 0, 0, 0)]);
    let why = "dropped: no socket listens there (no_socket)";
    assert_eq!(all, format!("25 % of datagrams to :80 {why} (25 of 100)"));
    let drops = quarter_dropped(&["sample 1/5 skb.drop"], 5, vec![drop_count(5, 0, 0, 20)]);
    let left_out = "; 20 of 25 drop records left out: 20 sampled out";
    assert_eq!(drops, format!("at least 5 of 100 recorded datagrams to :80 {why}{left_out}"));
    // The number of pieces of journeys is not that of datagrams.
    let all_hops = quarter_dropped(&["sample 1/5 all"], 5, vec![drop_count(5, 0, 0, 20)]);
    assert_eq!(all_hops, format!("at least 5 datagrams to :80 {why}{left_out}"));
    let path = quarter_dropped(&["sample 1/5 dev.xmit"], 1, vec![drop_count(25, 0, 0, 0)]);
    assert_eq!(path, format!("at least 25 datagrams to :80 {why}"));
}

#[test]
fn a_share_of_recorded_flows_or_wanted_packets_is_called_that() {
    // Drop records of other flows do not matter to the recorded ones.
    let flows = ("sample flows 1/4", drop_count(25, 0, 0, 75));
    for (setting, count) in [flows, ("filter port = 80", drop_count(25, 9, 0, 0))] {
        let text = quarter_dropped(&[setting], 1, vec![count]);
        assert!(text.starts_with("25 % of recorded datagrams to :80 dropped: "), "{text}");
        assert!(text.ends_with(" (25 of 100)"), "{text}");
    }
}

#[test]
fn dropped_packets_are_those_of_records() {
    let events: Vec<Event> = (0..10).flat_map(|n| dropped(n, true)).collect();
    let drops = |settings: &[&str], counts| {
        let report = report(&node(settings), &udp_batch(events.clone(), counts));
        let text = report.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        let json = serde_json::to_value(&report.drops).expect("plain data");
        (report.drops, text, json)
    };
    let (all, text, json) = drops(&[], vec![drop_count(10, 0, 0, 0)]);
    assert!(all.left_out.is_empty() && json.get("left_out").is_none(), "{json}");
    assert!(text.contains("The kernel dropped 10 packets: 10 no_socket. No event"), "{text}");
    let (part, text, json) = drops(&["sample 1/10 skb.drop"], vec![drop_count(10, 0, 4, 90)]);
    assert_eq!((part.dropped, part.left_out.sampled, part.left_out.undecided), (10, 90, 4));
    assert_eq!(json["left_out"]["sampled"], 90);
    assert!(text.contains("The kernel dropped at least 10 packets: 10 no_socket. "), "{text}");
    let left_out =
        "Left out: 94 records of freed packets (4 undecided, 90 sampled out); their reasons are not known.";
    assert!(text.contains(left_out), "{text}");
    let (_, text, _) = drops(&["filter port = 80"], vec![drop_count(10, 7, 0, 0)]);
    assert!(text.contains("The kernel dropped 10 packets: 10 no_socket. Left out: 7 records "), "{text}");
}

#[test]
fn bytes_of_sampled_flows_are_scaled_without_those_that_are_always_recorded() {
    // A socket without a peer sends much, one with a peer little: seven more of its kind were left out.
    let send = |flow, at_ns, len| udp(Hop::AppSend, at_ns, flow, 0, 0, len);
    let many = (0..10).map(|n| send(FlowId::NONE, 1_000 * n + 1, 1_400));
    let few = (0..10).map(|n| send(CLIENT, 1_000 * n + 2, 10));
    let events = many.chain(few).chain([send(CLIENT, 1_000_000_001, 10)]).collect();
    let mut builder = ReportBuilder::new(&node(&["sample flows 1/8"])).throughput();
    builder.batch(&udp_batch(events, vec![count(Hop::AppSend, 21, 77, 0)]));
    let report = builder.finish();
    let row = report.hops.iter().find(|row| row.hop == Hop::AppSend).expect("a row");
    assert_eq!((row.bytes, row.all_events.map(f64::round)), (14_110, Some(98.0)));
    assert_eq!(row.all_bytes.map(f64::round), Some(14_000.0 + 88.0 * 10.0));
    let throughput = report.throughput.expect("it is wanted");
    let borders = throughput.protocols.iter().flat_map(|of| &of.borders);
    let border = borders.into_iter().find(|border| border.hop == Hop::AppSend).expect("a border");
    assert_eq!((border.bytes_per_s.round() as u64, border.units_per_s.round() as u64), (14_880, 98));
}
