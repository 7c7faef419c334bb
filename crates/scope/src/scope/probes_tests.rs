//! Custom probes in the scope, on tables of events.

use super::tests::{feed, flows, info, message, recorded_options};
use super::*;
use crate::action::Action;
use crate::look::{EventRowKind, Payload};
use crate::{Channel, View};
use magscope_core::custom::ProbeHit;
use magscope_core::head::PayloadHead;
use magscope_core::{Batch, Event, FlowId, Hop};

const MS: u64 = 1_000_000;
const PROBES: [&str; 4] = [
    "kprobe:tcp_rcv_established name=into after=dev.recv len=skb->len",
    "kprobe:try_fill_recv name=refill as=loadline free=rq->num_free delta=x",
    "tracepoint:net:some name=seen",
    "kprobe:dev_hard_start_xmit name=out after=dev.xmit as=point",
];

fn probed() -> NodeInfo {
    let mut probes: Vec<_> = PROBES.iter().map(|text| text.parse().expect(text)).collect();
    let refill: &mut magscope_core::custom::CustomProbe = &mut probes[1];
    refill.values[1].kind = magscope_core::custom::ValueKind::Signed;
    NodeInfo { probes, ..info() }
}

fn hit(probe: u8, time_ns: u64, values: [i64; 2]) -> ProbeHit {
    let hit = crate::probes::tests::hit(probe, time_ns, values[0]);
    ProbeHit { known: 0b11, values: [values[0], values[1], 0, 0], record: time_ns as u32, ..hit }
}

/// A hit of `into` with the packet bytes of message `n`, 4 µs after its driver event.
fn hit_before_ip(n: u32, at: u64) -> ProbeHit {
    let (flow, seq) = (FlowId(2), 1000 + n * 100);
    ProbeHit { flow, seq, len: 100, proto: Proto::TCP, ..hit(0, at + 17_000, [1_448, 0]) }
}

/// The hits around message `n`: one of `into`; a refill of the ring, emptier each time; and `seen` hits of
/// the third probe.
fn hits(n: u32, at: u64, seen: u64) -> Vec<ProbeHit> {
    let mut hits = vec![hit_before_ip(n, at), hit(1, at + 2 * MS, [256 - i64::from(n), -i64::from(n)])];
    hits.extend((0..seen).map(|k| hit(2, at + 3 * MS + k * 1_000, [0, 0])));
    hits.sort_by_key(|hit| hit.time_ns);
    hits
}

fn batch(n: u32, seen: u64) -> Batch {
    let at = u64::from(n) * 10 * MS;
    let mut events = message(n, at, 8_000);
    events.sort_by_key(|event| event.time_ns);
    let heads = vec![PayloadHead {
        time_ns: at + 13_000,
        flow: FlowId(2),
        seq: 1000 + n * 100,
        of_bytes: 100,
        event: 1,
        record: 2,
        cpu: 0,
        ip_id: 0,
        hop: Hop::DevRecv,
        proto: Proto::TCP,
        bytes: format!("message {n}").into_bytes(),
    }];
    let flows = if n == 0 { flows() } else { Vec::new() };
    Batch { events, hits: hits(n, at, seen), heads, flows, watermark_ns: at + 9 * MS, ..Batch::default() }
}

/// Two seconds of messages, live.
fn live(seen: u64) -> Scope {
    let info = NodeInfo { settings: vec!["snap 48 dev.recv".to_owned()], ..probed() };
    let mut scope = Scope::new(info, Options::default());
    (0..200).for_each(|n| scope.ingest(&batch(n, seen)));
    scope
}

#[test]
fn each_probe_has_its_lane_and_its_rate() {
    let scope = live(1);
    let frame = scope.frame();
    let names: Vec<_> = frame.lanes.iter().map(|lane| frame.name_of(lane.place)).collect();
    let place = |name: &str| names.iter().position(|other| *other == name);
    assert_eq!(place("into").map(|at| at + 1), place("dev.recv"), "{names:?}");
    assert_eq!(place("out").map(|at| at + 1), place("dev.xmit"));
    assert_eq!((place("seen"), place("refill")), (Some(names.len() - 1), None));
    let lane = |name: &str| &frame.lanes[place(name).unwrap()];
    let rate = lane("into").stats.unwrap().events_per_s;
    assert!((rate - 100.0).abs() < 15.0 && lane("into").is_served() && lane("into").seen, "{rate}");
    assert_eq!(
        (lane("out").stats.unwrap().events_per_s, lane("out").seen),
        (0.0, false),
        "zero, and not nothing"
    );
}

