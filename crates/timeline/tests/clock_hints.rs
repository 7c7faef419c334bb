//! Steps below a round trip and drifts beyond ρ: no packet proves them, and hints show them.

use crate::clock_world;

use clock_world::delay::Jitter;
use clock_world::random::Random;
use clock_world::{SECOND, Settings, World};
use magscope_timeline::pair::{Constraint, Hint, Live, Recorded, State};

const WORLDS: u64 = 60;

/// A minute at 100 packets/s, 215 µs each way and some queueing.
fn path() -> Settings {
    Settings {
        floor_ns: 215_000.0,
        jitter: [Jitter::Exponential { mean_ns: 10_000.0 }; 2],
        ..Settings::quiet(6_000, 60 * SECOND)
    }
}

/// True if the bounds exclude the truth at one of many instants.
fn excludes_truth(recorded: &Recorded, world: &World, random: &mut Random) -> bool {
    world.instants(random, 500).into_iter().any(|t| {
        let (a, d) = world.truth(t);
        !recorded.bounds_at(a).contains(d)
    })
}

#[test]
fn a_step_below_the_round_trip_makes_the_pair_suspect() {
    let (mut wrong, mut hinted, mut unhinted) = (0, 0, 0);
    for seed in 0..WORLDS {
        let mut random = Random(seed ^ 0x5e11);
        let by_ns = random.between(300_000.0, 420_000.0) as i64 * if seed % 2 == 0 { 1 } else { -1 };
        let jumps = vec![((random.between(0.2, 0.8) * 60e9) as i64, random.chance(0.5), by_ns)];
        let world = World::new(&mut random, Settings { jumps, ..path() });
        let recorded = Recorded::build(world.constraints());
        let is_wrong = excludes_truth(&recorded, &world, &mut random);
        let is_shown = recorded.steps() > 0 || recorded.state() == State::Suspect;
        assert!(!is_wrong || is_shown, "seed {seed}: {by_ns} ns, and no hint");
        wrong += u64::from(is_wrong);
        hinted += u64::from(recorded.hints().iter().any(|hint| matches!(hint, Hint::Collapse { .. })));
        unhinted += u64::from(!is_shown);
        let least_ns = recorded.smallest_visible_step_ns().expect("two-sided");
        assert!((430_000..900_000).contains(&least_ns), "seed {seed}: {least_ns}");
    }
    println!("{wrong} of {WORLDS} worlds have instants outside; {hinted} have a collapse, {unhinted} no hint");
    assert!(wrong > WORLDS / 2 && unhinted == 0);
}

/// The assumption allows a drift of 2 ms in these five seconds: a larger step leaves narrow bounds at all of it.
#[test]
fn a_step_of_milliseconds_in_a_short_recording_makes_the_pair_suspect() {
    let mut wrong = 0;
    for seed in 0..WORLDS {
        let mut random = Random(seed ^ 0x5407);
        let by_ns = random.between(6.5e6, 9.5e6) as i64 * if seed % 2 == 0 { 1 } else { -1 };
        let jumps = vec![((random.between(0.05, 0.95) * 5e9) as i64, random.chance(0.5), by_ns)];
        let jitter = [Jitter::Exponential { mean_ns: 50_000.0 }; 2];
        let settings = Settings { floor_ns: 5e6, jitter, jumps, ..Settings::quiet(1_000, 5 * SECOND) };
        let world = World::new(&mut random, settings);
        let recorded = Recorded::build(world.constraints());
        let is_wrong = excludes_truth(&recorded, &world, &mut random);
        let is_shown = recorded.steps() > 0 || recorded.state() == State::Suspect;
        assert!(!is_wrong || is_shown, "seed {seed}: {by_ns} ns, and no hint");
        let least_ns = recorded.smallest_visible_step_ns().expect("two-sided");
        assert!(recorded.steps() > 0 || least_ns > by_ns.unsigned_abs(), "seed {seed}: {least_ns} of {by_ns}");
        wrong += u64::from(is_wrong);
    }
    println!("{wrong} of {WORLDS} worlds have instants outside");
    assert!(wrong > WORLDS / 2);
}

