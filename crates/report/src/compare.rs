//! Comparison of two captures, or of several per side: which steps changed their time.
//!
//! **The problem.** Two runs never give the same figures. A difference of two percentiles is meaningless
//! without the difference expected by chance.
//!
//! **The choice.** Both sides are reduced to the hops that all captures have, each protocol separately: with a
//! different set of hops the steps would differ. Each capture gives one figure for the p50 and one for the p99
//! of each step. The interval of a difference is Student's, from the spread between the captures of one side
//! (`runs.rs`). It is never narrower than the intervals that order statistics give each capture's own quantile
//! (David and Nagaraja, *Order Statistics*, 2003, 7.1), for any distribution. Ranks become times through the
//! histogram's buckets, always the outer edge, so that rounding widens an interval and never narrows it.
//! Neighbouring journeys are not independent, so n is reduced where neighbours are alike (`blocks.rs`).
//!
//! **The confidence is that of the complete table.** With a probability of [`CONFIDENCE`] all its intervals
//! contain the true difference at once. A table compares some sixty figures, so each of them gets its part of
//! the permitted error (Bonferroni). A step is called slower or faster only if its interval excludes zero.
//!
//! **Minimum numbers.** An interval requires [`LEAST_RUNS`] captures per side, and in each of them enough
//! journeys for its own interval: [`least_journeys`]. With one capture per side a change cannot be separated
//! from the difference between two captures of the same system.
//!
//! **Known limits.**
//! - Runs are assumed to be normally distributed, with the same variance on both sides.
//! - Three captures per side show only large differences: some twelve standard deviations of captures. Five
//!   show four.
//! - It compares two sides, not two causes: other differences between them are unknown here.
//! - The effect on the mean total is a difference of means, and one long wait moves it; it orders the table and
//!   decides nothing.

mod blocks;
mod changes;
mod interval;
mod runs;
mod services;
mod side;
mod warning;

pub use interval::least_journeys;
pub use runs::LEAST_RUNS;
pub use services::{PartDifference, ServiceDifference};
pub use side::{Run, Side};
pub use warning::{CaptureSide, Warning};

use interval::shares_differ;
use magscope_core::flow::Proto;
use magscope_core::hop::{Hop, HopSet};
use magscope_core::journey::Verdict;
use magscope_core::node::NodeInfo;
use runs::{Estimate, mean};
use serde::{Serialize, Serializer};
use side::{Folded, Times};
use std::cmp::Reverse;

/// Minimum probability that all intervals of a comparison contain the true difference at once.
pub const CONFIDENCE: f64 = 0.99;

/// The comparison of two sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The first capture.
    pub a: Summary,
    /// The second capture.
    pub b: Summary,
    /// Differences that make them hard to compare.
    pub warnings: Vec<Warning>,
    /// Minimum probability that all intervals contain the true difference at once.
    pub confidence: f64,
    /// Captures per side that an interval requires.
    pub least_runs: usize,
    /// Number of compared figures: each has its part of the permitted error.
    pub compared: usize,
    /// Each protocol separately.
    pub protocols: Vec<Protocol>,
    /// Requests by service, those with the most exchanges first.
    pub services: Vec<ServiceDifference>,
}

/// Summary of the captures of one side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Number of captures.
    pub runs: u64,
    /// Host name; of several, that of the first.
    pub host: String,
    /// Kernel release; of several, that of the first.
    pub kernel: String,
    /// Observed time, with or without events, nanoseconds; summed over captures.
    pub duration_ns: u64,
    /// Journeys in all.
    pub journeys: u64,
    /// Journeys with a seen end: the basis of the times.
    pub measured: u64,
    /// Events lost between kernel and reader.
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
    /// Of the common hops, the first and the last that most journeys of both passed; `None` without journeys.
    pub route: Option<(Hop, Hop)>,
    /// The time from the first to the last, of those journeys.
    pub total: Measured,
    /// Measured journeys that began or ended at another hop: their steps are counted, their totals are not.
    pub other_routes: Vec<RouteDifference>,
    /// Steps between neighbouring hops: those with a difference first, and the largest effect on the total first.
    pub steps: Vec<Step>,
    /// Shares of journeys by verdict, and of retransmitted ones.
    pub shares: Vec<Share>,
}

/// Journeys that began or ended at another hop than those of the total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RouteDifference {
    /// First hop.
    pub from: Hop,
    /// Last hop.
    pub to: Hop,
    /// Number in A.
    pub n_a: u64,
    /// Number in B.
    pub n_b: u64,
}

