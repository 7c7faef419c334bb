//! The trigger of a scope: what it waits for, and what it keeps.

use super::tests::{feed, flows, info, message};
use super::*;
use crate::action::Action;
use magscope_core::{Batch, Event, FlowId, Hop};

const MS: u64 = 1_000_000;

#[test]
fn a_trigger_keeps_what_was_before_and_after_and_shows_it() {
    let mut scope = Scope::new(info(), Options::default());
    scope.apply(Action::TriggerText("hop(sock.ready,app.recv) > 1ms".to_owned()));
    scope.apply(Action::TriggerWindow(100 * MS));
    scope.apply(Action::PreTrigger(40));
    for n in 0..200_u32 {
        let at = u64::from(n) * 10 * MS;
        feed(&mut scope, message(n, at, if n == 90 { 5 * MS } else { 2_000 }), at + 9 * MS);
    }
    let captures = scope.take_captures();
    assert_eq!(captures.len(), 1);
    let at_ns = 900 * MS + 15_000 + 5 * MS;
    assert_eq!(
        (captures[0].at_ns, captures[0].from_ns, captures[0].to_ns),
        (at_ns, at_ns - 40 * MS, at_ns + 60 * MS)
    );
    assert!(scope.take_captures().is_empty());
    scope.apply(Action::NextCapture(1));
    let frame = scope.frame();
    assert_eq!((frame.trigger.shown, frame.trigger.fired, frame.controls.paused), (Some(0), 1, true));
    assert_eq!(frame.sweep.anchor, captures[0].journey);
    let starts: Vec<_> = frame.sweep.lifelines.iter().map(Lifeline::start_ns).collect();
    assert!(
        starts.contains(&(870 * MS)) && starts.contains(&(960 * MS)) && !starts.contains(&(860 * MS)),
        "{starts:?}"
    );
    assert!((frame.trigger.at.unwrap() - 0.4).abs() < 0.01);
    scope.apply(Action::TriggerText("hop(sock.ready,app.recv) > 1".to_owned()));
    assert!(scope.frame().controls.message.as_ref().is_some_and(|m| m.is_error));
}

/// A burst of 20 messages in the bucket from half a second to a second, and a message before it.
fn burst() -> Vec<Event> {
    (0..20).fold(message(0, 100 * MS, 2_000), |mut events, n| {
        events.extend(message(n + 1, 610 * MS + u64::from(n) * 10 * MS, 2_000));
        events
    })
}

#[test]
fn a_rate_is_checked_in_every_bucket_of_a_batch() {
    let mut scope = Scope::new(info(), Options::default());
    scope.apply(Action::TriggerText("events > 100".to_owned()));
    // 240 events per second in the second bucket, 12 in the others.
    let mut events = burst();
    events.extend(message(21, 2_100 * MS, 2_000));
    feed(&mut scope, events, 2_300 * MS);
    assert_eq!((scope.times_triggered(), scope.watch.last_ns()), (1, Some(1_000 * MS)));
    feed(&mut scope, Vec::new(), 4_000 * MS);
    assert_eq!(scope.times_triggered(), 1, "each bucket once");
}

#[test]
fn a_rate_of_journeys_is_checked_after_they_have_been_counted() {
    let mut scope = Scope::of_several(vec![info()], Options::default());
    scope.apply(Action::TriggerText("journeys > 20".to_owned()));
    let batch = |events, watermark_ns| Batch { events, flows: flows(), watermark_ns, ..Batch::default() };
    scope.ingest_batch(0, &batch(burst(), 2_000 * MS));
    for n in 0..20 {
        let at = 610 * MS + n * 10 * MS;
        let marks = [(Hop::DevXmit, at), (Hop::DevRecv, at + 1_000), (Hop::AppRecv, at + 2_000)];
        scope.ingest_journey(crate::lifeline::tests::lifeline(n + 1, &marks).journey);
    }
    assert_eq!(scope.times_triggered(), 0);
    scope.ingest_batch(0, &batch(Vec::new(), 2_010 * MS));
    assert_eq!((scope.times_triggered(), scope.watch.last_ns()), (1, Some(1_000 * MS)));
}

#[test]
fn rates_of_a_recording_are_checked_by_every_survey() {
    let mut scope = Scope::new(info(), super::tests::recorded_options(3_000 * MS));
    scope.apply(Action::TriggerText("events > 100".to_owned()));
    let batch = |events, watermark_ns| Batch { events, flows: flows(), watermark_ns, ..Batch::default() };
    for survey in 0..2 {
        scope.ingest_batch(0, &batch(Vec::new(), 400 * MS));
        scope.ingest_batch(0, &batch(burst(), 900 * MS));
        scope.ingest_batch(0, &batch(message(21, 2_900 * MS, 2_000), 2_950 * MS));
        scope.end();
        assert_eq!((scope.times_triggered(), scope.take_captures().len()), (1, 1), "survey {survey}");
        scope.recount();
    }
}

