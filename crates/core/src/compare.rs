//! Comparison of two captures: where the time went in one and not in the other.
//!
//! **The problem.** Two runs never give the same figures. A difference of two percentiles says nothing without what would
//! have been different by chance.
//!
//! **The choice.** Both captures are looked at through the hops that both have, each protocol by itself: with a hop more
//! or less a step would be another step. For the p50 and the p99 of each step the order statistics give a confidence
//! interval, whatever the distribution: how many of n values lie below the quantile is binomial, and so two ranks bound
//! it (David and Nagaraja, *Order Statistics*, 2003, 7.1). The interval of the difference runs from B's lower bound
//! minus A's upper to B's upper minus A's lower; with 99.5 % for each of the two it holds at least [`CONFIDENCE`]. Ranks
//! become times through the histogram's buckets, always the outer edge, so that rounding widens an interval and never
//! narrows it. Journeys are not independent of their neighbours, so n counts for less where neighbours are alike. A step
//! is called slower or faster only if its interval leaves out zero.
//!
//! **Known limits.**
//! - What varies within a capture is known and widens the interval (`blocks.rs`); what is the same all through one
//!   capture and another way in the next (where memory lies, how fast the CPU runs) looks like a difference.
//! - One interval in a hundred is wrong, though rarely by far; a table has some forty.
//! - It compares two captures, not two causes: what else differed between them is not known here.
//! - The effect on the mean total is a difference of means, and one long wait moves it; it orders the table and decides
//!   nothing.

mod blocks;
mod interval;
mod side;
mod warning;

pub use side::Side;
pub use warning::{Warning, Which};

use crate::flow::Proto;
use crate::hop::{Hop, HopSet};
use crate::journey::Verdict;
use crate::node::NodeInfo;
use blocks::Blocks;
use interval::{MISS, bounds_ns, shares_differ};
use serde::{Serialize, Serializer};
use side::{Sum, Sums};
use std::cmp::Reverse;

/// How often the interval of a difference holds the true one, at least.
pub const CONFIDENCE: f64 = 1.0 - 2.0 * MISS;

/// What two captures say about each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The first capture.
    pub a: Summary,
    /// The second capture.
    pub b: Summary,
    /// What makes them hard to compare.
    pub warnings: Vec<Warning>,
    /// How often an interval of a difference holds the true one, at least.
    pub confidence: f64,
    /// Each protocol by itself.
    pub protocols: Vec<Protocol>,
}

/// What one capture holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Host name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// From the first event to the last, nanoseconds.
    pub duration_ns: u64,
    /// Journeys in all.
    pub journeys: u64,
    /// Journeys that were seen to their end, which the times are about.
    pub measured: u64,
    /// Events lost on the way from the kernel.
    pub lost_events: u64,
    /// Pairs of events of one journey in the wrong order of time, left out.
    pub disordered: u64,
}

/// One protocol in both captures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Protocol {
    /// TCP or UDP.
    #[serde(serialize_with = "as_text")]
    pub proto: Proto,
    /// First hop that both have to the last.
    pub total: Measured,
    /// Steps between neighbouring hops: those with a difference first, and the largest effect on the total first.
    pub steps: Vec<Step>,
    /// How journeys ended, and whether they were sent again.
    pub shares: Vec<Share>,
}

/// One step in both captures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// The hop it leaves.
    pub from: Hop,
    /// The hop it reaches.
    pub to: Hop,
    /// What it adds to the mean total of a journey in B, beyond what it adds in A; nanoseconds. 0 for `dev.done`, which
    /// stands beside the way.
    pub effect_ns: i64,
    /// The figures.
    #[serde(flatten)]
    pub measured: Measured,
}

/// Figures of one time in both captures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Journeys in A that have it.
    pub n_a: u64,
    /// Journeys in B that have it.
    pub n_b: u64,
    /// Half take at most this.
    pub p50: Quantile,
    /// Ninety-nine in a hundred take at most this.
    pub p99: Quantile,
    /// What it comes to.
    pub change: Change,
}

/// One quantile in both captures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantile {
    /// In A, nanoseconds.
    pub a_ns: u64,
    /// In B, nanoseconds.
    pub b_ns: u64,
    /// B as a multiple of A; `None` where A is 0.
    pub ratio: Option<f64>,
    /// So many independent journeys would say as much as A's do; fewer than A has where neighbours are alike.
    pub worth_a: u64,
    /// The same of B.
    pub worth_b: u64,
    /// B minus A is at least this, nanoseconds; `None` if there are too few to say.
    pub at_least_ns: Option<i64>,
    /// B minus A is at most this, nanoseconds; `None` if there are too few to say.
    pub at_most_ns: Option<i64>,
    /// What it comes to.
    pub change: Change,
}

/// What a difference comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// B takes longer.
    Slower,
    /// B takes less long.
    Faster,
    /// One quantile is slower and the other faster.
    Mixed,
    /// None that so many journeys could show.
    NotShown,
    /// Too few journeys for an interval.
    TooFew,
    /// Not in B.
    OnlyInA,
    /// Not in A.
    OnlyInB,
}

