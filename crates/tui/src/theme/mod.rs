//! Themes in TOML, adapted to the terminal's colour depth.

mod depth;
mod file;

pub use depth::Depth;
pub use file::{ThemeError, parse};
use ratatui::style::Style;

/// Number of series colours.
pub const SERIES: usize = 6;
/// Number of density steps. More would only increase the output.
pub const DENSITY: usize = 16;

/// Built-in themes, the default first.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("dark", include_str!("dark.toml")),
    ("light", include_str!("light.toml")),
    ("high-contrast", include_str!("high-contrast.toml")),
];

/// All styles. There is one accent; red marks only loss and drops of the network.
#[derive(Clone, Debug, PartialEq)]
pub struct Theme {
    /// Name.
    pub name: String,
    /// Background.
    pub ground: Style,
    /// Plain text.
    pub plain: Style,
    /// Secondary text: scales, units, unserved hops.
    pub dim: Style,
    /// Faint lines: rules and the graticule.
    pub grid: Style,
    /// Titles and names.
    pub strong: Style,
    /// Highlight: the slowest or the selected journey.
    pub accent: Style,
    /// Loss and drops of the network.
    pub bad: Style,
    /// Events that the instrument missed.
    pub missed: Style,
    /// The selected row.
    pub selected: Style,
    /// Adjacent series.
    pub series: [Style; SERIES],
    /// Density steps, increasing.
    pub density: [Style; DENSITY],
}

impl Theme {
    /// A built-in theme; the first if the name is unknown.
    pub fn built_in(name: &str, depth: Depth) -> Self {
        let (name, text) = BUILT_IN.iter().find(|(other, _)| *other == name).unwrap_or(&BUILT_IN[0]);
        match parse(name, text, depth) {
            Ok(theme) => theme,
            // A test parses each of them.
            Err(_) => Theme::none(),
        }
    }

    fn none() -> Self {
        let style = Style::new();
        Theme {
            name: String::new(),
            ground: style,
            plain: style,
            dim: style,
            grid: style,
            strong: style,
            accent: style,
            bad: style,
            missed: style,
            selected: style,
            series: [style; SERIES],
            density: [style; DENSITY],
        }
    }

    /// The built-in theme for the terminal's background, if reported (`COLORFGBG`).
    pub fn suitable(colorfgbg: Option<&str>) -> &'static str {
        let background = colorfgbg.and_then(|value| value.rsplit(';').next()?.parse::<u8>().ok());
        match background {
            Some(7 | 9..=15) => "light",
            _ => "dark",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_background_chooses_the_theme() {
        for (value, name) in [
            (None, "dark"),
            (Some(""), "dark"),
            (Some("15;0"), "dark"),
            (Some("0;15"), "light"),
            (Some("0;default;7"), "light"),
            (Some("x;y"), "dark"),
        ] {
            assert_eq!(Theme::suitable(value), name, "{value:?}");
        }
    }
}
