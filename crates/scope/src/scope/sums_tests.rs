//! The kernel's sums in the scope: drawn where there are no journeys, and counted once.

use super::*;
use crate::View;
use crate::action::Action;
use crate::channel::Channel;
use crate::frame::Detail;
use magscope_core::histogram::bucket;
use magscope_core::node::{Backend, Coverage};
use magscope_core::synthesis::{Sum, Synthesis};
use magscope_core::{Batch, DetailKind, Event, Flow, FlowId, Hop, Layer};

const S: u64 = 1_000_000_000;

fn info() -> NodeInfo {
    NodeInfo { coverage: Coverage::full(Backend::Generator), ..NodeInfo::default() }
}

fn flow() -> Flow {
    let end = |text: &str| text.parse().unwrap();
    Flow { id: FlowId(7), netns: 1, proto: Proto::TCP, local: end("10.0.0.1:1000"), remote: end("10.0.0.2:80") }
}

/// A second of sums and its end.
fn second(at: u64) -> Batch {
    let row =
        |hop, of, n, sum, buckets| Synthesis { from_ns: at * S, to_ns: (at + 1) * S, hop, of, n, sum, buckets };
    let synthesis = vec![
        row(Hop::DevXmit, Sum::Since(Hop::DevQueue), 90, 90_000, vec![(bucket(1_000) as u16, 90)]),
        row(Hop::DevXmit, Sum::Begun, 10, 0, Vec::new()),
        row(Hop::DevXmit, Sum::Flow(FlowId(7)), 100, 64_000, Vec::new()),
        row(Hop::SkbDrop, Sum::Reason(2), 4, 0, Vec::new()),
        row(Hop::TcpRetransmit, Sum::Begun, 2, 0, Vec::new()),
    ];
    Batch { synthesis, flows: vec![flow()], watermark_ns: (at + 1) * S, ..Batch::default() }
}

fn summed(seconds: u64) -> Scope {
    let mut scope = Scope::new(info(), Options::default());
    (100..100 + seconds).for_each(|at| scope.ingest(&second(at)));
    scope
}

#[test]
fn where_sums_come_alone_the_picture_is_theirs_and_rolls() {
    let scope = summed(8);
    let frame = scope.frame();
    assert!(frame.footer.sums && frame.footer.journeys_per_s.is_none());
    assert_eq!((frame.sweep.timebase.span_ns(), frame.detail), (50 * S, Detail::Density));
    let map = frame.sum_map(50, 24);
    assert_eq!((map.map.to_ns, map.interval_ns, map.map.rows.len()), (108 * S, S, 1));
    let row = &map.map.rows[0];
    assert_eq!((row.span.hops(), row.times.n), (Some((Hop::DevQueue, Hop::DevXmit)), 8 * 90));
    assert!((1_000..=1_063).contains(&row.times.p50_ns));
    let columns: Vec<u32> = row.columns().map(|column| column.iter().sum()).collect();
    assert_eq!((&columns[..42], &columns[42..]), (&[0; 42][..], &[90; 8][..]));
    assert!(frame.heat_map(50, 24).rows.is_empty(), "never among those of journeys");
    // The lanes show the number of hits.
    let density = frame.density(50);
    let lane = density.lanes.iter().find(|lane| lane.place == Place::Hop(Hop::DevXmit)).unwrap();
    assert_eq!(lane.cells[49].count, 100);
}

#[test]
fn numbers_are_the_kernels_where_there_are_no_others_and_say_so() {
    let scope = summed(8);
    let frame = scope.frame();
    let lane = |hop| frame.lanes.iter().find(|lane| lane.hop() == Some(hop)).unwrap();
    let stats = lane(Hop::DevXmit).stats.unwrap();
    assert!(stats.summed && lane(Hop::DevXmit).seen);
    assert!((stats.events_per_s - 100.0).abs() < 1e-6 && stats.bytes_per_s == Some(64_000.0), "{stats:?}");
    assert_eq!(stats.latency.and_then(|latency| latency.from), Some(Hop::DevQueue));
    assert_eq!(lane(Hop::IpOut).stats.unwrap().bytes_per_s, None, "not known is not zero");
    let totals = frame.footer.totals;
    assert_eq!((totals.dropped, totals.summed_retransmits, totals.outcomes.journeys()), (32, 16, 0));
    let losses = frame.losses();
    assert_eq!(losses.drops.iter().map(|(_, n)| n).sum::<u64>(), 32);
    let hop = losses.hops.iter().find(|hop| hop.hop == Hop::DevXmit).unwrap();
    assert_eq!((hop.events, hop.summed), (0, 800));
    let m = frame.measurements();
    assert_eq!((m.drops, m.retransmits, m.sums.len(), m.sums[0].per_s), (32, 16, 1, Some(90.0)));
    let layer = m.layers.iter().find(|layer| layer.layer == Layer::Device).unwrap();
    assert!(layer.summed && (layer.bytes_per_s.unwrap() - 64_000.0).abs() < 1e-6);
    let table = frame.flows(10);
    assert!(table.summed && table.rows.len() == 1);
    let row = &table.rows[0];
    assert_eq!((row.journeys, row.summed.map(|s| (s.packets, s.bytes))), (0, Some((800, 512_000))));
    assert_eq!(row.ends.map(|(from, _)| from), Some(flow().local));
}

