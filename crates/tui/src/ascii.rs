//! ASCII output for limited terminals: translates the finished cells, so that panels need no special case.

use ratatui::buffer::Buffer;

/// Replaces every non-ASCII symbol by a similar one.
pub fn translate(buffer: &mut Buffer) {
    // From the end, so that the cell to the right is still the original one.
    let mut before_word = false;
    for cell in buffer.content.iter_mut().rev() {
        let c = cell.symbol().chars().next().unwrap_or(' ');
        if !cell.symbol().is_ascii() {
            // Before a word, `v` would be one of its letters.
            cell.set_char(if c == '↓' && before_word { '>' } else { ascii(c) });
        }
        before_word = c.is_alphanumeric();
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
    ("─━╌┄┈–—−▂↔", '-'),
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
    ("▃▎", '='),
    ("▁▏", '_'),
    ("░", ':'),
    ("·∙", '.'),
    ("…±≈", '~'),
    ("µμ", 'u'),
    ("Δ", 'd'),
    ("Σ", 'S'),
    ("↻", 'r'),
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
    use std::collections::BTreeMap;
    use std::path::Path;

    fn translated(text: &str) -> String {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 40, 1));
        buffer.set_string(0, 0, text, ratatui::style::Style::new());
        translate(&mut buffer);
        buffer.content.iter().map(ratatui::buffer::Cell::symbol).collect()
    }

    /// Every non-ASCII symbol of the code in a folder, with a file that has it. Comments and tests have others.
    fn symbols_in(folder: &Path, symbols: &mut BTreeMap<char, String>) {
        for entry in std::fs::read_dir(folder).expect("sources") {
            let path = entry.expect("an entry").path();
            let name = path.display().to_string();
            if path.is_dir() {
                symbols_in(&path, symbols);
            } else if path.extension().is_some_and(|ending| ending == "rs") && !name.ends_with("tests.rs") {
                let text = std::fs::read_to_string(&path).expect("a source");
                let code = text.split("#[cfg(test)]").next().unwrap_or_default();
                let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
                for c in lines.flat_map(str::chars).filter(|c| !c.is_ascii()) {
                    symbols.insert(c, name.clone());
                }
            }
        }
    }

    #[test]
    fn every_symbol_on_the_screen_has_a_replacement() {
        let mut symbols = BTreeMap::new();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        symbols_in(&sources, &mut symbols);
        symbols_in(&sources.join("../../scope/src"), &mut symbols);
        assert!(symbols.contains_key(&'Σ') && symbols.contains_key(&'↻'), "{symbols:?}");
        for (symbol, file) in symbols {
            assert_ne!(ascii(symbol), '?', "{symbol} of {file}");
        }
    }

    #[test]
    fn an_arrow_before_a_word_is_no_letter() {
        assert!(translated("↓journeys ↓ more ↑↓ select").starts_with(">journeys v more ^v select"));
    }

    #[test]
    fn what_is_left_is_ascii() {
        let text = "1.92 µs → ±3 ⠤⡇⢀⠁⣿⡠⠊⠑⢄ ▁█ 漢";
        let line = translated(text);
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
