//! Level 1 against the truth, counted over many worlds: it is a model, so it may be wrong, and this says how often.

mod clock_world;

use clock_world::random::Random;
use clock_world::{SECOND, Settings, World};
use magscope_core::clock::pair::{Live, Recorded, State};

fn worlds() -> u64 {
    std::env::var("MAGSCOPE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000)
}

/// Any path and any traffic, between crystals as they are in a room: the temperature makes them sway by up to 1 ppm in
/// some minutes, and their rate walks.
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
    /// Of those, how often the truth was outside.
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
            let known = recorded.known_at(a);
            tally.asked += 1;
            assert!(recorded.bounds_at(a).contains(d), "Level 0 is certain");
            if known.state == State::Model {
                tally.modelled += 1;
                tally.wrong += u64::from(!known.bounds.contains(d));
                tally.certified_ns += recorded.bounds_at(a).width_ns().map_or(0.0, |w| (w as f64).ln());
                tally.model_ns += known.bounds.width_ns().map_or(0.0, |w| (w as f64).ln());
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
        let known = live.known_at(constraint.at_ns);
        modelled += u64::from(known.state == State::Model);
        if i > 100 {
            let width = known.bounds.width_ns().unwrap();
            assert!(width <= live.certified().bounds_at(constraint.at_ns).width_ns().unwrap());
            // The floor of the round trip is 50 µs, and a packet comes only every 20 ms.
            assert!(width < 75_000, "{width}");
        }
    }
    assert!(modelled > 2_500, "{modelled}");
}
