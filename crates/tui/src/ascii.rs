//! ASCII output for limited terminals: translates the finished cells, so that panels need no special case.

use ratatui::buffer::Buffer;

/// Replaces every non-ASCII symbol by a similar one.
pub fn translate(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        if !cell.symbol().is_ascii() {
            let c = cell.symbol().chars().next().map_or(' ', ascii);
            cell.set_char(c);
        }
    }
}

/// True if the locale supports UTF-8. The default is true, because containers seldom set a locale.
pub fn is_utf8(var: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name| var(name).filter(|value| !value.is_empty());
    let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG"));
    locale.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// Replacement characters.
const LOOKS_LIKE: &[(&str, char)] = &[
    ("─━╌┄┈–—−▂", '-'),
    ("│┃╎┆┊╵╷", '|'),
    ("╭╮╰╯┌┐└┘┬┴├┤┼▄▒", '+'),
    ("╱", '/'),
    ("╲", '\\'),
    ("●◉◆•", 'o'),
    ("○◇", 'O'),
    ("✕×✗", 'x'),
    ("▸▶→›≥", '>'),
    ("◂◀←‹≤", '<'),
    ("▴▲↑", '^'),
    ("▾▼↓", 'v'),
    ("■❚█▉▊▋▇", '#'),
    ("▆▓", '%'),
    ("▅▌▍", '*'),
    ("↔▃▎", '='),
    ("▁▏", '_'),
    ("░", ':'),
    ("·∙", '.'),
    ("…±≈", '~'),
    ("µμ", 'u'),
    ("Δ", 'd'),
    ("✓", 'y'),
];

/// The closest ASCII character.
fn ascii(c: char) -> char {
    if ('\u{2800}'..='\u{28ff}').contains(&c) {
        return braille(c as u32 - 0x2800);
    }
    LOOKS_LIKE.iter().find(|(all, _)| all.contains(c)).map_or('?', |(_, ascii)| *ascii)
}

/// A character similar to the braille dots.
fn braille(mask: u32) -> char {
    let (top, middle, bottom) = (0b0000_1001, 0b0011_0110, 0b1100_0000);
    let (left, right) = (0b0100_0111, 0b1011_1000);
    let has = |rows: u32| mask & rows != 0;
    match (has(top), has(middle), has(bottom)) {
        (false, false, false) => ' ',
        (true, false, false) => '\'',
        (false, false, true) => '.',
        (false, true, false) => '-',
        _ if mask & left == 0 || mask & right == 0 => '|',
        _ if mask.count_ones() >= 6 => '#',
        // Rising: lower left and upper right.
        _ if mask & 0b0100_0100 != 0 && mask & 0b0001_1000 != 0 && mask & 0b1000_0001 == 0 => '/',
        _ if mask & 0b0000_0011 != 0 && mask & 0b1010_0000 != 0 && mask & 0b0100_1000 == 0 => '\\',
        _ => '*',
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::layout::Rect;

    #[test]
    fn what_is_left_is_ascii() {
        let text = "1.92 µs → ±3 ⠤⡇⢀⠁⣿⡠⠊⠑⢄ ▁█ 漢";
        let mut buffer = Buffer::empty(Rect::new(0, 0, 40, 1));
        buffer.set_string(0, 0, text, ratatui::style::Style::new());
        translate(&mut buffer);
        let line: String = buffer.content.iter().map(ratatui::buffer::Cell::symbol).collect();
        assert!(line.is_ascii(), "{line}");
        assert!(line.starts_with("1.92 us > ~3 -|.'#"), "{line}");
    }

    #[test]
    fn the_locale_decides() {
        let of = |name: &'static str, value: &'static str| {
            is_utf8(|asked| (asked == name).then(|| value.to_owned()))
        };
        assert!(of("LANG", "C.UTF-8") && of("LC_ALL", "en_GB.utf8") && of("LANG", ""));
        assert!(!of("LANG", "C") && !of("LC_CTYPE", "en_GB.ISO-8859-1"));
    }
}
