//! The row of the time axis. Marks are on it first; labels and the note have the room that marks leave.

use super::layout::Layout;
use super::lifelines::division;
use crate::draw::canvas::{Canvas, width};
use magscope_scope::format::short_duration;
use magscope_scope::{DIVISIONS, Detail, Frame};
use ratatui::layout::Rect;

/// Draws labels and note. `extent` replaces both where every journey begins at the left end.
pub fn draw(canvas: &mut Canvas, layout: &Layout, frame: &Frame, extent: Option<&str>) {
    let mut row = AxisRow::new(canvas, layout.axis);
    if let Some(extent) = extent {
        // In a narrow picture without the number of lifelines.
        let short = extent.split(" · ").next().unwrap_or(extent);
        let words = [extent, short].into_iter().find(|words| row.place(words, false).is_some());
        return row.note(canvas, words.unwrap_or_default(), false);
    }
    let words = match frame.detail {
        Detail::Reading => " reading …".to_owned(),
        Detail::Lifelines if frame.sweep.left_out > 0 => format!(" {} more not drawn", frame.sweep.left_out),
        _ => String::new(),
    };
    row.note(canvas, &words, true);
    row.labels(canvas, frame.sweep.timebase.per_division_ns());
}

/// The marks of points in time.
const MARKS: [&str; 5] = ["✕", "!", "■", "↻", "◆"];

/// The row and its columns without text.
struct AxisRow {
    area: Rect,
    free: Vec<bool>,
}

impl AxisRow {
    fn new(canvas: &Canvas, area: Rect) -> Self {
        let columns = if area.is_empty() { 0 } else { area.width };
        let is_blank = |x| canvas.buffer.cell((area.x + x, area.y)).is_some_and(|cell| cell.symbol() == " ");
        AxisRow { area, free: (0..columns).map(is_blank).collect() }
    }

    /// True if a text of this width has room at a column. Beyond the end of the row it is cut.
    fn has_room(&self, x: u16, columns: u16) -> bool {
        let mut there = self.free.iter().skip(usize::from(x)).take(usize::from(columns)).peekable();
        there.peek().is_some() && there.all(|free| *free)
    }

    fn put(&mut self, canvas: &mut Canvas, x: u16, words: &str) {
        canvas.put(self.area, x, 0, words, canvas.theme.dim);
        let columns = self.free.iter_mut().skip(usize::from(x)).take(usize::from(width(words)));
        columns.for_each(|free| *free = false);
    }

    /// The first or the last column where a complete text has room.
    fn place(&self, words: &str, last: bool) -> Option<u16> {
        let end = self.area.width.checked_sub(width(words))?;
        let mut places = (0..=end).filter(|x| self.has_room(*x, width(words)));
        if last { places.next_back() } else { places.next() }
    }

    /// Writes a text where it has room.
    fn note(&mut self, canvas: &mut Canvas, words: &str, last: bool) {
        if let Some(x) = self.place(words, last) {
            self.put(canvas, x, words);
        }
    }

    /// Time from the left edge at some divisions, a tick alone where the time has no room.
    fn labels(&mut self, canvas: &mut Canvas, per_division_ns: u64) {
        let mut any = false;
        for n in (0..DIVISIONS).step_by(step(self.area, per_division_ns)) {
            let x = division(self.area, n);
            let label = label(n, per_division_ns);
            let words = [label.as_str(), "╵"].into_iter().find(|words| self.has_room(x, width(words)));
            if let Some(words) = words {
                self.put(canvas, x, words);
                any |= n > 0 && words == label;
            }
        }
        if !any {
            self.label_over_marks(canvas, per_division_ns);
        }
    }

