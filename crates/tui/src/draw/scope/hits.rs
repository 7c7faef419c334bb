//! Custom probes on their lanes: a point for one hit, a stronger one for several, shades for many.

use super::density::set;
use super::layout::Layout;
use crate::draw::canvas::Canvas;
use crate::draw::shade::{shade, step};
use magscope_scope::Frame;

/// Maximum number of hits per column drawn as points.
const FEW: u64 = 5;

/// Draws the hits of every probe that has a lane.
pub fn draw(canvas: &mut Canvas, layout: &Layout, frame: &Frame) {
    if frame.probes().is_empty() || layout.picture.is_empty() {
        return;
    }
    let columns = usize::from(layout.picture.width);
    let hits = frame.hits(columns);
    let column_ns = frame.sweep.timebase.span_ns() / columns.max(1) as u64;
    for row in &layout.rows {
        let Some(probe) = frame.lanes.get(row.lane).and_then(magscope_scope::Lane::probe) else { continue };
        let Some(counts) = hits.rows.get(probe.index()) else { continue };
        let y = row.top + layout.middle();
        // A tile wider than a column has no exact position, so no point is drawn.
        let vague = counts.tile_ns > column_ns;
        for (x, count) in counts.cells.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (glyph, style) = match (vague, count) {
                (false, 1) => ('•', canvas.theme.strong),
                (false, 2..=FEW) => ('◉', canvas.theme.strong),
                _ => {
                    let most = hits.max_count.max(FEW * FEW);
                    let Some(step) = step(*count as f64, most as f64) else { continue };
                    shade(canvas.theme, step)
                }
            };
            set(canvas, layout.picture, x as u16, y, glyph, style);
        }
    }
}
