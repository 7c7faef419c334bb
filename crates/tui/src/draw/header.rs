//! The line at the top: which instrument, which nodes, whether time goes on, the timebase, the clock.

use super::canvas::{Canvas, width};
use magscope_scope::format::short_duration;
use magscope_scope::{Align, Frame, State};
use ratatui::layout::Rect;

/// Draws the header.
pub fn draw(canvas: &mut Canvas, area: Rect, frame: &Frame) {
    let theme = canvas.theme;
    let (header, view) = (&frame.header, frame.view);
    let state = match (view.paused, header.state) {
        (true, _) => "❚❚ paused",
        (false, State::Live) => "▶ live",
        (false, State::Replay) => "▶ replay",
        (false, State::Ended) => "■ ended",
    };
    let timebase = format!("{}/div", short_duration(frame.sweep.timebase.per_division_ns()));
    let mut pieces = vec![
        (" magnet-scope", theme.strong),
        ("  ", theme.plain),
        (header.nodes.as_str(), theme.plain),
        ("   ", theme.plain),
        (state, if view.paused { theme.accent } else { theme.strong }),
        ("   ", theme.plain),
        (timebase.as_str(), theme.plain),
        (if view.timebase_fixed { "" } else { " auto" }, theme.dim),
    ];
    if view.align == Align::Start {
        pieces.push(("   overlay", theme.accent));
    }
    let proto = view.proto.map(|proto| format!("   {proto} only"));
    if let Some(proto) = &proto {
        pieces.push((proto, theme.accent));
    }
    let recording = frame
        .footer
        .recording
        .map(|r| format!("   ● {} {}", r.name, magscope_scope::format::bytes(r.bytes).trim_start()));
    if let Some(recording) = &recording {
        pieces.push((recording, theme.strong));
    }
    let end = canvas.put_all(area, 0, 0, &pieces);
    if end + 2 + width(header.clock) < area.width {
        canvas.put_right(area, area.width - 1, 0, header.clock, theme.plain);
    }
}
