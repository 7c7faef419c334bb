//! The heat map: latency by hop pair and time.
//!
//! This picture reads the most tiles: each once for every pair of hops, with all of its classes. So it uses the
//! widest tiles that are no wider than a column. Cells are stored column by column, so that a tile writes to
//! one place; rows outside the view are not read. The remaining cost is the scattered memory access to tiles.

use super::Scope;
use super::pictures::MOST_COLUMNS;
use crate::axis::LogAxis;
use crate::look::{HeatMap, HeatRow, Span};
use crate::measure::{counted, whole};
use crate::protocols::only;
use crate::pyramid::{CLASSES, Lane, Share, Tile, edges_of};
use magscope_core::Proto;
use std::ops::Range;

/// Maximum number of latency classes of a picture.
const MOST_CLASSES: usize = 256;
/// A protocol, `None` for the whole journeys of one, the span, and its lane.
type Row = (Option<Proto>, Span, Lane);

impl Scope {
    /// With cells in these rows alone.
    pub(crate) fn heat_map(&self, columns: usize, classes: usize, shown: &Range<usize>) -> HeatMap {
        let (columns, classes) = (columns.clamp(1, MOST_COLUMNS), classes.clamp(1, MOST_CLASSES));
        let stretch = self.stretch();
        let spans = counted(&self.counts.below).map(|(proto, span, lane)| (Some(proto), span, lane));
        let whole = whole(&self.counts.pyramid, stretch.0, stretch.1).into_iter();
        let rows: Vec<(Row, Tile)> = whole
            .map(|(proto, lane)| (proto, Span::Whole, lane))
            .chain(spans)
            .map(|row| (row, self.counts.pyramid.total(row.2, stretch.0, stretch.1)))
            .filter(|(_, total)| total.count > 0)
            .collect();
        let Some(scale) = Scale::of(rows.iter().map(|(_, total)| total), classes) else {
            return HeatMap { from_ns: stretch.0, to_ns: stretch.1, max_count: 1, ..HeatMap::default() };
        };
        let only = only(rows.iter().filter_map(|((proto, ..), _)| *proto));
        let rows: Vec<_> = rows
            .iter()
            .enumerate()
            .map(|(at, ((proto, span, lane), total))| {
                let proto = proto.filter(|_| only.is_none());
                if !shown.contains(&at) {
                    let row = HeatRow::new(*span, total.percentiles(), Vec::new(), classes);
                    return row.of(proto);
                }
                let mut cells = vec![0_u32; columns * classes];
                let row_of = |class| scale.row_of(class);
                if columns == 1 {
                    Share::Each(0, 0).add(total, &mut cells, classes, row_of);
                } else {
                    self.counts.pyramid.spread(*lane, stretch, columns, |share, tile| {
                        share.add(tile, &mut cells, classes, row_of);
                    });
                }
                HeatRow::new(*span, total.percentiles(), cells, classes).of(proto)
            })
            .collect();
        let max_count = rows.iter().map(|row| row.max_count).max().unwrap_or(1);
        HeatMap { from_ns: stretch.0, to_ns: stretch.1, edges_ns: scale.axis.edges_ns(), rows, max_count }
    }
}

/// The classes of a picture: logarithmic, between the least and the largest latency in it.
struct Scale {
    axis: LogAxis,
    /// The picture's class for each class of a tile, precomputed: tiles have few classes and a picture has many
    /// tiles.
    rows: [u8; CLASSES],
}

impl Scale {
    /// A scale for all of these; `None` without values.
    fn of<'t>(totals: impl Iterator<Item = &'t Tile>, classes: usize) -> Option<Self> {
        let range = totals.map(|tile| (tile.min, tile.max)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let axis = range.map(|(least, most)| LogAxis::new(least, most, classes))?;
        let mut rows = [0; CLASSES];
        for (class, row) in rows.iter_mut().enumerate() {
            let (low, high) = edges_of(class as u16);
            *row = axis.class(low + (high - low) / 2) as u8;
        }
        Some(Scale { axis, rows })
    }

    fn row_of(&self, class: u16) -> usize {
        usize::from(self.rows.get(usize::from(class)).copied().unwrap_or(0))
    }
}
