//! Line drawing in braille: two by four dots per cell.

/// A grid of dot cells.
pub struct Raster {
    width: usize,
    height: usize,
    cells: Vec<Dots>,
}

/// Dots of a cell, and the number of lines through it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dots {
    /// One bit per dot, as in Unicode's braille block.
    pub mask: u8,
    /// Lines through the cell.
    pub lines: u8,
    /// Number of the last line, so that each line counts once.
    last: u16,
}

impl Dots {
    /// The character with these dots.
    pub fn symbol(self) -> char {
        char::from_u32(0x2800 + u32::from(self.mask)).unwrap_or(' ')
    }
}

/// Bits of Unicode's braille patterns, by row and column of the dot.
const BITS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];

impl Raster {
    /// An empty grid of this many cells.
    pub fn new(width: u16, height: u16) -> Self {
        let (width, height) = (usize::from(width), usize::from(height));
        Raster { width, height, cells: vec![Dots::default(); width * height] }
    }

    /// Dots per row.
    pub fn dots_across(&self) -> f64 {
        (self.width * 2) as f64
    }

    /// Draws line number `line` between two points, in dots from the top left, clipped.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), line: u16) {
        let Some((from, to)) = self.clip(from, to) else { return };
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        // Both ends are inside, so the number of steps is bounded by the grid.
        let steps = dx.abs().max(dy.abs()).ceil() as usize;
        for step in 0..=steps {
            let t = if steps == 0 { 0.0 } else { step as f64 / steps as f64 };
            self.dot((from.0 + dx * t) as usize, (from.1 + dy * t) as usize, line);
        }
    }

    fn dot(&mut self, x: usize, y: usize, line: u16) {
        let (column, row) = (x / 2, y / 4);
        if column >= self.width || row >= self.height {
            return;
        }
        let cell = &mut self.cells[row * self.width + column];
        cell.mask |= BITS[y % 4][x % 2];
        if cell.lines == 0 || cell.last != line {
            cell.lines = cell.lines.saturating_add(1);
            cell.last = line;
        }
    }

    /// Clips a line to the grid's columns (rows are always inside). `None` if nothing is left.
    fn clip(&self, mut a: (f64, f64), mut b: (f64, f64)) -> Option<((f64, f64), (f64, f64))> {
        let (left, right) = (0.0, self.dots_across() - 1.0);
        if ![a.0, a.1, b.0, b.1].iter().all(|v| v.is_finite()) || right < left {
            return None;
        }
        if (a.0 < left && b.0 < left) || (a.0 > right && b.0 > right) {
            return None;
        }
        for (edge, outside) in [(left, f64::lt as fn(&f64, &f64) -> bool), (right, f64::gt)] {
            let cross = |p: (f64, f64), q: (f64, f64)| (edge, p.1 + (q.1 - p.1) * (edge - p.0) / (q.0 - p.0));
            if outside(&a.0, &edge) {
                a = cross(a, b);
            }
            if outside(&b.0, &edge) {
                b = cross(a, b);
            }
        }
        Some((a, b))
    }

    /// The cells with dots in them, with their place.
    pub fn cells(&self) -> impl Iterator<Item = (u16, u16, Dots)> + '_ {
        self.cells
            .iter()
            .enumerate()
            .filter(|(_, dots)| dots.mask != 0)
            .map(|(i, dots)| ((i % self.width) as u16, (i / self.width) as u16, *dots))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(raster: &Raster) -> String {
        raster.cells().map(|(_, _, dots)| dots.symbol()).collect()
    }

    #[test]
    fn lines_are_dots() {
        let mut raster = Raster::new(2, 1);
        raster.line((0.0, 3.0), (3.0, 0.0), 1);
        assert_eq!(text(&raster), "⡠⠊");
        let mut upright = Raster::new(1, 1);
        upright.line((0.0, 0.0), (0.0, 3.0), 1);
        assert_eq!(text(&upright), "⡇");
    }

    #[test]
    fn what_is_outside_is_cut_off_and_takes_no_time() {
        let mut raster = Raster::new(4, 1);
        raster.line((-1e18, 2.0), (1e18, 2.0), 1);
        assert_eq!(text(&raster), "⠤⠤⠤⠤");
        let mut empty = Raster::new(4, 1);
        empty.line((-9.0, 0.0), (-1.0, 3.0), 1);
        empty.line((f64::NAN, 0.0), (1.0, 3.0), 1);
        assert_eq!(text(&empty), "");
        Raster::new(0, 0).line((0.0, 0.0), (1.0, 1.0), 1);
    }

    #[test]
    fn a_line_counts_once_in_a_cell() {
        let mut raster = Raster::new(1, 1);
        raster.line((0.0, 0.0), (0.0, 3.0), 1);
        raster.line((1.0, 0.0), (1.0, 3.0), 2);
        assert_eq!(raster.cells().next().map(|(_, _, dots)| dots.lines), Some(2));
    }
}
