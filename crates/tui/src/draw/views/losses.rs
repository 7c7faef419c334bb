//! Drops by the kernel, events that the instrument missed, and its overhead.

use crate::draw::canvas::{Canvas, width};
use crate::draw::help::lines as wrapped;
use crate::draw::shade::spark_of;
use crate::draw::{Extras, scrolled};
use crate::theme::Theme;
use magscope_core::drop_reason::clean_up_words;
use magscope_scope::Frame;
use magscope_scope::format::{SUMMED, bytes, count, counted, percent};
use magscope_scope::look::LossPanel;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Width of the labels.
const WORDS: u16 = 26;
/// Column of the notes of hops.
const NOTE: u16 = WORDS + 4;
/// Minimum width of a note, of which narrower screens show a part.
const MIN_NOTE: u16 = 16;
/// Columns up to the end of a count.
const COUNT: u16 = 13;
/// Number of reasons of drops with a line each.
const REASONS: usize = 8;
/// Number of cost measurements shown.
const LATELY: usize = 12;
/// Minimum width of the figures in the two-column layout, at which usual ones do not move the other column.
const LEFT: u16 = 54;
/// Minimum width for the two-column layout.
const TWO: u16 = 110;

/// A row of the figures.
enum Line {
    Heading(&'static str),
    /// A label of ours and its value.
    Fact(&'static str, String, Style),
    /// A number and what it counts, which can be long.
    Count(u64, String, Style),
    /// The rest of what is counted.
    More(String, Style),
}

impl Line {
    /// Columns with a margin at the right.
    fn width(&self) -> u16 {
        match self {
            Self::Heading(words) => width(words) + 2,
            Self::Fact(_, value, _) => WORDS + width(value) + 1,
            Self::Count(_, words, _) | Self::More(words, _) => COUNT + 2 + width(words) + 1,
        }
    }

    /// The line in lines of at most this width.
    fn wrapped(self, width: u16) -> Vec<Self> {
        let Self::Count(n, words, style) = self else { return vec![self] };
        let room = width.saturating_sub(COUNT + 3).max(MIN_NOTE);
        let mut parts = wrapped(&words, usize::from(room)).into_iter();
        let first = Self::Count(n, parts.next().unwrap_or_default(), style);
        std::iter::once(first).chain(parts.map(|words| Self::More(words, style))).collect()
    }
}

/// Everything to draw, in one column or two.
struct Parts {
    figures: Vec<Line>,
    /// Lines of hops, without their heading.
    hops: Vec<HopLine>,
    /// Width of the figures; that of the area in one column.
    left: u16,
}

impl Parts {
    fn new(theme: &Theme, frame: &Frame, width: u16, extras: &Extras) -> Self {
        let panel = frame.losses();
        let mut figures = drops(theme, &panel);
        figures.extend(missed(theme, frame, &panel));
        figures.extend(probes(theme, &panel));
        figures.extend(cost(theme, frame, &panel, extras));
        // The rest is the hops', whose notes are long.
        let longest = figures.iter().map(Line::width).max().unwrap_or(0);
        let left = if width >= TWO { longest.clamp(LEFT, width / 2) } else { width };
        let figures = figures.into_iter().flat_map(|line| line.wrapped(left)).collect();
        let hops = hops(theme, &panel, if left < width { width - left } else { width });
        Parts { figures, hops, left }
    }

    fn lines(&self, width: u16) -> usize {
        let (figures, hops) = (self.figures.len(), self.hops.len() + 1);
        if self.left < width { figures.max(hops) } else { figures + hops }
    }
}

/// Number of lines in an area.
pub fn lines(frame: &Frame, theme: &Theme, area: Rect, extras: &Extras) -> usize {
    Parts::new(theme, frame, area.width, extras).lines(area.width)
}

/// Draws the view.
pub fn draw(canvas: &mut Canvas, area: Rect, frame: &Frame, extras: &Extras) {
    let parts = Parts::new(canvas.theme, frame, area.width, extras);
    let lines = parts.lines(area.width);
    scrolled::draw(canvas, area, lines, frame.controls.row, |canvas, area| all(canvas, area, &parts));
}

fn all(canvas: &mut Canvas, area: Rect, parts: &Parts) {
    let left = Rect { width: parts.left, ..area };
    for (y, line) in parts.figures.iter().enumerate() {
        let y = y as u16;
        match line {
            Line::Heading(words) => heading(canvas, left, y, words),
            Line::Count(n, words, style) => {
                canvas.put_right(left, COUNT, y, &count(*n), *style);
                canvas.put_cut(left, COUNT + 2, y, left.width.saturating_sub(COUNT + 3), words, *style);
            }
            Line::More(words, style) => {
                canvas.put_cut(left, COUNT + 2, y, left.width.saturating_sub(COUNT + 3), words, *style);
            }
            Line::Fact(words, value, style) => {
                let dim = canvas.theme.dim;
                canvas.put(left, 2, y, words, dim);
                canvas.put_cut(left, WORDS, y, left.width.saturating_sub(WORDS + 1), value, *style);
            }
        }
    }
    let end = (parts.figures.len() as u16).min(area.height);
    let right = if parts.left < area.width {
        Rect { x: left.right(), width: area.width - left.width, ..area }
    } else {
        Rect { y: area.y + end, height: area.height - end, ..area }
    };
    heading(canvas, right, 0, " hops ");
    let dim = canvas.theme.dim;
    for (y, line) in parts.hops.iter().enumerate() {
        let y = y as u16 + 1;
        canvas.put(right, 2, y, line.name, line.style);
        canvas.put_right(right, WORDS + 1, y, &line.count, line.style);
        canvas.put(right, NOTE, y, &line.note, dim);
    }
}

fn heading(canvas: &mut Canvas, area: Rect, y: u16, words: &str) {
    let (grid, dim) = (canvas.theme.grid, canvas.theme.dim);
    canvas.rule(area, y, "─", grid);
    canvas.put(area, 1, y, words, dim);
}

/// A count in this style if not zero.
fn alarm(theme: &Theme, style: Style, words: String, n: u64) -> Line {
    Line::Count(n, words, if n > 0 { style } else { theme.dim })
}

fn missed(theme: &Theme, frame: &Frame, panel: &LossPanel) -> Vec<Line> {
    let mut lines = vec![Line::Heading(" events that the instrument missed ")];
    for row in &panel.losses {
        let last = row.last_ns.and_then(|ns| frame.time_of_day(ns));
        let last = last.map_or_else(String::new, |at| format!(", last {at}"));
        lines.push(alarm(theme, theme.missed, format!("{}{last}", row.cause), row.count));
    }
    lines.push(alarm(theme, theme.missed, "too late to be sorted".to_owned(), panel.totals.late));
    lines
}

fn drops(theme: &Theme, panel: &LossPanel) -> Vec<Line> {
    let mut lines = vec![Line::Heading(" packets that the kernel dropped ")];
    let (listed, others) = panel.drops.split_at(panel.drops.len().min(REASONS));
    lines.extend(listed.iter().map(|(reason, n)| alarm(theme, theme.bad, reason.clone(), *n)));
    if !others.is_empty() {
        let packets = others.iter().fold(0_u64, |sum, (_, n)| sum.saturating_add(*n));
        let reasons = counted(others.len() as u64, "more reason", "more reasons");
        lines.push(alarm(theme, theme.bad, format!("of {reasons}"), packets));
    }
    if panel.drops.is_empty() {
        lines.push(alarm(theme, theme.bad, "none".to_owned(), 0));
    }
    let left_out = panel.drops_left_out.iter();
    lines.extend(left_out.map(|(cause, n)| Line::Count(*n, format!("more, {cause}"), theme.dim)));
    let freed = |(reason, n): &(String, u64)| {
        Line::Count(*n, format!("{reason}: {}, no drop", clean_up_words(reason)), theme.dim)
    };
    lines.extend(panel.cleaned_up.iter().map(freed));
    lines
}

/// Custom probes: hits and failed reads.
fn probes(theme: &Theme, panel: &LossPanel) -> Vec<Line> {
    if panel.probes.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![Line::Heading(" hits of custom probes ")];
    for probe in panel.probes {
        let unread = probe.asked.values.iter().zip(probe.unread).filter(|(_, n)| *n > 0);
        // Failed reads come first, because the attach point may not fit.
        let unread = unread.map(|(value, n)| format!("{} unread {}×", value.name, count(n)));
        let parts: Vec<String> = unread.chain([probe.place()]).collect();
        lines.push(Line::Count(probe.hits, format!("◇ {}  {}", probe.name, parts.join("; ")), theme.plain));
    }
    if panel.strangers > 0 {
        lines.push(alarm(theme, theme.missed, "of no probe: damaged".to_owned(), panel.strangers));
    }
    lines
}

fn cost(theme: &Theme, frame: &Frame, panel: &LossPanel, extras: &Extras) -> Vec<Line> {
    let mut lines = vec![Line::Heading(" overhead of the capture ")];
    let mut fact = |words: &'static str, value: String| lines.push(Line::Fact(words, value, theme.plain));
    // A minimum scale, so that small values look small.
    let spark = |values: &[f64], much: f64| -> String {
        let most = values.iter().copied().fold(much, f64::max);
        let from = values.len().saturating_sub(LATELY);
        values.iter().skip(from).map(|value| spark_of(value / most)).collect()
    };
    match panel.overhead {
        None => fact("not measured", String::new()),
        Some(own) => {
            let (cpu, fill) = (percent(own.reader_cpu_ratio), percent(own.ring_fill_ratio));
            fact("this program, of a core", format!("{cpu:>11}  {}", spark(&panel.own_cpu, 0.1)));
            let kernel = own.kernel_cpu_ratio_estimate.map_or_else(|| "·".to_owned(), percent);
            fact("probes, of a core (est.)", format!("{kernel:>11}"));
            let hit = own.kernel_ns_per_hit.map_or_else(|| "·".to_owned(), |ns| format!("{ns:.0} ns"));
            fact("per event", format!("{hit:>11}"));
            if let Some(budget) = own.budget {
                let (used, most) = (percent(budget.used_ratio), percent(budget.ratio));
                fact("of the machine, budget", format!("{used:>11} of {}", most.trim()));
                fact("so it captures", format!("  {}", budget.captured));
            }
            fact("events of all probes", format!("{:>11}", count(own.hits)));
            fact("fullest ring buffer", format!("{fill:>11}  {}", spark(&panel.ring_fill, 1.0)));
        }
    }
    // It is no cost of a capture that has ended.
    if !frame.transport.seekable {
        fact("last picture sent", format!("{:>11} to the terminal", bytes(extras.frame_bytes)));
    }
    lines
}

/// A line of a hop, or a further one of its note.
struct HopLine {
    name: &'static str,
    count: String,
    note: String,
    style: Style,
}

/// The hops. A long note, why a hop is missing, has further lines.
fn hops(theme: &Theme, panel: &LossPanel, width: u16) -> Vec<HopLine> {
    let mut lines = Vec::new();
    for hop in &panel.hops {
        let style = if hop.state.is_on() { theme.plain } else { theme.dim };
        let mut count_text = if hop.summed > 0 {
            format!("{SUMMED}{}", count(hop.events.saturating_add(hop.summed)))
        } else {
            count(hop.events)
        };
        let mut name = hop.hop.name();
        let room = width.saturating_sub(NOTE + 1).max(MIN_NOTE);
        for note in wrapped(&hop.state.words(), usize::from(room)) {
            lines.push(HopLine { name, count: std::mem::take(&mut count_text), note, style });
            name = "";
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::Depth;
    use magscope_core::node::NodeInfo;
    use magscope_scope::command::keys::KeyMap;
    use magscope_scope::recorded::Window;
    use magscope_scope::{Options, Scope};

    #[test]
    fn bytes_to_the_terminal_are_a_cost_of_live_captures() {
        let theme = Theme::built_in("dark", Depth::True);
        let keys = KeyMap::built_in();
        let extras = Extras {
            keys: &keys,
            over: None,
            notice: None,
            frame_bytes: 948,
            drag: None,
            measurements: false,
            ladder_from: 0,
        };
        let is_named = |recorded| {
            let scope = Scope::new(NodeInfo::default(), Options { recorded, ..Options::default() });
            let frame = scope.frame();
            let lines = cost(&theme, &frame, &frame.losses(), &extras);
            lines.iter().any(|line| matches!(line, Line::Fact("last picture sent", ..)))
        };
        assert!(is_named(None));
        assert!(!is_named(Some(Window { from_ns: 0, to_ns: 1_000 })));
    }

    #[test]
    fn reasons_of_drops_without_a_line_are_counted_in_the_last_one() {
        let scope = Scope::new(NodeInfo::default(), Options::default());
        let (frame, theme) = (scope.frame(), Theme::built_in("dark", Depth::True));
        let shown = |panel: &LossPanel| -> Vec<String> {
            let counts = drops(&theme, panel).into_iter().filter_map(|line| match line {
                Line::Count(n, words, _) => Some(format!("{n} {words}")),
                _ => None,
            });
            counts.collect()
        };
        let mut panel = frame.losses();
        panel.drops = (0..10).map(|n| (format!("reason {n}"), 100 - n)).collect();
        let lines = shown(&panel);
        assert_eq!((lines.len(), lines.last().map(String::as_str)), (9, Some("183 of 2 more reasons")));
        panel.drops.truncate(REASONS);
        assert_eq!(shown(&panel).last().map(String::as_str), Some("93 reason 7"));
    }
}
