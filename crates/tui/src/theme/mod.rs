//! Colours: themes in TOML, brought to what the terminal can show.

mod depth;
mod file;

pub use depth::Depth;
pub use file::{ThemeError, parse};
use ratatui::style::Style;

/// Colours for things side by side.
pub const SERIES: usize = 6;
/// Steps from few to many. More would only make more bytes.
pub const DENSITY: usize = 16;

/// The themes there are without a file, the usual one first.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("dark", include_str!("dark.toml")),
    ("light", include_str!("light.toml")),
    ("high-contrast", include_str!("high-contrast.toml")),
];

/// The few styles there are. One accent; red means loss or drop and nothing else.
#[derive(Clone, Debug, PartialEq)]
pub struct Theme {
    /// What it is called.
    pub name: String,
    /// Behind everything.
    pub ground: Style,
    /// Plain text.
    pub plain: Style,
    /// What steps back: scales, units, what is not measured.
    pub dim: Style,
    /// What steps back further: rules and the graticule.
    pub grid: Style,
    /// Titles and names.
    pub strong: Style,
    /// What the picture is about: the slowest or the selected journey.
    pub accent: Style,
    /// Loss and drops.
    pub bad: Style,
    /// The selected row.
    pub selected: Style,
    /// Things side by side.
    pub series: [Style; SERIES],
    /// From few to many.
    pub density: [Style; DENSITY],
}

impl Theme {
    /// A built-in theme; the first where there is none of this name.
    pub fn built_in(name: &str, depth: Depth) -> Self {
        let (name, text) = BUILT_IN.iter().find(|(known, _)| *known == name).unwrap_or(&BUILT_IN[0]);
        match parse(name, text, depth) {
            Ok(theme) => theme,
            // A test reads each of them.
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
            selected: style,
            series: [style; SERIES],
            density: [style; DENSITY],
        }
    }

    /// The name of the built-in theme that suits the background, where the terminal says what it is (`COLORFGBG`).
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
