//! The command palette: input and matching commands.

use super::canvas::{Canvas, width};
use super::help::window;
use crate::palette::Palette;
use crate::prompt::Prompt;
use magscope_scope::command::keys::KeyMap;
use magscope_scope::{Channel, Frame, Unit};
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use tui_input::Input;

/// Maximum number of command rows.
const ROWS: u16 = 12;
const COLUMNS: u16 = 76;
const NAMES: u16 = 20;

/// Draws the palette over the bottom of `area`.
pub fn draw(canvas: &mut Canvas, area: Rect, palette: &Palette, keys: &KeyMap) {
    let theme = canvas.theme;
    let rows = (palette.found.len() as u16).min(ROWS) + 1;
    let height = (rows + 2).min(area.height);
    let bottom = Rect { y: area.bottom() - height, height, ..area };
    let inner = window(canvas, bottom, COLUMNS, rows, " command ");
    line(canvas, inner, 0, ":", &palette.input);
    let room = usize::from(inner.height.saturating_sub(1)).max(1);
    let from = (palette.chosen + 1).saturating_sub(room);
    for (i, command) in palette.found.iter().enumerate().skip(from).take(room) {
        let y = (i - from) as u16 + 1;
        let chosen = i == palette.chosen;
        let style = if chosen { theme.selected } else { theme.plain };
        if chosen {
            canvas.put(inner, 0, y, "▸", style);
        }
        canvas.put(inner, 1, y, command.name, style);
        let shown = keys.shown(command);
        let end =
            canvas.put_right(inner, inner.width.saturating_sub(1), y, &shown, theme.dim).unwrap_or(inner.width);
        let words = if chosen { theme.plain } else { theme.dim };
        canvas.put_cut(inner, NAMES, y, end.saturating_sub(NAMES + 1), command.words, words);
    }
    if palette.found.is_empty() {
        canvas.put(inner, 1, 1, "no command has these letters", theme.dim);
    }
}

/// An input line with a visible cursor.
pub fn line(canvas: &mut Canvas, area: Rect, y: u16, before: &str, input: &Input) {
    let theme = canvas.theme;
    let start = canvas.put(area, 1, y, before, theme.accent);
    let room = usize::from(area.width.saturating_sub(start + 1));
    let scroll = input.visual_scroll(room);
    let text: String = input.value().chars().skip(scroll).collect();
    canvas.put(area, start, y, &text, theme.plain);
    let at = input.visual_cursor().saturating_sub(scroll);
    if let Some(x) = u16::try_from(at).ok().and_then(|at| start.checked_add(at)).filter(|x| *x < area.width)
        && let Some(cell) = canvas.buffer.cell_mut((area.x + x, area.y + y))
    {
        cell.set_style(Style::new().add_modifier(Modifier::REVERSED));
    }
}

/// Draws a prompt over the last rows of `area`.
pub fn prompt(canvas: &mut Canvas, area: Rect, prompt: &Prompt) {
    let height = 4.min(area.height);
    let bottom = Rect { y: area.bottom() - height, height, ..area };
    let title = format!(" {} ", prompt.question.title());
    let inner = window(canvas, bottom, area.width.min(110), 2, &title);
    line(canvas, inner, 0, "› ", &prompt.input);
    let (words, style) = match &prompt.wrong {
        Some(wrong) => (wrong.as_str(), canvas.theme.selected),
        None => (prompt.question.example(), canvas.theme.dim),
    };
    canvas.put_cut(inner, 1, 1, inner.width.saturating_sub(2), words, style);
}

/// Draws the signals over the middle of `area`, with marks for shown ones.
pub fn channels(canvas: &mut Canvas, area: Rect, at: usize, frame: &Frame) {
    let theme = canvas.theme;
    let (channels, shown) = (frame.channels(), &frame.controls.channels);
    let longest = channels.iter().map(|channel| width(channel.name())).max().unwrap_or(0);
    // Probe names have arbitrary length.
    let units = (longest + 6).clamp(22, 60);
    let inner = window(canvas, area, units + 18, channels.len() as u16, " signals: Enter shows or hides ");
    let from = (at + 1).saturating_sub(usize::from(inner.height).max(1));
    for (i, channel) in channels.iter().enumerate().skip(from).take(usize::from(inner.height)) {
        let y = (i - from) as u16;
        let style = if i == at { theme.selected } else { theme.plain };
        let ticked = shown.iter().any(|shown| shown.channel == *channel);
        canvas.put(inner, 0, y, if i == at { "▸" } else { " " }, style);
        canvas.put(inner, 2, y, if ticked { "✓" } else { "·" }, if ticked { theme.accent } else { theme.dim });
        canvas.put_cut(inner, 4, y, units - 5, channel.name(), style);
        let words = if matches!(channel, Channel::Value(_)) { "custom probe" } else { unit(channel.unit()) };
        canvas.put_cut(inner, units, y, inner.width.saturating_sub(units + 1), words, theme.dim);
    }
}

const fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Time => "time",
        Unit::Bytes => "bytes",
        Unit::BytesPerS => "bits a second",
        Unit::PerS => "a second",
        Unit::Count => "count",
        Unit::Ratio => "per cent",
    }
}
