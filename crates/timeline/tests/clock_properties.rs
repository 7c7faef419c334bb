//! Properties of the clock bounds in every simulated world.
//!
//! `MAGSCOPE_CASES` sets the number of worlds per property, with fresh seeds; by default, the same 10 000.

use crate::clock_world;

use clock_world::World;
use clock_world::random::Random;
use magscope_timeline::pair::{Bounds, Constraint, Drift, Kind, Level0, Recorded, State};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn config() -> ProptestConfig {
    let asked = std::env::var("MAGSCOPE_CASES").ok().and_then(|n| n.parse().ok());
    let rng_seed = if asked.is_some() { RngSeed::Random } else { RngSeed::Fixed(2_026) };
    let cases = asked.unwrap_or(10_000);
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

fn live(constraints: &[Constraint]) -> Level0 {
    let mut live = Level0::default();
    for constraint in constraints {
        live.push(constraint);
    }
    live
}

fn sorted(mut constraints: Vec<Constraint>) -> Vec<Constraint> {
    constraints.sort();
    constraints
}

/// True if one interval lies within the other.
fn within(tight: &Bounds, wide: &Bounds) -> bool {
    tight.and(wide) == *tight
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_truth_is_inside_while_the_drift_keeps_its_promise(seed in any::<u64>(), packets in 0..40_usize) {
        let world = World::any(seed, packets);
        let all = sorted(world.constraints());
        let (recorded, live) = (Recorded::build(all.iter().copied()), live(&all));
        let counts = recorded.counts();
        prop_assert_eq!((counts.used, counts.rejected, counts.quarantined), (all.len() as u64, 0, 0));
        for t in world.instants(&mut Random(seed), 8) {
            let (a, d) = world.truth(t);
            for bounds in [recorded.bounds_at(a), live.bounds_at(a)] {
                prop_assert!(bounds.contains(d), "{d} at {a} is not in {bounds:?}");
            }
            prop_assert!(within(&recorded.bounds_at(a), &live.bounds_at(a)));
        }
        for flight in &world.flights {
            // No packet is received before it is sent, by the estimate.
            let c = flight.constraint();
            if let Some((d, half)) = recorded.estimate_at(c.at_ns) {
                let delay_ns = if c.kind == Kind::Upper { c.value_ns - d } else { d - c.value_ns };
                prop_assert!(delay_ns >= 0);
                let bounds = recorded.bounds_at(c.at_ns);
                let reach = Bounds { lower: Some(d - half as i64), upper: Some(d + half as i64) };
                prop_assert!(within(&bounds, &reach));
            }
        }
    }

    #[test]
    fn more_packets_never_widen(seed in any::<u64>(), packets in 0..40_usize, keep in 0.0..1.0_f64) {
        let world = World::any(seed, packets);
        let mut random = Random(seed);
        let all = world.constraints();
        let some: Vec<Constraint> = all.iter().copied().filter(|_| random.chance(keep)).collect();
        let (more, less) = (Recorded::build(all), Recorded::build(some));
        for t in world.instants(&mut random, 8) {
            let (a, _) = world.truth(t);
            prop_assert!(within(&more.bounds_at(a), &less.bounds_at(a)));
        }
    }

    #[test]
    fn live_equals_recorded_so_far(seed in any::<u64>(), packets in 1..30_usize, later_ns in 0..10_000_000_000_u64) {
        let all = sorted(World::any(seed, packets).constraints());
        let mut live = Level0::default();
        for (i, constraint) in all.iter().enumerate() {
            live.push(constraint);
            if i % 7 == 3 || i + 1 == all.len() {
                let recorded = Recorded::build(all[..=i].iter().copied());
                for a in [constraint.at_ns, constraint.at_ns + later_ns] {
                    prop_assert_eq!(live.bounds_at(a), recorded.bounds_at(a));
                    // Hints at unproven steps need the complete data.
                    let state = recorded.state_at(a);
                    let state = if state == State::Suspect { State::Certified } else { state };
                    prop_assert_eq!(live.state_at(a), state);
                }
            }
        }
    }

    #[test]
    fn order_does_not_matter(seed in any::<u64>(), packets in 0..40_usize) {
        let world = World::any(seed, packets);
        let mut random = Random(seed);
        let ordered = sorted(world.constraints());
        let mut shuffled = ordered.clone();
        random.shuffle(&mut shuffled);
        let (one, other) = (Recorded::build(ordered.iter().copied()), Recorded::build(shuffled.iter().copied()));
        for t in world.instants(&mut random, 8) {
            let (a, _) = world.truth(t);
            prop_assert_eq!(one.bounds_at(a), other.bounds_at(a));
            prop_assert_eq!(one.estimate_at(a), other.estimate_at(a));
        }
        if let Some(last) = ordered.last() {
            let (one, other) = (live(&ordered), live(&shuffled));
            prop_assert_eq!(one.bounds_at(last.at_ns), other.bounds_at(last.at_ns));
        }
    }

    #[test]
    fn swapping_the_nodes_negates_the_difference(seed in any::<u64>(), packets in 0..40_usize) {
        let world = World::any(seed, packets);
        let mirrored = world.constraints().into_iter().map(|c| {
            let kind = if c.kind == Kind::Upper { Kind::Lower } else { Kind::Upper };
            Constraint { kind, value_ns: -c.value_ns, ..c }
        });
        let (one, mirrored) = (Recorded::build(world.constraints()), Recorded::build(mirrored));
        // From the other node's side the instants are on its clock: the same up to the drift during a flight.
        let seen_from_b = |f: &clock_world::Flight| clock_world::Flight { a_to_b: !f.a_to_b, ..*f }.constraint();
        let from_b = Recorded::build(world.flights.iter().map(seen_from_b));
        for t in world.instants(&mut Random(seed), 8) {
            let (a, d) = world.truth(t);
            prop_assert_eq!(mirrored.bounds_at(a), one.bounds_at(a).negated());
            let b = a.wrapping_add_signed(d);
            prop_assert!(from_b.bounds_at(b).contains(-d));
            if let (Some(one), Some(other)) = (one.bounds_at(a).width_ns(), from_b.bounds_at(b).width_ns()) {
                let flight_ns = world.flights.iter().map(|f| {
                    let c = f.constraint();
                    (i128::from(c.value_ns) - i128::from(d)).unsigned_abs() as u64
                }).max().unwrap_or(0);
                prop_assert!(one.abs_diff(other) <= 10 + flight_ns / 1_000, "{one} {other} {flight_ns}");
            }
        }
    }

    #[test]
    fn shifting_time_changes_nothing(seed in any::<u64>(), packets in 0..40_usize) {
        const FAR: u64 = 1 << 62;
        let world = World::any(seed, packets);
        let shifted = |a: u64, b: u64| {
            Recorded::build(world.flights.iter().map(|f| {
                let (sent, received) = if f.a_to_b { (a, b) } else { (b, a) };
                let stamps = (f.sent_ns + sent, f.received_ns + received);
                clock_world::Flight { sent_ns: stamps.0, received_ns: stamps.1, ..*f }.constraint()
            }))
        };
        let (one, both, only_b) = (shifted(0, 0), shifted(FAR, FAR), shifted(0, FAR));
        for t in world.instants(&mut Random(seed), 8) {
            let (a, _) = world.truth(t);
            prop_assert_eq!(one.bounds_at(a), both.bounds_at(a + FAR));
            let Bounds { lower, upper } = one.bounds_at(a);
            let ahead = |d: i64| d + FAR as i64;
            prop_assert_eq!(only_b.bounds_at(a), Bounds { lower: lower.map(ahead), upper: upper.map(ahead) });
        }
    }

    /// No method can give tighter bounds from the same assumption. The upper bound itself drifts by no more
    /// than ρ and contradicts no packet, so that it may be the truth, and so may the lower one.
    #[test]
    fn both_bounds_may_be_the_truth(seed in any::<u64>(), packets in 1..40_usize) {
        let world = World::any(seed, packets);
        let all = sorted(world.constraints());
        let recorded = Recorded::build(all.iter().copied());
        let drift = Drift::default();
        let ends: [fn(&Bounds) -> Option<i64>; 2] = [|bounds| bounds.upper, |bounds| bounds.lower];
        for end in ends {
            let at = |a_ns: u64| end(&recorded.bounds_at(a_ns));
            for pair in all.windows(2) {
                // Bounds are rounded outward to whole nanoseconds.
                if let (Some(one), Some(other)) = (at(pair[0].at_ns), at(pair[1].at_ns)) {
                    let most = drift.over_ns(pair[1].at_ns - pair[0].at_ns) + 1;
                    prop_assert!(one.abs_diff(other) <= most, "{one} {other} {most}");
                }
            }
            for constraint in &all {
                let Some(truth) = at(constraint.at_ns) else { continue };
                match constraint.kind {
                    Kind::Upper => prop_assert!(truth <= constraint.value_ns),
                    Kind::Lower => prop_assert!(truth >= constraint.value_ns),
                }
            }
        }
    }

    #[test]
    fn anything_at_all_is_survived_and_counted(
        wild in prop::collection::vec((any::<bool>(), prop_oneof![any::<u64>(), 0..100_000_u64], prop_oneof![any::<i64>(), -50..50_i64]), 0..120),
        ask in any::<u64>(),
    ) {
        let all: Vec<Constraint> = wild.iter().map(|&(upper, at_ns, value_ns)| {
            Constraint { at_ns, kind: if upper { Kind::Upper } else { Kind::Lower }, value_ns, packet: 0 }
        }).collect();
        let recorded = Recorded::build(all.iter().copied());
        let counts = recorded.counts();
        let sum = counts.used + counts.rejected + counts.quarantined + counts.between_epochs;
        prop_assert_eq!(sum, all.len() as u64);
        let live = live(&all);
        let counts = live.counts();
        let sum = counts.used + counts.rejected + counts.quarantined + counts.between_epochs;
        prop_assert_eq!(sum, all.len() as u64);
        for a in wild.iter().map(|w| w.1).chain([ask, 0, u64::MAX]) {
            let bounds = recorded.bounds_at(a);
            prop_assert!(!bounds.is_empty(), "{bounds:?} at {a}");
            let sourced = recorded.sourced_bounds_at(a);
            prop_assert!(within(&sourced.bounds, &bounds));
            let _ = (recorded.estimate_at(a), live.estimate_at(a), live.bounds_at(a), recorded.limiting_at(a));
        }
    }
}
