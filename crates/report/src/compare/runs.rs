//! Several runs per side: the spread between runs of the same system, and the test whether two sides differ by
//! more.
//!
//! Each run gives one figure. The spread of a side's figures around their mean determines the significance of a
//! difference of the two means. The interval is Student's with the spread of both sides together, *The Probable
//! Error of a Mean* (1908). That spread includes chance within a run. But two or three runs can be close by
//! luck, or because one histogram bucket holds them all. So the interval is never narrower than the runs' own
//! intervals imply.
//!
//! Below [`LEAST_RUNS`] per side, or with a run too short for an interval of its own, there is no interval.

use super::blocks::Blocks;
use super::interval::{bounds_ns, student};

/// Minimum number of runs per side for an interval. Two runs of one side agree by luck too often.
pub const LEAST_RUNS: usize = 3;

/// A quantile of one run, and its interval.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    pub ns: u64,
    /// `None` with too few times.
    pub low_ns: Option<u64>,
    pub high_ns: Option<u64>,
    /// Effective number of independent journeys.
    pub worth: u64,
}

impl Estimate {
    pub fn of(times: &Blocks, q: f64) -> Self {
        let (low_ns, high_ns) = bounds_ns(times, q);
        Estimate { ns: times.all().quantile_ns(q), low_ns, high_ns, worth: times.worth(q) }
    }
}

pub fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let n = values.len().max(1) as f64;
    values.sum::<f64>() / n
}

/// Standard deviation of runs around the mean of their side, both sides together; `None` with one run a side or less.
pub fn spread(a: &[f64], b: &[f64]) -> Option<f64> {
    let freedom = (a.len() + b.len()).checked_sub(2).filter(|n| *n > 0 && !a.is_empty() && !b.is_empty())?;
    let squares = |side: &[f64]| {
        let mean = mean(side.iter().copied());
        side.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
    };
    Some(((squares(a) + squares(b)) / freedom as f64).sqrt())
}

/// The interval of the difference of two means, from the spread between runs of one side. It misses with a
/// probability of `miss`. `None` with too few runs.
pub fn between(a: &[f64], b: &[f64], miss: f64) -> Option<(f64, f64)> {
    if a.len().min(b.len()) < LEAST_RUNS {
        return None;
    }
    let spread = spread(a, b)?;
    let half =
        student(a.len() + b.len() - 2, miss) * spread * (1.0 / a.len() as f64 + 1.0 / b.len() as f64).sqrt();
    let difference = mean(b.iter().copied()) - mean(a.iter().copied());
    Some((difference - half, difference + half))
}

/// The interval of the difference from chance within each run; `None` if a run has no interval of its own.
fn within(a: &[Estimate], b: &[Estimate]) -> Option<(f64, f64)> {
    // The distances of each run's bounds from its figure average out over the runs.
    let distance = |side: &[Estimate], bound: fn(&Estimate) -> Option<u64>| {
        let each: Option<Vec<f64>> =
            side.iter().map(|run| Some((bound(run)? as f64 - run.ns as f64).abs())).collect();
        each.map(|each| each.iter().map(|d| d * d).sum::<f64>().sqrt() / side.len().max(1) as f64)
    };
    let low = |run: &Estimate| run.low_ns;
    let high = |run: &Estimate| run.high_ns;
    let middle = |side: &[Estimate]| mean(side.iter().map(|run| run.ns as f64));
    let difference = middle(b) - middle(a);
    Some((
        difference - (distance(a, high)? + distance(b, low)?),
        difference + (distance(a, low)? + distance(b, high)?),
    ))
}

/// The interval of the difference of a quantile; `None` with too few runs, or too few journeys in one of them.
pub fn interval(a: &[Estimate], b: &[Estimate], miss: f64) -> Option<(f64, f64)> {
    let figures = |side: &[Estimate]| side.iter().map(|run| run.ns as f64).collect::<Vec<_>>();
    let (least, most) = between(&figures(a), &figures(b), miss)?;
    let (low, high) = within(a, b)?;
    // A figure is the upper end of its histogram's bucket. Runs that share a bucket err alike, so this does not average out.
    Some((low.min(least) - bucket_ns(b), high.max(most) + bucket_ns(a)))
}

/// Width of the widest histogram bucket of these runs' figures, nanoseconds: two significant digits give 128
/// buckets per doubling.
fn bucket_ns(side: &[Estimate]) -> f64 {
    let widths = side.iter().map(|run| 1_u64 << run.ns.max(1).ilog2().saturating_sub(7));
    widths.max().unwrap_or(0) as f64
}

/// The runs compared for a quantile: those with an interval of their own, if there are enough on both sides,
/// otherwise all.
pub fn comparable(a: Vec<Estimate>, b: Vec<Estimate>) -> (Vec<Estimate>, Vec<Estimate>) {
    let bounded = |side: &[Estimate]| {
        side.iter().copied().filter(|run| run.low_ns.is_some() && run.high_ns.is_some()).collect::<Vec<_>>()
    };
    let (in_a, in_b) = (bounded(&a), bounded(&b));
    if in_a.len().min(in_b.len()) < LEAST_RUNS { (a, b) } else { (in_a, in_b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISS: f64 = 0.01;

    fn run(ns: u64, low_ns: u64, high_ns: u64) -> Estimate {
        Estimate { ns, low_ns: Some(low_ns), high_ns: Some(high_ns), worth: 100 }
    }

    #[test]
    fn fewer_runs_than_three_a_side_have_no_interval() {
        let (a, b) = (run(100, 90, 120), run(16_900, 16_000, 17_000));
        assert_eq!(interval(&[a], &[b], MISS), None);
        assert_eq!(interval(&[a; 2], &[b; 2], MISS), None);
        assert_eq!(interval(&[a; 2], &[b; 9], MISS), None);
        assert!(interval(&[a; 3], &[b; 3], MISS).is_some());
    }

    #[test]
    fn runs_too_short_for_an_interval_of_their_own_do_not_count() {
        let (run, few) = (run(100, 90, 120), Estimate { high_ns: None, ..run(300, 90, 0) });
        assert_eq!(interval(&[run, run, few], &[run; 3], MISS), None);
        assert_eq!(comparable(vec![run, run, few], vec![run; 3]).0.len(), 3);
        assert_eq!(comparable(vec![run, run, few, run], vec![run; 3]).0.len(), 3);
    }

    #[test]
    fn several_runs_have_students_interval() {
        // Means 11 and 21; squares around them 2 and 2, four degrees of freedom.
        let (a, b) = ([10.0, 12.0, 11.0], [20.0, 21.0, 22.0]);
        assert!((spread(&a, &b).unwrap() - 1.0).abs() < 1e-12);
        let (low, high) = between(&a, &b, MISS).unwrap();
        let half = 4.604 * (2.0_f64 / 3.0).sqrt();
        assert!((low - (10.0 - half)).abs() < 1e-3 && (high - (10.0 + half)).abs() < 1e-3);
        assert!(between(&[1.0; 50], &[2.0; 50], MISS).is_some());
    }

    #[test]
    fn runs_that_agree_by_luck_are_no_surer_than_each_of_them() {
        let side = |ns| [run(ns, ns - 40, ns + 40); 4];
        let (low, high) = interval(&side(1_000), &side(1_010), MISS).unwrap();
        assert!(low < 0.0 && high > 20.0, "{low:?} {high:?}");
        let (low, _) = interval(&side(1_000), &side(1_100), MISS).unwrap();
        assert!(low > 0.0);
    }
}