#[test]
fn hits_are_points_each_in_its_column_at_any_zoom() {
    let mut scope = live(1);
    scope.apply(Action::ZoomTo { from_ns: 100 * MS, to_ns: 300 * MS });
    let row = |scope: &Scope, probe: usize, n| scope.frame().hits(n).rows[probe].clone();
    let (from_ns, to_ns) = scope.stretch();
    let within = |at_ns: &u64| (from_ns..to_ns).contains(at_ns);
    let expected = (0..200).map(|n| n * 10 * MS + 17_000).filter(within).count() as u64;
    for columns in [1, 7, 100, 1_000] {
        let into = row(&scope, 0, columns);
        assert_eq!((into.cells.iter().sum::<u64>(), into.tile_ns, into.cells.len()), (expected, 0, columns));
    }
    // A scale at which a tile of the pyramid covers many columns.
    scope.apply(Action::ZoomTo { from_ns: 103 * MS - 500, to_ns: 103 * MS + 500 });
    let hits = scope.frame().hits(100);
    let full: Vec<_> =
        hits.rows[2].cells.iter().enumerate().filter(|(_, n)| **n > 0).map(|(at, _)| at).collect();
    let x = scope.horizon.x(103 * MS);
    assert_eq!(full, [(x * 100.0) as usize]);
    assert_eq!((hits.points.len(), hits.points[0].x.to_bits(), hits.points[0].journey), (1, x.to_bits(), None));
    scope.apply(Action::ToggleAlign);
    assert!(scope.frame().hits(100).points.is_empty(), "journeys from their starts have no common time");
}

#[test]
fn too_many_hits_are_tiles_and_none_is_missing() {
    let mut scope = Scope::new(probed(), Options::default());
    (0..200).for_each(|n| scope.ingest(&batch(n, 1_000)));
    scope.apply(Action::Fit);
    let hits = scope.frame().hits(80);
    assert_eq!(hits.rows[2].cells.iter().sum::<u64>(), 200_000);
    assert!(hits.points.is_empty() && hits.rows[2].tile_ns > 0 && hits.max_count >= 1_000);
    assert!(scope.journal.hits(0, u64::MAX).len() <= crate::journal::MOST_HITS);
    let heats: Vec<_> =
        scope.frame().hit_heats(20).iter().map(|heat| (heat.probe.name.clone(), heat.hits)).collect();
    assert_eq!(heats[2], ("seen".to_owned(), 200_000));
    assert_eq!(scope.frame().losses().probes[2].hits, 200_000);
}

