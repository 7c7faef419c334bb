use super::*;
use crate::axis::LogAxis;
use magscope_core::histogram::{LONGEST_NS, bucket};
use magscope_core::synthesis::Sum;
use magscope_core::{FlowId, Hop};
use proptest::prelude::*;

const S: u64 = 1_000_000_000;
const PAIR: (Hop, Hop) = (Hop::DevQueue, Hop::DevXmit);

fn row(ends: (u64, u64), buckets: Vec<(u16, u32)>) -> Synthesis {
    let n = buckets.iter().map(|(_, n)| u64::from(*n)).sum();
    Synthesis { from_ns: ends.0, to_ns: ends.1, hop: PAIR.1, of: Sum::Since(PAIR.0), n, sum: 0, buckets }
}

fn of_times(ends: (u64, u64), times: &[u64]) -> Synthesis {
    let mut buckets = std::collections::BTreeMap::new();
    for ns in times {
        *buckets.entry(bucket(*ns) as u16).or_insert(0_u32) += 1;
    }
    row(ends, buckets.into_iter().collect())
}

/// An interval each second, from this second on.
fn seconds(sums: &mut Sums, from: u64, many: u64, n: u32) {
    for at in from..from + many {
        sums.add(&row((at * S, (at + 1) * S), vec![(bucket(1_000) as u16, n)]), true);
    }
}

fn drawn(sums: &Sums, stretch: (u64, u64), columns: usize) -> Vec<u32> {
    let raster = Raster::new(&LogAxis::new(1_000, 1_000, 1));
    raster.draw(sums.slices(stretch, columns), PAIR, stretch, columns)
}

proptest! {
    #[test]
    fn totals_and_percentiles_equal_brute_force(
        intervals in prop::collection::vec(prop::collection::vec(0..10_000_000_000_u64, 1..40), 1..60),
        from in 0..60_u64,
        many in 1..60_u64,
    ) {
        let mut sums = Sums::new(Keep::Newest);
        for (at, times) in (0..).zip(&intervals) {
            sums.add(&of_times((at * S, (at + 1) * S), times), true);
        }
        let total = sums.total((from * S, (from + many) * S));
        let mut truth: Vec<u64> =
            intervals.iter().skip(from as usize).take(many as usize).flatten().copied().collect();
        truth.sort_unstable();
        let seen = total.pairs.get(&PAIR).map(Buckets::percentiles).unwrap_or_default();
        prop_assert_eq!(seen.n, truth.len() as u64);
        let rank = |part: f64| truth[((truth.len() as f64 * part).ceil() as usize).max(1) - 1];
        for (part, ns) in [(0.5, seen.p50_ns), (0.9, seen.p90_ns), (0.99, seen.p99_ns), (1.0, seen.max_ns)] {
            if !truth.is_empty() {
                prop_assert!(rank(part) <= ns && ns <= rank(part) + rank(part) / 16, "{}: {} for {}", part, ns, rank(part));
            }
        }
    }

    #[test]
    fn a_picture_loses_no_time_however_high_its_classes_are(
        times in prop::collection::vec(0..LONGEST_NS, 1..200),
        classes in 1..200_usize,
    ) {
        let row = of_times((0, S), &times);
        let mut slice = Slice::new((0, S));
        slice.add((0, S), &row, true);
        let buckets = &slice.pairs[&PAIR];
        let range = buckets.percentiles();
        let axis = LogAxis::new(range.min_ns, range.max_ns, classes);
        let mut drawn = vec![0; classes];
        Raster::new(&axis).add(buckets, 1.0, &mut drawn);
        prop_assert_eq!(drawn.iter().sum::<u32>() as usize, times.len());
        // Each count is at its measured time, to within a bucket and a class.
        let edges = axis.edges_ns();
        let mut below = 0;
        for (class, n) in drawn.iter().enumerate() {
            below += *n as usize;
            let fits = |ns: u64| times.iter().filter(|t| **t <= ns).count();
            let (low, high) = (edges[class], edges[class + 1]);
            prop_assert!(below >= fits((low as f64 / 1.07) as u64) && below <= fits((high as f64 * 1.07) as u64 + 2));
        }
    }

    #[test]
    fn nothing_absurd_panics(
        rows in prop::collection::vec(
            (any::<u64>(), any::<u64>(), prop::collection::vec((any::<u16>(), any::<u32>()), 0..20), any::<u64>(), 0..7_u8, any::<bool>()),
            0..60,
        ),
        stretch in (any::<u64>(), any::<u64>()),
        columns in 0..300_usize,
    ) {
        for keep in [Keep::Newest, Keep::All] {
            let mut sums = Sums::new(keep);
            for (from_ns, to_ns, buckets, n, kind, alone) in &rows {
                let of = Sum::from_numbers(*kind, *n % 9).unwrap_or(Sum::Flow(FlowId(*n)));
                let hop = Hop::ALL[*n as usize % Hop::ALL.len()];
                let (from_ns, to_ns, buckets) = (*from_ns, *to_ns, buckets.clone());
                sums.add(&Synthesis { from_ns, to_ns, hop, of, n: *n, sum: *n, buckets }, *alone);
                sums.add(&Synthesis { from_ns: 0, to_ns: u64::MAX, hop, of, n: u64::MAX, sum: u64::MAX, buckets: vec![(u16::MAX, u32::MAX)] }, *alone);
            }
            for stretch in [stretch, (0, u64::MAX), (u64::MAX, 0), (u64::MAX - 1, u64::MAX), (5, 5)] {
                let total = sums.total(stretch);
                let raster = Raster::new(&LogAxis::new(0, u64::MAX, 24));
                for pair in total.pairs.keys() {
                    raster.draw(sums.slices(stretch, columns), *pair, stretch, columns);
                }
            }
        }
    }
}

