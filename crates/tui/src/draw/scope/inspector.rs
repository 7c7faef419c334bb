//! The ladder of one journey: every hop with time, step, CPU and process; custom probes that saw its bytes; its
//! payload, if captured.

use crate::draw::canvas::Canvas;
use crate::draw::help::{lines as wrapped, window};
use magscope_core::Direction;
use magscope_scope::format::{bytes, duration};
use magscope_scope::look::{PassRow, Payload};
use magscope_scope::{Frame, Inspector, LadderRow};
use ratatui::layout::Rect;
use std::fmt::Write as _;

/// Minimum width.
const COLUMNS: u16 = 66;
/// Where on a line it stands who was there.
const WHO: u16 = 43;
/// Minimum width of these words for a line break between them.
const LEAST_WHO: u16 = 12;
/// A line of a dump: its offset, sixteen bytes, and what of them is text.
const DUMP: u16 = 73;
/// Maximum number of hits and heads shown.
const MOST: usize = 32;

/// A line of the ladder.
enum Line<'a> {
    Words(String),
    Blank,
    Wire,
    /// A hop, with as many words as fit into its line.
    Rung(&'a LadderRow, String),
    /// The rest of the words, and whether the hop is the blamed one.
    Rest(String, bool),
    Pass(&'a PassRow<'a>),
    Dim(String),
}

/// Draws the ladder over the right part of `area` from line `from` on; the journey's line stays visible.
pub fn inspect(canvas: &mut Canvas, area: Rect, frame: &Frame, from: usize) {
    let Some(inspector) = &frame.inspector else { return };
    let theme = canvas.theme;
    let columns = columns(inspector, area.width);
    let lines = lines(inspector, columns);
    let wide = area.width > columns + 50;
    let area = if wide { Rect { x: area.right() - columns - 2, width: columns + 2, ..area } } else { area };
    let title = format!(" journey #{} ", inspector.line.id());
    let inner = window(canvas, area, columns, lines.len() as u16, &title);
    // Limit scrolling to the content.
    let from = from.min(lines.len().saturating_sub(usize::from(inner.height)));
    for (y, line) in lines.iter().skip(from).enumerate().take(usize::from(inner.height)) {
        one(canvas, inner, y as u16, line);
    }
    let shown = from + usize::from(inner.height);
    if lines.len() > shown {
        let words = format!(" {} more: PgDn ", lines.len() - shown);
        let bottom = inner.height.saturating_sub(1);
        canvas.put_right(inner, inner.width, bottom, &words, theme.strong);
    }
}

/// As many as the longest line needs, within an area of this width: a copy has more words than a thread.
fn columns(inspector: &Inspector, width: u16) -> u16 {
    let least = if matches!(inspector.payload, Payload::Heads(_)) { DUMP } else { COLUMNS };
    let longest = inspector.rungs.iter().map(|rung| rung.who.chars().count()).max().unwrap_or(0);
    least.max((longest as u16).saturating_add(WHO + 3)).min(width.saturating_sub(2))
}

/// Lines of a ladder of the minimum width, which has the most.
pub fn ladder_lines(inspector: &Inspector) -> usize {
    lines(inspector, COLUMNS).len()
}

/// The words about who was there, in lines of a ladder of this width.
fn who(rung: &LadderRow, columns: u16) -> Vec<String> {
    match columns.saturating_sub(WHO + 1) {
        0..LEAST_WHO => vec![rung.who.clone()],
        room => wrapped(&rung.who, usize::from(room)),
    }
}

fn lines<'a>(inspector: &'a Inspector, columns: u16) -> Vec<Line<'a>> {
    let room = usize::from(columns.saturating_sub(2));
    let facts = facts(inspector);
    let mut lines: Vec<Line> = facts.iter().flat_map(|fact| wrapped(fact, room)).map(Line::Words).collect();
    lines.push(Line::Blank);
    // As in the picture: the receiver above, the sender below; a probe right after a hop is above it.
    let passes = || inspector.passes.iter().take(MOST);
    let mut above = None;
    let mut seen = 0;
    for rung in inspector.rungs.iter().rev() {
        let direction = rung.mark.hop.direction();
        // The ladder of a journey that did not arrive begins with a wire, too.
        if above.replace(direction) != Some(Direction::Tx) && direction == Direction::Tx {
            lines.push(Line::Wire);
        }
        let behind = passes().rev().filter(|pass| pass.after() == Some(rung.mark.hop));
        let before = lines.len();
        lines.extend(behind.map(Line::Pass));
        seen += lines.len() - before;
        let mut who = who(rung, columns).into_iter();
        lines.push(Line::Rung(rung, who.next().unwrap_or_default()));
        lines.extend(who.map(|words| Line::Rest(words, rung.blamed)));
    }
    // Hits whose hop is missing.
    let of_rung = |pass: &&PassRow| inspector.rungs.iter().all(|rung| Some(rung.mark.hop) != pass.after());
    let before = lines.len();
    lines.extend(passes().filter(of_rung).map(Line::Pass));
    seen += lines.len() - before;
    if inspector.passes.len() > seen {
        lines.push(Line::Dim(format!("and {} more hits of custom probes", inspector.passes.len() - seen)));
    }
    payload(inspector, &mut lines);
    lines
}