#[test]
fn a_lifeline_passes_a_probe_where_the_bytes_say_so_and_nowhere_else() {
    let mut scope = Scope::new(probed(), Options::default());
    for n in 0..200_u32 {
        let mut batch = batch(n, 0);
        let at = u64::from(n) * 10 * MS;
        match n {
            // the same instant, but other bytes, another flow, or no flow
            80 => batch.hits[0].seq = 7,
            81 => batch.hits[0].flow = FlowId(99),
            82 => batch.hits[0].flow = FlowId::NONE,
            // bytes of the journey, seen at the other end
            83 => batch.hits[0].flow = FlowId(1),
            // the flow without bytes, as from a probe with a socket: the hit may belong to a neighbour
            85 => (batch.hits[0].seq, batch.hits[0].len) = (0, 0),
            // passed twice: the first is the stop
            84 => batch.hits.push(ProbeHit { time_ns: at + 19_000, ..hit_before_ip(n, at) }),
            _ => {}
        }
        scope.ingest(&batch);
    }
    scope.apply(Action::ZoomTo { from_ns: 790 * MS, to_ns: 860 * MS });
    let frame = scope.frame();
    let passed = |n: u64| {
        let line = frame.sweep.lifelines.iter().find(|line| line.start_ns() == n * 10 * MS).unwrap();
        let stops = frame.stops(line);
        assert!(stops.len() >= line.marks().count());
        let probe = stops.iter().position(|stop| matches!(stop.place, Place::Probe(_)));
        probe.map(|at| (stops[at - 1].place, stops[at].time_ns, stops.len()))
    };
    assert_eq!(passed(79), Some((Place::Hop(Hop::DevRecv), 790 * MS + 17_000, 7)));
    assert_eq!([80, 81, 82, 83, 85].map(passed), [None; 5]);
    assert_eq!(passed(84), Some((Place::Hop(Hop::DevRecv), 840 * MS + 17_000, 7)));
    let passes = frame.measurements().passes;
    let [reading] = passes.as_slice() else { panic!("{passes:?}") };
    let times = reading.times;
    assert_eq!((reading.from, reading.probe.as_str()), (Hop::DevRecv, "into"));
    // Messages 79 and 84, and at the edge 86: each 4 µs after its driver event.
    assert_eq!((times.n, times.min_ns, times.p99_ns, times.exact), (2, 4_000, 4_000, true));
    let points = frame.hits(50).points;
    let tied = points.iter().filter(|point| point.journey.is_some()).count();
    let of_probe = points.iter().filter(|point| point.probe.index() == 0).count();
    assert_eq!(of_probe - tied, 5, "they are drawn, and joined to nothing");
}

#[test]
fn values_are_loadlines_with_their_extent() {
    let mut scope = live(0);
    let names: Vec<_> =
        scope.frame().channels().iter().skip(Channel::ALL.len()).map(ToString::to_string).collect();
    assert_eq!(names, ["into.len", "refill.free", "refill.delta"]);
    let shown: Vec<_> = scope.frame().controls.channels.iter().map(|shown| shown.channel.to_string()).collect();
    assert_eq!(shown, ["refill.free", "refill.delta"], "asked for as loadlines, they are there at once");
    scope.apply(Action::Fit);
    let lines = scope.frame().loadlines(10);
    let (free, delta) = (&lines[0], &lines[1]);
    assert_eq!((free.of.as_str(), free.last), ("kprobe:try_fill_recv rq->num_free", Some(57.0)));
    assert!(free.columns[2].is_some_and(|c| c.min < c.max && c.last <= c.min), "{:?}", free.columns);
    assert_eq!(
        (delta.foot, delta.last, delta.top),
        (-199.0, Some(-199.0), 0.0),
        "what is below zero is on the axis"
    );
    // The value at the left edge is the last one before it.
    scope.apply(Action::ZoomTo { from_ns: 1_003 * MS, to_ns: 1_013 * MS });
    let near = scope.frame().loadlines(10)[0].columns.clone();
    assert_eq!(near[0].map(|c| c.last), Some(156.0));
    assert_eq!(near.iter().flatten().next_back().map(|c| c.last), Some(155.0));
    let measured = scope.frame().measurements().channels;
    let inside = measured.iter().find(|reading| reading.channel.name() == "refill.free").unwrap();
    let (from_ns, to_ns) = scope.stretch();
    let truth =
        (0..200_u64).map(|n| n * 10 * MS + 2 * MS).filter(|at| (from_ns..=to_ns).contains(at)).count() as u64;
    assert_eq!((inside.n, inside.min, inside.last), (truth, 155.0, 155.0), "{inside:?}");
    assert!(
        (inside.mean - (155.0 + (truth - 1) as f64 / 2.0)).abs() < 1e-9 && inside.max as u64 == 154 + truth
    );
}

