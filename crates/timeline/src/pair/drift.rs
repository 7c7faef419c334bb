//! The drift bound between two clocks: the one assumption of Level 0.

/// Nanoseconds and their millionth parts: `value · 10⁶ + ppm · Δ` keeps a cone exact, so that only the result
/// is rounded.
pub(super) type Micro = i128;

const MICRO: i128 = 1_000_000;

/// ρ: `|D(a) − D(a′)| ≤ ρ · |a − a′|`.
///
/// 200 parts per million cover two crystals of ±100 ppm, which is twice the specification of network cards and
/// boards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drift {
    /// Parts per million.
    pub ppm: u32,
}

impl Default for Drift {
    fn default() -> Self {
        Drift { ppm: 200 }
    }
}

impl Drift {
    /// The drift over a span, rounded up, nanoseconds.
    pub fn over_ns(self, span_ns: u64) -> u64 {
        let micro = u128::from(span_ns) * u128::from(self.ppm);
        u64::try_from(micro.div_ceil(MICRO as u128)).unwrap_or(u64::MAX)
    }

    /// The longest time by A's clock between a constraint's instant and its reading of B's clock. That reading
    /// lies `room_ns` inside the bound of the other kind: `t ≤ room + ρ·t`.
    pub(super) fn longest_flight_ns(self, room_ns: u64) -> u64 {
        room_ns.saturating_add(self.over_ns(room_ns).saturating_mul(2)).saturating_add(1)
    }

    /// An upper bound at a distance of `span_ns` from its instant.
    pub(super) fn grown(self, value_ns: i64, span_ns: u64) -> Micro {
        i128::from(value_ns) * MICRO + i128::from(span_ns) * i128::from(self.ppm)
    }

    /// Orders upper bounds by their value far in the future.
    pub(super) fn forward_rank(self, value_ns: i64, at_ns: u64) -> Micro {
        i128::from(value_ns) * MICRO - i128::from(at_ns) * i128::from(self.ppm)
    }
}

/// An upper bound as whole nanoseconds, rounded up and saturating: never tighter than it was.
pub(super) fn round_up(micro: Micro) -> i64 {
    let ns = -(-micro).div_euclid(MICRO);
    i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
}