/// One step in both captures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// The hop it leaves.
    pub from: Hop,
    /// The hop it reaches.
    pub to: Hop,
    /// Its contribution to the mean total of a journey in B, minus that in A; nanoseconds. 0 for `dev.done`,
    /// which is off the path.
    pub effect_ns: i64,
    /// The figures.
    #[serde(flatten)]
    pub measured: Measured,
}

/// Figures of one time in both captures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Journeys in A with this time.
    pub n_a: u64,
    /// Journeys in B with this time.
    pub n_b: u64,
    /// The median.
    pub p50: Quantile,
    /// The 99th percentile.
    pub p99: Quantile,
    /// Result.
    pub change: Change,
}

/// One quantile in both captures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Quantile {
    /// In A, nanoseconds; the mean of its captures.
    pub a_ns: u64,
    /// In B, nanoseconds; the mean of its captures.
    pub b_ns: u64,
    /// In each capture of A that has it, nanoseconds.
    pub runs_a_ns: Vec<u64>,
    /// In each capture of B that has it, nanoseconds.
    pub runs_b_ns: Vec<u64>,
    /// Standard deviation of captures around the mean of their side, nanoseconds; `None` with one per side.
    pub spread_ns: Option<u64>,
    /// B as a multiple of A; `None` where A is 0.
    pub ratio: Option<f64>,
    /// Effective number of independent journeys of A; fewer than A has if neighbours are alike.
    pub worth_a: u64,
    /// The same of B.
    pub worth_b: u64,
    /// Lower bound of B minus A, nanoseconds; `None` with too few captures or journeys.
    pub at_least_ns: Option<i64>,
    /// Upper bound of B minus A, nanoseconds; `None` with too few captures or journeys.
    pub at_most_ns: Option<i64>,
    /// Result.
    pub change: Change,
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// B is slower.
    Slower,
    /// B is faster.
    Faster,
    /// One quantile is slower and the other faster.
    Mixed,
    /// No significant difference at this number of journeys.
    NotShown,
    /// Too few captures, or too few journeys in them, for an interval.
    TooFew,
    /// Not in B.
    OnlyInA,
    /// Not in A.
    OnlyInB,
}

/// Number of journeys of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Name of the verdict, or `resent`.
    pub kind: &'static str,
    /// In A.
    pub a: u64,
    /// Total of A.
    pub of_a: u64,
    /// In B.
    pub b: u64,
    /// Total of B.
    pub of_b: u64,
    /// True with enough captures for a comparison.
    #[serde(skip)]
    pub comparable: bool,
    /// True if the shares differ by more than chance (disjoint Wilson intervals), and by more than captures of
    /// one side do. Always false with fewer than [`LEAST_RUNS`] captures per side.
    pub differs: bool,
}

impl Change {
    /// True if a difference was found.
    pub const fn is_found(self) -> bool {
        matches!(self, Self::Slower | Self::Faster | Self::Mixed)
    }

    /// The combined result of two quantiles.
    const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Slower, Self::Faster) | (Self::Faster, Self::Slower) => Self::Mixed,
            (found @ (Self::Slower | Self::Faster), _) | (_, found @ (Self::Slower | Self::Faster)) => found,
            (median, _) => median,
        }
    }
}

/// The hops that all nodes serve, to which recordings are reduced.
pub fn common_hops<'a>(infos: impl IntoIterator<Item = &'a NodeInfo>) -> HopSet {
    infos.into_iter().fold(HopSet::all(), |hops, info| HopSet(hops.0 & info.coverage.served().0))
}

/// Compares two sides.
pub fn compare(a: &Side, b: &Side) -> Comparison {
    let mut protos: Vec<Proto> = a.runs.iter().chain(&b.runs).flat_map(|run| run.keys().copied()).collect();
    protos.sort_unstable();
    protos.dedup();
    let runs =
        |side: &Side, proto| side.runs.iter().filter_map(|run| run.get(&proto).cloned()).collect::<Vec<_>>();
    let protocols = |miss| {
        let each = protos.iter().map(|proto| protocol(*proto, &runs(a, *proto), &runs(b, *proto), miss));
        each.collect::<Vec<Protocol>>()
    };
    let services = |miss| services::compare(&a.services, &b.services, miss);
    // The number of comparable figures does not depend on the error of each: the first pass only counts.
    let all = 1.0 - CONFIDENCE;
    let compared = protocols(all).iter().map(Protocol::compared).sum::<usize>()
        + services(all).iter().map(ServiceDifference::compared).sum::<usize>();
    let each = all / compared.max(1) as f64;
    let (protocols, services) = (protocols(each), services(each));
    let mut warnings = warning::of(a, b);
    warnings.extend(protocols.iter().flat_map(warning::of_routes));
    Comparison {
        a: a.summary(),
        b: b.summary(),
        warnings,
        confidence: CONFIDENCE,
        least_runs: LEAST_RUNS,
        compared,
        protocols,
        services,
    }
}

