//! What the kernel added up, over time.
//!
//! A row of sums is of an interval of about a second, and within it nothing is known of when. So a *slice* keeps its two ends as they came, and a
//! picture spreads it over the columns that it covers. Slices that begin close together are one, those are put together four times as wide, and so
//! on; a picture is made from the widest of which four go into a column.
//!
//! **Bounded** as the pyramid is: each width keeps a number of cells; live it forgets its oldest slices beyond that, and of a recording, where
//! everything stays, the finest width is given up.
//!
//! Times stand by themselves, whatever else came of that time. What is *counted* (hits, payload, drops) is kept where no events came of the same
//! interval: there it adds to what was counted of events, and nothing is in both.

mod level;
mod picture;
mod slice;

pub use picture::{Raster, columns_of, part_of};
pub use slice::{Cells, Slice};

use crate::pyramid::Keep;
use level::Level;
use magscope_core::synthesis::Synthesis;

/// The finest slices begin within two to the power of this of each other, nanoseconds: a quarter of a second.
const BASE_BITS: u32 = 28;
/// Four of them make one of the next width.
const FAN_OUT_BITS: u32 = 2;
/// Widths: the last is 2⁵⁰ ns, thirteen days.
const LEVELS: usize = 12;
/// Cells that a width keeps live, 16 bytes each: six minutes of seconds on a host with some 25 pairs.
const MOST_LIVE: usize = 1 << 18;
/// The same of a recording.
const MOST_RECORDED: usize = 1 << 20;
/// An interval is no wider than this: a minute.
const WIDEST_NS: u64 = 60_000_000_000;

const fn bits(level: usize) -> u32 {
    BASE_BITS + FAN_OUT_BITS * level as u32
}

/// See the module.
pub struct Sums {
    levels: Vec<Level>,
    keep: Keep,
    lowest: usize,
    most: usize,
    /// The newest instant that one is of of which no events came.
    alone_ns: Option<u64>,
}

impl Sums {
    /// None yet.
    pub fn new(keep: Keep) -> Self {
        let most = if keep == Keep::All { MOST_RECORDED } else { MOST_LIVE };
        let levels = (0..LEVELS).map(|_| Level::default()).collect();
        Sums { levels, keep, lowest: 0, most, alone_ns: None }
    }

    /// Takes in a row. `alone` says that no events came of its interval.
    pub fn add(&mut self, row: &Synthesis, alone: bool) {
        // what comes from outside may say anything
        let to_ns = row.to_ns.max(row.from_ns);
        let ends = (row.from_ns.max(to_ns.saturating_sub(WIDEST_NS)), to_ns);
        if alone {
            self.alone_ns = self.alone_ns.max(Some(to_ns));
        }
        for (level, slices) in self.levels.iter_mut().enumerate().skip(self.lowest) {
            slices.add(bits(level), ends, row, alone);
            if self.keep == Keep::Newest || level + 1 == LEVELS {
                slices.forget_beyond(self.most);
            }
        }
        while self.keep == Keep::All
            && self.lowest + 1 < LEVELS
            && self.levels.get(self.lowest).is_some_and(|level| level.cells() > self.most)
        {
            self.levels[self.lowest] = Level::default();
            self.lowest += 1;
        }
    }

    /// The newest instant that sums without events are of.
    pub const fn alone_ns(&self) -> Option<u64> {
        self.alone_ns
    }

    /// The slices that reach into `[from_ns, to_ns)`, of the widest of which four go into one of `columns` columns, and the finest that reach so
    /// far back. In order of their beginnings.
    pub fn slices(&self, (from_ns, to_ns): (u64, u64), columns: usize) -> impl Iterator<Item = &Slice> {
        let width = to_ns.saturating_sub(from_ns) / columns.max(1) as u64 / 4;
        let fits = (self.lowest..LEVELS).take_while(|level| 1 << bits(*level) <= width).last();
        let fits = fits.unwrap_or(self.lowest);
        let level = (fits..LEVELS).find(|level| self.levels[*level].reaches(from_ns)).unwrap_or(LEVELS - 1);
        self.levels[level].slices(from_ns, to_ns)
    }

    /// All of a stretch, and from when to when that is: slices that reach into it count whole, since nobody knows which part of them does.
    pub fn total(&self, stretch: (u64, u64)) -> Slice {
        let mut all = Slice::default();
        self.slices(stretch, FINE).for_each(|slice| all.merge(slice));
        all
    }

    /// Whether sums of which no events came reach into a stretch.
    pub fn any_alone(&self, stretch: (u64, u64)) -> bool {
        self.slices(stretch, FINE).any(Slice::is_alone)
    }
}

/// Columns that totals are made from: to within so small a part of a stretch at its ends, where slices are as narrow.
const FINE: usize = 256;

#[cfg(test)]
mod tests;
