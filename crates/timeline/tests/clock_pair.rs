//! Level 0 by hand: tables small enough for manual verification.

use magscope_timeline::pair::{Bounds, Builder, Constraint, Kind, Level0, Outcome, Recorded, State};

const SECOND: u64 = 1_000_000_000;

fn upper(at_ns: u64, value_ns: i64) -> Constraint {
    Constraint { at_ns, kind: Kind::Upper, value_ns, packet: at_ns }
}

fn lower(at_ns: u64, value_ns: i64) -> Constraint {
    Constraint { at_ns, kind: Kind::Lower, value_ns, packet: at_ns }
}

fn both(lower: i64, upper: i64) -> Bounds {
    Bounds { lower: Some(lower), upper: Some(upper) }
}

fn live(constraints: &[Constraint]) -> Level0 {
    let mut live = Level0::default();
    for constraint in constraints {
        live.push(constraint);
    }
    live
}

#[test]
fn a_packet_is_received_after_it_is_sent() {
    // B is 1000 ahead; 30 ns in flight.
    let there = Constraint::a_to_b(5_000, 6_030, 0).unwrap();
    assert_eq!((there.kind, there.at_ns, there.value_ns), (Kind::Upper, 5_000, 1_030));
    let back = Constraint::b_to_a(7_000, 6_030, 0).unwrap();
    assert_eq!((back.kind, back.at_ns, back.value_ns), (Kind::Lower, 6_030, 970));
    // An error widens the bounds, and the drift during it rounds up to one nanosecond more.
    assert_eq!(Constraint::a_to_b(5_000, 6_030, 20).unwrap().value_ns, 1_051);
    assert_eq!(Constraint::b_to_a(7_000, 6_030, 20).unwrap().value_ns, 949);
    assert_eq!(Constraint::a_to_b(0, u64::MAX, 0), None);
    assert_eq!(Constraint::b_to_a(0, u64::MAX, u64::MAX), None);
}

#[test]
fn bounds_open_with_the_drift_to_both_sides() {
    let recorded = Recorded::build([upper(SECOND, 1_000_000), lower(2 * SECOND, 900_000)]);
    assert_eq!(recorded.bounds_at(SECOND), both(700_000, 1_000_000));
    assert_eq!(recorded.bounds_at(2 * SECOND), both(900_000, 1_200_000));
    assert_eq!(recorded.bounds_at(0), both(500_000, 1_200_000));
    assert_eq!(recorded.estimate_at(SECOND), Some((850_000, 150_000)));
    assert_eq!(recorded.min_round_trip_ns(), Some(300_000));
    assert_eq!(recorded.limiting_at(0), (Some(lower(2 * SECOND, 900_000)), Some(upper(SECOND, 1_000_000))));
    assert_eq!(recorded.counts().used, 2);
}

#[test]
fn the_next_constraint_tightens_the_past_when_recorded_and_not_when_live() {
    let all = [upper(SECOND, 500_000), lower(SECOND, -500_000), upper(SECOND + 1000, 0)];
    let mut live = Level0::default();
    for constraint in &all {
        assert_eq!(live.push(constraint), Outcome::Used);
    }
    let recorded = Recorded::build(all);
    assert_eq!(recorded.bounds_at(SECOND), both(-500_000, 1));
    assert_eq!(live.bounds_at(SECOND + 1000), recorded.bounds_at(SECOND + 1000));
    assert_eq!(live.bounds_at(SECOND + 1000), both(-500_001, 0));
}

#[test]
fn states_say_what_is_known() {
    let mut live = Level0::default();
    assert_eq!(live.state_at(5), State::Unsynchronised);
    live.push(&upper(SECOND, 1_000));
    assert_eq!(live.state_at(SECOND), State::OneSided);
    assert_eq!(live.estimate_at(SECOND), None);
    live.push(&lower(SECOND + 5, 900));
    assert_eq!(live.state_at(SECOND + 5), State::Certified);
    assert_eq!(live.state_at(3 * SECOND), State::Holdover);
    assert_eq!(Recorded::build([]).state(), State::Unsynchronised);
    assert_eq!(Recorded::build([lower(1, 1)]).state(), State::OneSided);
    assert_eq!(Recorded::build([lower(1, 1), upper(2, 3)]).state(), State::Certified);
}

