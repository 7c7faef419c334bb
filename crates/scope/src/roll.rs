//! Roll: at a slow timebase the picture runs like paper under a pen.

use crate::timebase::Timebase;

/// From this timebase on the picture rolls by itself, nanoseconds a division.
pub(crate) const SLOW_NS: u64 = 100_000_000;

/// Whether the picture rolls with time or stands until the next sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Roll {
    /// Where the user chose a timebase of 100 ms or more.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

impl Roll {
    /// Whether it rolls at this timebase.
    pub fn is_on(self, timebase: Timebase, chosen: bool) -> bool {
        match self {
            Self::Auto => chosen && timebase.per_division_ns() >= SLOW_NS,
            Self::On => true,
            Self::Off => false,
        }
    }
}