/// Number of figures with an interval.
fn comparable<'m>(times: impl Iterator<Item = &'m Measured>, shares: &[Share]) -> usize {
    let quantiles = times.flat_map(|measured| [&measured.p50, &measured.p99]);
    let shares = shares.iter().filter(|share| share.comparable).count();
    quantiles.filter(|quantile| quantile.at_least_ns.is_some()).count() + shares
}

impl Protocol {
    fn compared(&self) -> usize {
        let steps = self.steps.iter().map(|step| &step.measured);
        comparable(std::iter::once(&self.total).chain(steps), &self.shares)
    }
}

impl ServiceDifference {
    fn compared(&self) -> usize {
        let parts = self.parts.iter().map(|part| &part.measured);
        comparable(std::iter::once(&self.total).chain(parts), &self.grades)
    }
}

fn protocol(proto: Proto, a: &[Folded], b: &[Folded], miss: f64) -> Protocol {
    let mut pairs: Vec<(Hop, Hop)> = a.iter().chain(b).flat_map(|run| run.steps.keys().copied()).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let mut other_routes = route_differences(a, b);
    // The total grows with the length of the path: only journeys with the same first and last hop are alike.
    let most = other_routes
        .iter()
        .enumerate()
        .max_by_key(|(_, route)| (route.n_a.min(route.n_b), route.n_a.max(route.n_b)));
    let route = most.map(|(at, _)| at).map(|at| other_routes.remove(at)).map(|route| (route.from, route.to));
    let total =
        |runs: &[Folded]| runs.iter().filter_map(|run| run.totals.get(&route?).copied()).collect::<Vec<_>>();
    let measured_in =
        |runs: &[Folded]| runs.iter().flat_map(|run| run.totals.values()).map(|times| times.n).sum();
    let (journeys_a, journeys_b): (u64, u64) = (measured_in(a), measured_in(b));
    let mut steps: Vec<Step> = pairs
        .into_iter()
        .map(|pair| {
            let step = |runs: &[Folded]| runs.iter().filter_map(|run| run.steps.get(&pair).copied()).collect();
            let (in_a, in_b): (Vec<Times>, Vec<Times>) = (step(a), step(b));
            let each = |times: &[Times], journeys: u64| {
                times.iter().map(|times| times.ns).sum::<u128>() as f64 / journeys.max(1) as f64
            };
            let is_off_path = pair.1 == Hop::DevDone;
            let effect_ns = if is_off_path { 0.0 } else { each(&in_b, journeys_b) - each(&in_a, journeys_a) };
            let measured = measured(&in_a, &in_b, miss);
            Step { from: pair.0, to: pair.1, effect_ns: effect_ns.round() as i64, measured }
        })
        .collect();
    steps.sort_by_key(|step| Reverse((step.measured.change.is_found(), step.effect_ns.unsigned_abs())));
    let total = measured(&total(a), &total(b), miss);
    Protocol { proto, route, total, other_routes, steps, shares: shares(a, b, miss) }
}

/// First and last hops of journeys, with the number of each side.
fn route_differences(a: &[Folded], b: &[Folded]) -> Vec<RouteDifference> {
    let mut pairs: Vec<(Hop, Hop)> = a.iter().chain(b).flat_map(|run| run.totals.keys().copied()).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let n =
        |runs: &[Folded], pair| runs.iter().filter_map(|run| run.totals.get(&pair)).map(|times| times.n).sum();
    pairs
        .into_iter()
        .map(|pair| RouteDifference { from: pair.0, to: pair.1, n_a: n(a, pair), n_b: n(b, pair) })
        .collect()
}