/// A thousand round trips a millisecond apart; `D` increases by `step_ns` at the five hundredth.
fn trips(step_ns: i64) -> Vec<Constraint> {
    let trip = |i: u64| {
        let difference = if i < 500 { 0 } else { step_ns };
        let at = SECOND + i * 1_000_000;
        [upper(at, difference + 20_000), lower(at + 500_000, difference - 20_000)]
    };
    (0..1000).flat_map(trip).collect()
}

#[test]
fn a_false_match_is_rejected_and_counted() {
    for false_one in [upper(SECOND + 300_000_000 + 7, -3_000_000), lower(SECOND + 300_000_000 + 7, 3_000_000)] {
        let mut all = trips(0);
        all.push(false_one);
        let recorded = Recorded::build(all.iter().copied());
        assert_eq!((recorded.counts().rejected, recorded.counts().used, recorded.steps()), (1, 2000, 0));
        all.sort();
        let live = live(&all);
        assert_eq!((live.counts().rejected, live.counts().used, live.steps()), (1, 2000, 0));
    }
}

#[test]
fn a_false_match_at_the_very_beginning_gives_way_to_the_others() {
    let mut all = trips(0);
    all.push(upper(SECOND - 1, -3_000_000));
    let recorded = Recorded::build(all);
    assert_eq!((recorded.counts().rejected, recorded.counts().used, recorded.steps()), (1, 2000, 0));
    assert!(recorded.bounds_at(SECOND).contains(0));
}

#[test]
fn a_step_begins_an_epoch_and_both_are_right() {
    for step in [-1_000_000, 1_000_000, i64::MAX / 2, -60_000] {
        let recorded = Recorded::build(trips(step));
        assert_eq!((recorded.steps(), recorded.counts().rejected), (1, 0), "{step}");
        let at = |i: u64| SECOND + i * 1_000_000;
        assert!(recorded.bounds_at(at(499)).contains(0), "{step}");
        assert!(recorded.bounds_at(at(500)).contains(step), "{step}");
        assert!(recorded.bounds_at(at(100)).width_ns().unwrap() < 41_000);
        assert!(recorded.bounds_at(at(900)).width_ns().unwrap() < 41_000);
        // In between the epoch is unknown, and the bounds cover both.
        let between = recorded.bounds_at(at(499) + 600_000);
        assert!(between.contains(0) && between.contains(step), "{step}: {between:?}");
        let live = live(&trips(step));
        assert_eq!(live.steps(), 1);
        // To within the bounds of both sides.
        let found = live.last_step().expect("a step").change_ns;
        assert!(found.abs_diff(step) <= 90_000, "{found} of {step}");
        assert!(live.bounds_at(at(1000)).contains(step));
    }
}

#[test]
fn a_known_step_needs_no_proof() {
    let mut builder = Builder::default();
    trips(0).into_iter().filter(|c| c.at_ns < SECOND + 500_000_000).for_each(|c| builder.push(c));
    builder.step_at(SECOND + 500_000_000);
    trips(5).into_iter().filter(|c| c.at_ns >= SECOND + 500_000_000).for_each(|c| builder.push(c));
    let recorded = builder.finish();
    assert_eq!((recorded.steps(), recorded.counts().used), (1, 2000));
    assert_eq!(recorded.bounds_at(SECOND + 500_000_000).upper, Some(20_005));
}

#[test]
fn less_memory_only_widens() {
    let all = trips(0);
    let full = Recorded::build(all.iter().copied());
    let mut small = Builder::default().with_memory(64, 16);
    for constraint in &all {
        small.push(*constraint);
    }
    let small = small.finish();
    assert!(small.counts().thinned > 0);
    for at in (SECOND..2 * SECOND).step_by(333_333) {
        let (wide, tight) = (small.bounds_at(at), full.bounds_at(at));
        assert!(
            wide.contains(0) && wide.lower <= tight.lower && wide.upper >= tight.upper,
            "{wide:?} {tight:?}"
        );
    }
}
