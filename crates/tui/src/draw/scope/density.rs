//! The zoomed-out lanes: journeys per hop as shades; and overlaid lifelines.

use super::layout::Layout;
use crate::draw::canvas::Canvas;
use crate::draw::shade::{shade, step};
use magscope_scope::format::{count, short_duration};
use magscope_scope::{Frame, Place};
use ratatui::layout::Rect;

/// Draws the density below the lifelines.
pub fn draw(canvas: &mut Canvas, layout: &Layout, frame: &Frame) {
    let density = frame.density(usize::from(layout.picture.width));
    // The brightest shades are reserved for lifelines.
    let most = density.max_count.saturating_mul(density.max_count) as f64;
    for row in &layout.rows {
        let lane = &frame.lanes[row.lane];
        let Some(cells) = density.lanes.iter().find(|other| other.place == lane.place).map(|lane| &lane.cells)
        else {
            continue;
        };
        let counts = cells.iter().map(|cell| cell.count as f64);
        shades(canvas, layout, row.top, counts, most);
    }
}

/// Draws overlaid lifelines, aligned at their start, as shades. Returns their extent in words.
pub fn persistence(canvas: &mut Canvas, layout: &Layout, frame: &Frame) -> Option<String> {
    let map = frame.persistence(usize::from(layout.picture.width))?;
    for row in &layout.rows {
        let place: Place = frame.lanes[row.lane].place;
        let Some(weights) = map.rows.iter().find(|other| other.place == place).map(|row| &row.weights) else {
            continue;
        };
        shades(
            canvas,
            layout,
            row.top,
            weights.iter().map(|weight| f64::from(*weight)),
            f64::from(map.max_weight),
        );
    }
    let (span, lifelines) = (short_duration(map.span_ns), count(map.lifelines));
    Some(format!("0 … {span} since each start · {lifelines} lifelines"))
}

/// A row of shades over all rows of a lane.
fn shades(canvas: &mut Canvas, layout: &Layout, top: u16, counts: impl Iterator<Item = f64>, most: f64) {
    let area = layout.picture;
    for (x, count) in counts.take(usize::from(area.width)).enumerate() {
        let Some(step) = step(count, most) else { continue };
        let (glyph, style) = shade(canvas.theme, step);
        for y in top..(top + layout.lane_height).min(area.height) {
            set(canvas, area, x as u16, y, glyph, style);
        }
    }
}

/// Sets a cell if it lies in `area`.
pub fn set(canvas: &mut Canvas, area: Rect, x: u16, y: u16, symbol: char, style: ratatui::style::Style) {
    if x < area.width
        && y < area.height
        && let Some(cell) = canvas.buffer.cell_mut((area.x + x, area.y + y))
    {
        let ground = cell.bg;
        cell.reset();
        cell.set_char(symbol).set_style(style).bg = ground;
    }
}
