//! Hints at a step of a clock that packets cannot prove.
//!
//! A step below the quickest round trip contradicts no packet: both sides of it fit one continuous difference.
//! Packets alone cannot exclude such a step. Near it the bounds of both sides intersect, and then they are narrower
//! than any round trip was, or exclude the truth. So a pair with one of these hints is SUSPECT:
//!
//! * The bounds collapse: they are much narrower at one time than the quickest round trips of all other times, by the
//!   bounds of those times or by neighbouring packets alone.
//! * Packets contradict the others, several within ten seconds, and no detected step explains that.
//! * The difference left a straight line by more than a round trip within seconds, and no step explains that.
//! * All of several detected steps have one sign: the clocks drift apart by more than ρ.
//!
//! A recording without a hint may still have such a step. Live bounds have the same hints ([`super::live_hints`]).

use super::constraint::Kind;
use super::drift::Drift;
use super::epoch::Epoch;
use super::model::Model;
use std::fmt;

/// The smallest step of a clock that packets would show, nanoseconds: the width of the bounds. A smaller one fits into
/// them.
pub const fn smallest_visible_step_ns(half_width_ns: u64) -> u64 {
    half_width_ns.saturating_mul(2)
}

/// Number of windows in which the quickest round trips of an epoch are compared.
pub(super) const WINDOWS: usize = 64;
/// Minimum number of windows with packets for a comparison.
const FEWEST_WINDOWS: usize = 16;
/// Number of steps of one sign that hint at a drift beyond ρ.
const STEPS: u64 = 3;
/// Contradictions nearer to each other than this are one event: single false matches are further apart.
const CLUSTER_NS: u64 = 10_000_000_000;
/// Maximum number of stored instants of contradictions.
const MOST_STORED: usize = 256;

/// A hint at a step that is too small for a proof, or at a drift beyond the assumption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The bounds are much narrower at one time than the quickest round trips of the other times.
    Collapse {
        /// Smallest width of the bounds, nanoseconds.
        least_ns: u64,
        /// Width at the quickest quarter of all times.
        typical_ns: u64,
        /// Instant of the smallest width, on R of A.
        at_ns: u64,
    },
    /// Packets contradict the others within seconds of each other, and no step explains it.
    Contradictions {
        /// Number of these packets.
        packets: u64,
    },
    /// The difference left a straight line, and no step explains it.
    Bend {
        /// Number of times.
        times: u64,
    },
    /// All detected steps have one sign.
    SameSign {
        /// Number of steps.
        steps: u64,
        /// B's clock went ahead.
        is_ahead: bool,
    },
}

impl Hint {
    /// Every name.
    pub const NAMES: [&'static str; 4] = ["collapse", "contradictions", "bend", "same-sign"];

    /// The instant of a collapse, on R of A.
    pub(super) const fn at_ns(&self) -> Option<u64> {
        match self {
            Self::Collapse { at_ns, .. } => Some(*at_ns),
            Self::Contradictions { .. } | Self::Bend { .. } | Self::SameSign { .. } => None,
        }
    }

    /// The round trip of other times than that of a collapse.
    pub(super) const fn typical_ns(&self) -> Option<u64> {
        match self {
            Self::Collapse { typical_ns, .. } => Some(*typical_ns),
            Self::Contradictions { .. } | Self::Bend { .. } | Self::SameSign { .. } => None,
        }
    }

    /// Name in JSON.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Collapse { .. } => "collapse",
            Self::Contradictions { .. } => "contradictions",
            Self::Bend { .. } => "bend",
            Self::SameSign { .. } => "same-sign",
        }
    }
}

/// A duration for a sentence.
struct Micros(u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} µs", self.0 / 1000, self.0 % 1000 / 100)
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Collapse { least_ns, typical_ns, .. } => write!(
                f,
                "the bounds narrow to {} once and to {} at other times: a clock may have stepped by the difference",
                Micros(*least_ns),
                Micros(*typical_ns)
            ),
            Self::Contradictions { packets } => {
                write!(f, "{packets} packets contradict the others within seconds, and no step explains it")
            }
            Self::Bend { times } => write!(
                f,
                "the difference left a straight line {times} times by more than a round trip, and no step explains it"
            ),
            Self::SameSign { steps, is_ahead } => write!(
                f,
                "{steps} steps, all {}: the clocks may drift apart by more than the assumed 200 ppm",
                if *is_ahead { "forward" } else { "back" }
            ),
        }
    }
}

