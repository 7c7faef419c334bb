//! Roll mode: at a slow timebase the picture scrolls continuously.

use crate::timebase::Timebase;

/// Timebase from which the picture rolls automatically, nanoseconds per division.
pub(crate) const SLOW_NS: u64 = 100_000_000;

/// Whether the picture rolls, or holds until the next sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Roll {
    /// Rolls if the user chose a timebase of 100 ms or more.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

impl Roll {
    /// The mode in words.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Auto => "the picture scrolls with time at a chosen timebase of 100 ms or more",
            Self::On => "the picture scrolls with time at every timebase",
            Self::Off => "the picture does not scroll with time",
        }
    }

    /// True if the picture rolls at this timebase.
    pub fn is_on(self, timebase: Timebase, chosen: bool) -> bool {
        match self {
            Self::Auto => chosen && timebase.per_division_ns() >= SLOW_NS,
            Self::On => true,
            Self::Off => false,
        }
    }
}
