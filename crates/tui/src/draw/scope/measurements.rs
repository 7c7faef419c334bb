//! Measurements over the picture or between the cursors.

use crate::draw::canvas::{Canvas, width};
use crate::draw::help::window;
use crate::draw::values::value;
use magscope_scope::format::{
    SUMMED, amount, bit_rate, count, duration, estimate, percent, rate, short_duration,
};
use magscope_scope::look::{PairReading, Span};
use magscope_scope::{Frame, MeasureSpan};
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Minimum width of the window.
const COLUMNS: u16 = 66;
/// Width of a number with its gap.
const NUMBER: u16 = 9;

/// Draws measurements over the right of `area` if there is no side panel.
pub fn over(canvas: &mut Canvas, area: Rect, frame: &Frame) {
    let lines = lines(frame);
    let longest = lines.iter().map(Line::columns).max().unwrap_or(0);
    let columns = COLUMNS.max(longest).min(area.width.saturating_sub(2));
    let width = (columns + 2).min(area.width);
    let area = Rect { x: area.right() - width, width, ..area };
    let inner = window(canvas, area, columns, lines.len() as u16, "");
    body(canvas, inner, frame);
}

/// Draws measurements into `area`, under a rule.
pub fn draw(canvas: &mut Canvas, area: Rect, frame: &Frame) {
    body(canvas, area, frame);
}

/// A line: text, right-aligned numbers, and whether it is a loss by the network or by the instrument.
struct Line {
    words: String,
    numbers: Vec<String>,
    bad: bool,
    missed: bool,
}

impl Line {
    /// Width of all of it, with a blank column on both sides.
    fn columns(&self) -> u16 {
        NUMBER.saturating_mul(self.numbers.len() as u16).saturating_add(width(&self.words) + 2)
    }
}

fn body(canvas: &mut Canvas, area: Rect, frame: &Frame) {
    let theme = canvas.theme;
    let (grid, dim) = (theme.grid, theme.dim);
    canvas.rule(area, 0, "─", grid);
    for (y, line) in lines(frame).iter().enumerate().take(usize::from(area.height)) {
        let style: Style = match (y, line.bad) {
            (0, _) => dim,
            (_, true) => theme.bad,
            _ if line.missed => theme.missed,
            _ => theme.plain,
        };
        let y = y as u16;
        let mut end = area.width.saturating_sub(1);
        for number in line.numbers.iter().rev() {
            canvas.put_right(area, end, y, number, style);
            end = end.saturating_sub(NUMBER);
        }
        canvas.put_cut(area, 1, y, end.saturating_sub(1), &line.words, style);
    }
}

/// A number as text, or a dot if unknown.
fn or_dot(number: Option<f64>, words: fn(f64) -> String) -> String {
    number.map_or_else(|| "·".to_owned(), words)
}

