//! What several runs of one side say: how much runs of the same thing differ, and whether two sides differ by more.
//!
//! Each run gives one figure. The figures of a side scatter around their mean, and by how much tells what a difference of
//! the two means is worth: Student's interval with the spread of both sides together, *The Probable Error of a Mean*
//! (1908). What chance does within a run is in that spread too, but two or three runs can lie close together by luck or
//! because a bucket of a histogram holds them all; so the interval is never narrower than what the runs' own intervals
//! come to.

use super::blocks::Blocks;
use super::interval::bounds_ns;

/// Student's t that is exceeded, either way, once in a hundred, by degrees of freedom from 1; beyond the last entry the
/// last one is a little too large.
const STUDENT: [f64; 30] = [
    63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947,
    2.921, 2.898, 2.878, 2.861, 2.845, 2.831, 2.819, 2.807, 2.797, 2.787, 2.779, 2.771, 2.763, 2.756, 2.750,
];

/// A quantile of one run, and where the true one may lie.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    pub ns: u64,
    /// `None` where there are too few to say.
    pub low_ns: Option<u64>,
    pub high_ns: Option<u64>,
    /// So many independent journeys would say as much.
    pub worth: u64,
}

/// A difference of the means of two sides: at least and at most, as far as can be said.
pub type Interval = (Option<f64>, Option<f64>);

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

/// From where to where the difference of two means lies, by how much runs of one side differ.
pub fn between(a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
    let spread = spread(a, b)?;
    let freedom = a.len() + b.len() - 2;
    let student = STUDENT[freedom.min(STUDENT.len()) - 1];
    let half = student * spread * (1.0 / a.len() as f64 + 1.0 / b.len() as f64).sqrt();
    let difference = mean(b.iter().copied()) - mean(a.iter().copied());
    Some((difference - half, difference + half))
}

/// From where to where the difference lies by what chance does within each run.
fn within(a: &[Estimate], b: &[Estimate]) -> Interval {
    // Of one run its own bounds; of several their distances from it, which average out.
    let distance = |side: &[Estimate], bound: fn(&Estimate) -> Option<u64>| {
        let each: Option<Vec<f64>> =
            side.iter().map(|run| Some((bound(run)? as f64 - run.ns as f64).abs())).collect();
        each.map(|each| each.iter().map(|d| d * d).sum::<f64>().sqrt() / side.len().max(1) as f64)
    };
    let low = |run: &Estimate| run.low_ns;
    let high = |run: &Estimate| run.high_ns;
    let middle = |side: &[Estimate]| mean(side.iter().map(|run| run.ns as f64));
    let difference = middle(b) - middle(a);
    let plus = |x: Option<f64>, y: Option<f64>| Some(x? + y?);
    (
        plus(distance(a, high), distance(b, low)).map(|d| difference - d),
        plus(distance(a, low), distance(b, high)).map(|d| difference + d),
    )
}

/// From where to where the difference of a quantile lies. Both sides have a run.
pub fn interval(a: &[Estimate], b: &[Estimate]) -> Interval {
    let (low, high) = within(a, b);
    let figures = |side: &[Estimate]| side.iter().map(|run| run.ns as f64).collect::<Vec<_>>();
    match between(&figures(a), &figures(b)) {
        Some((least, most)) => {
            (Some(low.map_or(least, |low| low.min(least))), Some(high.map_or(most, |high| high.max(most))))
        }
        None => (low, high),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(ns: u64, low_ns: u64, high_ns: u64) -> Estimate {
        Estimate { ns, low_ns: Some(low_ns), high_ns: Some(high_ns), worth: 100 }
    }

    #[test]
    fn one_run_a_side_has_its_own_interval() {
        let (low, high) = interval(&[run(100, 90, 120)], &[run(150, 145, 160)]);
        assert_eq!((low, high), (Some(25.0), Some(70.0)));
        let few = Estimate { high_ns: None, ..run(100, 90, 0) };
        assert_eq!(interval(&[few], &[run(150, 145, 160)]), (None, Some(70.0)));
    }

    #[test]
    fn several_runs_have_students_interval() {
        // Means 11 and 21; squares around them 2 and 2, four degrees of freedom.
        let (a, b) = ([10.0, 12.0, 11.0], [20.0, 21.0, 22.0]);
        assert!((spread(&a, &b).unwrap() - 1.0).abs() < 1e-12);
        let (low, high) = between(&a, &b).unwrap();
        let half = 4.604 * (2.0_f64 / 3.0).sqrt();
        assert!((low - (10.0 - half)).abs() < 1e-9 && (high - (10.0 + half)).abs() < 1e-9);
        assert_eq!((between(&[1.0], &[2.0]), between(&[], &[2.0, 3.0])), (None, None));
        assert!(between(&[1.0; 50], &[2.0; 50]).is_some());
    }

    #[test]
    fn runs_that_agree_by_luck_are_no_surer_than_each_of_them() {
        let side = |ns| [run(ns, ns - 40, ns + 40); 4];
        let (low, high) = interval(&side(1_000), &side(1_010));
        assert!(low.unwrap() < 0.0 && high.unwrap() > 20.0, "{low:?} {high:?}");
        let (low, _) = interval(&side(1_000), &side(1_100));
        assert!(low.unwrap() > 0.0);
    }
}
