//! The offsets between the clocks of several recordings, as the join needs them.

use crate::pair::Estimate;

/// Maps instants of every recording to one time line: that of recording 0.
pub trait Timeline {
    /// Offset from `CLOCK_MONOTONIC` of a recording to that of recording 0, nanoseconds; `None` if unknown.
    fn shift_ns(&self, node: u16, at_ns: u64) -> Option<i64>;

    /// The same for a picture: approximate without a certain value, nanoseconds.
    fn placed_ns(&self, node: u16, at_ns: u64) -> i64 {
        self.shift_ns(node, at_ns).unwrap_or(0)
    }

    /// `CLOCK_MONOTONIC` of recording `b` minus that of `a` at an instant of `a`: exactly 0 for one clock,
    /// `None` if unknown.
    fn difference_ns(&self, a: u16, b: u16, at_ns: u64) -> Option<Estimate>;

    /// An instant of a recording on an approximate common clock, nanoseconds. In the join it only distinguishes wraps
    /// of sequence numbers, where an error of seconds is harmless; it also orders what is shown of hosts whose clocks
    /// nothing relates.
    fn rough_ns(&self, node: u16, at_ns: u64) -> i64;
}

/// All recordings are of one host since one boot: they share `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneClock;

impl Timeline for OneClock {
    fn shift_ns(&self, _: u16, _: u64) -> Option<i64> {
        Some(0)
    }

    fn difference_ns(&self, _: u16, _: u16, _: u64) -> Option<Estimate> {
        Some(Estimate::default())
    }

    fn rough_ns(&self, _: u16, at_ns: u64) -> i64 {
        at_ns as i64
    }
}

/// Only the offset of each recording's clock to UTC is known, with the accuracy of the hosts' own clocks.
#[derive(Clone, Debug, Default)]
pub struct Unaligned {
    /// One entry per recording, nanoseconds; a missing one counts as 0.
    pub to_utc_ns: Vec<i64>,
}

impl Timeline for Unaligned {
    fn shift_ns(&self, node: u16, _: u64) -> Option<i64> {
        (node == 0).then_some(0)
    }

    fn difference_ns(&self, a: u16, b: u16, _: u64) -> Option<Estimate> {
        (a == b).then(Estimate::default)
    }

    fn rough_ns(&self, node: u16, at_ns: u64) -> i64 {
        let to_utc_ns = self.to_utc_ns.get(usize::from(node)).copied().unwrap_or(0);
        (at_ns as i64).wrapping_add(to_utc_ns)
    }
}
