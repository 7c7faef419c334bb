//! Slices as a picture: latency upwards, time to the right.

use super::{Buckets, Slice};
use crate::axis::LogAxis;
use magscope_core::Hop;
use magscope_core::histogram::{LONGEST_NS, bucket, bucket_range_ns};

/// The columns of an interval, with the share of each. An interval wider than a column fills each column that
/// it covers; a narrower one over an edge is divided.
pub fn columns_of(
    (from_ns, to_ns): (u64, u64),
    (left_ns, right_ns): (u64, u64),
    columns: usize,
    mut visit: impl FnMut(usize, f64),
) {
    let column_ns = right_ns.saturating_sub(left_ns) as f64 / columns.max(1) as f64;
    let place = |ns: u64| (i128::from(ns) - i128::from(left_ns)) as f64 / column_ns.max(f64::MIN_POSITIVE);
    let (from, to) = (place(from_ns), place(to_ns.max(from_ns.saturating_add(1))));
    let most = columns as f64;
    let (first, last) = (from.clamp(0.0, most) as usize, to.clamp(0.0, most).ceil() as usize);
    for column in first..last.min(columns) {
        let overlap = to.min(column as f64 + 1.0) - from.max(column as f64);
        visit(column, overlap / (to - from).clamp(f64::MIN_POSITIVE, 1.0));
    }
}

/// A part of a count, to the next whole number.
pub fn part_of(n: u64, part: f64) -> u64 {
    (n as f64 * part.clamp(0.0, 1.0)).round() as u64
}

/// The classes of a picture for each bucket of the kernel's: the first and the last position on the axis.
pub struct Raster {
    places: Vec<(f64, f64)>,
    classes: usize,
}

impl Raster {
    /// A picture for this axis.
    pub fn new(axis: &LogAxis) -> Self {
        let place = |at| {
            let (least, most) = bucket_range_ns(at).unwrap_or_default();
            (axis.place(least as f64), axis.place(most as f64 + 1.0))
        };
        Raster { places: (0..=bucket(LONGEST_NS)).map(place).collect(), classes: axis.classes }
    }

    /// All times of a pair in some slices as cells: column by column, the classes within each.
    pub fn draw<'s>(
        &self,
        slices: impl Iterator<Item = &'s Slice>,
        pair: (Hop, Hop),
        stretch: (u64, u64),
        columns: usize,
    ) -> Vec<u32> {
        let mut cells = vec![0_u32; columns * self.classes];
        for slice in slices {
            let Some(times) = slice.pairs.get(&pair) else { continue };
            columns_of((slice.from_ns, slice.to_ns), stretch, columns, |column, part| {
                let column = column * self.classes;
                if let Some(into) = cells.get_mut(column..column + self.classes) {
                    self.add(times, part, into);
                }
            });
        }
        cells
    }

    /// Adds a part of some times to a column. A bucket that covers several classes is divided among them, without
    /// loss.
    pub fn add(&self, times: &Buckets, part: f64, into: &mut [u32]) {
        for (at, n) in times.iter() {
            let (n, Some((low, high))) = (part_of(n, part), self.places.get(usize::from(at))) else { continue };
            let height = (high - low).max(f64::MIN_POSITIVE);
            let mut given = 0;
            let last = (high.ceil() as usize).clamp(1, self.classes) - 1;
            for class in (*low as usize).min(last)..=last {
                let below = if class == last { n } else { part_of(n, (class as f64 + 1.0 - low) / height) };
                if let Some(cell) = into.get_mut(class) {
                    *cell = cell.saturating_add(u32::try_from(below - given).unwrap_or(u32::MAX));
                }
                given = below;
            }
        }
    }
}