#[test]
fn an_interval_fills_the_columns_that_it_covers() {
    let mut sums = Sums::new(Keep::Newest);
    seconds(&mut sums, 10, 1, 100);
    // Ten columns of 200 ms: five lie within the second, and each shows the complete slice.
    assert_eq!(drawn(&sums, (9 * S + S / 2, 11 * S + S / 2), 10), [0, 0, 50, 100, 100, 100, 100, 50, 0, 0]);
    // Within it there is no finer resolution.
    assert_eq!(drawn(&sums, (10 * S + 3, 10 * S + 1_003), 4), [100; 4]);
    // A wider column holds it once; over an edge it is divided.
    assert_eq!(drawn(&sums, (8 * S, 14 * S), 2), [0, 100].map(|n| if n == 0 { 100 } else { 0 }));
    assert_eq!(drawn(&sums, (8 * S + S / 2, 12 * S + S / 2), 2), [50, 50]);
}

#[test]
fn from_afar_and_near_it_is_the_same() {
    let mut sums = Sums::new(Keep::Newest);
    seconds(&mut sums, 0, 300, 7);
    for columns in [1, 10, 100, 300] {
        let buckets = drawn(&sums, (0, 300 * S), columns);
        let all: u32 = buckets.iter().sum();
        assert!(all.abs_diff(2_100) <= 2 * columns as u32, "{columns}: {all}");
        assert!(buckets.iter().all(|n| *n > 0), "{columns}: {buckets:?}");
    }
    let near = sums.total((17 * S, 19 * S));
    assert_eq!((near.from_ns, near.to_ns, near.pairs[&PAIR].n()), (17 * S, 19 * S, 14));
}

#[test]
fn memory_is_bounded_and_the_past_is_coarser() {
    let wide: Vec<(u16, u32)> = (0..300).map(|at| (at, 1)).collect();
    for (keep, most) in [(Keep::Newest, MOST_LIVE), (Keep::All, MOST_RECORDED)] {
        let mut sums = Sums::new(keep);
        for at in 0..4_000 {
            sums.add(&row((at * S, (at + 1) * S), wide.clone()), true);
        }
        for level in &sums.levels {
            assert!(level.buckets() <= most + 2 * wide.len(), "{keep:?}: {}", level.buckets());
        }
        // No count is lost, and the cost depends on the picture.
        let all: Vec<_> = sums.slices((0, 4_000 * S), 100).collect();
        assert!(all.len() <= 16 * 100 + 1, "{keep:?}: {}", all.len());
        let n: u64 = all.iter().map(|slice| slice.pairs[&PAIR].n()).sum();
        assert_eq!(n, 4_000 * all[0].pairs[&PAIR].iter().count() as u64, "{keep:?}");
        let lately = sums.total((3_990 * S, 4_000 * S));
        assert!(lately.secs() < 40.0, "{keep:?}: {}", lately.secs());
        if keep == Keep::Newest {
            assert_eq!((lately.from_ns, lately.to_ns), (3_990 * S, 4_000 * S));
            assert!(sums.total((1_000 * S, 1_010 * S)).secs() > 10.0, "the past is coarser");
        }
    }
}

#[test]
fn what_is_counted_is_counted_where_no_events_came() {
    let mut sums = Sums::new(Keep::Newest);
    let counted =
        |hop, of, n, sum| Synthesis { from_ns: S, to_ns: 2 * S, hop, of, n, sum, buckets: Vec::new() };
    for alone in [true, false] {
        sums.add(&counted(Hop::DevXmit, Sum::Begun, 3, 0), alone);
        sums.add(&counted(Hop::DevXmit, Sum::Flow(FlowId(1)), 3, 600), alone);
        sums.add(&counted(Hop::DevXmit, Sum::Rest, 1, 50), alone);
        sums.add(&counted(Hop::SkbDrop, Sum::Reason(2), 4, 0), alone);
        sums.add(&counted(Hop::SkbDrop, Sum::Rest, 1, 0), alone);
    }
    let total = sums.total((0, 3 * S));
    let xmit = total.hops[&Hop::DevXmit];
    assert_eq!((xmit.hits, xmit.bytes, total.drops), (3, Some(650), 5));
    assert!(total.is_alone() && total.pairs.is_empty());
}
