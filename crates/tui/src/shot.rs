//! A screenshot: the cells as text or SVG.

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use std::fmt::Write as _;

/// Format of a screenshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Vector graphics.
    Svg,
    /// Plain text.
    Text,
}

impl Format {
    /// File name extension.
    pub const fn ending(self) -> &'static str {
        match self {
            Format::Svg => "svg",
            Format::Text => "txt",
        }
    }

    /// The cells in this format.
    pub fn write(self, buffer: &Buffer) -> String {
        match self {
            Format::Svg => svg(buffer),
            Format::Text => text(buffer),
        }
    }
}

/// The rows without trailing blanks.
pub fn text(buffer: &Buffer) -> String {
    let mut out = String::new();
    for row in rows(buffer) {
        let line: String = row.iter().map(Cell::symbol).collect();
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn rows(buffer: &Buffer) -> impl Iterator<Item = &[Cell]> {
    buffer.content.chunks(usize::from(buffer.area.width).max(1))
}

/// Width and height of a cell in the drawing.
const CELL: (f64, f64) = (8.4, 18.0);

/// The cells on a dark background, with searchable text.
pub fn svg(buffer: &Buffer) -> String {
    let (columns, lines) = (f64::from(buffer.area.width), f64::from(buffer.area.height));
    let (width, height) = (columns * CELL.0 + 16.0, lines * CELL.1 + 16.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.1} {height:.1}\" \
         font-family=\"ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace\" font-size=\"14\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{GROUND}\"/>\n"
    );
    for (y, row) in rows(buffer).enumerate() {
        let top = y as f64 * CELL.1 + 8.0;
        for (x, run) in runs(row) {
            draw_run(&mut out, x as f64 * CELL.0 + 8.0, top, run);
        }
    }
    out.push_str("</svg>\n");
    out
}

/// Runs of one style in a row, with their start columns. Blanks without a background are left out.
fn runs(row: &[Cell]) -> impl Iterator<Item = (usize, &[Cell])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = row.get(at..).filter(|rest| !rest.is_empty())?;
        let style = |cell: &Cell| (cell.fg, cell.bg, cell.modifier);
        let length = rest.iter().take_while(|cell| style(cell) == style(&rest[0])).count();
        let start = at;
        at += length;
        Some((start, &rest[..length]))
    })
    .filter(|(_, run)| {
        let first = &run[0];
        let ground = first.bg != Color::Reset || first.modifier.contains(Modifier::REVERSED);
        ground || run.iter().any(|cell| !cell.symbol().trim().is_empty())
    })
}

fn draw_run(out: &mut String, x: f64, top: f64, run: &[Cell]) {
    let Some(first) = run.first() else { return };
    let mut fill = (hex(first.fg, TEXT), hex(first.bg, GROUND));
    if first.modifier.contains(Modifier::REVERSED) {
        std::mem::swap(&mut fill.0, &mut fill.1);
    }
    let width = run.len() as f64 * CELL.0;
    // Writing to a string cannot fail.
    if fill.1 != GROUND {
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{}\"/>",
            CELL.1, fill.1
        );
    }
    let bold = if first.modifier.contains(Modifier::BOLD) { " font-weight=\"bold\"" } else { "" };
    let dim = if first.modifier.contains(Modifier::DIM) { " opacity=\"0.6\"" } else { "" };
    let _ = write!(
        out,
        "<text xml:space=\"preserve\" x=\"{x:.1}\" y=\"{:.1}\" textLength=\"{width:.1}\" fill=\"{}\"{bold}{dim}>",
        top + 13.5,
        fill.0
    );
    for symbol in run.iter().map(Cell::symbol) {
        match symbol {
            "<" => out.push_str("&lt;"),
            "&" => out.push_str("&amp;"),
            ">" => out.push_str("&gt;"),
            // XML cannot represent control characters.
            other => out.extend(other.chars().filter(|c| !c.is_control())),
        }
    }
    out.push_str("</text>\n");
}

const GROUND: &str = "#101418";
const TEXT: &str = "#d4d8dc";

/// An SVG colour.
fn hex(colour: Color, default: &str) -> String {
    const NAMED: [&str; 16] = [
        "#000000", "#cd3131", "#0dbc79", "#e5e510", "#2472c8", "#bc3fbc", "#11a8cd", "#e5e5e5", "#666666",
        "#f14c4c", "#23d18b", "#f5f543", "#3b8eea", "#d670d6", "#29b8db", "#ffffff",
    ];
    let named = |n: usize| NAMED[n].to_owned();
    match colour {
        Color::Reset => default.to_owned(),
        Color::Rgb(r, g, b) => format!("#{r:02x}{g:02x}{b:02x}"),
        Color::Indexed(n @ 0..=15) => named(usize::from(n)),
        Color::Indexed(n @ 16..=231) => {
            let level = |v: u8| if v == 0 { 0 } else { 55 + 40 * v };
            let n = n - 16;
            format!("#{:02x}{:02x}{:02x}", level(n / 36), level(n / 6 % 6), level(n % 6))
        }
        Color::Indexed(n) => format!("#{0:02x}{0:02x}{0:02x}", 8 + 10 * (n - 232)),
        Color::Black => named(0),
        Color::Red => named(1),
        Color::Green => named(2),
        Color::Yellow => named(3),
        Color::Blue => named(4),
        Color::Magenta => named(5),
        Color::Cyan => named(6),
        Color::Gray => named(7),
        Color::DarkGray => named(8),
        Color::LightRed => named(9),
        Color::LightGreen => named(10),
        Color::LightYellow => named(11),
        Color::LightBlue => named(12),
        Color::LightMagenta => named(13),
        Color::LightCyan => named(14),
        Color::White => named(15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    #[test]
    fn a_screen_is_drawn_and_nothing_of_it_is_markup() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 12, 2));
        buffer.set_string(0, 0, "a<b & \u{7}c", Style::new().fg(Color::Rgb(1, 2, 3)));
        buffer.set_string(0, 1, "✕", Style::new().fg(Color::Indexed(196)).add_modifier(Modifier::REVERSED));
        let svg = svg(&buffer);
        assert!(svg.contains("fill=\"#010203\">a&lt;b &amp;"), "{svg}");
        assert!(
            svg.contains("<rect x=\"8.0\" y=\"26.0\" width=\"8.4\" height=\"18.0\" fill=\"#ff0000\"/>"),
            "{svg}"
        );
        assert!(!svg.contains('\u{7}'));
        assert_eq!(svg.matches("<text").count(), 2, "blanks are not drawn");
        assert_eq!(text(&buffer).lines().last(), Some("✕"));
    }

    #[test]
    fn every_indexed_colour_has_a_value() {
        for n in 0..=255 {
            assert_eq!(hex(Color::Indexed(n), TEXT).len(), 7);
        }
        assert_eq!(hex(Color::Indexed(231), TEXT), "#ffffff");
        assert_eq!(hex(Color::Indexed(255), TEXT), "#eeeeee");
    }
}