/// Instants of packets that contradict others, as they are rejected.
#[derive(Clone, Debug, Default)]
pub(super) struct Contradictions {
    newest_ns: Option<u64>,
    /// Those near to the one before.
    clustered: Vec<u64>,
}

impl Contradictions {
    pub(super) fn add(&mut self, at_ns: u64) {
        let is_near = self.newest_ns.is_some_and(|before| before.abs_diff(at_ns) <= CLUSTER_NS);
        if is_near && self.clustered.len() < MOST_STORED {
            self.clustered.push(at_ns);
        }
        self.newest_ns = Some(at_ns);
    }

    /// Forgets the instants before this one.
    pub(super) fn forget_before(&mut self, at_ns: u64) {
        self.clustered.retain(|at| *at >= at_ns);
    }
}

/// The evidence for hints, of a recording or as packets arrive.
pub(super) struct Evidence<'e> {
    /// One of each epoch at most.
    pub(super) collapses: Vec<Hint>,
    /// From the last instant before each step to the first one after it.
    pub(super) boundaries: &'e [(u64, u64)],
    pub(super) contradictions: &'e Contradictions,
    /// Instants at which no line was left.
    pub(super) bends: Vec<u64>,
    /// Numbers of detected steps forward and back.
    pub(super) steps: [u64; 2],
    pub(super) model: Model,
}

impl Evidence<'_> {
    /// True if a step lies within this time of an instant.
    fn is_explained(&self, at_ns: u64, around_ns: u64) -> bool {
        let mut boundaries = self.boundaries.iter();
        boundaries
            .any(|(from, to)| (from.saturating_sub(around_ns)..=to.saturating_add(around_ns)).contains(&at_ns))
    }

    /// Removes the collapses near a step.
    pub(super) fn without_explained_collapses(mut self) -> Self {
        let collapses = std::mem::take(&mut self.collapses);
        self.collapses = collapses
            .into_iter()
            .filter(|hint| hint.at_ns().is_none_or(|at_ns| !self.is_explained(at_ns, CLUSTER_NS)))
            .collect();
        self
    }

    /// The hints.
    pub(super) fn hints(&self) -> Vec<Hint> {
        let mut found = self.collapses.clone();
        let clustered = self.contradictions.clustered.iter();
        let packets = clustered.filter(|at| !self.is_explained(**at, CLUSTER_NS)).count() as u64;
        if packets > 0 {
            // The first of each cluster is not stored.
            found.push(Hint::Contradictions { packets: packets + 1 });
        }
        let bends = self.bends.iter();
        let times = bends.filter(|at| !self.is_explained(**at, self.model.window_ns)).count() as u64;
        if times > 0 {
            found.push(Hint::Bend { times });
        }
        let [ahead, back] = self.steps;
        let steps = ahead.saturating_add(back);
        if steps >= STEPS && steps == ahead.max(back) {
            found.push(Hint::SameSign { steps, is_ahead: ahead > 0 });
        }
        found
    }
}

/// The hints of a pair, from its complete epochs. `doubt` is a candidate for a further one.
pub(super) fn hints(
    epochs: &[Epoch],
    doubt: Option<&Epoch>,
    contradictions: &Contradictions,
    (drift, model): (Drift, Model),
) -> Vec<Hint> {
    let boundaries: Vec<(u64, u64)> = epochs
        .iter()
        .zip(epochs.iter().skip(1).map(|next| next.from_ns).chain(doubt.map(|doubt| doubt.from_ns)))
        .map(|(epoch, next_ns)| (epoch.to_ns.unwrap_or(next_ns).min(next_ns), next_ns))
        .collect();
    let evidence = Evidence {
        collapses: epochs.iter().filter_map(|epoch| collapse(epoch, drift)).collect(),
        boundaries: &boundaries,
        contradictions,
        bends: epochs.iter().flat_map(|epoch| epoch.windows.bends()).collect(),
        steps: signs(epochs),
        model,
    };
    evidence.hints()
}

