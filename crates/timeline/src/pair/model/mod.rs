//! Level 1: over some seconds the difference is a straight line, to within ε.
//!
//! Windows of one length overlap by half. In each, `D = line + w` with `|w| ≤ ε`. The constraints, widened by
//! ε, permit some lines ([`lines`]); the bounds at an instant are those of all these lines, widened by ε again.
//! If no line is left, the model is wrong for the window, which is split there. A line from before the split is
//! never used after it.

mod hull;
mod lines;
#[cfg(test)]
mod tests;

use super::constraint::{Bounds, Constraint, Kind};
use super::drift::Drift;
use hull::Vertex;
use lines::Lines;
use std::collections::{BTreeMap, BTreeSet};

/// The assumption of Level 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// Length of a window, at most 1024 s.
    pub window_ns: u64,
    /// Maximum distance of the difference from a line within a window.
    pub epsilon_ns: u64,
}

impl Default for Model {
    /// 16 s and 250 ns. The rate of the difference may change by 0.016 ppm per second: a typical crystal at 0.1
    /// K per second.
    fn default() -> Self {
        Model { window_ns: 16_000_000_000, epsilon_ns: 250 }
    }
}

/// The longest window: products of a window's length and any difference fit in an `i128` with a margin.
const LONGEST_NS: u64 = 1024 * 1_000_000_000;

/// The lines of a part of a window.
#[derive(Clone, Debug)]
struct Piece {
    from_ns: u64,
    to_ns: u64,
    lines: Lines,
}

/// Level 1 of one epoch.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    drift: Drift,
    model: Model,
    /// Window `k` begins at `k · window / 2`. Each has at least one piece.
    numbered: BTreeMap<u64, Vec<Piece>>,
    splits: u64,
    /// Instants of the first of them.
    bends: BTreeSet<u64>,
}

/// Maximum number of stored instants of splits.
const MOST_BENDS: usize = 64;

/// Maximum number of splits of a window; later constraints are left out. With more, the difference is no line.
const MOST_PIECES: usize = 64;

impl Windows {
    pub(super) fn new(drift: Drift, model: Model) -> Self {
        let window_ns = model.window_ns.clamp(2, LONGEST_NS);
        // A larger ε would give no useful bounds.
        let epsilon_ns = model.epsilon_ns.min(1 << 40);
        Windows {
            drift,
            model: Model { window_ns, epsilon_ns },
            numbered: BTreeMap::new(),
            splits: 0,
            bends: BTreeSet::new(),
        }
    }

    fn half_ns(&self) -> u64 {
        self.model.window_ns / 2
    }

    /// The windows of an instant.
    fn of(&self, at_ns: u64) -> impl Iterator<Item = u64> + use<> {
        let last = at_ns / self.half_ns();
        [last.checked_sub(1), Some(last)].into_iter().flatten()
    }

    /// Number of splits.
    pub(super) fn splits(&self) -> u64 {
        self.splits
    }

    /// Instants of the constraints that no line satisfied, the first of them.
    pub(super) fn bends(&self) -> impl Iterator<Item = u64> {
        self.bends.iter().copied()
    }