fn payload<'a>(inspector: &'a Inspector, lines: &mut Vec<Line<'a>>) {
    match &inspector.payload {
        Payload::NotAsked => {}
        Payload::Elsewhere(words) => lines.extend([Line::Blank, Line::Dim(format!("payload: {words}"))]),
        Payload::Heads(heads) => {
            for head in heads.iter().take(MOST) {
                let since = i128::from(head.time_ns) - i128::from(inspector.line.start_ns());
                let sign = if since < 0 { '-' } else { '+' };
                let at = duration(since.unsigned_abs() as u64);
                let (stored, of) = (head.bytes.len(), head.of_bytes);
                let words = format!("payload at {} {sign}{}: {stored} of {of} bytes", head.hop, at.trim());
                lines.extend([Line::Blank, Line::Words(words)]);
                lines.extend(head.dump().into_iter().map(Line::Dim));
            }
            if heads.len() > MOST {
                lines.push(Line::Dim(format!("and {} more heads", heads.len() - MOST)));
            }
        }
    }
}

fn one(canvas: &mut Canvas, inner: Rect, y: u16, line: &Line) {
    let theme = canvas.theme;
    let room = inner.width.saturating_sub(2);
    match line {
        Line::Blank => {}
        Line::Words(words) => canvas.put_cut(inner, 1, y, room, words, theme.plain),
        Line::Dim(words) => canvas.put_cut(inner, 1, y, room, words, theme.dim),
        Line::Wire => {
            let area = Rect { x: inner.x + 1, width: room, ..inner };
            canvas.rule(area, y, "╌", theme.dim);
        }
        Line::Rung(rung, who) => {
            let style = if rung.blamed { theme.accent } else { theme.plain };
            canvas.put(inner, 1, y, rung.mark.hop.name(), style);
            canvas.put_right(inner, 21, y, &since(rung.since_start_ns), theme.dim);
            let step = rung.step.map_or_else(|| "·".to_owned(), |step| format!("Δ {}", duration(step.ns)));
            canvas.put_right(inner, 33, y, &step, style);
            canvas.put_right(inner, 41, y, &format!("cpu {:>3}", rung.mark.cpu), theme.dim);
            canvas.put_cut(inner, WHO, y, inner.width.saturating_sub(WHO + 1), who, style);
        }
        Line::Rest(words, blamed) => {
            let style = if *blamed { theme.accent } else { theme.plain };
            canvas.put_cut(inner, WHO, y, inner.width.saturating_sub(WHO + 1), words, style);
        }
        Line::Pass(pass) => {
            canvas.put(inner, 0, y, "◇", theme.dim);
            // The name may use the space of the missing step.
            let at = since(pass.since_start_ns);
            canvas.put_right(inner, 33, y, &at, theme.dim);
            let taken = at.chars().count() as u16;
            canvas.put_cut(inner, 1, y, 31_u16.saturating_sub(taken), &pass.probe.name, theme.plain);
            canvas.put_right(inner, 41, y, &format!("cpu {:>3}", pass.hit.cpu), theme.dim);
            canvas.put_cut(inner, WHO, y, inner.width.saturating_sub(WHO + 1), &pass.text, theme.plain);
        }
    }
}

fn since(ns: i64) -> String {
    let sign = if ns < 0 { '-' } else { '+' };
    format!("{sign}{}", duration(ns.unsigned_abs()))
}

fn facts(inspector: &Inspector) -> [String; 3] {
    let line = inspector.line;
    let ends = line.ends.map_or_else(String::new, |(from, to)| format!(" {from} → {to}"));
    let first = format!("{}{ends}   {}", line.journey.proto, inspector.route);
    // A sequence number on the wire has 32 bits.
    let (start, end) = (line.journey.range.start as u32, line.journey.range.end as u32);
    let mut second =
        format!("{} [{start}, {end})   {}", bytes(line.journey.bytes()).trim_start(), inspector.verdict);
    if line.journey.retransmits() > 0 {
        let _ = write!(second, "   resent {}×", line.journey.retransmits());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::{Depth, Theme};
    use magscope_core::source::Source;
    use magscope_core::{Batch, Generator, GeneratorOptions};
    use magscope_scope::{Action, Options, Scope};
    use ratatui::buffer::{Buffer, Cell};
    use std::time::Duration;

    #[test]
    fn the_reason_of_a_drop_is_complete_at_every_width() {
        let mut world = Generator::new(GeneratorOptions {
            events: 3_000,
            batch_events: 3_000,
            ..GeneratorOptions::default()
        });
        let mut scope = Scope::new(world.info().clone(), Options::default());
        let mut batch = Batch::default();
        world.next(&mut batch, Duration::ZERO).expect("it is made");
        scope.ingest(&batch);
        scope.apply(Action::SelectJourney(1));
        scope.apply(Action::ToggleInspector);
        let reason =
            "dropped, netfilter_drop at eth0 (netfilter table `inet`, chain `input`, rule handle 4711)";
        let mut frame = scope.frame();
        let inspector = frame.inspector.as_mut().expect("a journey");
        inspector.rungs[0].who = reason.to_owned();
        let theme = Theme::built_in("dark", Depth::None);
        for columns in [70, 80, 120, 200] {
            let area = Rect::new(0, 0, columns, 60);
            let mut buffer = Buffer::empty(area);
            inspect(&mut Canvas::new(&mut buffer, &theme), area, &frame, 0);
            let text: String = buffer.content.iter().map(Cell::symbol).collect();
            assert!(!text.contains('…'), "{columns}");
            for word in reason.split(' ') {
                assert!(text.contains(word), "{columns}: {word}");
            }
        }
    }
}
