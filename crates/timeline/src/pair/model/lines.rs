//! All straight lines consistent with a window's packets, and the highest and lowest of them at an instant.
//!
//! A line of slope β fits between the upper bounds `u` and the lower bounds `l` under one condition: `β (a_u −
//! a_l) ≤ u − l` for every pair. So the feasible slopes are an interval, which each constraint can only shrink;
//! a line exists if it is not empty. The highest line at an instant is a tangent to the hull of the upper
//! bounds. Its slope is the feasible one nearest to the edge above that instant. All arithmetic is exact:
//! integers and their ratios.

use super::super::constraint::Kind;
use super::super::drift::Drift;
use super::hull::{Hull, Vertex};
use std::cmp::Ordering;

/// A slope: nanoseconds per nanosecond.
#[derive(Clone, Copy, Debug)]
struct Slope {
    rise: i128,
    /// Positive, less than 2⁴².
    run: i128,
}

impl Slope {
    fn compare(&self, other: &Slope) -> Ordering {
        (self.rise * other.run).cmp(&(other.rise * self.run))
    }

    fn negated(self) -> Self {
        Slope { rise: -self.rise, run: self.run }
    }

    fn least(self, other: Slope) -> Slope {
        if other.compare(&self).is_lt() { other } else { self }
    }

    fn most(self, other: Slope) -> Slope {
        if other.compare(&self).is_gt() { other } else { self }
    }
}

/// The lines under one set of bounds and above another. Lower bounds are stored negated, so that both hulls are
/// of the same kind.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    upper: Hull,
    lower: Hull,
    flattest: Slope,
    steepest: Slope,
}

impl Lines {
    /// Every line within the drift bound.
    pub(super) fn new(drift: Drift) -> Self {
        let steepest = Slope { rise: i128::from(drift.ppm), run: 1_000_000 };
        Lines { upper: Hull::default(), lower: Hull::default(), flattest: steepest.negated(), steepest }
    }

    /// Adds a bound (`y` negated for a lower one). False if no line would be left; then nothing changes.
    pub(super) fn push(&mut self, kind: Kind, new: Vertex) -> bool {
        let (own, other) = match kind {
            Kind::Upper => (&mut self.upper, &self.lower),
            Kind::Lower => (&mut self.lower, &self.upper),
        };
        if own.implies(new) {
            return true;
        }
        let (mut flattest, mut steepest) = (self.flattest, self.steepest);
        for vertex in other.vertices() {
            let room = i128::from(new.y) + i128::from(vertex.y);
            // From the lower to the upper bound.
            let run = match kind {
                Kind::Upper => i128::from(new.x) - i128::from(vertex.x),
                Kind::Lower => i128::from(vertex.x) - i128::from(new.x),
            };
            match run.cmp(&0) {
                Ordering::Greater => steepest = steepest.least(Slope { rise: room, run }),
                Ordering::Less => flattest = flattest.most(Slope { rise: -room, run: -run }),
                Ordering::Equal if room < 0 => return false,
                Ordering::Equal => {}
            }
        }
        if flattest.compare(&steepest).is_gt() {
            return false;
        }
        own.insert(new);
        (self.flattest, self.steepest) = (flattest, steepest);
        true
    }

    /// The highest line at a place, rounded up; `None` if unbounded.
    pub(super) fn highest_at(&self, x: i64) -> Option<i128> {
        highest(&self.upper, self.flattest, self.steepest, x)
    }

    /// The lowest line at a place, rounded down.
    pub(super) fn lowest_at(&self, x: i64) -> Option<i128> {
        highest(&self.lower, self.steepest.negated(), self.flattest.negated(), x).map(|y| -y)
    }
}

fn highest(hull: &Hull, flattest: Slope, steepest: Slope, x: i64) -> Option<i128> {
    let slope = match hull.around(x) {
        (Some(left), Some(right)) => {
            let rise = i128::from(right.y) - i128::from(left.y);
            let edge = Slope { rise, run: i128::from(right.x) - i128::from(left.x) };
            edge.most(flattest).least(steepest)
        }
        (Some(_), None) => steepest,
        (None, _) => flattest,
    };
    let Slope { rise, run } = slope;
    let reach = |v: &Vertex| i128::from(v.y) * run + rise * (i128::from(x) - i128::from(v.x));
    let least = hull.vertices().iter().map(reach).min()?;
    Some(-(-least).div_euclid(run))
}
