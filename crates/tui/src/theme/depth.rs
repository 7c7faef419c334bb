//! Colour depth of the terminal, and the nearest available colour.

use ratatui::style::Color;

/// Colour depth of the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// No colours: weight and inversion only.
    None,
    /// The terminal's own sixteen.
    Sixteen,
    /// xterm's cube and greys.
    Indexed,
    /// 24-bit colours.
    #[default]
    True,
}

impl Depth {
    /// Depth from the environment: a non-empty `NO_COLOR` disables colours (<https://no-color.org>),
    /// `COLORTERM` and `TERM` give the depth.
    pub fn from_env(var: impl Fn(&str) -> Option<String>) -> Self {
        let var = |name| var(name).unwrap_or_default();
        let (colorterm, term) = (var("COLORTERM"), var("TERM"));
        if !var("NO_COLOR").is_empty() || term == "dumb" {
            Depth::None
        } else if matches!(colorterm.as_str(), "truecolor" | "24bit") || term.ends_with("-direct") {
            Depth::True
        } else if term.contains("256color") {
            Depth::Indexed
        } else {
            Depth::Sixteen
        }
    }
}

/// Levels of xterm's colour cube.
const CUBE: [u8; 6] = [0, 95, 135, 175, 215, 255];

/// The nearest of xterm's 256 colours, except those that terminal settings change.
pub fn indexed((r, g, b): (u8, u8, u8)) -> Color {
    let level = |v: u8| (0..6_u8).min_by_key(|i| CUBE[usize::from(*i)].abs_diff(v)).unwrap_or_default();
    let (ri, gi, bi) = (level(r), level(g), level(b));
    let cube = (CUBE[usize::from(ri)], CUBE[usize::from(gi)], CUBE[usize::from(bi)]);
    let mean = (u16::from(r) + u16::from(g) + u16::from(b)) / 3;
    let step = (mean.saturating_sub(3) / 10).min(23) as u8;
    let grey = 8 + 10 * step;
    let far = |(x, y, z): (u8, u8, u8)| {
        let square = |a: u8, b: u8| u32::from(a.abs_diff(b)).pow(2);
        square(x, r) + square(y, g) + square(z, b)
    };
    if far((grey, grey, grey)) < far(cube) {
        Color::Indexed(232 + step)
    } else {
        Color::Indexed(16 + 36 * ri + 6 * gi + bi)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_how_many_colours() {
        let table: [(&[(&str, &str)], Depth); 9] = [
            (&[], Depth::Sixteen),
            (&[("TERM", "xterm-256color")], Depth::Indexed),
            (&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")], Depth::True),
            (&[("TERM", "linux"), ("COLORTERM", "24bit")], Depth::True),
            (&[("TERM", "xterm-direct")], Depth::True),
            (&[("TERM", "linux")], Depth::Sixteen),
            (&[("TERM", "dumb")], Depth::None),
            (&[("TERM", "xterm-256color"), ("NO_COLOR", "1")], Depth::None),
            (&[("TERM", "xterm-256color"), ("NO_COLOR", "")], Depth::Indexed),
        ];
        for (env, depth) in table {
            let var = |name: &str| env.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
            assert_eq!(Depth::from_env(var), depth, "{env:?}");
        }
    }

    #[test]
    fn colours_have_a_nearest_among_256() {
        assert_eq!(indexed((0, 0, 0)), Color::Indexed(16));
        assert_eq!(indexed((255, 255, 255)), Color::Indexed(231));
        assert_eq!(indexed((128, 128, 128)), Color::Indexed(244));
        assert_eq!(indexed((0x56, 0xb4, 0xe9)), Color::Indexed(74));
    }
}
