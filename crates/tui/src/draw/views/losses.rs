//! Drops by the kernel, events that the instrument missed, and its overhead.

use crate::draw::Extras;
use crate::draw::canvas::{Canvas, width};
use crate::draw::shade::spark_of;
use crate::theme::Theme;
use magscope_scope::Frame;
use magscope_scope::format::{SUMMED, bytes, count, percent};
use magscope_scope::look::LossPanel;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Width of the labels.
const WORDS: u16 = 26;
/// Columns up to the end of a count.
const COUNT: u16 = 13;
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
}

impl Line {
    /// Columns with a margin at the right.
    fn width(&self) -> u16 {
        match self {
            Self::Heading(words) => width(words) + 2,
            Self::Fact(_, value, _) => WORDS + width(value) + 1,
            Self::Count(_, words, _) => COUNT + 2 + width(words) + 1,
        }
    }
}

/// Draws the view.
pub fn draw(canvas: &mut Canvas, area: Rect, frame: &Frame, extras: &Extras) {
    let panel = frame.losses();
    let wide = area.width >= TWO;
    let mut lines = drops(canvas.theme, &panel);
    lines.extend(missed(canvas.theme, frame, &panel));
    lines.extend(probes(canvas.theme, &panel));
    lines.extend(cost(canvas.theme, &panel, extras));
    // The rest is the hops', whose notes are long.
    let longest = lines.iter().map(Line::width).max().unwrap_or(0);
    let left = Rect { width: if wide { longest.clamp(LEFT, area.width / 2) } else { area.width }, ..area };
    for (y, line) in lines.iter().enumerate() {
        let y = y as u16;
        match line {
            Line::Heading(words) => heading(canvas, left, y, words),
            Line::Count(n, words, style) => {
                canvas.put_right(left, COUNT, y, &count(*n), *style);
                canvas.put_cut(left, COUNT + 2, y, left.width.saturating_sub(COUNT + 3), words, *style);
            }
            Line::Fact(words, value, style) => {
                let dim = canvas.theme.dim;
                canvas.put(left, 2, y, words, dim);
                canvas.put_cut(left, WORDS, y, left.width.saturating_sub(WORDS + 1), value, *style);
            }
        }
    }
    let end = (lines.len() as u16).min(area.height);
    let right = if wide {
        Rect { x: left.right(), width: area.width - left.width, ..area }
    } else {
        Rect { y: area.y + end, height: area.height - end, ..area }
    };
    hops(canvas, right, &panel);
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
    let most = panel.drops.iter().take(8);
    lines.extend(most.map(|(reason, n)| alarm(theme, theme.bad, reason.clone(), *n)));
    if panel.drops.is_empty() {
        lines.push(alarm(theme, theme.bad, "none".to_owned(), 0));
    }
    let freed = |(reason, n): &(String, u64)| {
        Line::Count(*n, format!("{reason}: of closed sockets, no drop"), theme.dim)
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

fn cost(theme: &Theme, panel: &LossPanel, extras: &Extras) -> Vec<Line> {
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
    fact("last frame on the line", format!("{:>11}", bytes(extras.frame_bytes)));
    lines
}

fn hops(canvas: &mut Canvas, area: Rect, panel: &LossPanel) {
    let theme = canvas.theme;
    heading(canvas, area, 0, " hops ");
    for (y, hop) in panel.hops.iter().enumerate().take(usize::from(area.height.saturating_sub(1))) {
        let y = y as u16 + 1;
        let style = if hop.state.is_on() { theme.plain } else { theme.dim };
        canvas.put(area, 2, y, hop.hop.name(), style);
        let count_text = if hop.summed > 0 {
            format!("{SUMMED}{}", count(hop.events.saturating_add(hop.summed)))
        } else {
            count(hop.events)
        };
        canvas.put_right(area, WORDS + 1, y, &count_text, style);
        canvas.put_cut(area, WORDS + 4, y, area.width.saturating_sub(WORDS + 5), &hop.state.words(), theme.dim);
    }
}
