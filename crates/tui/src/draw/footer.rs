//! The footer: losses and cost, including zeros; and the keys.

use super::Extras;
use super::canvas::{Canvas, width};
use crate::theme::Theme;
use magscope_scope::Frame;
use magscope_scope::command::COMMANDS;
use magscope_scope::command::keys::KeyMap;
use magscope_scope::format::{SUMMED, amount, count, percent};
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::fmt::Write as _;

/// Draws both lines.
pub fn draw(canvas: &mut Canvas, counts: Rect, keys: Rect, frame: &Frame, extras: &Extras) {
    let mut x = 1;
    for (words, style) in facts(canvas.theme, frame) {
        // Values that do not fit are shortened or left out: a truncated number would be wrong.
        let short = words.split(" + ").next().unwrap_or_default();
        let fits = |words: &str| x == 1 || x + width(words) <= counts.width;
        if let Some(words) = [words.as_str(), short].into_iter().find(|words| fits(words)) {
            x = canvas.put(counts, x, 0, words, style) + 3;
        }
    }
    let room = keys.width.saturating_sub(2);
    match (extras.notice, &frame.controls.message) {
        (Some(words), _) => canvas.put_cut(keys, 1, 0, room, words, canvas.theme.accent),
        (None, Some(message)) => {
            // An error is no loss and therefore not red; the sign marks it.
            let words = format!("{}{}", if message.is_error { "✗ " } else { "" }, message.text);
            canvas.put_cut(keys, 1, 0, room, &words, canvas.theme.selected);
        }
        (None, None) => draw_keys(canvas, keys, extras.keys),
    }
}

/// The counters, in order of importance.
fn facts(theme: &Theme, frame: &Frame) -> Vec<(String, Style)> {
    let footer = &frame.footer;
    let totals = &footer.totals;
    let alarm = |n: u64| if n > 0 { theme.bad } else { theme.plain };
    let lost = totals.lost_events();
    let mut words = format!("events lost {}", count(lost));
    if let Some(cause) = totals.main_cause() {
        _ = write!(words, " ({cause})");
    }
    let mut facts: Vec<_> =
        footer.governed.iter().map(|words| (format!("BUDGET: {words}"), theme.bad)).collect();
    if footer.sums {
        facts.push((format!("{SUMMED} the kernel adds up: no events"), theme.accent));
    } else if footer.shows_sums {
        facts.push((format!("{SUMMED} added up by the kernel"), theme.accent));
    }
    facts.push((words, alarm(lost)));
    // Red only if a journey ended in a drop: kernels also drop useless packets.
    facts.push((format!("dropped {}", count(totals.kernel_drops)), alarm(totals.dropped())));
    if totals.vanished() > 0 {
        facts.push((format!("vanished {}", count(totals.vanished())), theme.bad));
    }
    if totals.broken() > 0 {
        facts.push((format!("broken by lost events {}", count(totals.broken())), theme.plain));
    }
    facts.push(own_cost(theme, frame));
    let per_s = footer.journeys_per_s.map_or_else(|| "·".to_owned(), |n| amount(n as u64).trim().to_owned());
    let per_s = if footer.journeys_estimated { format!("≈{per_s}") } else { per_s };
    facts.push((format!("{per_s:>6} journeys/s"), theme.plain));
    let resent = match (footer.sums, totals.summed_resent) {
        (false, 0) => format!("resent {}", count(totals.retransmitted)),
        (_, more) => format!("resent {SUMMED}{}", count(totals.retransmitted.saturating_add(more))),
    };
    facts.push((resent, theme.plain));
    if totals.late > 0 {
        facts.push((format!("late {}", count(totals.late)), theme.plain));
    }
    if footer.sums && totals.journeys == 0 {
        return facts; // without journeys nothing else applies
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

/// Keys of commands with a short name. Adjacent commands with the same name share it: `+- timebase`.
fn draw_keys(canvas: &mut Canvas, area: Rect, keys: &KeyMap) {
    let theme = canvas.theme;
    let mut x = 1;
    for group in COMMANDS.chunk_by(|a, b| a.short == b.short).filter(|group| !group[0].short.is_empty()) {
        let first = |command| keys.chords(command).next();
        let chords: Vec<_> = group.iter().filter_map(first).map(|chord| chord.to_string()).collect();
        let shown = match chords.as_slice() {
            [first, _, .., last] => format!("{first}-{last}"),
            few => few.concat(),
        };
        let words = group[0].short;
        // An unbound key leaves no gap; a shorter entry may still fit.
        if shown.is_empty() || x + width(&shown) + 1 + width(words) > area.width {
            continue;
        }
        let pieces = [(shown.as_str(), theme.strong), (" ", theme.plain), (words, theme.dim)];
        x = canvas.put_all(area, x, 0, &pieces) + 2;
    }
}
