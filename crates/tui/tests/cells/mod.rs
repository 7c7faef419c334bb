//! Cells as text with their styles: text alone would not show that a loss is red.

#![allow(dead_code)] // each user of this module needs a part

use magscope_scope::Scope;
use magscope_tui::{Depth, Front, Options, Theme};
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

/// A front with the dark theme, independent of the test's terminal.
pub fn front() -> Front {
    Front::new(options())
}

pub fn options() -> Options {
    Options { theme: Theme::built_in("dark", Depth::True), ..Options::default() }
}

/// The cells of a screen of this size.
pub fn screen(front: &Front, scope: &Scope, width: u16, height: u16) -> Buffer {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    front.draw(scope, &mut buffer, area);
    buffer
}

pub fn text(buffer: &Buffer) -> String {
    buffer.content.iter().map(Cell::symbol).collect()
}

/// One line per row.
pub fn lines(buffer: &Buffer) -> String {
    let line = |row: &[Cell]| row.iter().map(Cell::symbol).chain(["\n"]).collect::<String>();
    buffer.content.chunks(usize::from(buffer.area.width)).map(line).collect()
}

/// Each row as text, followed by its style runs: a letter and a cell count.
///
/// `.` plain `d` dim `g` grid `B` strong `a` accent `A` selected `R` bad `r` bad but not bold, `1`-`6` series,
/// `#0`-`#f` density. A row without styles has no runs.
pub fn cells(buffer: &Buffer) -> String {
    let theme = Theme::built_in("dark", Depth::True);
    let mut out = String::new();
    for row in buffer.content.chunks(usize::from(buffer.area.width)) {
        out.push('|');
        out.extend(row.iter().map(Cell::symbol));
        out.push('|');
        let styles: Vec<_> = row.iter().map(|cell| letter(&theme, cell)).collect();
        if styles.iter().any(|style| style != ".") {
            for run in styles.chunk_by(|a, b| a == b) {
                out.push(' ');
                out.push_str(&run[0]);
                out.push_str(&run.len().to_string());
            }
        }
        out.push('\n');
    }
    out
}

fn letter(theme: &Theme, cell: &Cell) -> String {
    if cell.symbol() == " " && cell.bg == Color::Reset && !cell.modifier.contains(Modifier::REVERSED) {
        return ".".to_owned();
    }
    let is = |style: Style| {
        style.fg.unwrap_or(Color::Reset) == cell.fg
            && style.bg.unwrap_or(Color::Reset) == cell.bg
            && style.add_modifier == cell.modifier
    };
    let named = [
        (theme.plain, '.'),
        (theme.dim, 'd'),
        (theme.grid, 'g'),
        (theme.strong, 'B'),
        (theme.accent, 'a'),
        (theme.selected, 'A'),
        (theme.bad, 'R'),
    ];
    if let Some((_, letter)) = named.iter().find(|(style, _)| is(*style)) {
        return letter.to_string();
    }
    if let Some(at) = theme.series.iter().position(|style| is(*style)) {
        return format!("s{}:", at + 1);
    }
    if let Some(at) = theme.density.iter().position(|style| is(*style)) {
        return format!("#{at:x}:");
    }
    format!("{:?}/{:?}/{:?}:", cell.fg, cell.bg, cell.modifier)
}
