//! Exact geometry against a general solver of linear programs.

use super::super::constraint::{Bounds, Constraint, Kind};
use super::super::drift::Drift;
use super::lines::Lines;
use super::{Model, Vertex, Windows};
use microlp::{ComparisonOp, Error, LinearExpr, OptimizationDirection, Problem};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// A bound at `x` ms of `y` ns.
type Bound = (Kind, i64, i64);

/// The highest (or lowest) value at `x` of the lines under all upper and above all lower bounds; `None` without
/// a line. Units are milliseconds and nanoseconds, so that the solver's numbers have similar magnitudes.
fn solved(bounds: &[Bound], x: i64, direction: OptimizationDirection) -> Option<f64> {
    let mut problem = Problem::new(direction);
    let height = problem.add_var(1.0, (f64::NEG_INFINITY, f64::INFINITY));
    // ρ: 200 ppm are 200 ns per millisecond.
    let slope = problem.add_var(0.0, (-200.0, 200.0));
    for (kind, at, y) in bounds {
        let mut line = LinearExpr::empty();
        line.add(height, 1.0);
        line.add(slope, (at - x) as f64);
        let side = if *kind == Kind::Upper { ComparisonOp::Le } else { ComparisonOp::Ge };
        problem.add_constraint(line, side, *y as f64);
    }
    match problem.solve() {
        Ok(outcome) => Some(outcome.solution().expect("no time limit was set").objective()),
        Err(Error::Infeasible) => None,
        Err(other) => panic!("the solver failed: {other}"),
    }
}

fn any_bounds() -> impl Strategy<Value = Vec<Bound>> {
    // Bounds around a line, most of them on their own side of it.
    let bound = (any::<bool>(), 0..2_000_i64, -40..1_000_i64);
    (-250..250_i64, prop::collection::vec(bound, 2..40)).prop_map(|(slope, bounds)| {
        let about = |x: i64| 5_000 + slope * x;
        bounds
            .into_iter()
            .map(
                |(upper, x, off)| {
                    if upper { (Kind::Upper, x, about(x) + off) } else { (Kind::Lower, x, about(x) - off) }
                },
            )
            .collect()
    })
}

fn vertex((kind, x, y): Bound) -> Vertex {
    Vertex { x: x * 1_000_000, y: if kind == Kind::Upper { y } else { -y } }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("MAGSCOPE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000),
        rng_seed: RngSeed::Fixed(1_999),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_lines_are_those_of_a_linear_program(bounds in any_bounds(), ask in -500..2_500_i64) {
        let mut lines = Lines::new(Drift::default());
        let mut taken: Vec<Bound> = Vec::new();
        for bound in bounds {
            taken.push(bound);
            if !lines.push(bound.0, vertex(bound)) {
                // Whole nanoseconds: an infeasible program is so by a margin that floating point resolves.
                let left = solved(&taken, ask, OptimizationDirection::Maximize);
                prop_assert!(left.is_none(), "a line is left: {left:?} for {taken:?}");
                taken.pop();
            }
        }
        let kinds = |wanted: Kind| taken.iter().any(|(kind, ..)| *kind == wanted);
        if kinds(Kind::Upper) {
            let truly = solved(&taken, ask, OptimizationDirection::Maximize);
            let truly = truly.expect("there is a line");
            let ours = lines.highest_at(ask * 1_000_000).expect("bounded") as f64;
            prop_assert!(ours >= truly - 1e-3 && ours <= truly + 1.001, "{ours} {truly} {taken:?}");
        }
        if kinds(Kind::Lower) {
            let truly = solved(&taken, ask, OptimizationDirection::Minimize);
            let truly = truly.expect("there is a line");
            let ours = lines.lowest_at(ask * 1_000_000).expect("bounded") as f64;
            prop_assert!(ours <= truly + 1e-3 && ours >= truly - 1.001, "{ours} {truly} {taken:?}");
        }
    }

    #[test]
    fn the_order_does_not_matter(bounds in any_bounds(), seed in any::<u64>(), ask in 0..2_000_i64) {
        // Loose enough for all of them, so that none is rejected.
        let loose = |(kind, x, y): Bound| (kind, x, if kind == Kind::Upper { y + 60_000 } else { y - 60_000 });
        let mut bounds: Vec<Bound> = bounds.into_iter().map(loose).collect();
        let mut answers = Vec::new();
        for _ in 0..2 {
            let mut lines = Lines::new(Drift::default());
            for bound in &bounds {
                prop_assert!(lines.push(bound.0, vertex(*bound)));
            }
            answers.push((lines.highest_at(ask * 1_000_000), lines.lowest_at(ask * 1_000_000)));
            bounds.sort_by_key(|(kind, x, y)| (*x as u64 ^ seed, *kind as u8, *y));
        }
        prop_assert_eq!(answers[0], answers[1]);
    }
}

fn at(kind: Kind, at_ns: u64, value_ns: i64) -> Constraint {
    Constraint { at_ns, kind, value_ns, packet: 0 }
}

#[test]
fn a_window_is_split_where_no_line_is_left() {
    const MS: u64 = 1_000_000;
    let model = Model { window_ns: 1_000 * MS, epsilon_ns: 100 };
    let mut windows = Windows::new(Drift::default(), model);
    for i in 0..200 {
        // The rate changes from 0 to 100 ppm in the middle of the first window.
        let (t, d) = (i * 5 * MS, (i as i64 - 100).max(0) * 500);
        windows.push(&at(Kind::Upper, t, d + 1_000));
        windows.push(&at(Kind::Lower, t + MS, d + 100 - 1_000));
    }
    assert!(windows.splits() > 0);
    for i in 0..200_u64 {
        let truth = (i as i64 - 100).max(0) * 500;
        // A kink that still permits a line between the packets is invisible: its size is at most half that
        // room.
        if let Some(Bounds { lower: Some(lower), upper: Some(upper) }) = windows.bounds_at(i * 5 * MS) {
            assert!(lower - 1_200 <= truth && truth <= upper + 1_200, "{lower} {upper} {truth} {i}");
        }
    }
    // After the split the earlier line is discarded: it would be off by 50 µs at the end.
    for at in [700, 800, 950_u64] {
        let bounds = windows.bounds_at(at * MS).expect("the model is back");
        assert!(bounds.contains((at as i64 - 500) * 100), "{bounds:?} {at}");
        assert!(bounds.width_ns().is_some_and(|w| w < 2_500), "{bounds:?}");
    }
}

#[test]
fn the_estimate_has_no_jump_from_window_to_window() {
    const MS: u64 = 1_000_000;
    let mut windows = Windows::new(Drift::default(), Model { window_ns: 100 * MS, epsilon_ns: 0 });
    for i in 0..1_000_u64 {
        let noise = (i * 7_919 % 1_000) as i64;
        windows.push(&at(Kind::Upper, i * MS, 1_000 + noise));
        windows.push(&at(Kind::Lower, i * MS + 1, -2_000 - noise * 3 % 1_000));
    }
    let middles: Vec<i64> = (0..9_000_u64).filter_map(|i| windows.middle_at(i * MS / 10, None)).collect();
    assert_eq!(middles.len(), 9_000);
    assert!(middles.windows(2).all(|w| w[0].abs_diff(w[1]) < 30), "a jump");
}