#[test]
fn a_single_shot_stops_when_its_window_is_complete() {
    let mut scope = Scope::new(info(), Options::default());
    scope.apply(Action::TriggerText("hop(sock.ready,app.recv) > 1ms".to_owned()));
    scope.apply(Action::TriggerMode(crate::trigger::Mode::Single));
    scope.apply(Action::TriggerWindow(4_000 * MS));
    for n in 0..500_u32 {
        let at = u64::from(n) * 10 * MS;
        feed(&mut scope, message(n, at, if n == 90 { 5 * MS } else { 2_000 }), at + 9 * MS);
        // It fired at 0.9 s, and its window ends at 2.9 s.
        assert!(!scope.controls.paused || at >= 2_900 * MS, "stopped at {at}");
    }
    assert!(scope.controls.paused && scope.fired.is_none());
    let frame = scope.frame();
    let anchor = frame.sweep.lifelines.iter().find(|line| Some(line.key()) == frame.sweep.anchor);
    let anchor = anchor.expect("the journey of the trigger");
    assert!(anchor.total_ns() > 5 * MS);
    let ends = [anchor.start_ns(), anchor.end_ns()].map(|ns| frame.sweep.x_of(ns));
    assert!(ends.iter().all(|x| (0.0..=1.0).contains(x)), "{ends:?}");
}

#[test]
fn a_step_of_a_clock_triggers_once() {
    let host = |name: &str| NodeInfo { host: name.to_owned(), ..NodeInfo::default() };
    let mut scope = Scope::of_several(vec![host("web"), host("db")], Options::default());
    scope.apply(Action::TriggerText("clock(db,web) step > 1ms".to_owned()));
    let pair = |last_step_ns| ClockPair {
        hosts: ("web".to_owned(), "db".to_owned()),
        last_step_ns,
        ..ClockPair::default()
    };
    for (step, fired) in
        [(None, 0), (Some((5, 900_000)), 0), (Some((9, -2_000_000)), 1), (Some((9, -2_000_000)), 1)]
    {
        scope.set_clock_pairs(vec![pair(step)]);
        assert_eq!(scope.trigger_status().fired, fired, "{step:?}");
    }
    let mut other = Scope::of_several(vec![host("web"), host("db")], Options::default());
    let condition = crate::trigger::Condition::parse("clock(web,dbb) step > 1ms").unwrap();
    other.set_trigger(|settings| settings.condition = condition);
    assert!(other.can_trigger().is_err_and(|words| words.contains("dbb")));
}

#[test]
fn nothing_is_waited_for_that_no_hop_tells() {
    let mut scope = Scope::new(info(), Options::default());
    let can = |scope: &Scope, text: &str| {
        let condition = crate::trigger::Condition::parse(text).expect("a condition").expect("one");
        scope.can_wait_for(&condition)
    };
    assert_eq!(can(&scope, "hop(dev.recv,app.recv) > 2ms"), Ok(()));
    assert_eq!(can(&scope, "drop"), Ok(()));
    let off = can(&scope, "hop(ip.in,app.recv) > 2ms").expect_err("it is off");
    assert_eq!(off, "ip.in is not probed; capture with `--hops +ip.in`");
    let missing = can(&scope, "port = 80 and hop(ip.pre,app.recv) > 2ms").expect_err("it is missing");
    assert_eq!(missing, "no probe serves ip.pre here: no fentry");
    feed(&mut scope, vec![Event { flow: FlowId(2), len: 100, ..Event::at(Hop::IpIn, 5) }], 6);
    assert_eq!(can(&scope, "hop(ip.in,app.recv) > 2ms"), Ok(()), "it was switched on meanwhile");

    // Nor what nothing measures, or has no records.
    let measured = Scope::new(info(), Options { measures_itself: true, ..Options::default() });
    let summed = NodeInfo { settings: vec!["detail histograms".to_owned()], ..info() };
    let summed = Scope::new(summed, Options::default());
    for text in ["own_cpu > 1%", "ring_fill > 50%", "cpu > 90%"] {
        assert!(can(&scope, text).is_err_and(|words| words.contains("live capture")), "{text}");
        assert_eq!(can(&measured, text), Ok(()));
    }
    for text in
        ["hop(dev.recv,app.recv) > 2ms", "total > 1ms", "request > 1ms", "drop", "retransmit", "srtt > 1ms"]
    {
        assert!(can(&summed, text).is_err_and(|words| words.contains("--detail both")), "{text}");
    }
    assert_eq!((can(&summed, "missed"), can(&summed, "events > 5")), (Ok(()), Ok(())));
}
