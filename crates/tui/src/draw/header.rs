//! The header: program, nodes, running state, timebase, clock.

use super::Extras;
use super::canvas::{Canvas, width};
use magscope_scope::format::{bytes, percent, short_duration};
use magscope_scope::{Align, Edge, Frame, Persistence, Pick, Recording};
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Draws the header.
pub fn draw(canvas: &mut Canvas, area: Rect, frame: &Frame, extras: &Extras) {
    let theme = canvas.theme;
    let (header, controls) = (&frame.header, frame.controls);
    let state = header.edge.words(|name| extras.key_of(name));
    let state_style = match header.edge {
        Edge::Away { .. } => theme.missed,
        ref edge if edge.is_unusual() => theme.accent,
        _ => theme.strong,
    };
    let timebase = format!("{}/div", short_duration(frame.sweep.timebase.per_division_ns()));
    let mut pieces = vec![
        Piece::of(" magnet-scope", theme.strong, Keep::Name),
        Piece::of(format!("  {}", header.nodes), theme.plain, Keep::Nodes),
        Piece::of(format!("   {state}"), state_style, Keep::Always),
    ];
    let transport = &frame.transport;
    if (transport.speed - 1.0).abs() > 1e-9 && header.edge != Edge::Ended {
        pieces.push(Piece::of(format!(" {}×", transport.speed), theme.accent, Keep::Always));
    }
    if transport.seekable {
        pieces.push(Piece::of(format!(" {}", percent(transport.part()).trim()), theme.dim, Keep::Part));
    }
    pieces.push(Piece::of(format!("   {timebase}"), theme.plain, Keep::Timebase));
    if !controls.timebase_fixed {
        pieces.push(Piece::of(" auto", theme.dim, Keep::Auto));
    }
    if let Some(recording) = frame.footer.recording {
        pieces.extend(recording_pieces(recording, theme.strong));
    }
    // Every active filter is shown, because an empty picture would be misleading.
    let narrowed = narrowing(frame);
    pieces
        .extend(narrowed.into_iter().map(|words| Piece::of(format!("   {words}"), theme.accent, Keep::Always)));
    let pieces = fitting(pieces, area.width);
    let is_cut = total_width(&pieces) > area.width;
    let pieces: Vec<_> = pieces.iter().map(|piece| (piece.words.as_str(), piece.style)).collect();
    let end = canvas.put_all(area, 0, 0, &pieces);
    if is_cut {
        canvas.put_right(area, area.width, 0, "…", theme.accent);
    }
    let clock = clock(frame);
    if end + 2 + width(&clock) < area.width {
        canvas.put_right(area, area.width - 1, 0, &clock, theme.plain);
    }
}

/// A part of the header.
struct Piece {
    words: String,
    style: Style,
    keep: Keep,
}

impl Piece {
    fn of(words: impl Into<String>, style: Style, keep: Keep) -> Self {
        Self { words: words.into(), style, keep }
    }
}

/// What is left out of a narrow header, the first one first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Keep {
    Auto,
    Part,
    RecordingName,
    RecordingSize,
    Timebase,
    Nodes,
    Name,
    Always,
}

/// The running recording: its mark is always shown, its name and its size where there is room.
fn recording_pieces(recording: &Recording, style: Style) -> [Piece; 3] {
    [
        Piece::of("   ●", style, Keep::Always),
        Piece::of(format!(" {}", recording.name), style, Keep::RecordingName),
        Piece::of(format!(" {}", bytes(recording.bytes).trim_start()), style, Keep::RecordingSize),
    ]
}

/// The pieces that fit; those that always stay may be too wide.
fn fitting(mut pieces: Vec<Piece>, room: u16) -> Vec<Piece> {
    while total_width(&pieces) > room
        && let Some(least) = pieces.iter().map(|piece| piece.keep).min().filter(|least| *least < Keep::Always)
    {
        pieces.retain(|piece| piece.keep != least);
    }
    pieces
}

fn total_width(pieces: &[Piece]) -> u16 {
    pieces.iter().map(|piece| width(&piece.words)).fold(0, u16::saturating_add)
}

/// Clock bound between the two ends: `clock ±18 µs CERTIFIED`.
fn clock(frame: &Frame) -> String {
    match (frame.wire.state, frame.wire.half_width_ns) {
        (None, _) => frame.header.clock.clone(),
        (Some(state), Some(ns)) => format!("clock ±{} {state}", short_duration(ns)),
        (Some(state), None) => format!("clock {state}"),
    }
}

/// Active filters and selections.
fn narrowing(frame: &Frame) -> Vec<String> {
    let controls = frame.controls;
    let mut words = Vec::new();
    if controls.align == Align::Start {
        words.push("overlay".to_owned());
    }
    match controls.persistence {
        Persistence::Off => {}
        Persistence::Fade(ns) => words.push(format!("persistence {}", short_duration(ns))),
        Persistence::Endless => words.push("persistence endless".to_owned()),
    }
    words.extend(controls.proto.map(|proto| format!("{proto} only")));
    words.extend(frame.filter_words().map(|filter| format!("/ {filter}")));
    words.extend(controls.picks.iter().filter_map(|pick| match pick {
        Pick::Nothing => None,
        Pick::Flow(_) => Some("one flow".to_owned()),
        Pick::Process(tgid) => Some(format!("process {tgid}")),
        Pick::Container(_) => Some("one container".to_owned()),
        Pick::Cpu(cpu) => Some(format!("CPU {cpu}")),
        Pick::Verdict(_) => Some("one verdict".to_owned()),
        Pick::Path(path) => Some(path.words.clone()),
    }));
    words.extend(frame.header.counts_words());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_recording_is_visible_at_every_width() {
        let recording = Recording { name: "host.session".to_owned(), bytes: 27_500, ..Recording::default() };
        let words = |room| {
            let style = Style::new();
            let mut pieces =
                vec![Piece::of("▶ live", style, Keep::Always), Piece::of("  web-1", style, Keep::Nodes)];
            pieces.extend(recording_pieces(&recording, style));
            fitting(pieces, room).into_iter().map(|piece| piece.words).collect::<String>()
        };
        assert_eq!(words(80), "▶ live  web-1   ● host.session 27.5 kB");
        assert_eq!(words(30), "▶ live  web-1   ● 27.5 kB");
        assert_eq!(words(20), "▶ live  web-1   ●");
        assert_eq!(words(10), "▶ live   ●");
        assert_eq!(words(1), "▶ live   ●");
    }
}