fn measured(a: &[Times], b: &[Times], miss: f64) -> Measured {
    let n = |runs: &[Times]| runs.iter().map(|times| times.n).sum::<u64>();
    let (n_a, n_b) = (n(a), n(b));
    let of = |runs: &[Times], which: fn(&Times) -> Estimate| {
        runs.iter().filter(|times| times.n > 0).map(which).collect::<Vec<_>>()
    };
    let both = |which: fn(&Times) -> Estimate| quantile(of(a, which), of(b, which), miss);
    let (p50, p99) = (both(|times| times.p50), both(|times| times.p99));
    let change = match (n_a, n_b) {
        (1.., 0) => Change::OnlyInA,
        (0, 1..) => Change::OnlyInB,
        _ => p50.change.and(p99.change),
    };
    Measured { n_a, n_b, p50, p99, change }
}

fn quantile(a: Vec<Estimate>, b: Vec<Estimate>, miss: f64) -> Quantile {
    let (a, b) = runs::comparable(a, b);
    let figures = |runs: &[Estimate]| runs.iter().map(|run| run.ns as f64).collect::<Vec<_>>();
    let (in_a, in_b) = (figures(&a), figures(&b));
    let middle = |figures: &[f64]| mean(figures.iter().copied()).round() as u64;
    let (a_ns, b_ns) = (middle(&in_a), middle(&in_b));
    let nothing = a.is_empty() || b.is_empty();
    // Outwards, so that rounding widens it. Histograms end at 100 s; Student's interval can be far wider and still fits.
    let interval = runs::interval(&a, &b, miss).map(|(low, high)| (low.floor() as i64, high.ceil() as i64));
    let (at_least_ns, at_most_ns) = interval.unzip();
    let change = match (at_least_ns, at_most_ns) {
        (Some(1..), _) => Change::Slower,
        (_, Some(..=-1)) => Change::Faster,
        (Some(_), Some(_)) => Change::NotShown,
        _ => Change::TooFew,
    };
    let worth = |runs: &[Estimate]| -> u64 { runs.iter().map(|run| run.worth).sum() };
    Quantile {
        a_ns,
        b_ns,
        runs_a_ns: a.iter().map(|run| run.ns).collect(),
        runs_b_ns: b.iter().map(|run| run.ns).collect(),
        spread_ns: runs::spread(&in_a, &in_b).map(|ns| ns.round() as u64),
        ratio: (a_ns > 0 && !nothing).then(|| b_ns as f64 / a_ns as f64),
        worth_a: worth(&a),
        worth_b: worth(&b),
        at_least_ns,
        at_most_ns,
        change,
    }
}

fn shares(a: &[Folded], b: &[Folded], miss: f64) -> Vec<Share> {
    let names: Vec<_> = Verdict::NAMES.into_iter().chain(["resent"]).collect();
    let count = |run: &Folded, kind: usize| run.counts.kinds.get(kind).copied().unwrap_or(run.counts.resent);
    share_rows(&names, (a, b), count, |run| run.counts.journeys(), miss)
}

/// Shares of each kind in the captures of both sides: `count` gives the number of the kind at an index of `names`, `all`
/// the number of all kinds.
fn share_rows<T>(
    names: &[&'static str],
    (a, b): (&[T], &[T]),
    count: impl Fn(&T, usize) -> u64,
    all: impl Fn(&T) -> u64,
    miss: f64,
) -> Vec<Share> {
    let of = |runs: &[T]| runs.iter().map(&all).sum::<u64>();
    let rows = names.iter().enumerate().map(|(kind, name)| {
        let sum = |runs: &[T]| runs.iter().map(|run| count(run, kind)).sum::<u64>();
        let each = |runs: &[T]| {
            runs.iter().map(|run| count(run, kind) as f64 / all(run).max(1) as f64).collect::<Vec<_>>()
        };
        let (in_a, of_a, in_b, of_b) = (sum(a), of(a), sum(b), of(b));
        let interval = runs::between(&each(a), &each(b), miss);
        let beyond_runs = interval.is_some_and(|(low, high)| low > 0.0 || high < 0.0);
        let differs = shares_differ((in_a, of_a), (in_b, of_b)) && beyond_runs;
        Share { kind: name, a: in_a, of_a, b: in_b, of_b, comparable: interval.is_some(), differs }
    });
    rows.filter(|share| share.a + share.b > 0).collect()
}

/// Serialises as text.
pub(crate) fn as_text<T: std::fmt::Display, S: Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}
