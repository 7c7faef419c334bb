//! Automatic scales, and how well pictures use them.

use super::tests::{busy, feed, flows, info, message, recorded};
use super::*;
use crate::action::Action;
use magscope_core::{Batch, Event, Flow, FlowId};

const MS: u64 = 1_000_000;

/// The same message on another connection of the two.
fn elsewhere(n: u32, at: u64, read_ns: u64) -> Vec<Event> {
    let other = |event: Event| Event { flow: FlowId(event.flow.0 + 10), socket: event.socket + 10, ..event };
    message(n, at, read_ns).into_iter().map(other).collect()
}

#[test]
fn autoset_finds_the_busy_flow_and_a_scale_that_suits_its_last_second() {
    let mut scope = Scope::new(info(), Options::default());
    let more = flows().into_iter().map(|flow| Flow {
        id: FlowId(flow.id.0 + 10),
        local: format!("{}1", flow.local).parse().unwrap(),
        remote: format!("{}1", flow.remote).parse().unwrap(),
        ..flow
    });
    scope.ingest(&Batch { flows: more.collect(), ..Batch::default() });
    // Two seconds in which each message waits 40 ms for its read, then one without waits; occasionally one of
    // another flow.
    for n in 0..300_u32 {
        let at = u64::from(n) * 10 * MS;
        let read_ns = if n < 195 { 40 * MS } else { 2_000 };
        feed(&mut scope, message(n, at, read_ns), at + 9 * MS);
        if n % 20 == 0 {
            feed(&mut scope, elsewhere(n, at + 9 * MS, 2_000), at + 9 * MS + MS / 2);
        }
    }
    assert!(scope.frame().sweep.timebase.span_ns() > MS, "it began where the slow ones fit");
    scope.apply(Action::Autoset);
    let frame = scope.frame();
    assert_eq!(frame.controls.picks, [crate::Pick::Flow(FlowId(1))]);
    // 17 µs each: nine of ten fit into three fifths.
    assert_eq!(frame.sweep.timebase.span_ns(), 50_000, "{:?}", frame.sweep.timebase);
    assert!(!frame.controls.timebase_fixed, "it goes on by itself");
    assert!(frame.controls.message.as_ref().is_some_and(|m| m.text.contains("busiest flow")));
    assert!(frame.table.iter().all(|row| row.line.journey.tx_flow == FlowId(1)) && !frame.table.is_empty());
    scope.apply(Action::Autoset);
    assert_eq!(scope.frame().controls.picks.len(), 1, "what the user sees is not narrowed further");
    scope.apply(Action::Back);
    assert!(scope.frame().controls.picks.is_empty());
}

#[test]
fn loadlines_fill_their_height_again_after_autoset() {
    let mut scope = busy();
    scope.apply(Action::ToggleChannel(crate::Channel::Journeys));
    scope.apply(Action::VerticalScale(1));
    scope.apply(Action::ToggleLog);
    assert!(scope.frame().controls.channels[0].vertical.per_division.is_some());
    scope.apply(Action::Autoset);
    assert_eq!(scope.frame().controls.channels[0].vertical, crate::Vertical::default());
}

#[test]
fn a_slow_timebase_rolls_and_a_fast_one_stands() {
    let right_edge = |scope: &Scope| scope.frame().sweep.origin_ns + scope.frame().sweep.timebase.span_ns();
    for (roll, per_division_ns, rolls) in [
        (crate::Roll::Auto, 100 * MS, true),
        (crate::Roll::Auto, 50 * MS, false),
        (crate::Roll::Off, 500 * MS, false),
        (crate::Roll::On, MS, true),
    ] {
        let mut scope = busy();
        scope.apply(Action::SetRoll(roll));
        scope.apply(Action::SetTimebase(per_division_ns));
        let mut behind = Vec::new();
        for n in 200..400_u32 {
            let at = u64::from(n) * 10 * MS;
            feed(&mut scope, message(n, at, 2_000), at + 9 * MS);
            behind.push(right_edge(&scope).abs_diff(scope.now_ns) / MS);
        }
        // A following picture lags by at most a bucket of half a second; a held picture lasts a second, for a
        // journey within it.
        let follows = behind[60..].iter().all(|ms| *ms <= 510);
        assert_eq!(follows, rolls, "{roll:?} at {per_division_ns}: {behind:?}");
        scope.apply(Action::TogglePause);
        let stood = right_edge(&scope);
        feed(&mut scope, message(400, 4_000 * MS, 2_000), 5_500 * MS);
        assert_eq!(right_edge(&scope), stood, "paper that is stopped stands");
    }
    let (mut scope, _) = recorded();
    scope.apply(Action::SetTimebase(100 * MS));
    for n in 1..=19_u64 {
        scope.tick(100 * MS);
        // Until the picture is full its right edge is fixed; then it moves.
        assert_eq!(right_edge(&scope), (n * 100 * MS).max(1_000 * MS), "a recording rolls at its head");
    }
}

#[test]
fn the_cpus_of_the_host_are_a_loadline_and_can_be_waited_for() {
    let mut scope = busy();
    scope.measures_itself = true;
    scope.apply(Action::ToggleChannel(crate::Channel::HostCpu));
    scope.apply(Action::TriggerText("cpu rises 80%".to_owned()));
    assert_eq!(scope.frame().loadlines(10)[0].last, None, "nobody said anything yet");
    for n in 0..10_000_u32 {
        let at = 2_000 * MS + u64::from(n) * MS;
        scope.ingest(&Batch { watermark_ns: at, ..Batch::default() });
        scope.set_host_cpu(if n == 9_000 { 0.9 } else { 0.25 });
    }
    scope.apply(Action::Fit);
    let line = &scope.frame().loadlines(50)[0];
    assert_eq!((line.last, line.unit), (Some(0.25), crate::Unit::Ratio));
    assert!(line.columns.iter().flatten().any(|column| column.max > 0.8), "a peak stays");
    assert_eq!(scope.frame().trigger.fired, 1);
    assert!(scope.host_cpu.len() <= MOST_READINGS);
}
