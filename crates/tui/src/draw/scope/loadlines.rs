//! Loadlines: signals over the visible time, column by column, below the picture.

use super::density::set;
use super::layout::Layout;
use crate::draw::canvas::Canvas;
use crate::draw::shade::spark;
use crate::draw::values::{self, short};
use crate::theme::SERIES;
use magscope_scope::look::{Column, Loadline, MathTrace};
use magscope_scope::{Frame, Unit};
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Draws all, the computed one last.
pub fn draw(canvas: &mut Canvas, layout: &Layout, frame: &Frame) {
    if layout.loads.is_empty() {
        return;
    }
    let columns = usize::from(layout.picture.width);
    let mut y = 0;
    for (i, line) in frame.loadlines(columns).iter().enumerate() {
        let style = canvas.theme.series[i % SERIES];
        let heights = line.columns.iter().map(|column| column.map(|c: Column| (line.y(c.min), line.y(c.max))));
        one(canvas, layout, y, line.channel.name(), line.chosen, style, heights);
        let range = (line.unit, line.foot, line.top, line.last);
        numbers(canvas, layout, y, range, &description(line));
        y += layout.load_height;
    }
    if let Some(math) = frame.math(columns) {
        let style = canvas.theme.series[SERIES - 1];
        let heights =
            math.columns.iter().map(|column| column.map(|c: Column| (part(&math, c.min), part(&math, c.max))));
        one(canvas, layout, y, "math", false, style, heights);
        numbers(canvas, layout, y, (math.unit, math.foot, math.top, math.last), &math.math.to_string());
    }
}

fn part(math: &MathTrace, value: f64) -> f64 {
    let part = (value - math.foot) / (math.top - math.foot);
    if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 }
}

fn description(line: &Loadline) -> String {
    if line.vertical.log { format!("log  {}", line.of) } else { line.of.clone() }
}

/// One signal in `rows` rows, in eighths of a row. The part up to a column's minimum is coloured, the part up
/// to its maximum dim, so that peaks stay visible at every zoom.
fn one(
    canvas: &mut Canvas,
    layout: &Layout,
    top: u16,
    name: &str,
    chosen: bool,
    style: Style,
    heights: impl Iterator<Item = Option<(f64, f64)>>,
) {
    let rows = layout.load_height;
    let area = Rect { x: layout.picture.x, width: layout.picture.width, ..layout.loads };
    let middle = top + rows / 2;
    if chosen {
        let style = canvas.theme.selected;
        canvas.put(layout.loads, 0, middle, "▸", style);
    }
    let room = layout.picture.x.saturating_sub(layout.loads.x + 2);
    canvas.put_cut(layout.loads, 1, middle, room, name, style);
    for (x, height) in heights.take(usize::from(area.width)).enumerate() {
        let Some((least, most)) = height else { continue };
        // At least a line at the bottom: zero differs from missing.
        let eighths = |height: f64| ((height * f64::from(rows) * 8.0).round() as u16).max(1);
        let (least, most) = (eighths(least), eighths(most));
        for row in 0..rows {
            let filled = most.saturating_sub(row * 8).min(8);
            if filled > 0 {
                let style = if least > row * 8 { style } else { canvas.theme.dim };
                set(canvas, area, x as u16, top + rows - 1 - row, spark(usize::from(filled)), style);
            }
        }
    }
}

/// Its newest value and its range, next to it.
fn numbers(canvas: &mut Canvas, layout: &Layout, top: u16, range: (Unit, f64, f64, Option<f64>), of: &str) {
    let theme = canvas.theme;
    let x = layout.picture.right() - layout.loads.x + 1;
    let room = layout.loads.width.saturating_sub(x + 1);
    let y = top + layout.load_height / 2;
    let (unit, foot, top_value, last) = range;
    let Some(last) = last else {
        canvas.put_cut(layout.loads, x, y, room, "· no sample", theme.dim);
        return;
    };
    canvas.put_right(layout.loads, x + values::WIDTH, y, &values::value(unit, last), theme.plain);
    let words = format!("{} … {}  {of}", short(unit, foot), short(unit, top_value));
    canvas.put_cut(
        layout.loads,
        x + values::WIDTH + 2,
        y,
        room.saturating_sub(values::WIDTH + 2),
        &words,
        theme.dim,
    );
}
