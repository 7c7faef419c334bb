//! Comparison of recordings of the same workload: chance causes no finding. Each draw takes recordings for both
//! sides from one set of ten, so all differences are random.

use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source};
use magscope_core::stored_context::StoredContext;
use magscope_core::{Batch, Correlator, Journey, Limits};
use magscope_report::compare::{CONFIDENCE, Change, Comparison, LEAST_RUNS, Run, Side, common_hops, compare};
use magscope_session::Session;
use std::path::Path;
use std::time::Duration;

/// Recordings of a set.
const SET: usize = 10;
/// Number of draws per sample size.
const DRAWS: u64 = 20;

/// A pseudo-random number for each number: `SplitMix64` (Steele, Lea and Flood 2014).
fn mixed(n: u64) -> u64 {
    let n = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}

/// Journeys of a golden recording, in order of their ends.
fn journeys(name: &str) -> (NodeInfo, Vec<Journey>) {
    let path = format!("{}/../../tests/golden/{name}/session", env!("CARGO_MANIFEST_DIR"));
    let session = Session::open(Path::new(&path)).expect("a golden recording");
    let mut source = session.replay(None, None);
    let info = source.info().clone();
    let mut correlator = Correlator::new(info.coverage.served(), Limits::default());
    let (mut batch, mut done) = (Batch::default(), Vec::new());
    loop {
        let progress = source.next(&mut batch, Duration::ZERO).expect("readable");
        correlator.push(&batch, &mut done);
        if progress == Progress::End {
            correlator.finish(&mut done);
            return (info, done);
        }
    }
}

/// Ten recordings of the same workload: a real one, divided into ten consecutive parts.
fn set(name: &str) -> Vec<Side> {
    let (info, journeys) = journeys(name);
    let hops = common_hops([&info]);
    let cut = journeys.chunks(journeys.len().div_ceil(SET));
    let runs = cut.map(|part| {
        let mut run = Run::new(&info, hops);
        for journey in part {
            run.journey(journey, &StoredContext::default());
        }
        let mut side = Side::default();
        side.add(run);
        side
    });
    runs.collect()
}

/// Compares `a_side` recordings per side, drawn without replacement.
fn draw(set: &[Side], a_side: usize, seed: u64) -> Comparison {
    let mut order: Vec<usize> = (0..set.len()).collect();
    for at in (1..order.len()).rev() {
        let other = mixed(seed << 8 | at as u64) % (at as u64 + 1);
        order.swap(at, other as usize);
    }
    let side = |indices: &[usize]| {
        let mut side = Side::default();
        for at in indices {
            side.append(&set[*at]);
        }
        side
    };
    compare(&side(&order[..a_side]), &side(&order[a_side..2 * a_side]))
}

/// True if a comparison reports any difference.
fn is_alarm(comparison: &Comparison) -> bool {
    comparison.protocols.iter().any(|protocol| {
        let steps = protocol.steps.iter().map(|step| &step.measured);
        steps.chain([&protocol.total]).any(|measured| measured.change.is_found())
            || protocol.shares.iter().any(|share| share.differs)
    })
}

#[test]
fn recordings_of_the_same_thing_raise_no_more_alarms_than_the_confidence_allows() {
    let (mut alarms, mut drawn) = (Vec::new(), 0);
    for name in ["demo", "retransmissions", "half"] {
        let set = set(name);
        assert_eq!(set.len(), SET, "{name}");
        let mut compared = 0;
        for (a_side, seed) in [1, 2, 3, 5].into_iter().flat_map(|a_side| (0..DRAWS).map(move |n| (a_side, n))) {
            let comparison = draw(&set, a_side, a_side as u64 * DRAWS + seed);
            if a_side < LEAST_RUNS {
                assert_eq!(comparison.compared, 0, "{name}, {a_side} a side");
            }
            compared += comparison.compared;
            drawn += 1;
            if is_alarm(&comparison) {
                alarms.push((name, a_side, seed));
            }
        }
        // A comparison of no data would pass too.
        assert!(name != "demo" || compared > 500, "{name}: {compared}");
    }
    let allowed = f64::from(drawn) * (1.0 - CONFIDENCE);
    assert!(alarms.len() as f64 <= allowed, "{alarms:?} in {drawn} comparisons, allowed {allowed}");
}

#[test]
fn one_or_two_journeys_a_recording_have_no_interval() {
    let (info, journeys) = journeys("demo");
    let hops = common_hops([&info]);
    for (count, a_side) in [(1, 1), (1, 5), (2, 5), (8, 5)] {
        let side = |from: usize| {
            let mut side = Side::default();
            for part in journeys[from..].chunks(count).take(a_side) {
                let mut run = Run::new(&info, hops);
                for journey in part {
                    run.journey(journey, &StoredContext::default());
                }
                side.add(run);
            }
            side
        };
        let comparison = compare(&side(0), &side(a_side * count));
        let all = comparison.protocols.iter();
        let all = all.flat_map(|p| p.steps.iter().map(|s| &s.measured).chain([&p.total]));
        let all: Vec<_> = all.flat_map(|measured| [&measured.p50, &measured.p99]).collect();
        assert!(!all.is_empty());
        for quantile in all {
            assert_eq!(quantile.change, Change::TooFew, "{count} journeys, {a_side} a side: {quantile:?}");
            assert_eq!((quantile.at_least_ns, quantile.at_most_ns), (None, None));
        }
    }
}