    /// Takes the instants of [`Windows::bends`] since the last call.
    pub(super) fn take_bends(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.bends)
    }

    /// Adds a constraint accepted by Level 0, in any order.
    pub(super) fn push(&mut self, constraint: &Constraint) {
        for number in self.of(constraint.at_ns) {
            self.push_into(number, constraint);
        }
    }

    fn push_into(&mut self, number: u64, constraint: &Constraint) {
        let origin = number.saturating_mul(self.half_ns());
        let at_ns = constraint.at_ns;
        let Some(x) = at_ns.checked_sub(origin).and_then(|x| i64::try_from(x).ok()) else { return };
        let value = match constraint.kind {
            Kind::Upper => constraint.value_ns,
            Kind::Lower => constraint.value_ns.saturating_neg(),
        };
        let vertex = Vertex { x, y: value.saturating_add_unsigned(self.model.epsilon_ns) };
        let pieces = self.numbered.entry(number).or_default();
        let place = pieces.partition_point(|piece| piece.from_ns <= at_ns).saturating_sub(1);
        if let Some(piece) = pieces.get_mut(place) {
            if piece.lines.push(constraint.kind, vertex) {
                piece.from_ns = piece.from_ns.min(at_ns);
                piece.to_ns = piece.to_ns.max(at_ns);
                return;
            }
            self.splits += 1;
            if self.bends.len() < MOST_BENDS {
                self.bends.insert(at_ns);
            }
            // Within the current pieces a single contradiction starts no new piece.
            if at_ns <= piece.to_ns || pieces.len() >= MOST_PIECES {
                return;
            }
        }
        let mut lines = Lines::new(self.drift);
        lines.push(constraint.kind, vertex);
        let place = pieces.partition_point(|piece| piece.from_ns <= at_ns);
        pieces.insert(place, Piece { from_ns: at_ns, to_ns: at_ns, lines });
    }

    /// Discards the windows that end before an instant.
    pub(super) fn forget_before(&mut self, at_ns: u64) {
        let first = (at_ns / self.half_ns()).saturating_sub(1);
        if self.numbered.first_key_value().is_some_and(|(number, _)| *number < first) {
            self.numbered = self.numbered.split_off(&first);
        }
    }

    /// Discards the windows that reach to an instant or beyond it.
    pub(super) fn forget_from(&mut self, at_ns: u64) {
        let first = at_ns.saturating_sub(self.model.window_ns).div_ceil(self.half_ns());
        self.numbered.split_off(&first);
    }

    /// Discards the windows that begin before an instant.
    pub(super) fn forget_until(&mut self, at_ns: u64) {
        self.numbered = self.numbered.split_off(&at_ns.div_ceil(self.half_ns()));
    }

    /// Discards the oldest windows beyond `most`.
    pub(super) fn keep(&mut self, most: usize) {
        while self.numbered.len() > most.max(2) {
            self.numbered.pop_first();
        }
    }

    /// The bounds of `D` that one window's lines give.
    fn window_at(&self, number: u64, at_ns: u64) -> Option<Bounds> {
        let pieces = self.numbered.get(&number)?;
        // Outside its packets the first and the last piece extend to the ends of the window; between two pieces
        // there are no bounds.
        let place = pieces.partition_point(|piece| piece.from_ns <= at_ns).saturating_sub(1);
        let piece = pieces.get(place)?;
        if at_ns > piece.to_ns && place + 1 < pieces.len() {
            return None;
        }
        let x = i64::try_from(at_ns.checked_sub(number.checked_mul(self.half_ns())?)?).ok()?;
        let epsilon = i128::from(self.model.epsilon_ns);
        let clip = |ns: i128| ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        Some(Bounds {
            lower: piece.lines.lowest_at(x).map(|ns| clip(ns - epsilon)),
            upper: piece.lines.highest_at(x).map(|ns| clip(ns + epsilon)),
        })
    }

    /// The bounds of `D`, from both windows of the instant; `None` without windows or if the two contradict
    /// each other.
    pub(super) fn bounds_at(&self, at_ns: u64) -> Option<Bounds> {
        let windows = self.of(at_ns).filter_map(|number| self.window_at(number, at_ns));
        let bounds = windows.reduce(|one, other| one.and(&other))?;
        (!bounds.is_empty() && bounds != Bounds::NONE).then_some(bounds)
    }

    /// The middle between the bounds, interpolated from one window to the next for continuity. Without a
    /// window, `otherwise` replaces it.
    ///
    /// It may lie outside of the two windows' combined bounds: see [`Windows::corrections`].
    pub(super) fn middle_at(&self, at_ns: u64, otherwise: Option<i64>) -> Option<i64> {
        let half = i128::from(self.half_ns());
        let into = i128::from(at_ns % self.half_ns());
        let middle = |number| self.window_at(number, at_ns).and_then(|bounds| bounds.middle_ns()).or(otherwise);
        let last = at_ns / self.half_ns();
        let (fading, rising) = (last.checked_sub(1).and_then(middle), middle(last));
        match (fading, rising) {
            (Some(fading), Some(rising)) => {
                let mixed = (i128::from(fading) * (half - into) + i128::from(rising) * into).div_euclid(half);
                Some(mixed as i64)
            }
            (one, other) => one.or(other),
        }
    }

    /// Corrections of [`Windows::middle_at`] at the beginnings of windows, by their numbers. They move it
    /// inside the combined bounds of all windows there, and inside the certified ones. Zero corrections are
    /// left out.
    ///
    /// At these instants one window ends and another begins, so the narrowest interval jumps. A value inside
    /// both of its limits there, and clamped between, is continuous.
    pub(super) fn corrections(&self, certified_at: impl Fn(u64) -> Bounds) -> BTreeMap<u64, i64> {
        let numbers: BTreeSet<u64> =
            self.numbered.keys().flat_map(|first| [*first, first + 1, first + 2]).collect();
        let correction = |number: u64| {
            let at_ns = number.checked_mul(self.half_ns())?;
            let certified = certified_at(at_ns);
            let middle_ns = self.middle_at(at_ns, certified.middle_ns())?;
            let meet = [number.checked_sub(1), number.checked_sub(2), Some(number)].into_iter().flatten();
            let windows = meet.filter_map(|number| self.window_at(number, at_ns));
            let all = windows.fold(certified, |all, window| {
                Some(all.and(&window)).filter(|both| !both.is_empty()).unwrap_or(all)
            });
            let (lower, upper) = (all.lower?, all.upper?);
            (lower <= upper).then(|| middle_ns.clamp(lower, upper).saturating_sub(middle_ns))
        };
        let found = numbers.into_iter().filter_map(|number| Some((number, correction(number)?)));
        found.filter(|(_, correction_ns)| *correction_ns != 0).collect()
    }

    /// The correction of an instant, interpolated between the two nearest beginnings.
    pub(super) fn correction_at(&self, corrections: &BTreeMap<u64, i64>, at_ns: u64) -> i64 {
        let (number, into) = (at_ns / self.half_ns(), i128::from(at_ns % self.half_ns()));
        let at = |number: u64| i128::from(corrections.get(&number).copied().unwrap_or(0));
        let half = i128::from(self.half_ns());
        ((at(number) * (half - into) + at(number + 1) * into).div_euclid(half)) as i64
    }
}
