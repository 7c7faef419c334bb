//! Other methods on the same packets: where the world is kind to all of them they agree with ours, and where it is not it
//! is known which of them breaks how.

mod clock_world;

use clock_world::delay::Jitter;
use clock_world::peers::{ConvexHull, Method, QuickestTrip, Regression};
use clock_world::random::Random;
use clock_world::{SECOND, Settings, World};
use magscope_core::clock::pair::{Constraint, Recorded};

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
        let known = recorded.known_at(a).bounds;
        for (method, near_ns) in [(&hull as &dyn Method, 5_000), (&regression, 5_000), (&trip, 20_000)] {
            let estimate = method.estimate(a).unwrap();
            assert!(estimate.abs_diff(d) < near_ns, "seed {seed}: {} is {} off", method.name(), estimate - d);
        }
        // The hull's two lines are lines that the packets leave room for: ours are about all of those.
        let (lower, upper) = hull.interval(a).unwrap();
        assert!(lower <= d && d <= upper);
        assert!(known.lower.unwrap() <= lower && upper <= known.upper.unwrap(), "{known:?} {lower} {upper}");
    }
}

#[test]
fn products_of_64_bits_do_not_last_for_hours() {
    // Wrapped products cancel as long as their difference fits: some milliseconds of queueing times some hours do not.
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
        assert!(recorded.bounds_at(a).contains(d) && recorded.known_at(a).bounds.contains(d));
    }
    assert!(broken >= 5, "it breaks in {broken} of 10 only");
}
