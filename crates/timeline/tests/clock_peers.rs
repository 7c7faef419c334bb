//! Other methods on the same packets: in a benign world they agree with ours; in others each fails in a known
//! way.

use crate::clock_world;

use clock_world::delay::Jitter;
use clock_world::peers::{ConvexHull, HopTree, Method, QuickestTrip, Regression};
use clock_world::random::Random;
use clock_world::{SECOND, Settings, World};
use magscope_timeline::graph::Graph;
use magscope_timeline::pair::{Constraint, Recorded};

fn world(seed: u64, packets: usize, span_ns: i64) -> (World, Vec<Constraint>) {
    let world = World::new(&mut Random(seed), Settings::quiet(packets, span_ns));
    let mut constraints = world.constraints();
    constraints.sort();
    (world, constraints)
}

fn fed<M: Method + Default>(constraints: &[Constraint]) -> M {
    let mut method = M::default();
    for constraint in constraints {
        method.push(constraint);
    }
    method
}

#[test]
fn in_a_kind_world_all_of_them_are_near() {
    for seed in 0..50 {
        let (world, constraints) = world(seed, 2_000, 2 * SECOND);
        let hull: ConvexHull = fed(&constraints);
        let regression: Regression = fed(&constraints);
        let trip: QuickestTrip = fed(&constraints);
        let recorded = Recorded::build(constraints.iter().copied());
        assert!(!hull.failed);
        let (a, d) = world.truth(2 * SECOND);
        let bounds = recorded.sourced_bounds_at(a).bounds;
        for (method, near_ns) in [(&hull as &dyn Method, 5_000), (&regression, 5_000), (&trip, 20_000)] {
            let estimate = method.estimate(a).unwrap();
            assert!(estimate.abs_diff(d) < near_ns, "seed {seed}: {} is {} off", method.name(), estimate - d);
        }
        // The hull's two lines are consistent with the packets: our bounds cover all such lines.
        let (lower, upper) = hull.interval(a).unwrap();
        assert!(lower <= d && d <= upper);
        assert!(bounds.lower.unwrap() <= lower && upper <= bounds.upper.unwrap(), "{bounds:?} {lower} {upper}");
    }
}

#[test]
fn products_of_64_bits_do_not_last_for_hours() {
    // Wrapped products cancel as long as their difference fits, which fails for some milliseconds of queueing
    // times some hours.
    let mut settings = Settings::quiet(20_000, 6 * 3_600 * SECOND);
    settings.jitter = [Jitter::Exponential { mean_ns: 2e6 }; 2];
    let mut broken = 0;
    for seed in 0..10 {
        let world = World::new(&mut Random(seed), settings.clone());
        let mut constraints = world.constraints();
        constraints.sort();
        let wrapping: ConvexHull = fed(&constraints);
        let mut exact = ConvexHull::exact();
        for constraint in &constraints {
            exact.push(constraint);
        }
        let (a, d) = world.truth(6 * 3_600 * SECOND);
        let (lower, upper) = exact.interval(a).unwrap();
        assert!(lower <= d && d <= upper && !exact.failed);
        let wide = wrapping.interval(a).is_none_or(|(low, high)| high - low > 10 * (upper - lower));
        broken += u32::from(wrapping.failed || wide);
        let recorded = Recorded::build(constraints.iter().copied());
        assert!(recorded.bounds_at(a).contains(d) && recorded.sourced_bounds_at(a).bounds.contains(d));
    }
    assert!(broken >= 5, "it breaks in {broken} of 10 only");
}

/// After its lines have crossed they stay constant.
#[test]
fn a_hull_that_failed_once_never_recovers() {
    for seed in 0..20 {
        let mut settings = Settings::quiet(4_000, 8 * SECOND);
        settings.jumps = vec![(2 * SECOND, true, 5_000_000)];
        let world = World::new(&mut Random(seed), settings);
        let mut constraints = world.constraints();
        constraints.sort();
        let hull: ConvexHull = fed(&constraints);
        let recorded = Recorded::build(constraints.iter().copied());
        let (a, d) = world.truth(7 * SECOND);
        assert!(hull.failed, "seed {seed}");
        assert!(hull.estimate(a).unwrap().abs_diff(d) > 1_000_000, "six seconds later it is a millisecond off");
        assert!(recorded.bounds_at(a).contains(d) && recorded.bounds_at(a).width_ns().unwrap() < 100_000);
    }
}

/// Two hosts that exchanged few packets over a long and asymmetric path, and both many with a third nearby. The
/// fewest hops use the long path, the tightest bounds the third.
#[test]
fn a_tree_by_hops_takes_the_direct_way_however_bad_it_is() {
    let near = |a: u64, b: u64, t: u64, i: u64| {
        let (sent, received) = (t + a, t + 25_000 + i * 7_919 % 10_000 + b);
        Constraint::a_to_b(sent, received, 3).unwrap()
    };
    let back = |a: u64, b: u64, t: u64, delay_ns: u64| Constraint::b_to_a(t + b, t + delay_ns + a, 3).unwrap();
    for offset in [0, 1_000_000, 3_600_000_000_000_u64] {
        let clocks = [0, offset, 2 * offset + 12_345];
        let (mut tree, mut bounds) = (HopTree::default(), Vec::new());
        for (a, b, packets, long) in [(0, 1, 1_000, 0), (1, 2, 1_000, 0), (0, 2, 40, 4_000_000)] {
            let mut all = Vec::new();
            for i in 0..packets {
                let t = 1_000_000_000 + i * 1_000_000_000 / packets;
                let mut there = near(clocks[a], clocks[b], t, i);
                there.value_ns += long;
                all.push(there);
                all.push(back(clocks[a], clocks[b], t + 100_000, 25_000 + i * 6_007 % 10_000));
            }
            all.sort();
            for constraint in &all {
                tree.push(a, b, constraint);
            }
            bounds.push((a, b, Recorded::build(all)));
        }
        let t = 1_500_000_000;
        let mut graph = Graph::new(3);
        for (a, b, pair) in &bounds {
            graph.bound(*a, *b, &pair.bounds_at(t + clocks[*a]));
        }
        let ours = graph.solve().unwrap().bounds(0, 2);
        let (truth, theirs) = (clocks[2] as i64, tree.estimate(0, 2, t).unwrap());
        assert!(theirs.abs_diff(truth) > 1_900_000, "{theirs}, truly {truth}");
        assert!(ours.contains(truth) && ours.width_ns().unwrap() < 120_000, "{ours:?}, truly {truth}");
        // Without a direct path both use the third.
        let mut tree = HopTree::default();
        for (a, b, i) in [(0, 1, 0), (1, 2, 1)] {
            let points = (0..50_u64).flat_map(|i| {
                let t = 1_000_000_000 + i * 20_000_000;
                [near(clocks[a], clocks[b], t, i), back(clocks[a], clocks[b], t + 100_000, 25_000 + i % 9_000)]
            });
            points.for_each(|constraint| tree.push(a, b, &constraint));
            assert!(bounds[i].2.bounds_at(t + clocks[a]).contains((clocks[b] - clocks[a]) as i64));
        }
        assert!(tree.estimate(0, 2, t).unwrap().abs_diff(truth) < 20_000);
    }
}
