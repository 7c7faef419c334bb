//! Which columns of a picture a tile belongs to.

use super::Tile;

/// The columns of a tile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Share {
    /// All of the tile in each of these columns: it is wider than a column, and the time within it is unknown.
    Each(usize, usize),
    /// This part of it in this column, in [`Share::WHOLE`]s, and the rest in the next one.
    Divided(usize, u64),
}

impl Share {
    /// Denominator of a part.
    const WHOLE: u64 = 1 << 16;

    pub(super) fn of(begin_ns: u64, width_ns: u64, stretch: (u64, u64), columns: usize) -> Self {
        let (from_ns, to_ns) = stretch;
        let last_ns = begin_ns + (width_ns - 1);
        let (first, last) = (column_of(begin_ns, stretch, columns), column_of(last_ns, stretch, columns));
        if first == last || width_ns > to_ns.saturating_sub(from_ns) / columns.max(1) as u64 {
            return Self::Each(first, last);
        }
        let span = u128::from(to_ns.saturating_sub(from_ns));
        let edge_ns = from_ns + (span * last as u128).div_ceil(columns.max(1) as u128) as u64;
        let part =
            u128::from(edge_ns.saturating_sub(begin_ns)) * u128::from(Self::WHOLE) / u128::from(width_ns);
        Self::Divided(first, part as u64)
    }

    /// Adds all classes of a tile to their columns. `cells` has one column after another, `rows` cells in each;
    /// `row_of` gives the cell of a class.
    pub fn add(self, tile: &Tile, cells: &mut [u32], rows: usize, row_of: impl Fn(u16) -> usize) {
        let (first, last) = match self {
            Self::Each(first, last) => (first, last),
            Self::Divided(first, _) => (first, first + 1),
        };
        let Some(cells) = cells.get_mut(first * rows..(last + 1) * rows) else { return };
        let plus = |cell: Option<&mut u32>, n: u32| {
            if let Some(cell) = cell {
                *cell = cell.saturating_add(n);
            }
        };
        if let Self::Divided(_, part) = self {
            let (left, right) = cells.split_at_mut(rows);
            for (class, n) in tile.classes() {
                let (row, on_left) = (row_of(class), (u64::from(n) * part + Self::WHOLE / 2) / Self::WHOLE);
                plus(left.get_mut(row), on_left as u32);
                plus(right.get_mut(row), n - on_left as u32);
            }
            return;
        }
        for column in cells.chunks_exact_mut(rows) {
            tile.classes().for_each(|(class, n)| plus(column.get_mut(row_of(class)), n));
        }
    }
}

/// The column of an instant, clamped to the existing ones.
pub(super) fn column_of(time_ns: u64, (from_ns, to_ns): (u64, u64), columns: usize) -> usize {
    let span = u128::from(to_ns.saturating_sub(from_ns).max(1));
    let at = u128::from(time_ns.saturating_sub(from_ns)) * columns as u128 / span;
    (at as usize).min(columns.saturating_sub(1))
}
