//! Colours: the terminal's own palette, so that they fit a light background and a dark one, and 16 colours are enough.

use ratatui::style::{Color, Modifier, Style};

/// The few styles there are. One accent; red means loss or drop and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    /// Plain text.
    pub plain: Style,
    /// What steps back: scales, units, what is not measured.
    pub dim: Style,
    /// Titles and names.
    pub strong: Style,
    /// What the picture is about: the slowest or the selected journey.
    pub accent: Style,
    /// Loss and drops.
    pub bad: Style,
    /// The selected row.
    pub selected: Style,
}

impl Theme {
    /// With the accent and red of the terminal's palette.
    pub const fn coloured() -> Self {
        Theme {
            accent: Style::new().fg(Color::Cyan),
            bad: Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
            ..Self::plain()
        }
    }

    /// Without any colour: weight and inversion have to do.
    pub const fn plain() -> Self {
        Theme {
            plain: Style::new(),
            dim: Style::new().add_modifier(Modifier::DIM),
            strong: Style::new().add_modifier(Modifier::BOLD),
            accent: Style::new().add_modifier(Modifier::BOLD),
            bad: Style::new().add_modifier(Modifier::BOLD.union(Modifier::REVERSED)),
            selected: Style::new().add_modifier(Modifier::BOLD),
        }
    }

    /// As the environment asks: `NO_COLOR` set to anything but nothing switches colours off (<https://no-color.org>).
    pub fn from_env() -> Self {
        Self::for_no_color(std::env::var_os("NO_COLOR").as_deref())
    }

    fn for_no_color(no_color: Option<&std::ffi::OsStr>) -> Self {
        if no_color.is_some_and(|value| !value.is_empty()) { Self::plain() } else { Self::coloured() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_color_is_honoured() {
        assert_eq!(Theme::for_no_color(None), Theme::coloured());
        assert_eq!(Theme::for_no_color(Some("".as_ref())), Theme::coloured());
        let theme = Theme::for_no_color(Some("1".as_ref()));
        for style in [theme.plain, theme.dim, theme.strong, theme.accent, theme.bad, theme.selected] {
            assert_eq!((style.fg, style.bg), (None, None));
        }
    }
}
