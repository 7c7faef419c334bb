//! Marks over the picture: point events, trigger, cursors, and the mouse drag.

use super::density::set;
use super::layout::Layout;
use crate::draw::Extras;
use crate::draw::canvas::Canvas;
use magscope_scope::look::PointKind;
use magscope_scope::{CursorId, Frame};
use ratatui::style::{Modifier, Style};

/// Draws all but the drag.
pub fn draw(canvas: &mut Canvas, layout: &Layout, frame: &Frame) {
    points(canvas, layout, frame);
    if let Some(x) = frame.trigger.at.and_then(|at| column(layout, at)) {
        let style = canvas.theme.accent;
        set(canvas, layout.axis, x, 0, '▲', style);
        let next = canvas.buffer.cell((layout.axis.x + x + 1, layout.axis.y));
        if next.is_some_and(|cell| cell.symbol() == " ") {
            set(canvas, layout.axis, x + 1, 0, 'T', style);
        }
    }
    if let Some(cursors) = frame.cursors {
        for (at, id, name) in [(cursors.a, CursorId::A, 'A'), (cursors.b, CursorId::B, 'B')] {
            let Some(x) = column(layout, at) else { continue };
            let style = if cursors.chosen == id { canvas.theme.accent } else { canvas.theme.dim };
            for y in 0..layout.picture.height {
                // A line drawn only over the background does not hide data.
                let cell = canvas.buffer.cell((layout.picture.x + x, layout.picture.y + y));
                if cell.is_some_and(|cell| matches!(cell.symbol(), " " | "·" | "╌" | "░")) {
                    set(canvas, layout.picture, x, y, '┊', style);
                }
            }
            set(canvas, layout.axis, x, 0, name, style);
        }
    }
}

/// Draws the stretch of a mouse drag.
pub fn drag(canvas: &mut Canvas, layout: &Layout, extras: &Extras) {
    if let Some((from, to)) = extras.drag {
        let (from, to) = (from.min(to), from.max(to));
        let edge = f64::from(layout.picture.width.max(1));
        for x in (from * edge) as u16..=((to * edge) as u16).min(layout.picture.width.saturating_sub(1)) {
            if let Some(cell) = canvas.buffer.cell_mut((layout.axis.x + x, layout.axis.y))
                && !layout.axis.is_empty()
            {
                cell.set_style(Style::new().add_modifier(Modifier::REVERSED));
            }
        }
    }
}

/// Column of a position on the time axis, if visible.
fn column(layout: &Layout, at: f64) -> Option<u16> {
    let inside = (0.0..1.0).contains(&at);
    inside.then(|| (at * f64::from(layout.picture.width)) as u16)
}

/// Drops, retransmissions, losses: distinct glyphs, so that no colour is needed.
fn points(canvas: &mut Canvas, layout: &Layout, frame: &Frame) {
    let theme = canvas.theme;
    for point in frame.points() {
        let Some(x) = column(layout, point.x) else { continue };
        let (glyph, style) = match point.kind {
            PointKind::Drop { .. } => ('✕', theme.bad),
            PointKind::EventLoss(_) => ('!', theme.missed),
            PointKind::SocketFull => ('■', theme.bad),
            PointKind::Retransmit => ('↻', theme.series[0]),
            PointKind::Change => ('◆', theme.dim),
        };
        let hop_row = layout.rows.iter().find(|row| {
            let hop = frame.lanes.get(row.lane).and_then(magscope_scope::Lane::hop);
            hop.is_some() && hop == point.hop
        });
        match hop_row {
            Some(row) => set(canvas, layout.picture, x, row.top + layout.middle(), glyph, style),
            None => set(canvas, layout.axis, x, 0, glyph, style),
        }
    }
}
