//! XY: one signal against another, in a window over the picture.

use super::density::set;
use super::layout::Layout;
use super::raster::Raster;
use crate::draw::canvas::Canvas;
use crate::draw::help::window;
use crate::draw::values::short;
use magscope_scope::Frame;

/// Maximum size of the window, columns and rows.
const SIZE: (u16, u16) = (60, 20);

/// Draws the window if requested.
pub fn draw(canvas: &mut Canvas, layout: &Layout, frame: &Frame) {
    let Some(xy) = frame.xy() else { return };
    let title = format!(" {} → against {} ↑ ", xy.x, xy.y);
    let inner = window(canvas, layout.picture, SIZE.0, SIZE.1, &title);
    let theme = canvas.theme;
    let plot = ratatui::layout::Rect { height: inner.height.saturating_sub(1), ..inner };
    let mut raster = Raster::new(plot.width, plot.height);
    let (across, down) = (f64::from(plot.width) * 2.0 - 1.0, f64::from(plot.height) * 4.0 - 1.0);
    let part = |value: f64, (least, most): (f64, f64)| {
        let part = (value - least) / (most - least);
        if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.5 }
    };
    let mut before = None;
    for point in &xy.points {
        let at = (part(point.x, xy.x_range) * across, (1.0 - part(point.y, xy.y_range)) * down);
        raster.line(at, at, 0);
        before = Some(at);
    }
    for (x, y, dots) in raster.cells() {
        set(canvas, plot, x, y, dots.symbol(), theme.series[1]);
    }
    if let Some((x, y)) = before {
        // The newest point.
        set(canvas, plot, (x / 2.0) as u16, (y / 4.0) as u16, '●', theme.accent);
    }
    let range = |(least, most): (f64, f64), unit| format!("{} … {}", short(unit, least), short(unit, most));
    let words = format!("→ {}   ↑ {}", range(xy.x_range, xy.x.unit()), range(xy.y_range, xy.y.unit()));
    let words = if xy.points.is_empty() { "no sample of both".to_owned() } else { words };
    canvas.put_cut(inner, 1, inner.height.saturating_sub(1), inner.width.saturating_sub(2), &words, theme.dim);
}