#[test]
fn a_drift_beyond_the_assumption_makes_the_pair_suspect() {
    for (seed, ppm) in [790.0, -790.0].into_iter().enumerate() {
        let mut random = Random(seed as u64);
        let world = World::new(&mut random, Settings { ppm: [0.0, ppm], ..path() });
        let recorded = Recorded::build(world.constraints());
        let of_sign = recorded.hints().iter().find_map(|hint| match hint {
            Hint::SameSign { steps, is_ahead } => Some((*steps, *is_ahead)),
            Hint::Collapse { .. } | Hint::Contradictions { .. } | Hint::Bend { .. } => None,
        });
        println!("{ppm} ppm: {} steps, {:?}", recorded.steps(), recorded.hints());
        assert_eq!(recorded.state(), State::Suspect);
        assert!(of_sign.is_some_and(|(steps, is_ahead)| steps >= 3 && is_ahead == (ppm > 0.0)));
    }
}

/// Worlds within the assumption, also with tails, sparse packets and route changes, have hints in few cases: a
/// world whose path is quick only once is one of them.
#[test]
fn worlds_within_the_assumption_are_rarely_suspect() {
    let mut suspect = [0, 0];
    for seed in 0..10 * WORLDS {
        let mut random = Random(seed ^ 0xca17);
        let quiet = World::new(&mut random, Settings { ppm: [12.0, -17.0], ..path() });
        let recorded = Recorded::build(quiet.constraints());
        assert!(recorded.hints().is_empty(), "seed {seed}: {:?}", recorded.hints());
        let any = Recorded::build(World::any(seed, 600).constraints());
        suspect[0] += u64::from(!any.hints().is_empty());
        suspect[1] += u64::from(any.state() == State::Certified);
        let hints: Vec<String> = any.hints().iter().map(ToString::to_string).collect();
        if !hints.is_empty() {
            println!("seed {seed}: {hints:?}");
        }
    }
    println!("{} of {} worlds have a hint, {} are CERTIFIED", suspect[0], 10 * WORLDS, suspect[1]);
    assert!(suspect[0] * 20 <= 10 * WORLDS, "{suspect:?}");
}

/// Live bounds of these constraints, in order of time, and the names of all hints that they ever had.
fn live(mut constraints: Vec<Constraint>, mut visit: impl FnMut(&Live, &Constraint)) -> Live {
    constraints.sort_unstable();
    let mut live = Live::default();
    for constraint in constraints {
        live.push(&constraint);
        visit(&live, &constraint);
    }
    live
}

#[test]
fn live_bounds_are_suspect_after_a_step_below_the_round_trip() {
    let (mut wrong, mut hinted, mut unhinted, mut worst_ns) = (0, 0, 0, 0);
    for seed in 0..WORLDS {
        let mut random = Random(seed ^ 0x5e11);
        let by_ns = random.between(300_000.0, 420_000.0) as i64 * if seed % 2 == 0 { 1 } else { -1 };
        let jumps = vec![((random.between(0.3, 0.8) * 60e9) as i64, random.chance(0.5), by_ns)];
        let world = World::new(&mut random, Settings { jumps, ..path() });
        let (mut is_wrong, mut first_wrong, mut first_hint) = (false, None, None);
        let live = live(world.constraints(), |live, constraint| {
            let t_ns = world.true_ns(constraint.at_ns);
            let (a, d) = world.truth(t_ns);
            if !live.bounds_at(a).contains(d) {
                is_wrong = true;
                first_wrong.get_or_insert(constraint.at_ns);
            }
            if live.state_at(constraint.at_ns) == State::Suspect {
                first_hint.get_or_insert(constraint.at_ns);
            }
        });
        let is_shown = live.certified().steps() > 0 || !live.hints().is_empty();
        if let (Some(wrong_ns), Some(hint_ns)) = (first_wrong, first_hint) {
            worst_ns = worst_ns.max(hint_ns.saturating_sub(wrong_ns));
        }
        assert!(!is_wrong || is_shown, "seed {seed}: {by_ns} ns, and no hint");
        wrong += u64::from(is_wrong);
        hinted += u64::from(live.hints().iter().any(|hint| matches!(hint, Hint::Collapse { .. })));
        unhinted += u64::from(!is_shown);
    }
    println!(
        "live: {wrong} of {WORLDS} worlds have instants outside; {hinted} have a collapse, {unhinted} no hint; the hint came \
         {} ms after the first of them at most",
        worst_ns / 1_000_000
    );
    assert!(wrong > WORLDS / 2 && unhinted == 0);
}

