//! The kernel's sums over time.
//!
//! A row of sums covers an interval of about a second, without times inside it. So a *slice* keeps the two ends
//! of its interval, and a picture spreads it over the columns that it covers. Slices that begin close together
//! are merged. Each level is four times as wide as the one below; a picture uses the widest of which four fit
//! into a column.
//!
//! **Bounded** like the pyramid: each width keeps a number of buckets. Live it discards its oldest slices beyond
//! that; of a recording, where everything stays, the finest width is discarded.
//!
//! Times are independent of events of the same time. *Counts* (hits, payload, drops) are kept only for
//! intervals without events: there they add to the counts of events, and nothing counts twice.

mod level;
mod picture;
mod slice;

pub use picture::{Raster, columns_of, part_of};
pub use slice::{Buckets, Slice};

use crate::pyramid::Keep;
use level::Level;
use magscope_core::synthesis::Synthesis;

/// Maximum distance of the beginnings of merged finest slices, as a power of two nanoseconds: a quarter of a
/// second.
const BASE_BITS: u32 = 28;
/// Four of them make one of the next width.
const FAN_OUT_BITS: u32 = 2;
/// Widths: the last is 2⁵⁰ ns, thirteen days.
const LEVELS: usize = 12;
/// Maximum number of buckets per width, live, 16 bytes each: six minutes of seconds on a host with about 25
/// pairs.
const MOST_LIVE: usize = 1 << 18;
/// The same of a recording.
const MOST_RECORDED: usize = 1 << 20;
/// Maximum width of an interval: a minute.
const WIDEST_NS: u64 = 60_000_000_000;

const fn bits(level: usize) -> u32 {
    BASE_BITS + FAN_OUT_BITS * level as u32
}

/// The kernel's sums over time.
pub struct Sums {
    levels: Vec<Level>,
    keep: Keep,
    lowest: usize,
    most: usize,
    /// The newest instant with sums and without events.
    alone_ns: Option<u64>,
}

impl Sums {
    /// None yet.
    pub fn new(keep: Keep) -> Self {
        let most = if keep == Keep::All { MOST_RECORDED } else { MOST_LIVE };
        let levels = (0..LEVELS).map(|_| Level::default()).collect();
        Sums { levels, keep, lowest: 0, most, alone_ns: None }
    }

    /// Adds a row. `alone` marks an interval without events.
    pub fn add(&mut self, row: &Synthesis, alone: bool) {
        // outside data may hold any value
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
            && self.levels.get(self.lowest).is_some_and(|level| level.buckets() > self.most)
        {
            self.levels[self.lowest] = Level::default();
            self.lowest += 1;
        }
    }

    /// The newest instant with sums and without events.
    pub const fn alone_ns(&self) -> Option<u64> {
        self.alone_ns
    }

    /// The slices that overlap `[from_ns, to_ns)`: the widest of which four fit into one of `columns` columns,
    /// and that reach back far enough. They are in order of their beginnings.
    pub fn slices(&self, (from_ns, to_ns): (u64, u64), columns: usize) -> impl Iterator<Item = &Slice> {
        let width = to_ns.saturating_sub(from_ns) / columns.max(1) as u64 / 4;
        let fits = (self.lowest..LEVELS).take_while(|level| 1 << bits(*level) <= width).last();
        let fits = fits.unwrap_or(self.lowest);
        let level = (fits..LEVELS).find(|level| self.levels[*level].reaches(from_ns)).unwrap_or(LEVELS - 1);
        self.levels[level].slices(from_ns, to_ns)
    }

    /// The total of a stretch, with its actual begin and end. Slices that overlap an edge count completely,
    /// since their inner times are unknown.
    pub fn total(&self, stretch: (u64, u64)) -> Slice {
        let mut all = Slice::default();
        self.slices(stretch, FINE).for_each(|slice| all.merge(slice));
        all
    }

    /// True if sums without events overlap a stretch.
    pub fn any_alone(&self, stretch: (u64, u64)) -> bool {
        self.slices(stretch, FINE).any(Slice::is_alone)
    }
}

/// Columns of a total: its resolution at the ends of a stretch, for slices as narrow as that.
const FINE: usize = 256;

#[cfg(test)]
mod tests;
