//! The ladder of one journey: every hop with its time, its step, its CPU and who was there.

use crate::draw::canvas::Canvas;
use crate::draw::help::window;
use magscope_core::Direction;
use magscope_scope::format::{bytes, duration};
use magscope_scope::{Frame, Inspector};
use ratatui::layout::Rect;
use std::fmt::Write as _;

const COLUMNS: u16 = 66;

/// Draws the ladder over the right part of `area`, so that the line it is about stays in sight.
pub fn inspect(canvas: &mut Canvas, area: Rect, frame: &Frame) {
    let Some(inspector) = &frame.inspector else { return };
    let theme = canvas.theme;
    let rows = inspector.rungs.len() as u16 + 5;
    let wide = area.width > COLUMNS + 50;
    let area = if wide { Rect { x: area.right() - COLUMNS - 2, width: COLUMNS + 2, ..area } } else { area };
    let inner = window(canvas, area, COLUMNS, rows, &format!(" journey #{} ", inspector.line.id()));
    let mut y = 0;
    for words in facts(inspector) {
        canvas.put_cut(inner, 1, y, inner.width.saturating_sub(2), &words, theme.plain);
        y += 1;
    }
    y += 1;
    // As on the picture: the receiver above, the sender below.
    let mut above_wire = true;
    for rung in inspector.rungs.iter().rev() {
        if above_wire && rung.mark.hop.direction() == Direction::Tx {
            above_wire = false;
            canvas.rule(
                Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner },
                y,
                "╌",
                theme.dim,
            );
            y += 1;
        }
        let style = if rung.blamed { theme.accent } else { theme.plain };
        let sign = if rung.since_start_ns < 0 { '-' } else { '+' };
        let at = format!("{sign}{}", duration(rung.since_start_ns.unsigned_abs()));
        canvas.put(inner, 1, y, rung.mark.hop.name(), style);
        canvas.put_right(inner, 21, y, &at, theme.dim);
        let step = rung.step.map_or_else(|| "·".to_owned(), |step| format!("Δ {}", duration(step.ns)));
        canvas.put_right(inner, 33, y, &step, style);
        canvas.put_right(inner, 41, y, &format!("cpu {:>3}", rung.mark.cpu), theme.dim);
        canvas.put_cut(inner, 43, y, inner.width.saturating_sub(44), &rung.who, style);
        y += 1;
    }
}

fn facts(inspector: &Inspector) -> [String; 3] {
    let line = inspector.line;
    let ends = line.ends.map_or_else(String::new, |(from, to)| format!(" {from} → {to}"));
    let first = format!("{}{ends}   {}", line.journey.proto, inspector.route);
    // On the wire a sequence number has 32 bits.
    let (start, end) = (line.journey.range.start as u32, line.journey.range.end as u32);
    let mut second =
        format!("{} [{start}, {end})   {}", bytes(line.journey.bytes()).trim_start(), line.journey.verdict);
    if line.journey.retransmits() > 0 {
        let _ = write!(second, "   sent again {}×", line.journey.retransmits());
    }
    if line.journey.ambiguous {
        second.push_str("   times may be a neighbour's");
    }
    let mut third = duration(line.total_ns()).trim_start().to_owned();
    if let Some((words, ns)) = &inspector.blame {
        let _ = write!(third, ", of which {} {words}", duration(*ns).trim_start());
    }
    [first, second, third]
}