#[test]
fn live_bounds_are_suspect_with_a_drift_beyond_the_assumption() {
    for (seed, ppm) in [790.0, -790.0].into_iter().enumerate() {
        let mut random = Random(seed as u64);
        let world = World::new(&mut random, Settings { ppm: [0.0, ppm], ..path() });
        let mut was_suspect = false;
        let live = live(world.constraints(), |live, constraint| {
            // Between two steps, once packets of both directions have arrived.
            was_suspect |= live.state_at(constraint.at_ns) == State::Suspect;
        });
        let recorded = Recorded::build(world.constraints());
        let of_sign = |hints: &[Hint]| {
            hints
                .iter()
                .find(|hint| matches!(hint, Hint::SameSign { .. }))
                .map(|hint| (hint.name(), hint.to_string()))
        };
        println!("{ppm} ppm, live: {} steps, {:?}", live.certified().steps(), live.hints());
        assert!(of_sign(live.hints()).is_some());
        if live.certified().steps() == recorded.steps() {
            assert_eq!(of_sign(live.hints()), of_sign(recorded.hints()), "the same words");
        }
        assert!(was_suspect);
    }
}

#[test]
fn live_bounds_within_the_assumption_are_rarely_suspect() {
    let mut suspect = 0;
    for seed in 0..10 * WORLDS {
        let mut random = Random(seed ^ 0xca17);
        let quiet = World::new(&mut random, Settings { ppm: [12.0, -17.0], ..path() });
        live(quiet.constraints(), |live, _| {
            assert!(live.hints().is_empty(), "seed {seed}: {:?}", live.hints());
        });
        let any = live(World::any(seed, 600).constraints(), |_, _| {});
        suspect += u64::from(!any.hints().is_empty());
        if !any.hints().is_empty() {
            println!("seed {seed}, live: {:?}", any.hints());
        }
    }
    println!("live: {suspect} of {} worlds have a hint", 10 * WORLDS);
    assert!(suspect * 20 <= 10 * WORLDS, "{suspect}");
}

#[test]
fn live_hints_are_forgotten_after_an_hour() {
    let mut random = Random(7);
    let jumps = vec![(30_000_000_000, false, 380_000)];
    let path = Settings { span_ns: 3 * 3600 * SECOND, packets: 200_000, jumps, ..path() };
    let world = World::new(&mut random, path);
    let mut suspect_ns = None;
    let live = live(world.constraints(), |live, constraint| {
        if !live.hints().is_empty() {
            suspect_ns = Some((suspect_ns.map_or(constraint.at_ns, |(from_ns, _)| from_ns), constraint.at_ns));
        }
    });
    let (from_ns, to_ns) = suspect_ns.expect("a step below the round trip");
    println!("suspect for {} s", (to_ns - from_ns) / SECOND as u64);
    assert!((3000..4000).contains(&((to_ns - from_ns) / SECOND as u64)));
    assert!(live.hints().is_empty(), "{:?}", live.hints());
}
