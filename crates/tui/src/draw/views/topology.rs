//! The topology: the paths from each sender as a tree, leg by leg, and the selected leg in sentences.

use crate::draw::Extras;
use crate::draw::canvas::{Canvas, width};
use crate::draw::grid::{Column, Grid, number, words};
use crate::draw::help::lines as wrapped;
use magscope_scope::Frame;
use magscope_scope::look::{LegColumn, LegRow, TopologyPanel};
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Lines above the rows: what is shown, and the titles.
const ABOVE: u16 = 2;
/// Lines of the details: as a part of the page, at least and at most.
const PAGE: u16 = 3;
const DETAILS: (u16, u16) = (6, 10);
/// Minimum and maximum width of the tree, before other columns get room.
const TREE: (u16, u16) = (24, 44);
/// Minimum width of texts.
const TEXT: u16 = 20;

/// The columns with anything in them.
fn columns(panel: &TopologyPanel) -> Vec<(LegColumn, Column)> {
    let longest = |column| panel.rows.iter().map(|row| width(&row.cell(column))).max().unwrap_or(0);
    let of = |column: LegColumn| {
        let need = LegColumn::BY_NEED.iter().position(|other| *other == column).unwrap_or(0) as u8;
        let number = |room| number(column.title(), room, need);
        match column {
            LegColumn::Path => words(column.title(), longest(column).clamp(TREE.0, TREE.1), 2, need),
            LegColumn::Translation | LegColumn::Reason => {
                words(column.title(), TEXT, 1, need).with_longest(longest(column))
            }
            LegColumn::Failed => number(6),
            LegColumn::P50 | LegColumn::P99 | LegColumn::Dropped | LegColumn::Bytes => number(7),
            LegColumn::Rate | LegColumn::Bound | LegColumn::Journeys => number(8),
            LegColumn::Inside | LegColumn::Whole => number(10),
        }
    };
    panel.columns().map(|column| (column, of(column))).collect()
}

/// Rows of the tree, and lines of the details below it.
fn parts(area: Rect) -> (u16, u16) {
    let details = (area.height / PAGE).clamp(DETAILS.0, DETAILS.1).min(area.height.saturating_sub(ABOVE + 1));
    (area.height.saturating_sub(ABOVE + details), details)
}

fn panel(frame: &Frame, area: Rect) -> TopologyPanel {
    frame.topology(usize::from(parts(area).0))
}

/// The selected row, counted from the line below that of the first title.
pub fn selected_row(frame: &Frame, area: Rect) -> Option<usize> {
    let at = panel(frame, area).rows.iter().position(|row| row.selected)?;
    Some(at + usize::from(ABOVE) - 1)
}

/// Draws the view.
pub fn draw(canvas: &mut Canvas, area: Rect, frame: &Frame, extras: &Extras) {
    let panel = panel(frame, area);
    let dim = canvas.theme.dim;
    let room = area.width.saturating_sub(2);
    if panel.rows.is_empty() {
        for (line, y) in wrapped(&panel.title, usize::from(room)).iter().zip(0..) {
            canvas.put(area, 1, y, line, dim);
        }
        return;
    }
    canvas.put_cut(area, 1, 0, room, &panel.title, dim);
    let (shown, columns): (Vec<_>, Vec<_>) = columns(&panel).into_iter().unzip();
    let grid = Grid::new(&columns, area);
    grid.titles(canvas, ABOVE - 1);
    for (row, y) in panel.rows.iter().zip(ABOVE..) {
        if row.selected {
            grid.mark(canvas, y);
        }
        let mut cells = grid.row(y);
        for (at, column) in shown.iter().enumerate() {
            cells.put(at, &row.cell(*column), style(canvas, row, *column));
        }
        cells.draw(canvas);
    }
    let (rows, height) = parts(area);
    let below = Rect { y: area.y + ABOVE + rows, height, ..area };
    details(canvas, below, &panel, extras);
}

fn style(canvas: &Canvas, row: &LegRow, column: LegColumn) -> Style {
    let theme = canvas.theme;
    match column {
        LegColumn::Failed if row.failed > 0 => theme.bad,
        LegColumn::Dropped | LegColumn::Reason => theme.bad,
        LegColumn::Failed | LegColumn::Translation => theme.dim,
        _ if row.selected => theme.selected,
        _ => theme.plain,
    }
}

/// The selected leg in sentences, below a rule with the key that picks its journeys.
fn details(canvas: &mut Canvas, area: Rect, panel: &TopologyPanel, extras: &Extras) {
    let (grid, dim, plain) = (canvas.theme.grid, canvas.theme.dim, canvas.theme.plain);
    canvas.rule(area, 0, "─", grid);
    canvas.put(area, 1, 0, &format!(" {}: the flows of these journeys ", extras.key_of("open")), dim);
    let last = panel.first + panel.rows.len();
    if panel.total > panel.rows.len() {
        let words = format!(" {}-{last} of {} ", panel.first + 1, panel.total);
        canvas.put_right(area, area.width.saturating_sub(1), 0, &words, dim);
    }
    let room = usize::from(area.width.saturating_sub(3));
    let lines = panel.details.iter().flat_map(|line| wrapped(line, room));
    for (line, y) in lines.zip(1..area.height) {
        canvas.put(area, 2, y, &line, plain);
    }
}
