//! Level 1 against the truth, counted over many worlds: it is a model, so it may be wrong, and this test
//! measures how often.

use crate::clock_world;

use clock_world::delay::Jitter;
use clock_world::random::Random;
use clock_world::{SECOND, Settings, World};
use magscope_timeline::pair::{Live, Model, Recorded, State};

fn worlds() -> u64 {
    std::env::var("MAGSCOPE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000)
}

/// Any path and any traffic, between crystals at room temperature: the temperature varies their rate by up to 1
/// ppm in some minutes, and their rate walks.
fn in_a_room(random: &mut Random, packets: usize) -> Settings {
    let mut settings = Settings::any(random, packets);
    settings.sway_ppm = random.between(0.0, 1.0);
    settings.sway_period_ns = random.between(400.0, 4_000.0) * SECOND as f64;
    settings.walk_ppm = random.between(0.0, 0.003);
    settings.span_ns = random.magnitude(0.1, 200.0) as i64 * SECOND + SECOND / 10;
    settings.one_way = None;
    settings
}

#[derive(Debug, Default)]
struct Tally {
    asked: u64,
    modelled: u64,
    /// Of those, the number with the truth outside.
    wrong: u64,
    certified_ns: f64,
    model_ns: f64,
}

#[test]
fn the_model_holds_in_999_of_1000_asked() {
    let mut tally = Tally::default();
    for seed in 0..worlds() {
        let mut random = Random(seed);
        let settings = in_a_room(&mut random, 60);
        let world = World::new(&mut random, settings);
        let recorded = Recorded::build(world.constraints());
        for t in world.instants(&mut random, 8) {
            let (a, d) = world.truth(t);
            let sourced = recorded.sourced_bounds_at(a);
            tally.asked += 1;
            assert!(recorded.bounds_at(a).contains(d), "Level 0 is certain");
            if sourced.state == State::Model {
                tally.modelled += 1;
                tally.wrong += u64::from(!sourced.bounds.contains(d));
                tally.certified_ns += recorded.bounds_at(a).width_ns().map_or(0.0, |w| (w as f64).ln());
                tally.model_ns += sourced.bounds.width_ns().map_or(0.0, |w| (w as f64).ln());
            }
        }
    }
    println!("{tally:?}");
    assert!(tally.modelled * 2 > tally.asked, "the model says too seldom anything: {tally:?}");
    assert!(tally.wrong * 1_000 <= tally.modelled, "the model is wrong too often: {tally:?}");
    assert!(tally.model_ns < tally.certified_ns);
}

#[test]
fn live_has_the_model_too() {
    let mut random = Random(7);
    let world = World::new(&mut random, Settings::quiet(3_000, 60 * SECOND));
    let mut constraints = world.constraints();
    constraints.sort();
    let mut live = Live::default();
    let mut modelled = 0;
    for (i, constraint) in constraints.iter().enumerate() {
        live.push(constraint);
        let sourced = live.sourced_bounds_at(constraint.at_ns);
        modelled += u64::from(sourced.state == State::Model);
        if i > 100 {
            let width = sourced.bounds.width_ns().unwrap();
            assert!(width <= live.certified().bounds_at(constraint.at_ns).width_ns().unwrap());
            // The floor of the round trip is 50 µs, with a packet only every 20 ms.
            assert!(width < 75_000, "{width}");
        }
    }
    assert!(modelled > 2_500, "{modelled}");
}

/// The estimate lies inside the narrowest claimed interval, also at the beginnings of windows, and is
/// continuous there: it moves no faster than the clocks.
#[test]
fn the_estimate_is_inside_of_what_is_claimed_and_continuous() {
    let half_window_ns = Model::default().window_ns / 2;
    let (mut modelled, mut edges) = (0_u64, 0_u64);
    for seed in 0..worlds() / 40 {
        let mut random = Random(seed);
        let mut settings = Settings::quiet(100 + random.below(3_000) as usize, 60 * SECOND);
        settings.asymmetry = random.unit();
        settings.jitter = [Jitter::any(&mut random), Jitter::any(&mut random)];
        let world = World::new(&mut random, settings);
        let recorded = Recorded::build(world.constraints());
        let Some((from, to)) = recorded.span_ns() else { continue };
        let inside = |at_ns: u64| {
            let sourced = recorded.sourced_bounds_at(at_ns);
            let (estimate, half_ns) = recorded.estimate_at(at_ns).expect("bounded from both sides");
            assert!(
                sourced.bounds.contains(estimate),
                "seed {seed} at {at_ns}: {estimate} is not in {sourced:?}"
            );
            let certified = recorded.bounds_at(at_ns);
            assert!(
                certified.lower >= Some(estimate - half_ns as i64)
                    && certified.upper <= Some(estimate + half_ns as i64)
            );
            (estimate, sourced.state)
        };
        for t in world.instants(&mut random, 200) {
            let (a, _) = world.truth(t);
            if (from..=to).contains(&a) {
                modelled += u64::from(inside(a).1 == State::Model);
            }
        }
        // A split without a window has no model to be continuous.
        if recorded.splits() > 0 {
            continue;
        }
        for edge in (from / half_window_ns + 1)..=(to / half_window_ns) {
            let edge = edge * half_window_ns;
            let (before, after) = (inside(edge - 1).0, inside(edge).0);
            assert!(before.abs_diff(after) <= 4, "seed {seed} at {edge}: {before}, then {after}");
            edges += 1;
        }
    }
    println!("{modelled} instants with a model, {edges} windows begun");
    assert!(modelled > 1_000 && edges > worlds() / 40);
}

/// An ideal straight line, shifted against the windows of the model by one second at a time. The estimate never
/// leaves the claimed interval, and is continuous between any two neighbouring instants.
#[test]
fn a_straight_line_is_estimated_inside_its_claim_wherever_windows_begin() {
    let mut asked = 0_u64;
    for shift in 0..24_u64 {
        // Traffic in bursts: one window holds a single burst and has loose lines outside of it, its neighbour
        // holds two and is certain there.
        let span_s = 24;
        let mut world = World::new(&mut Random(shift / 8), Settings::quiet(4_800, span_s * SECOND));
        let flights = world.flights.len();
        let mut number = 0..flights;
        let bursts = [[0, 6, 40, 44, 96, 100], [10, 12, 50, 53, 70, 80], [0, 2, 30, 31, 60, 61]];
        let bursts = bursts[(shift / 8) as usize];
        world.flights.retain(|_| {
            let part = number.next().unwrap_or(0) * 100 / flights;
            bursts.chunks(2).any(|burst| (burst[0]..burst[1]).contains(&part))
        });
        // The same packets, with the clock of A ahead by whole seconds.
        let ahead = (shift % 8) * SECOND as u64;
        world.a.start_ns += ahead;
        for flight in &mut world.flights {
            let by_a = if flight.a_to_b { &mut flight.sent_ns } else { &mut flight.received_ns };
            *by_a += ahead;
        }
        let recorded = Recorded::build(world.constraints());
        let mut live = Live::default();
        let mut constraints = world.constraints();
        constraints.sort();
        for constraint in &constraints {
            live.push(constraint);
            if let Some((estimate, _)) = live.estimate_at(constraint.at_ns) {
                assert!(live.sourced_bounds_at(constraint.at_ns).bounds.contains(estimate));
            }
        }
        let mut before: Option<(u64, i64)> = None;
        for step in 0..span_s * 500 {
            let (at_ns, truth) = world.truth(step * 2_000_000 - step % 7 * 1_000);
            let sourced = recorded.sourced_bounds_at(at_ns);
            let Some((estimate, half_ns)) = recorded.estimate_at(at_ns) else { continue };
            asked += 1;
            assert!(sourced.bounds.contains(truth), "shift {shift} at {at_ns}: {truth} is not in {sourced:?}");
            assert!(
                sourced.bounds.contains(estimate),
                "shift {shift} at {at_ns}: {estimate} is not in {sourced:?}"
            );
            assert!(estimate.abs_diff(truth) <= half_ns);
            if let Some((before_ns, before)) = before.replace((at_ns, estimate))
                && recorded.splits() == 0
            {
                // 2 ms later: drift of at most 200 ppm of either bound, and of the fading between windows.
                let moved = before.abs_diff(estimate);
                let most = 4 + (at_ns - before_ns) / 2_500;
                assert!(moved <= most, "shift {shift} at {at_ns}: {before}, then {estimate}");
            }
        }
    }
    println!("{asked} instants");
    assert!(asked > 200_000);
}
