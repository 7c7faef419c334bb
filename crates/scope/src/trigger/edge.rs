//! The test of a value against a threshold.

use super::Edge;

impl Edge {
    /// True if the value passes now. `before` is the previous instant and value of the same flow.
    pub fn passes(self, before: Option<(u64, f64)>, (now_ns, value): (u64, f64)) -> bool {
        match self {
            Self::Above(level) => value > level,
            Self::Below(level) => value < level,
            Self::Rises(level) => value > level && before.is_some_and(|(_, before)| before <= level),
            Self::Falls(level) => value < level && before.is_some_and(|(_, before)| before >= level),
            Self::Slope(per_s) => before.is_some_and(|(then_ns, before)| {
                let s = now_ns.saturating_sub(then_ns) as f64 / 1e9;
                let slope = (value - before) / s;
                s > 0.0 && if per_s < 0.0 { slope < per_s } else { slope > per_s }
            }),
        }
    }

    /// True if it needs a value below 0.
    pub fn is_below_zero(self) -> bool {
        matches!(self, Self::Below(level) | Self::Falls(level) if level <= 0.0)
    }

    /// The word and the threshold.
    pub(super) const fn parts(self) -> (&'static str, f64) {
        match self {
            Self::Above(level) => (">", level),
            Self::Below(level) => ("<", level),
            Self::Rises(level) => ("rises", level),
            Self::Falls(level) => ("falls", level),
            Self::Slope(per_s) => ("slope", per_s),
        }
    }

    /// The edge with this word.
    pub(super) fn of(word: &str, value: f64) -> Option<Self> {
        Some(match word {
            ">" => Self::Above(value),
            "<" => Self::Below(value),
            "rises" => Self::Rises(value),
            "falls" => Self::Falls(value),
            "slope" => Self::Slope(value),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_levels_and_slopes() {
        let table = [
            (Edge::Above(5.0), None, 6.0, true),
            (Edge::Above(5.0), None, 5.0, false),
            (Edge::Below(5.0), None, 4.0, true),
            (Edge::Rises(5.0), None, 6.0, false),
            (Edge::Rises(5.0), Some(4.0), 6.0, true),
            (Edge::Rises(5.0), Some(6.0), 7.0, false),
            (Edge::Falls(5.0), Some(5.0), 4.0, true),
            (Edge::Falls(5.0), Some(4.0), 3.0, false),
            // from one second to two
            (Edge::Slope(2.0), Some(1.0), 4.0, true),
            (Edge::Slope(3.0), Some(1.0), 4.0, false),
            (Edge::Slope(-2.0), Some(4.0), 1.0, true),
            (Edge::Slope(-2.0), Some(1.0), 4.0, false),
        ];
        for (edge, before, value, expected) in table {
            let before = before.map(|before| (1_000_000_000, before));
            assert_eq!(edge.passes(before, (2_000_000_000, value)), expected, "{edge:?} {before:?} {value}");
        }
        assert!(!Edge::Slope(1.0).passes(Some((7, 0.0)), (7, 9.0)), "no time has gone by");
    }
}
