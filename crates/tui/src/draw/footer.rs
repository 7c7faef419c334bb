//! The bottom: losses and own cost, always there, also when they are zero; and the keys.

use super::canvas::{Canvas, width};
use crate::theme::Theme;
use magscope_scope::Frame;
use magscope_scope::format::{amount, count, percent};
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::fmt::Write as _;

const KEYS: &[(&str, &str)] = &[
    ("?", "help"),
    ("Space", "stop"),
    ("+-", "timebase"),
    ("↑↓", "journey"),
    ("Enter", "hop by hop"),
    ("Tab", "list"),
    ("o", "overlay"),
    ("n", "route"),
    ("p", "protocol"),
    ("[]", "hop"),
    ("q", "end"),
];

/// Draws both lines.
pub fn draw(canvas: &mut Canvas, counts: Rect, keys: Rect, frame: &Frame) {
    let mut x = 1;
    for (words, style) in facts(canvas.theme, frame) {
        // What does not fit whole is said in short or left out: half a number is a wrong number.
        let short = words.split(" + ").next().unwrap_or_default();
        let fits = |words: &str| x == 1 || x + width(words) <= counts.width;
        if let Some(words) = [words.as_str(), short].into_iter().find(|words| fits(words)) {
            x = canvas.put(counts, x, 0, words, style) + 3;
        }
    }
    draw_keys(canvas, keys);
}

/// The counts, what matters most first.
fn facts(theme: &Theme, frame: &Frame) -> Vec<(String, Style)> {
    let footer = &frame.footer;
    let totals = &footer.totals;
    let alarm = |n: u64| if n > 0 { theme.bad } else { theme.plain };
    let lost = totals.lost_events();
    let mut words = format!("events lost {}", count(lost));
    if let Some(cause) = totals.main_cause() {
        _ = write!(words, " ({cause})");
    }
    let mut facts = vec![(words, alarm(lost))];
    facts.push((format!("dropped {}", count(totals.dropped())), alarm(totals.dropped())));
    if totals.vanished() > 0 {
        facts.push((format!("vanished {}", count(totals.vanished())), theme.bad));
    }
    facts.push(own_cost(theme, frame));
    let per_s = footer.journeys_per_s.map_or_else(|| "·".to_owned(), |n| amount(n as u64).trim().to_owned());
    facts.push((format!("{per_s:>6} journeys/s"), theme.plain));
    facts.push((format!("resent {}", count(totals.retransmitted)), theme.plain));
    if totals.late > 0 {
        facts.push((format!("late {}", count(totals.late)), theme.plain));
    }
    facts.push((format!("in flight {}", count(footer.in_flight as u64)), theme.dim));
    facts.push((format!("whole {} of {}", count(totals.whole()), count(totals.journeys)), theme.dim));
    facts
}

fn own_cost(theme: &Theme, frame: &Frame) -> (String, Style) {
    let Some(own) = frame.footer.overhead else { return ("own cost ·".to_owned(), theme.dim) };
    let mut words = format!("own cost {} reader", percent(own.reader_cpu_ratio).trim_start());
    match (own.kernel_cpu_ratio_estimate, own.kernel_ns_per_hit) {
        (Some(ratio), _) => _ = write!(words, " + ~{} kernel", percent(ratio).trim_start()),
        (None, Some(ns)) => _ = write!(words, " + {ns:.0} ns a hit"),
        (None, None) => words.push_str(", kernel not measured"),
    }
    _ = write!(words, " · ring {}", percent(own.ring_fill_ratio).trim_start());
    (words, theme.plain)
}

fn draw_keys(canvas: &mut Canvas, area: Rect) {
    let theme = *canvas.theme;
    let mut x = 1;
    for (key, words) in KEYS {
        let needed = width(key) + 1 + width(words);
        if x + needed > area.width {
            continue; // a shorter one may still fit
        }
        x = canvas.put_all(area, x, 0, &[(key, theme.strong), (" ", theme.plain), (words, theme.dim)]) + 2;
    }
}