fn lines(frame: &Frame) -> Vec<Line> {
    let m = frame.measurements();
    let line = |words: String, numbers: Vec<String>| Line { words, numbers, bad: false, missed: false };
    let where_to = match m.over {
        MeasureSpan::Picture => "picture",
        MeasureSpan::Cursors => "cursors",
    };
    let span = short_duration(m.to_ns.saturating_sub(m.from_ns));
    let titles = ["p50", "p99", "max", "jitter", "a second"];
    let titles = titles.iter().map(|title| format!(" {title} ")).collect();
    let mut lines = vec![line(format!(" {where_to} {span} "), titles)];
    let counted = |words: &str, n: u64, bad: bool| Line {
        words: format!("{words} {}", count(n)),
        numbers: Vec::new(),
        bad: bad && n > 0,
        missed: false,
    };
    let loss =
        m.loss_ratio.map_or_else(String::new, |ratio| format!("   dropped or lost {}", percent(ratio).trim()));
    if m.journeys == 0 && !m.sums.is_empty() {
        lines.push(line(format!("no journeys: {SUMMED} is what the kernel added up"), Vec::new()));
    } else {
        lines.push(line(format!("journeys {}{loss}", count(m.journeys)), Vec::new()));
    }
    // Failures come before slow journeys.
    if m.drops > 0 {
        lines.push(counted(&m.label_of_all("dropped"), m.drops, true));
    }
    if m.missed_events > 0 {
        let missed = counted("events missed", m.missed_events, false);
        lines.push(Line { missed: true, ..missed });
    }
    if m.untimed > 0 {
        lines.push(counted("without times", m.untimed, false));
    }
    if m.retransmits > 0 {
        lines.push(counted(&m.label_of_all("retransmits"), m.retransmits, false));
    }
    let whole = |pair: &PairReading| pair.span == Span::Whole && pair.times.n == 0 && !m.sums.is_empty();
    let pairs = m.pairs.iter().filter(|pair| !whole(pair)).map(|pair| (pair, false));
    for (pair, summed) in pairs.chain(m.sums.iter().map(|pair| (pair, true))) {
        let words = pair.words("→");
        let words = if summed { format!("{SUMMED} {words}") } else { words };
        let times = pair.times;
        let jitter = pair.jitter_ns.map_or_else(|| "·".to_owned(), |ns| duration(ns.max(0.0) as u64));
        let shown = |ns| if times.n == 0 { "·".to_owned() } else { duration(ns) };
        let mut numbers: Vec<_> = [times.p50_ns, times.p99_ns, times.max_ns].map(shown).into();
        numbers.push(jitter);
        numbers.push(or_dot(pair.per_s, rate));
        lines.push(line(words, numbers));
    }
    for pass in &m.passes {
        let times = pass.times;
        let mut numbers: Vec<_> = [times.p50_ns, times.p99_ns, times.max_ns].map(duration).into();
        numbers.extend(["·".to_owned(), or_dot(pass.per_s, rate)]);
        lines.push(line(format!("{}→{}", pass.from, pass.probe), numbers));
    }
    for layer in &m.layers {
        let words = format!("{}payload at {}", if layer.summed { "Σ " } else { "" }, layer.hop);
        let reported = |number: String| if layer.estimated { estimate(&number) } else { number };
        let numbers =
            [(layer.bytes_per_s, bit_rate as fn(f64) -> String), (layer.per_s, rate as fn(f64) -> String)];
        let numbers = numbers.map(|(n, words)| n.map_or_else(|| "·".to_owned(), |n| reported(words(n))));
        lines.push(line(words, numbers.into()));
    }
    if !m.channels.is_empty() {
        let titles = ["least", "mean", "most", "last"].map(str::to_owned).into();
        lines.push(line("signals".to_owned(), titles));
    }
    for signal in &m.channels {
        let numbers = [signal.min, signal.mean, signal.max, signal.last];
        let numbers = numbers.map(|number| value(signal.channel.unit(), number)).into();
        lines.push(line(signal.channel.to_string(), numbers));
    }
    let n: u64 = m.pairs.first().map_or(0, |pair| pair.times.n);
    if m.pairs.iter().any(|pair| !pair.times.exact) {
        lines.push(line(format!("percentiles within 6.25 %, n {}", amount(n).trim()), Vec::new()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::source::Source;
    use magscope_core::{Batch, Generator, GeneratorOptions};
    use magscope_scope::{Action, Options, Scope};
    use std::time::Duration;

    #[test]
    fn a_line_of_its_own_width_is_complete() {
        let numbers = vec!["214 ms".to_owned(); 5];
        let words = "waiting for retransmission".to_owned();
        let line = Line { words: words.clone(), numbers, bad: false, missed: false };
        assert!(line.columns() > COLUMNS && line.columns() < 78, "{}", line.columns());
        let end = line.columns() - 1 - 5 * NUMBER;
        assert_eq!(end - 1, width(&words), "the room that `body` leaves for the words");
    }

    #[test]
    fn percentiles_from_classes_have_their_error() {
        let mut world = Generator::new(GeneratorOptions {
            events: 3_000,
            batch_events: 3_000,
            ..GeneratorOptions::default()
        });
        let mut scope = Scope::new(world.info().clone(), Options::default());
        let mut batch = Batch::default();
        world.next(&mut batch, Duration::ZERO).expect("it is made");
        scope.ingest(&batch);
        scope.apply(Action::Fit);
        let notes = |scope: &Scope| -> Vec<String> {
            let lines = lines(&scope.frame()).into_iter().map(|line| line.words);
            lines.filter(|words| words.starts_with("percentiles")).collect()
        };
        assert!(notes(&scope).is_empty(), "those of drawn lifelines are exact");
        scope.apply(Action::ToggleAlign);
        let notes = notes(&scope);
        assert_eq!(notes.len(), 1);
        assert!(notes[0].starts_with("percentiles within 6.25 %, n "), "{notes:?}");
    }
}