#[test]
fn from_afar_a_value_keeps_its_extremes() {
    let mut scope = Scope::new(probed(), Options::default());
    let spike = 123_457;
    for n in 0..200_u32 {
        let at = u64::from(n) * 10 * MS;
        let value = |k: u64| if n == 90 && k == 500 { spike } else { 10 };
        let hits = (0..1_000).map(|k| hit(1, at + k * 9_000, [value(k), 0])).collect();
        scope.ingest(&Batch { hits, watermark_ns: at + 9 * MS, ..Batch::default() });
    }
    scope.apply(Action::Fit);
    for columns in [10, 100, 1_000] {
        let line = &scope.frame().loadlines(columns)[0];
        let highest = line.columns.iter().flatten().map(|column| column.max).fold(0.0, f64::max);
        assert_eq!(
            (highest as i64, line.top as i64, line.last),
            (spike, spike, Some(10.0)),
            "{columns} columns"
        );
    }
    assert_eq!(scope.frame().measurements().channels[0].n, 200_000);
}

#[test]
fn values_are_computed_with_triggered_on_and_held_against_each_other() {
    let mut scope = Scope::new(probed(), Options::default());
    scope.apply(Action::TriggerText("refill.free falls 200".to_owned()));
    (0..200).for_each(|n| scope.ingest(&batch(n, 0)));
    let trigger = scope.frame().trigger;
    assert_eq!((trigger.fired, trigger.text.as_str()), (1, "refill.free falls 200"));
    assert_eq!(trigger.captures[0].at_ns, 570 * MS + 2 * MS, "199 after 200");
    assert_eq!(trigger.captures[0].because, "refill.free = 199");
    scope.apply(Action::TriggerText("refill.delta < -198".to_owned()));
    scope.ingest(&batch(200, 0));
    assert_eq!(scope.frame().trigger.fired, 2, "a level, of a number with a sign");

    scope.apply(Action::Fit);
    scope.apply(Action::MathText("refill.free - refill.delta".to_owned()));
    assert_eq!(scope.frame().math(50).unwrap().last, Some(256.0));
    let of = |word: &str| word.parse::<Channel>().unwrap();
    scope.apply(Action::SetXy(Some((of("refill.free"), of("refill.delta")))));
    let xy = scope.frame().xy().unwrap();
    assert_eq!((xy.points.len(), xy.x_range, xy.y_range), (201, (56.0, 256.0), (-200.0, 0.0)));
    for wrong in [
        Action::TriggerText("refill.fre > 1".to_owned()),
        Action::MathText("rate(refil.free)".to_owned()),
        Action::SetXy(Some((of("a.b"), of("refill.free")))),
        Action::ToggleChannel(of("a.b")),
    ] {
        scope.apply(wrong.clone());
        let controls = scope.frame().controls;
        let is_refused =
            controls.message.as_ref().is_some_and(|m| m.is_error && m.text.contains("refill.delta"));
        assert!(
            is_refused && controls.math.is_some() && controls.channels.len() == 2,
            "{wrong:?}: {:?}",
            controls.message
        );
    }
    for (text, can) in [("refill.free < 0", false), ("refill.free falls -1", false), ("refill.delta < 0", true)]
    {
        let condition = crate::trigger::Condition::parse(text).unwrap().unwrap();
        assert_eq!(scope.can_wait_for(&condition).is_ok(), can, "{text}");
    }
    let mut other = Scope::new(info(), Options::default());
    other.set_trigger(|settings| settings.condition = crate::trigger::Condition::parse("a.b > 1").unwrap());
    assert!(other.can_trigger().is_err_and(|words| words.contains("--probe")));
}

#[test]
fn a_probe_without_values_triggers_where_it_is_hit() {
    let mut scope = Scope::new(probed(), Options::default());
    scope.apply(Action::TriggerText("hit seen".to_owned()));
    scope.ingest(&batch(0, 0));
    assert_eq!(scope.frame().trigger.fired, 0, "others were hit");
    scope.ingest(&batch(1, 3));
    let trigger = scope.frame().trigger;
    assert_eq!((trigger.fired, trigger.text.as_str()), (3, "hit seen"));
    assert_eq!((trigger.captures.len(), trigger.settings.condition.is_some()), (0, true), "windows still open");
    (2..200).for_each(|n| scope.ingest(&batch(n, 0)));
    let trigger = scope.frame().trigger;
    let first = trigger.captures[0];
    assert_eq!((trigger.fired, first.at_ns, first.because.as_str()), (3, 13 * MS, "hit seen"));
    scope.apply(Action::TriggerText("hit sean".to_owned()));
    let controls = scope.frame().controls;
    let is_refused = controls.message.as_ref().is_some_and(|m| m.is_error && m.text.contains("refill, seen"));
    assert!(is_refused, "{:?}", controls.message);
    assert_eq!(scope.frame().trigger.text, "hit seen", "what was set stays");
    let mut other = Scope::new(info(), Options::default());
    other.set_trigger(|settings| settings.condition = crate::trigger::Condition::parse("hit x").unwrap());
    assert!(other.can_trigger().is_err_and(|words| words.contains("--probe")));
}