/// How many journeys of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Name of the verdict, or `resent`.
    pub kind: &'static str,
    /// In A.
    pub a: u64,
    /// Of so many.
    pub of_a: u64,
    /// In B.
    pub b: u64,
    /// Of so many.
    pub of_b: u64,
    /// Whether the shares differ by more than chance explains (Wilson intervals that do not touch).
    pub differs: bool,
}

impl Change {
    /// Whether a difference was found.
    pub const fn is_found(self) -> bool {
        matches!(self, Self::Slower | Self::Faster | Self::Mixed)
    }

    /// Of two quantiles: what they say together.
    const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Slower, Self::Faster) | (Self::Faster, Self::Slower) => Self::Mixed,
            (found @ (Self::Slower | Self::Faster), _) | (_, found @ (Self::Slower | Self::Faster)) => found,
            (median, _) => median,
        }
    }
}

/// Two empty captures to be compared, which look at the hops that both nodes serve.
pub fn sides(a: &NodeInfo, b: &NodeInfo) -> (Side, Side) {
    let common: HopSet = a.coverage.served().iter().filter(|hop| b.coverage.served().contains(*hop)).collect();
    (Side::new(a, common), Side::new(b, common))
}

/// Compares what two captures came to.
pub fn compare(a: &Side, b: &Side) -> Comparison {
    let mut protos: Vec<Proto> = a.sums.keys().chain(b.sums.keys()).copied().collect();
    protos.sort_unstable();
    protos.dedup();
    let none = Sums::default();
    Comparison {
        a: a.summary(),
        b: b.summary(),
        warnings: warning::of(a, b),
        confidence: CONFIDENCE,
        protocols: protos
            .into_iter()
            .map(|proto| {
                protocol(proto, a.sums.get(&proto).unwrap_or(&none), b.sums.get(&proto).unwrap_or(&none))
            })
            .collect(),
    }
}

fn protocol(proto: Proto, a: &Sums, b: &Sums) -> Protocol {
    let mut pairs: Vec<(Hop, Hop)> = a.steps.keys().chain(b.steps.keys()).copied().collect();
    pairs.sort_unstable();
    pairs.dedup();
    let none = Sum::default();
    let mut steps: Vec<Step> = pairs
        .into_iter()
        .map(|pair| {
            let (in_a, in_b) = (a.steps.get(&pair).unwrap_or(&none), b.steps.get(&pair).unwrap_or(&none));
            let each = |sum: &Sum, sums: &Sums| sum.ns as f64 / sums.total.times.all().n().max(1) as f64;
            let beside = pair.1 == Hop::DevDone;
            let effect_ns = if beside { 0.0 } else { each(in_b, b) - each(in_a, a) };
            let measured = measured(&in_a.times, &in_b.times);
            Step { from: pair.0, to: pair.1, effect_ns: effect_ns.round() as i64, measured }
        })
        .collect();
    steps.sort_by_key(|step| Reverse((step.measured.change.is_found(), step.effect_ns.unsigned_abs())));
    Protocol { proto, total: measured(&a.total.times, &b.total.times), steps, shares: shares(a, b) }
}

fn measured(a: &Blocks, b: &Blocks) -> Measured {
    let (p50, p99) = (quantile(a, b, 0.5), quantile(a, b, 0.99));
    let change = match (a.all().n(), b.all().n()) {
        (1.., 0) => Change::OnlyInA,
        (0, 1..) => Change::OnlyInB,
        _ => p50.change.and(p99.change),
    };
    Measured { n_a: a.all().n(), n_b: b.all().n(), p50, p99, change }
}

fn quantile(a: &Blocks, b: &Blocks, q: f64) -> Quantile {
    let (a_ns, b_ns) = (a.all().quantile_ns(q), b.all().quantile_ns(q));
    let (in_a, in_b) = (bounds_ns(a, q), bounds_ns(b, q));
    // Histograms end at 100 s, so times fit.
    let minus = |b: Option<u64>, a: Option<u64>| Some(b? as i64 - a? as i64);
    let (at_least_ns, at_most_ns) = (minus(in_b.0, in_a.1), minus(in_b.1, in_a.0));
    let change = match (at_least_ns, at_most_ns) {
        (Some(1..), _) => Change::Slower,
        (_, Some(..=-1)) => Change::Faster,
        (Some(_), Some(_)) => Change::NotShown,
        _ => Change::TooFew,
    };
    let ratio = (a_ns > 0 && b.all().n() > 0).then(|| b_ns as f64 / a_ns as f64);
    let (worth_a, worth_b) = (a.worth(q), b.worth(q));
    Quantile { a_ns, b_ns, ratio, worth_a, worth_b, at_least_ns, at_most_ns, change }
}

fn shares(a: &Sums, b: &Sums) -> Vec<Share> {
    let (of_a, of_b) = (a.journeys(), b.journeys());
    let kinds = Verdict::NAMES.into_iter().zip(a.kinds.into_iter().zip(b.kinds));
    let all = kinds.chain([("resent", (a.resent, b.resent))]);
    all.filter(|(_, (in_a, in_b))| in_a + in_b > 0)
        .map(|(kind, (in_a, in_b))| {
            let differs = shares_differ((in_a, of_a), (in_b, of_b));
            Share { kind, a: in_a, of_a, b: in_b, of_b, differs }
        })
        .collect()
}

fn as_text<T: std::fmt::Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}
