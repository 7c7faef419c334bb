//! The TOML format of themes.

use super::depth::{Depth, indexed};
use ratatui::style::{Color, Modifier, Style};
use serde::Deserialize;

use super::{DENSITY, SERIES, Theme};

/// Error in a theme.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ThemeError {
    /// Line, from 1.
    pub line: usize,
    /// The error.
    pub what: String,
}

/// A colour: the terminal's own, or red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
enum Colour {
    Default,
    Rgb(u8, u8, u8),
}

impl TryFrom<String> for Colour {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "default" {
            return Ok(Colour::Default);
        }
        let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6);
        let number = digits
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let number = number.ok_or_else(|| {
            format!("`{text}` is no colour; write `#rrggbb`, or `default` for the terminal's")
        })?;
        let [_, r, g, b] = number.to_be_bytes();
        Ok(Colour::Rgb(r, g, b))
    }
}

impl Colour {
    /// The colour at the terminal's depth; `named` at 16 colours.
    fn shown(self, depth: Depth, named: Color) -> Color {
        match (self, depth) {
            (_, Depth::None) | (Colour::Default, _) => Color::Reset,
            (Colour::Rgb(..), Depth::Sixteen) => named,
            (Colour::Rgb(r, g, b), Depth::Indexed) => indexed((r, g, b)),
            (Colour::Rgb(r, g, b), Depth::True) => Color::Rgb(r, g, b),
        }
    }

    /// Interpolates towards another colour.
    fn towards(self, other: Colour, part: f64) -> Colour {
        let rgb = |colour| if let Colour::Rgb(r, g, b) = colour { Some([r, g, b]) } else { None };
        let (Some(from), Some(to)) = (rgb(self), rgb(other)) else { return self };
        let mix =
            |i: usize| (f64::from(from[i]) + (f64::from(to[i]) - f64::from(from[i])) * part).round() as u8;
        Colour::Rgb(mix(0), mix(1), mix(2))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    background: Colour,
    text: Colour,
    dim: Colour,
    grid: Colour,
    accent: Colour,
    bad: Colour,
    missed: Colour,
    series: [Colour; SERIES],
    density: Vec<Colour>,
}

/// Terminal colours for series and density at 16 colours.
const NAMED_SERIES: [Color; SERIES] =
    [Color::Yellow, Color::Green, Color::Magenta, Color::LightYellow, Color::Cyan, Color::Blue];

/// Reads a theme.
pub fn parse(name: &str, text: &str, depth: Depth) -> Result<Theme, ThemeError> {
    let written: Written = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let line = 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        ThemeError { line, what: error.message().to_owned() }
    })?;
    let [.., last] = written.density.as_slice() else {
        return Err(ThemeError { line: 1, what: "`density` needs a colour at least".to_owned() });
    };
    let colour = |colour: Colour, named| Style::new().fg(colour.shown(depth, named));
    let faint = |style: Style| match depth {
        Depth::None | Depth::Sixteen => style.fg(Color::Reset).add_modifier(Modifier::DIM),
        _ => style,
    };
    let bold = |style: Style| style.add_modifier(Modifier::BOLD);
    let plain = colour(written.text, Color::Reset);
    let accent = colour(written.accent, Color::Cyan);
    let bad = bold(colour(written.bad, Color::Red));
    let missed = bold(colour(written.missed, Color::Magenta));
    let density = std::array::from_fn(|step| {
        let at = step as f64 / (DENSITY - 1) as f64 * (written.density.len() - 1) as f64;
        let from = written.density.get(at as usize).copied().unwrap_or(*last);
        let to = written.density.get(at as usize + 1).copied().unwrap_or(*last);
        let named = [Color::Blue, Color::Cyan, Color::White][step * 3 / DENSITY];
        colour(from.towards(to, at.fract()), named)
    });
    Ok(Theme {
        name: name.to_owned(),
        ground: Style::new().bg(written.background.shown(depth, Color::Reset)),
        plain,
        dim: faint(colour(written.dim, Color::Reset)),
        grid: faint(colour(written.grid, Color::Reset)),
        strong: bold(plain),
        accent: if depth == Depth::None { bold(accent) } else { accent },
        bad: if depth == Depth::None { bad.add_modifier(Modifier::REVERSED) } else { bad },
        missed: if depth == Depth::None { missed.add_modifier(Modifier::UNDERLINED) } else { missed },
        selected: bold(if depth == Depth::None { plain } else { accent }),
        series: std::array::from_fn(|i| colour(written.series[i], NAMED_SERIES[i])),
        density,
    })
}

#[cfg(test)]
mod tests {
    use super::super::{BUILT_IN, Theme};
    use super::*;

    #[test]
    fn the_built_in_themes_are_right_at_every_depth() {
        for (name, text) in BUILT_IN {
            for depth in [Depth::None, Depth::Sixteen, Depth::Indexed, Depth::True] {
                let theme = parse(name, text, depth).unwrap();
                assert_eq!(theme.name, *name);
                if depth != Depth::None {
                    assert_ne!(theme.accent.fg, theme.bad.fg, "{name} {depth:?}");
                    assert_ne!(theme.density[0], theme.density[DENSITY - 1], "{name} {depth:?}");
                }
            }
        }
    }

    #[test]
    fn without_colours_there_are_none() {
        for (name, text) in BUILT_IN {
            let theme = parse(name, text, Depth::None).unwrap();
            let Theme { ground, plain, dim, grid, strong, accent, bad, selected, series, density, .. } = theme;
            let styles = [ground, plain, dim, grid, strong, accent, bad, selected];
            for style in styles.into_iter().chain(series).chain(density) {
                for colour in [style.fg, style.bg].into_iter().flatten() {
                    assert_eq!(colour, Color::Reset);
                }
            }
        }
    }

    #[test]
    fn mistakes_are_named_by_line() {
        let (_, dark) = BUILT_IN[0];
        let error = |from: &str, to: &str| parse("x", &dark.replace(from, to), Depth::True).unwrap_err();
        let wrong = error("accent = \"#56b4e9\"", "accent = \"#56b4\"");
        assert_eq!(wrong.line, 7, "{wrong}");
        assert!(wrong.what.contains("`#56b4` is no colour"), "{wrong}");
        let wrong = error("accent", "accnet");
        assert!(wrong.line == 7 && wrong.what.contains("accnet"), "{wrong}");
        assert!(error("background = \"default\"", "").what.contains("background"));
    }
}