/// The smallest width of an epoch's bounds, if it lies far below the quickest round trips of the other times. The
/// widths are those at the packets that bound.
fn collapse(epoch: &Epoch, drift: Drift) -> Option<Hint> {
    let (from_ns, to_ns) = epoch.seen.both()?;
    let span_ns = to_ns.checked_sub(from_ns).filter(|span| *span > 0)?;
    let mut least = [None::<(u64, u64)>; WINDOWS];
    for point in epoch.upper.points().iter().chain(epoch.lower.points()) {
        let Some(into_ns) = point.at_ns.checked_sub(from_ns).filter(|into| *into <= span_ns) else { continue };
        let Some(width_ns) = epoch.bounds_at(point.at_ns, drift).width_ns() else { continue };
        let window = (u128::from(into_ns) * WINDOWS as u128 / (u128::from(span_ns) + 1)) as usize;
        if let Some(least) = least.get_mut(window) {
            let here = (width_ns, point.at_ns);
            *least = Some(least.map_or(here, |before| before.min(here)));
        }
    }
    let widths: Vec<(u64, u64)> = least.into_iter().flatten().collect();
    let smallest = widths.iter().min().copied()?;
    // If the step was early or large, the bounds are narrow at most times, and round trips are not.
    collapse_of(widths).or_else(|| collapse_below(smallest, epoch.trips.smallest()))
}

/// The smallest width, if it lies far below the quickest round trips of all times.
fn collapse_below((least_ns, at_ns): (u64, u64), mut trips: Vec<u64>) -> Option<Hint> {
    trips.sort_unstable();
    let (typical_ns, wide_ns) = (*trips.get(trips.len() / 4)?, *trips.get(trips.len() * 3 / 4)?);
    let is_enough = trips.len() >= FEWEST_WINDOWS;
    (is_enough && is_far(least_ns, typical_ns, wide_ns)).then_some(Hint::Collapse {
        least_ns,
        typical_ns,
        at_ns,
    })
}

/// True if a width lies below the quickest quarter by more than four times the range of the middle half, and by more
/// than half.
fn is_far(least_ns: u64, typical_ns: u64, wide_ns: u64) -> bool {
    let (gap_ns, spread_ns) = (typical_ns.saturating_sub(least_ns), wide_ns - typical_ns);
    gap_ns > spread_ns.saturating_mul(4) && gap_ns > typical_ns / 2
}

/// A collapse among the smallest widths of windows of equal length, each with its instant.
///
/// The floor of a real path shows in many windows, more or less exactly. So the smallest one is suspect if its
/// distance to the quickest quarter is more than four times the range of the middle half, and more than half of the
/// value.
pub(super) fn collapse_of(mut widths: Vec<(u64, u64)>) -> Option<Hint> {
    widths.sort_unstable();
    let number = widths.len();
    if number < FEWEST_WINDOWS {
        return None;
    }
    let (least_ns, at_ns) = *widths.first()?;
    let (typical_ns, wide_ns) = (widths.get(number / 4)?.0, widths.get(number * 3 / 4)?.0);
    is_far(least_ns, typical_ns, wide_ns).then_some(Hint::Collapse { least_ns, typical_ns, at_ns })
}

/// Numbers of detected steps forward and back.
fn signs(epochs: &[Epoch]) -> [u64; 2] {
    let mut steps = [0, 0];
    for epoch in epochs.iter().skip(1).filter(|epoch| !epoch.is_reported) {
        // Constraints that the epoch before does not explain: lower bounds above its upper ones, or the opposite.
        let lower = epoch.opening.iter().filter(|constraint| constraint.kind == Kind::Lower).count();
        steps[usize::from(lower * 2 <= epoch.opening.len())] += 1;
    }
    steps
}
