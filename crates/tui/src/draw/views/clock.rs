//! The clocks: each node's clock state, their relation, and its bound.

use crate::draw::canvas::Canvas;
use crate::draw::help::lines as wrapped;
use crate::draw::scope::Raster;
use crate::draw::scrolled;
use magscope_scope::Frame;
use magscope_scope::format::{self, count, short_duration};
use magscope_scope::look::{Clock, ClockPair, ClockRow};
use ratatui::layout::Rect;

/// Width of the labels.
const WORDS: u16 = 30;

/// Minimum width of a hint, of which narrower screens show a part.
const MIN_HINT: u16 = 16;
/// Rows of the bound over time.
const PLOT: (u16, u16) = (4, 12);

/// Rows of everything but the bounds over time: a title or a blank with every node and every pair.
fn rows_of_text(clock: &Clock, width: u16) -> usize {
    let nodes: usize = clock.nodes.iter().map(|node| of_node(node).len() + 1).sum();
    let pairs: usize = clock.pairs.iter().map(|pair| of_pair(pair, width).len() + 1).sum();
    1 + nodes + pairs + usize::from(clock.pairs.is_empty())
}

/// Rows of each bound over time: what is left, and no less than it needs.
fn rows_of_plot(clock: &Clock, area: Rect) -> u16 {
    let left = usize::from(area.height).saturating_sub(rows_of_text(clock, area.width) + 1);
    let each = left.checked_div(clock.pairs.len()).unwrap_or(0);
    u16::try_from(each).unwrap_or(u16::MAX).clamp(PLOT.0, PLOT.1)
}

/// Number of lines in an area.
pub fn lines(frame: &Frame, area: Rect) -> usize {
    let clock = frame.clock();
    rows_of_text(&clock, area.width) + clock.pairs.len() * usize::from(rows_of_plot(&clock, area))
}

/// Draws the view.
pub fn draw(canvas: &mut Canvas, area: Rect, frame: &Frame) {
    let clock = frame.clock();
    let plot = rows_of_plot(&clock, area);
    let lines = lines(frame, area);
    scrolled::draw(canvas, area, lines, frame.controls.row, |canvas, area| all(canvas, area, &clock, plot));
}

fn all(canvas: &mut Canvas, area: Rect, clock: &Clock, plot: u16) {
    let (grid, dim) = (canvas.theme.grid, canvas.theme.dim);
    canvas.rule(area, 0, "─", grid);
    canvas.put(area, 1, 0, " the clocks ", dim);
    let mut y = 1;
    for node in &clock.nodes {
        for (words, value) in of_node(node) {
            canvas.put(area, 2, y, &words, dim);
            canvas.put_cut(area, WORDS, y, area.width.saturating_sub(WORDS + 1), &value, canvas.theme.plain);
            y += 1;
        }
        y += 1;
    }
    if clock.pairs.is_empty() {
        let words = "one kernel, one clock: times from sender to receiver are exact";
        canvas.put_cut(area, 2, y, area.width.saturating_sub(3), words, canvas.theme.plain);
        return;
    }
    for pair in &clock.pairs {
        canvas.rule(area, y, "─", grid);
        canvas.put(area, 1, y, &format!(" {} and {} ", pair.hosts.0, pair.hosts.1), dim);
        y += 1;
        for (words, value) in of_pair(pair, area.width) {
            canvas.put(area, 2, y, words, dim);
            canvas.put_cut(area, WORDS, y, area.width.saturating_sub(WORDS + 1), &value, canvas.theme.plain);
            y += 1;
        }
        if y < area.height {
            bound(canvas, Rect { y: area.y + y, height: plot.min(area.height - y), ..area }, pair);
        }
        y += plot;
    }
}

