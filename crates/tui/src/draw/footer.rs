//! The footer: losses and cost, including zeros; and the keys.

use super::Extras;
use super::canvas::{Canvas, width};
use crate::theme::Theme;
use magscope_scope::Frame;
use magscope_scope::command::COMMANDS;
use magscope_scope::command::keys::KeyMap;
use magscope_scope::look::{Tone, facts};
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Draws both lines.
pub fn draw(canvas: &mut Canvas, counts: Rect, keys: Rect, frame: &Frame, extras: &Extras) {
    let mut x = 1;
    for fact in facts(&frame.footer) {
        // Values that do not fit are shortened or left out: a truncated number would be wrong.
        let fits = |words: &str| x == 1 || x + width(words) <= counts.width;
        if let Some(words) = [fact.text.as_str(), fact.short()].into_iter().find(|words| fits(words)) {
            x = canvas.put(counts, x, 0, words, style(canvas.theme, fact.tone)) + 3;
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

fn style(theme: &Theme, tone: Tone) -> Style {
    match tone {
        Tone::Plain => theme.plain,
        Tone::Dim => theme.dim,
        Tone::Accent => theme.accent,
        Tone::NetworkLoss => theme.bad,
        Tone::MissedEvents => theme.missed,
    }
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
