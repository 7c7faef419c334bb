//! The constraint of one packet on two clocks.

use super::drift::Drift;
use std::fmt;

/// The side from which a [`Constraint`] bounds the difference of two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `D ≤ value`: from a packet A→B.
    Upper,
    /// `D ≥ value`: from a packet B→A.
    Lower,
}

/// One bound of `D(a) = R_B − R_A` at the instant `R_A = a`, from one packet.
///
/// A packet is received after it is sent. A packet from A at `s_A` to B at `r_B` gives `D(s_A) ≤ r_B − s_A +
/// e`; the other direction gives `D(r_A) ≥ s_B − r_A − e`. The error `e` covers the errors of both time stamps
/// together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Constraint {
    /// The instant, on R of A.
    pub at_ns: u64,
    /// Upper or lower.
    pub kind: Kind,
    /// The bound of `R_B − R_A`, error included.
    pub value_ns: i64,
    /// The caller's name for the packet, so that a bound can name its packet.
    pub packet: u64,
}

impl Constraint {
    /// From a packet A→B: `sent_a_ns` on R of A, `received_b_ns` on R of B, with a total error of at most
    /// `error_ns`. `None` if the difference does not fit in 63 bits (292 years).
    pub fn a_to_b(sent_a_ns: u64, received_b_ns: u64, error_ns: u64) -> Option<Self> {
        let value = i128::from(received_b_ns) - i128::from(sent_a_ns) + i128::from(allowance(error_ns));
        Some(Constraint {
            at_ns: sent_a_ns,
            kind: Kind::Upper,
            value_ns: i64::try_from(value).ok()?,
            packet: 0,
        })
    }

    /// From a packet B→A: `sent_b_ns` on R of B, `received_a_ns` on R of A, with a total error of at most
    /// `error_ns`. `None` if the difference does not fit in 63 bits.
    pub fn b_to_a(sent_b_ns: u64, received_a_ns: u64, error_ns: u64) -> Option<Self> {
        let value = i128::from(sent_b_ns) - i128::from(received_a_ns) - i128::from(allowance(error_ns));
        Some(Constraint {
            at_ns: received_a_ns,
            kind: Kind::Lower,
            value_ns: i64::try_from(value).ok()?,
            packet: 0,
        })
    }

    /// The same with a name for its packet.
    #[must_use]
    pub fn of_packet(self, packet: u64) -> Self {
        Constraint { packet, ..self }
    }
}

/// The error, plus the possible drift of the difference during a time of that error.
fn allowance(error_ns: u64) -> u64 {
    error_ns.saturating_add(Drift::default().over_ns(error_ns))
}

/// The interval that contains `D(a)`. A missing end is unbounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// `D` is at least this, nanoseconds.
    pub lower: Option<i64>,
    /// `D` is at most this, nanoseconds.
    pub upper: Option<i64>,
}

impl Bounds {
    /// Unbounded on both sides.
    pub const NONE: Bounds = Bounds { lower: None, upper: None };

    /// Upper minus lower bound; `None` if one is missing or the interval is empty.
    pub fn width_ns(&self) -> Option<u64> {
        let width = i128::from(self.upper?) - i128::from(self.lower?);
        u64::try_from(width).ok()
    }

    /// The middle, rounded down.
    pub fn middle_ns(&self) -> Option<i64> {
        self.width_ns()?;
        Some((i128::from(self.upper?) + i128::from(self.lower?)).div_euclid(2) as i64)
    }

    /// True if a difference lies inside; a missing end excludes nothing.
    pub fn contains(&self, difference_ns: i64) -> bool {
        self.lower.is_none_or(|lower| lower <= difference_ns)
            && self.upper.is_none_or(|upper| difference_ns <= upper)
    }

    /// True if no difference lies inside.
    pub fn is_empty(&self) -> bool {
        matches!((self.lower, self.upper), (Some(lower), Some(upper)) if lower > upper)
    }

    /// The intersection, possibly empty.
    #[must_use]
    pub fn and(&self, other: &Bounds) -> Bounds {
        Bounds { lower: self.lower.max(other.lower), upper: least(self.upper, other.upper) }
    }

    /// The smallest interval that has both.
    #[must_use]
    pub fn or(&self, other: &Bounds) -> Bounds {
        Bounds {
            lower: self.lower.zip(other.lower).map(|(a, b)| a.min(b)),
            upper: self.upper.zip(other.upper).map(|(a, b)| a.max(b)),
        }
    }

    /// The bounds of `R_A − R_B`.
    #[must_use]
    pub fn negated(&self) -> Bounds {
        Bounds { lower: self.upper.map(i64::saturating_neg), upper: self.lower.map(i64::saturating_neg) }
    }
}

/// The smaller of two, if both exist.
fn least(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}

/// The basis of a bound, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Proven under the assumption that the two clocks drift apart by no more than ρ.
    Certified,
    /// As `Certified`, with a hint at a step that is too small for a proof ([`Hint`](super::Hint)).
    Suspect,
    /// Holds while the difference is a straight line to within ε over some seconds.
    Model,
    /// Holds while the nodes' own UTC bounds hold.
    External,
    /// Proven, but without recent packets: the bound grows with ρ.
    Holdover,
    /// Packets were seen in one direction only: the smallest delay is bounded, the absolute delay is not.
    OneSided,
    /// No information: show the nodes apart.
    Unsynchronised,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 7] = [
        Self::Certified,
        Self::Suspect,
        Self::Model,
        Self::External,
        Self::Holdover,
        Self::OneSided,
        Self::Unsynchronised,
    ];
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Certified => "CERTIFIED",
            Self::Suspect => "SUSPECT",
            Self::Model => "MODEL",
            Self::External => "EXTERNAL",
            Self::Holdover => "HOLDOVER",
            Self::OneSided => "ONE-SIDED",
            Self::Unsynchronised => "UNSYNCHRONISED",
        })
    }
}

/// Counts of constraints by outcome. "Zero violations" is meaningless without them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// In agreement with their epoch, and part of its bounds.
    pub used: u64,
    /// In contradiction to the others: false matches, or stamps of a broken clock.
    pub rejected: u64,
    /// Candidates without a decision at the end of the stream.
    pub quarantined: u64,
    /// Between two epochs: they may belong to either.
    pub between_epochs: u64,
    /// Discarded to bound memory, which only widens the bounds.
    pub thinned: u64,
}
