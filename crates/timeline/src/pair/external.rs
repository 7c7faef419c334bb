//! Level 2: additional bounds from the nodes' own UTC. Causality overrides them.

use super::constraint::{Bounds, State};

/// A node's R and its UTC at one instant, with an external source of UTC: chrony's tracking, `ClockBound`, a
/// PHC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtcReading {
    /// R, nanoseconds.
    pub raw_ns: u64,
    /// UTC since 1970, nanoseconds.
    pub utc_ns: i64,
    /// Maximum error of UTC.
    pub error_ns: u64,
}

impl UtcReading {
    /// The bounds of `D` from a reading of each node: `D = (UTC − R)_A − (UTC − R)_B ± (E_A + E_B)`.
    pub fn difference(a: &UtcReading, b: &UtcReading) -> Bounds {
        let offset = |r: &UtcReading| i128::from(r.utc_ns) - i128::from(r.raw_ns);
        let (middle, error) = (offset(a) - offset(b), i128::from(a.error_ns) + i128::from(b.error_ns));
        Bounds { lower: i64::try_from(middle - error).ok(), upper: i64::try_from(middle + error).ok() }
    }
}

/// Bounds with their basis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourcedBounds {
    /// The interval.
    pub bounds: Bounds,
    /// Basis.
    pub state: State,
    /// The packets refute the external bounds, which were dropped: some node's UTC is not as claimed, which
    /// must be displayed.
    pub external_refuted: bool,
}

impl SourcedBounds {
    /// Bounds from packets alone.
    pub fn from_packets(bounds: Bounds, state: State) -> Self {
        SourcedBounds { bounds, state, external_refuted: false }
    }

    /// The same with external bounds where they are tighter.
    #[must_use]
    pub fn with_external(self, external: &Bounds) -> Self {
        let both = self.bounds.and(external);
        if both.is_empty() {
            return SourcedBounds { external_refuted: true, ..self };
        }
        let state = if both == self.bounds { self.state } else { State::External };
        SourcedBounds { bounds: both, state, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn external_bounds_narrow_and_never_overrule() {
        let a = UtcReading { raw_ns: 1_000, utc_ns: 500_000, error_ns: 40 };
        let b = UtcReading { raw_ns: 3_000, utc_ns: 500_900, error_ns: 10 };
        let external = UtcReading::difference(&a, &b);
        assert_eq!(external, Bounds { lower: Some(1_050), upper: Some(1_150) });
        let packets = SourcedBounds::from_packets(Bounds { lower: Some(1_100), upper: None }, State::OneSided);
        let sourced = packets.with_external(&external);
        assert_eq!(sourced.bounds, Bounds { lower: Some(1_100), upper: Some(1_150) });
        assert_eq!((sourced.state, sourced.external_refuted), (State::External, false));
        let packets =
            SourcedBounds::from_packets(Bounds { lower: Some(1_151), upper: Some(9_000) }, State::Certified);
        let sourced = packets.with_external(&external);
        assert_eq!(
            (sourced.bounds, sourced.state, sourced.external_refuted),
            (packets.bounds, State::Certified, true)
        );
        assert_eq!(packets.with_external(&Bounds::NONE), packets);
    }
}