    /// The mark in a column.
    fn mark(&self, canvas: &Canvas, x: u16) -> Option<&'static str> {
        MARKS.into_iter().find(|mark| self.has(canvas, x, mark))
    }

    fn has(&self, canvas: &Canvas, x: u16, symbol: &str) -> bool {
        canvas.buffer.cell((self.area.x + x, self.area.y)).is_some_and(|cell| cell.symbol() == symbol)
    }

    /// One time over marks of one kind, of which others stay: an axis of marks alone has no scale.
    fn label_over_marks(&mut self, canvas: &mut Canvas, per_division_ns: u64) {
        for n in (0..DIVISIONS).step_by(step(self.area, per_division_ns)).skip(1) {
            let (x, label) = (division(self.area, n), label(n, per_division_ns));
            let covered = x..x + width(&label);
            let kind = covered.clone().find_map(|x| self.mark(canvas, x));
            let is_over =
                |at: u16| self.has_room(at, 1) || self.has(canvas, at, "╵") || self.mark(canvas, at) == kind;
            let stays = |at: u16| !covered.contains(&at) && self.mark(canvas, at) == kind;
            if kind.is_some()
                && covered.end <= self.area.width
                && covered.clone().all(is_over)
                && (0..self.area.width).any(stays)
            {
                return self.put(canvas, x, &label);
            }
        }
    }
}

fn label(n: u64, per_division_ns: u64) -> String {
    if n == 0 { "╵0".to_owned() } else { format!("╵{}", short_duration(n.saturating_mul(per_division_ns))) }
}

/// Divisions from one label to the next, so that none reaches the next.
fn step(area: Rect, per_division_ns: u64) -> usize {
    let end = |n| division(area, n) + width(&label(n, per_division_ns));
    let fits = |step: &usize| (0..DIVISIONS).step_by(*step).all(|n| end(n) <= division(area, n + *step as u64));
    let steps: &[usize] = if area.width >= 100 { &[1, 2, 5] } else { &[2, 5] };
    steps.iter().copied().find(fits).unwrap_or(DIVISIONS as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::{Depth, Theme};
    use ratatui::buffer::{Buffer, Cell};

    const AREA: Rect = Rect::new(0, 0, 50, 1);

    /// The row of an axis where these columns have marks.
    fn row(marks: &[u16], words: &str) -> String {
        let theme = Theme::built_in("dark", Depth::Sixteen);
        let mut buffer = Buffer::empty(AREA);
        let mut canvas = Canvas::new(&mut buffer, &theme);
        for x in marks {
            canvas.put(AREA, *x, 0, "✕", theme.bad);
        }
        let mut row = AxisRow::new(&canvas, AREA);
        row.note(&mut canvas, words, true);
        row.labels(&mut canvas, 10_000);
        buffer.content.iter().map(Cell::symbol).collect()
    }

    #[test]
    fn a_label_beside_a_mark_is_complete_or_a_tick_alone() {
        assert_eq!(row(&[], ""), "╵0        ╵20 µs    ╵40 µs    ╵60 µs    ╵80 µs    ");
        assert_eq!(row(&[12, 26], ""), "╵0        ╵ ✕       ╵40 µs✕   ╵60 µs    ╵80 µs    ");
        assert_eq!(row(&[10, 45], ""), "╵0        ✕         ╵40 µs    ╵60 µs    ╵    ✕    ");
    }

    #[test]
    fn the_note_goes_where_no_mark_is() {
        assert_eq!(row(&[], " 7 more"), "╵0        ╵20 µs    ╵40 µs    ╵60 µs    ╵   7 more");
        assert_eq!(row(&[45], " 7 more"), "╵0        ╵20 µs    ╵40 µs    ╵60 µs   7 more✕    ");
        let all: Vec<u16> = (0..50).collect();
        assert!(!row(&all, " 7 more").contains("more"));
    }

    #[test]
    fn an_axis_full_of_marks_has_one_time() {
        let all: Vec<u16> = (0..50).collect();
        assert_eq!(row(&all, ""), format!("{}╵20 µs{}", "✕".repeat(10), "✕".repeat(34)));
        let many: Vec<u16> = (3..50).step_by(4).collect();
        let shown = row(&many, "");
        assert!(shown.contains("╵20 µs") && shown.matches('✕').count() >= many.len() - 2, "{shown}");
    }

    #[test]
    fn no_label_reaches_the_next() {
        for columns in 34..200 {
            for per_division_ns in [1, 10, 200_000, 1_500_000, 2_500_000_000, 3_600_000_000_000] {
                let area = Rect::new(0, 0, columns, 1);
                let step = step(area, per_division_ns);
                for n in (0..DIVISIONS).step_by(step).skip(1) {
                    let before = label(n - step as u64, per_division_ns);
                    let end = division(area, n - step as u64) + width(&before);
                    assert!(end <= division(area, n), "{columns} {before}");
                }
            }
        }
    }
}