fn of_node(node: &ClockRow) -> Vec<(String, String)> {
    let Some(last) = node.last else {
        return vec![(node.host.clone(), "no reading of its clocks yet".to_owned())];
    };
    let drift = node.drift_ppm.map_or_else(|| "not known yet".to_owned(), |ppm| format!("{ppm:+.3} ppm"));
    let utc = last
        .utc_error_ns
        .map_or_else(|| "nothing vouches for it".to_owned(), |ns| format!("±{}", short_duration(ns)));
    let source = format!("{:?}", last.clocksource).to_lowercase();
    vec![
        (node.host.clone(), format!("counts time by {source}; {} readings", count(node.samples))),
        (
            "  a reading is sure to".to_owned(),
            format!("±{}", short_duration(u64::from(last.width_ns).div_ceil(2))),
        ),
        ("  UTC against monotonic".to_owned(), drift),
        ("  UTC is right to".to_owned(), utc),
        ("  UTC was set".to_owned(), format!("{}× since the start", last.realtime_steps)),
    ]
}

/// The rows of a pair. Long hints have further rows.
fn of_pair(pair: &ClockPair, width: u16) -> Vec<(&'static str, String)> {
    let or_unknown = |value: Option<String>| value.unwrap_or_else(|| "not known".to_owned());
    let offset = pair.offset_ns.map(|ns| {
        let sign = if ns < 0 { '-' } else { '+' };
        let bound = pair.half_width_ns.map_or_else(String::new, |ns| format!(" ±{}", short_duration(ns)));
        format!("{sign}{}{bound}", short_duration(ns.unsigned_abs()))
    });
    let room = usize::from(width.saturating_sub(WORDS + 1).max(MIN_HINT));
    let hints = pair.hints.iter().flat_map(|hint| {
        let titles = std::iter::once("  suspect").chain(std::iter::repeat(""));
        titles.zip(wrapped(hint, room))
    });
    let mut rows = vec![
        ("  the second less the first", or_unknown(offset)),
        ("  it rests on", pair.state.map_or_else(|| "one clock".to_owned(), |state| state.to_string())),
        ("  drifting apart by", or_unknown(pair.drift_ppm.map(format::drift))),
        ("  shortest round trip", or_unknown(pair.min_round_trip_ns.map(short_duration))),
        ("  packets that bound it", count(pair.packets_used)),
    ];
    rows.extend(hints);
    let unseen = pair.smallest_visible_step_ns.filter(|_| !pair.hints.is_empty());
    rows.extend(unseen.map(|ns| ("  not seen is a step", format!("below {}", short_duration(ns)))));
    rows
}

/// The bound over time: logarithmic half width upwards.
fn bound(canvas: &mut Canvas, area: Rect, pair: &ClockPair) {
    let dim = canvas.theme.dim;
    let range =
        |values: &mut dyn Iterator<Item = u64>| values.fold((u64::MAX, 0), |(a, b), v| (a.min(v), b.max(v)));
    let (from, to) = range(&mut pair.bound.iter().map(|(time, _)| *time));
    let (least, most) = range(&mut pair.bound.iter().map(|(_, half)| *half));
    if pair.bound.len() < 2 || to <= from {
        return;
    }
    let plot = Rect { x: area.x + 14.min(area.width), width: area.width.saturating_sub(16), ..area };
    canvas.put_right(area, 13, 0, &format!("±{}", short_duration(most)), dim);
    canvas.put_right(area, 13, area.height.saturating_sub(1), &format!("±{}", short_duration(least)), dim);
    let mut raster = Raster::new(plot.width, plot.height);
    let log = |ns: u64| (ns.max(1) as f64).ln();
    let (across, down) = (f64::from(plot.width) * 2.0 - 1.0, f64::from(plot.height) * 4.0 - 1.0);
    let points = pair.bound.iter().map(|(time, half)| {
        let x = time.saturating_sub(from) as f64 / (to - from) as f64 * across;
        let part = (log(*half) - log(least)) / (log(most) - log(least)).max(1e-9);
        (x, (1.0 - part.clamp(0.0, 1.0)) * down)
    });
    let mut before = None;
    for at in points {
        raster.line(before.unwrap_or(at), at, 0);
        before = Some(at);
    }
    let style = canvas.theme.series[1];
    for (x, y, dots) in raster.cells() {
        canvas.put(plot, x, y, dots.symbol().encode_utf8(&mut [0; 4]), style);
    }
}