#[test]
fn the_events_have_the_hits_among_them() {
    let mut scope = live(2);
    scope.apply(Action::Show(View::Events));
    scope.apply(Action::Seek(500 * MS + 16_000));
    let frame = scope.frame();
    let rows = frame.events(9).rows;
    assert!(rows.is_sorted_by_key(crate::look::EventRow::time_ns));
    let names: Vec<_> = rows.iter().map(crate::look::EventRow::name).collect();
    let at = names.iter().position(|name| *name == "into").unwrap_or_else(|| panic!("{names:?}"));
    assert_eq!(names[at - 1], "sock.ready");
    let row = &rows[at];
    assert!(matches!(row.what, EventRowKind::Hit(..)) && row.values_text() == "len=1448" && row.len() == 100);
    assert_eq!(
        (row.ends.map(|(from, _)| from.port()), row.tid()),
        (Some(1000), 0),
        "an interrupted thread is nobody's"
    );
    assert_eq!(frame.footer.totals.hits, 200 * 4);
    scope.apply(Action::TakeRow);
    assert_eq!(scope.frame().controls.view, View::Scope);
}

#[test]
fn a_journey_is_opened_with_its_hits_and_its_payload() {
    let mut scope = live(0);
    scope.apply(Action::SelectJourney(1));
    scope.apply(Action::ToggleInspector);
    let frame = scope.frame();
    let inspector = frame.inspector.unwrap();
    let passed: Vec<_> = inspector
        .passes
        .iter()
        .map(|row| (row.probe.name.as_str(), row.since_start_ns, row.text.as_str()))
        .collect();
    assert_eq!(passed, [("into", 17_000, "len=1448")]);
    let n = inspector.line.start_ns() / 10 / MS;
    match inspector.payload {
        Payload::Heads(heads) => assert_eq!(heads[0].bytes, format!("message {n}").into_bytes()),
        other => panic!("{other:?}"),
    }
    // Without payload capture, and with evicted payload.
    let mut other = Scope::new(info(), Options::default());
    feed(&mut other, message(0, MS, 2_000), 20 * MS);
    other.end();
    other.apply(Action::ToggleInspector);
    assert_eq!(other.frame().inspector.unwrap().payload, Payload::NotAsked);
    let line = scope.selected.clone().unwrap();
    for n in 0..=crate::journal::MOST_HEADS as u64 {
        let batch = batch(0, 0);
        let head = PayloadHead { time_ns: 3_000 * MS + n, flow: FlowId(77), ..batch.heads[0].clone() };
        scope.ingest(&Batch { heads: vec![head], ..Batch::default() });
    }
    match scope.payload(&line) {
        Payload::Elsewhere(words) => assert!(words.contains("not kept any more (snap 48 dev.recv)"), "{words}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_picked_is_what_is_counted_and_drawn() {
    let mut scope = live(1);
    scope.apply(Action::Fit);
    let count = |scope: &Scope| {
        scope.frame().hits(10).rows.iter().map(|row| row.cells.iter().sum()).collect::<Vec<u64>>()
    };
    assert_eq!(count(&scope), [200, 200, 200, 0]);
    scope.apply(Action::Pick(crate::Pick::Flow(FlowId(1))));
    assert_eq!(count(&scope)[0], 200, "the other end of the flow is the flow");
    scope.apply(Action::Pick(crate::Pick::Flow(FlowId(77))));
    assert_eq!(count(&scope), [0, 200, 200, 0], "no selection has what has no flow");
    assert_eq!(scope.frame().losses().probes[0].hits, 200, "what was counted stays");
    scope.apply(Action::Pick(crate::Pick::Nothing));
    scope.apply(Action::NextProto);
    scope.apply(Action::NextProto);
    assert_eq!(count(&scope), [0, 200, 200, 0], "UDP");
}

#[test]
fn a_recording_shows_the_same_and_reads_again_what_is_looked_at_closely() {
    let infos = vec![probed(), NodeInfo { host: "b".to_owned(), ..probed() }];
    let mut scope = Scope::of_several(infos, recorded_options(2_000 * MS));
    for n in 0..200 {
        scope.ingest_batch((n % 2) as u16, &batch(n, 300));
    }
    scope.end();
    let frame = scope.frame();
    assert_eq!(
        frame.probes().iter().map(|probe| probe.nodes.len()).collect::<Vec<_>>(),
        [2; 4],
        "both hosts' are one"
    );
    assert_eq!(frame.losses().probes.iter().map(|probe| probe.hits).collect::<Vec<_>>(), [200, 200, 60_000, 0]);
    scope.apply(Action::Fit);
    assert_eq!(scope.frame().hits(64).rows[2].cells.iter().sum::<u64>(), 60_000);
    assert!(scope.frame().loadlines(64)[0].columns.iter().any(|c| c.is_some_and(|c| c.min < c.max)));
    assert_eq!(scope.journal.hits(0, u64::MAX).len(), 0, "a survey keeps none one by one");
    // At a fine scale they are read from the stretch.
    scope.apply(Action::ZoomTo { from_ns: 500 * MS, to_ns: 502 * MS });
    let tiles = scope.frame().hits(1_000).rows[0].clone();
    assert!(tiles.tile_ns > 0);
    let window = scope.wants().expect("a stretch");
    let mut stretch = crate::recorded::Stretch { window, ..Default::default() };
    for n in 0..200 {
        let batch = batch(n, 300);
        let inside = |ns: u64| (window.from_ns..=window.to_ns).contains(&ns);
        stretch
            .hits
            .extend(batch.hits.iter().filter(|hit| inside(hit.time_ns)).map(|hit| ((n % 2) as u16, *hit)));
        stretch.events.extend(batch.events.iter().filter(|e| inside(e.time_ns)).map(|e| ((n % 2) as u16, *e)));
    }
    scope.fill(stretch);
    let hits = scope.frame().hits(1_000);
    assert_eq!((hits.rows[0].tile_ns, hits.rows[0].cells.iter().sum::<u64>()), (0, 1));
    assert_eq!(hits.points.iter().map(|point| point.node).collect::<Vec<_>>(), [0, 0], "and whose they are");
    // A new survey for a trigger keeps the data of the stretch.
    scope.apply(Action::TriggerText("into.len > 1".to_owned()));
    assert_eq!((scope.frame().hits(1_000).points.len(), scope.frame().losses().probes[0].hits), (2, 0));
    let events: Vec<&Event> =
        scope.frame().events(50).rows.iter().filter_map(crate::look::EventRow::event).collect();
    assert!(!events.is_empty() && scope.frame().events(50).rows.iter().any(|row| row.name() == "into"));
}

#[test]
fn what_is_damaged_is_counted_and_breaks_nothing() {
    let mut scope = live(0);
    let strange = vec![
        hit(9, 2_100 * MS, [1, 1]),
        hit(255, u64::MAX, [i64::MIN, i64::MAX]),
        hit(1, 0, [i64::MIN, i64::MAX]),
    ];
    scope.ingest(&Batch { hits: strange, ..Batch::default() });
    assert_eq!(scope.frame().losses().strangers, 2);
    scope.apply(Action::Fit);
    for columns in [0, 1, 3, 100_000] {
        let frame = scope.frame();
        let _ = (frame.hits(columns), frame.loadlines(columns), frame.hit_heats(columns), frame.measurements());
    }
    scope.apply(Action::Clear);
    assert_eq!(scope.frame().losses().probes.iter().map(|probe| probe.hits).sum::<u64>(), 0);
    assert_eq!(scope.frame().hits(10).rows.len(), 4);
}
