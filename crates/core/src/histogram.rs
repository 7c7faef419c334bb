//! The classes of times: sixteen steps per doubling, with exact cuts at the bounds exported to monitors.
//!
//! The kernel counts by the same rule (`bpf/synthesis.h`): a time's *bucket* is its step plus the number of
//! bounds below it. Both grow with the time, so a bucket determines one step, and the two bounds around it.

/// A time's step gives it to within one sixteenth of its value.
pub const STEP_BITS: u32 = 4;
/// Longer times count as this: 100 s, nanoseconds.
pub const LONGEST_NS: u64 = 100_000_000_000;

/// Upper bounds for monitors, nanoseconds: 1 µs to 10 s, three per power of ten. Longer times exceed all of
/// them.
pub const BOUNDS_NS: [u64; 22] = [
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// The step of a time.
pub const fn step(ns: u64) -> usize {
    if ns < 1 << STEP_BITS {
        return ns as usize;
    }
    let shift = ns.ilog2() - STEP_BITS;
    (((shift + 1) << STEP_BITS) as u64 + (ns >> shift) - (1 << STEP_BITS)) as usize
}

/// The longest time of a step.
pub const fn longest(step: usize) -> u64 {
    let (row, place) = ((step >> STEP_BITS) as u32, step as u64 & ((1 << STEP_BITS) - 1));
    match row {
        0 => place,
        // beyond all possible times
        61.. => u64::MAX,
        // the last one ends at the maximum of the type
        _ => (((1 << STEP_BITS) + place + 1) << (row - 1)).wrapping_sub(1),
    }
}

/// The shortest time of a step.
pub const fn shortest(step: usize) -> u64 {
    if step == 0 { 0 } else { longest(step - 1).saturating_add(1) }
}

/// Number of bounds below a time.
pub fn bounds_below(ns: u64) -> usize {
    BOUNDS_NS.partition_point(|bound| *bound < ns)
}

/// The bucket of a time.
pub fn bucket(ns: u64) -> usize {
    let ns = ns.min(LONGEST_NS);
    step(ns) + bounds_below(ns)
}

/// The step of a bucket, and the number of bounds below its times; `None` for an impossible bucket.
pub fn bucket_step(bucket: usize) -> Option<(usize, usize)> {
    (0..=BOUNDS_NS.len().min(bucket)).map(|below| (bucket - below, below)).find(|(step, below)| {
        let first = bounds_below(shortest(*step));
        // a step contains at most one bound
        first == *below || first + 1 == *below && BOUNDS_NS[first] < longest(*step)
    })
}

/// The shortest and the longest time of a bucket.
pub fn bucket_range_ns(bucket: usize) -> Option<(u64, u64)> {
    let (step, below) = bucket_step(bucket)?;
    let least = below.checked_sub(1).map_or(0, |bound| BOUNDS_NS[bound] + 1).max(shortest(step));
    let most = BOUNDS_NS.get(below).copied().unwrap_or(u64::MAX).min(longest(step));
    Some((least, most))
}

/// The reported value of a time in a bucket: the longest of it.
pub fn bucket_upper_ns(bucket: u16) -> u64 {
    bucket_range_ns(usize::from(bucket)).map_or(0, |(_, most)| most.min(LONGEST_NS))
}

/// The time that a part of those counted does not exceed, by the nearest rank and at most a sixteenth too long.
/// The input is the buckets in order, with their counts. 0 without any.
pub fn quantile(buckets: impl Iterator<Item = (u16, u64)> + Clone, part: f64) -> u64 {
    let n = buckets.clone().fold(0_u64, |sum, (_, n)| sum.saturating_add(n));
    let rank = ((part * n as f64).ceil() as u64).clamp(1, n.max(1));
    let mut below = 0_u64;
    let mut reached = buckets.skip_while(|(_, n)| {
        below = below.saturating_add(*n);
        below < rank
    });
    reached.next().map_or(0, |(bucket, _)| bucket_upper_ns(bucket))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn steps_follow_each_other_without_a_gap() {
        for at in 0..step(LONGEST_NS) {
            assert_eq!((step(shortest(at)), step(longest(at))), (at, at));
            assert_eq!(step(longest(at) + 1), at + 1);
        }
        assert!(step(LONGEST_NS) < 640 && step(u64::MAX) < 1_024);
    }

    #[test]
    fn buckets_follow_each_other_and_a_bound_ends_one() {
        let mut next_ns = 0;
        for at in 0..bucket(LONGEST_NS) {
            // some numbers are no bucket's: one is unused where a bound is the last time of a step
            let Some((least, most)) = bucket_range_ns(at) else { continue };
            assert_eq!((least, bucket(least), bucket(most)), (next_ns, at, at));
            next_ns = most + 1;
        }
        assert_eq!(bucket(next_ns), bucket(LONGEST_NS));
        for bound in BOUNDS_NS {
            assert_ne!(bucket(bound), bucket(bound + 1));
        }
    }

    proptest! {
        #[test]
        fn a_time_is_in_its_bucket(ns in 0..LONGEST_NS) {
            let (least, most) = bucket_range_ns(bucket(ns)).unwrap_or_default();
            prop_assert!(least <= ns && ns <= most);
            prop_assert_eq!(bucket_step(bucket(ns)), Some((step(ns), bounds_below(ns))));
        }

        #[test]
        fn quantiles_are_at_most_a_sixteenth_too_long(mut times in prop::collection::vec(0..LONGEST_NS, 1..200), part in 0.0..1.0_f64) {
            let mut buckets = std::collections::BTreeMap::new();
            for ns in &times {
                *buckets.entry(bucket(*ns) as u16).or_insert(0_u64) += 1;
            }
            let seen = quantile(buckets.iter().map(|(bucket, n)| (*bucket, *n)), part);
            times.sort_unstable();
            let truth = times[((times.len() as f64 * part).ceil() as usize).max(1) - 1];
            prop_assert!(truth <= seen && seen <= truth + truth / 16, "{} for {}", seen, truth);
        }

        #[test]
        fn any_bucket_is_one_or_none(bucket in any::<usize>()) {
            let _ = bucket_range_ns(bucket);
        }
    }
}