#[test]
fn a_signal_of_payload_is_there_and_one_of_journeys_is_not_zero() {
    let mut scope = summed(8);
    for channel in [Channel::Throughput(Layer::Device), Channel::Throughput(Layer::Ip), Channel::Journeys] {
        scope.apply(Action::ToggleChannel(channel));
    }
    let frame = scope.frame();
    let lines = frame.loadlines(50);
    let line = |channel| lines.iter().find(|line| line.channel == channel).unwrap();
    let device = line(Channel::Throughput(Layer::Device)).columns[47].unwrap();
    assert!((device.last - 64_000.0).abs() < 1.0, "{device:?}");
    for unknown in [Channel::Throughput(Layer::Ip), Channel::Journeys] {
        assert_eq!(line(unknown).columns[47], None, "{unknown:?}");
    }
}

#[test]
fn beside_events_nothing_is_counted_twice() {
    let mut scope = Scope::new(info(), Options::default());
    for at in 10..14 {
        let mut batch = second(at);
        let event = |ms: u64| Event { len: 100, ..Event::at(Hop::DevXmit, at * S + ms * 1_000_000) };
        batch.events = (0..100).map(|n| event(n * 9)).collect();
        batch.events.push(Event {
            detail: DetailKind::DropReason.of(2),
            ..Event::at(Hop::SkbDrop, at * S + 950_000_000)
        });
        scope.ingest(&batch);
    }
    let frame = scope.frame();
    assert!(!frame.footer.sums);
    assert_eq!(frame.footer.totals.dropped, 4);
    assert!(frame.lanes.iter().filter_map(|lane| lane.stats).all(|stats| !stats.summed));
    assert!(frame.losses().hops.iter().all(|hop| hop.summed == 0));
    assert_ne!(frame.sweep.timebase.span_ns(), 50 * S, "the picture stays one of events");
}

#[test]
fn a_recording_is_surveyed_zoomed_and_counted_again() {
    let all = Window { from_ns: 10 * S, to_ns: 70 * S };
    let options = Options { state: State::Replay, recorded: Some(all), ..Options::default() };
    let mut scope = Scope::new(info(), options);
    (10..70).for_each(|at| scope.ingest_batch(0, &second(at)));
    scope.end();
    scope.tick(20 * S);
    assert_eq!(scope.frame().sweep.timebase.span_ns(), 50 * S, "it rolls at its head");
    scope.apply(Action::Show(View::Hops));
    scope.apply(Action::Fit);
    assert_eq!(scope.frame().sum_map(60, 24).map.rows[0].times.n, 60 * 90);
    scope.apply(Action::ZoomTo { from_ns: 20 * S, to_ns: 22 * S });
    assert_eq!(scope.frame().sum_map(60, 24).map.rows[0].times.n, 180);
    scope.apply(Action::NextProto);
    assert!(scope.frame().sum_map(60, 24).map.rows.is_empty(), "it is surveyed again");
    (10..70).for_each(|at| scope.ingest_batch(0, &second(at)));
    let map = scope.frame().sum_map(60, 24);
    assert!(map.narrowed && map.map.rows[0].times.n == 180, "sums are of everything, and say so");
    assert_eq!(scope.frame().flows(9).rows[0].summed.map(|s| s.packets), Some(6_000));
}

#[test]
fn what_is_cleared_is_gone_and_what_comes_then_counts() {
    let mut scope = summed(8);
    scope.apply(Action::Clear);
    assert!(scope.frame().sum_map(60, 24).map.rows.is_empty());
    assert_eq!(scope.frame().footer.totals.dropped, 0);
    scope.ingest(&second(108));
    assert_eq!(scope.frame().footer.totals.dropped, 4);
}
