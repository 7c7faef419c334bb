//! Many clocks at once, against a general solver of linear programs.

use crate::clock_world;

use clock_world::random::Random;
use magscope_timeline::graph::Graph;
use magscope_timeline::pair::Bounds;
use microlp::{ComparisonOp, LinearExpr, OptimizationDirection, Problem};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn config() -> ProptestConfig {
    let asked = std::env::var("MAGSCOPE_CASES").ok().and_then(|n| n.parse().ok());
    let rng_seed = if asked.is_some() { RngSeed::Random } else { RngSeed::Fixed(2_010) };
    let cases = asked.unwrap_or(10_000);
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

/// Bounds between some pairs of clocks with a known true time.
fn fleet(random: &mut Random) -> (Vec<i64>, Vec<(usize, usize, Bounds)>) {
    let nodes = 2 + random.below(6) as usize;
    let truth: Vec<i64> = (0..nodes).map(|_| random.between(-1e6, 1e6) as i64).collect();
    let mut pairs = Vec::new();
    for a in 0..nodes {
        for b in a + 1..nodes {
            let mut side = |sign: i64| {
                let room = random.magnitude(1.0, 1e5) as i64;
                random.chance(0.6).then_some(truth[b] - truth[a] + sign * room)
            };
            pairs.push((a, b, Bounds { lower: side(-1), upper: side(1) }));
        }
    }
    (truth, pairs)
}

fn graph(nodes: usize, pairs: &[(usize, usize, Bounds)]) -> Graph {
    let mut graph = Graph::new(nodes);
    for (a, b, bounds) in pairs {
        graph.bound(*a, *b, bounds);
    }
    graph
}

/// The largest `θ_b − θ_a` by linear programming; `None` if it is not bounded.
fn largest(nodes: usize, pairs: &[(usize, usize, Bounds)], a: usize, b: usize) -> Option<f64> {
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let weight = |i| f64::from(u8::from(i == b)) - f64::from(u8::from(i == a));
    let free = (f64::NEG_INFINITY, f64::INFINITY);
    let thetas: Vec<_> =
        (0..nodes).map(|i| problem.add_var(weight(i), if i == a { (0.0, 0.0) } else { free })).collect();
    for (a, b, bounds) in pairs {
        let mut difference = LinearExpr::empty();
        difference.add(thetas[*b], 1.0);
        difference.add(thetas[*a], -1.0);
        if let Some(upper) = bounds.upper {
            problem.add_constraint(difference.clone(), ComparisonOp::Le, upper as f64);
        }
        if let Some(lower) = bounds.lower {
            problem.add_constraint(difference, ComparisonOp::Ge, lower as f64);
        }
    }
    match problem.solve() {
        Ok(outcome) => outcome.solution().map(microlp::Solution::objective),
        Err(microlp::Error::Unbounded) => None,
        Err(other) => panic!("the solver failed: {other}"),
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_truth_is_inside_and_the_time_line_keeps_every_bound(seed in any::<u64>()) {
        let (truth, pairs) = fleet(&mut Random(seed));
        let solution = graph(truth.len(), &pairs).solve().expect("the truth is a time line");
        let line = solution.time_line(0);
        prop_assert_eq!(line[0], Some(0));
        for (a, b, direct) in &pairs {
            let bounds = solution.bounds(*a, *b);
            prop_assert!(bounds.contains(truth[*b] - truth[*a]));
            prop_assert_eq!(bounds.and(direct), bounds);
            prop_assert_eq!(bounds.negated(), solution.bounds(*b, *a));
            if let (Some(a), Some(b)) = (line[*a], line[*b]) {
                prop_assert!(bounds.contains(b - a));
            }
        }
    }

    #[test]
    fn the_bounds_are_those_of_a_linear_program(seed in any::<u64>()) {
        let mut random = Random(seed);
        let (truth, pairs) = fleet(&mut random);
        let solution = graph(truth.len(), &pairs).solve().expect("the truth is a time line");
        let (a, b) = (random.below(truth.len() as u64) as usize, random.below(truth.len() as u64) as usize);
        let (ours, solved) = (solution.bounds(a, b).upper, largest(truth.len(), &pairs, a, b));
        prop_assert_eq!(ours.is_some(), a == b || solved.is_some());
        if let (Some(ours), Some(solved)) = (ours, solved) {
            prop_assert!((ours as f64 - solved).abs() < 1e-2, "{ours} {solved}");
        }
    }

    #[test]
    fn a_contradiction_names_a_cycle_that_is_one(seed in any::<u64>()) {
        let mut random = Random(seed);
        let (truth, mut pairs) = fleet(&mut random);
        for (_, _, bounds) in &mut pairs {
            // Some bounds are wrong.
            if random.chance(0.3) {
                let off = random.between(-2e5, 2e5) as i64;
                *bounds = Bounds { lower: bounds.lower.map(|d| d + off), upper: bounds.upper.map(|d| d + off) };
            }
        }
        match graph(truth.len(), &pairs).solve() {
            Ok(solution) => {
                for (a, b, direct) in &pairs {
                    prop_assert_eq!(solution.bounds(*a, *b).and(direct), solution.bounds(*a, *b));
                    prop_assert!(!solution.bounds(*a, *b).is_empty());
                }
            }
            Err(contradiction) => {
                let cycle = &contradiction.nodes;
                let weight = |from: usize, to: usize| {
                    let of = |(a, b, bounds): &(usize, usize, Bounds)| {
                        let upper = bounds.upper.filter(|_| (*a, *b) == (from, to));
                        upper.or(bounds.lower.filter(|_| (*b, *a) == (from, to)).map(|lower| -lower))
                    };
                    pairs.iter().filter_map(of).min().expect("an edge of the graph")
                };
                let sum: i64 = (0..cycle.len()).map(|i| weight(cycle[i], cycle[(i + 1) % cycle.len()])).sum();
                prop_assert_eq!(sum, -(contradiction.by_ns as i64));
                prop_assert!(sum < 0);
            }
        }
    }
}

fn within(lower: i64, upper: i64) -> Bounds {
    Bounds { lower: Some(lower), upper: Some(upper) }
}

#[test]
fn a_detour_can_be_tighter_than_the_direct_way() {
    let solution =
        graph(3, &[(0, 1, within(90, 110)), (1, 2, within(40, 60)), (0, 2, within(0, 155))]).solve().unwrap();
    assert_eq!(solution.bounds(0, 2), within(130, 155));
    assert_eq!(solution.time_line(0), [Some(0), Some(100), Some(142)]);
}

#[test]
fn a_node_heard_of_in_one_direction_only_has_no_place() {
    let one_way = Bounds { lower: None, upper: Some(5) };
    let solution = graph(3, &[(0, 1, one_way), (1, 2, within(1, 2))]).solve().unwrap();
    assert_eq!(solution.bounds(0, 2), Bounds { lower: None, upper: Some(7) });
    assert_eq!(solution.time_line(0), [Some(0), None, None]);
    assert_eq!(Graph::new(0).solve().unwrap().time_line(0), []);
}

#[test]
fn utc_places_nodes_that_never_spoke_and_is_dropped_where_packets_refute_it() {
    let packets = graph(3, &[(0, 1, within(90, 110))]);
    let utc = |ns: i64| within(ns - 10, ns + 10);
    let (solution, refuted) = packets.solve_with_utc(&[(0, utc(1_000)), (2, utc(700))]).unwrap();
    assert_eq!((solution.bounds(0, 2), refuted), (within(280, 320), vec![]));
    // Node 1 claims to be 300 ahead of node 0, and packets show 100: 0 or 1 is wrong, 2 is not involved.
    let claims = [(0, utc(1_000)), (1, utc(700)), (2, utc(700))];
    let (solution, refuted) = packets.solve_with_utc(&claims).unwrap();
    assert_eq!(refuted, [0, 1]);
    assert_eq!(solution.bounds(0, 1), within(90, 110));
    assert_eq!(solution.bounds(0, 2), Bounds::NONE);
}
