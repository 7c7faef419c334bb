//! A chord: a key with what is held down beside it, as it is written in a key map and shown in the help.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::fmt;

/// A key with what is held down beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Chord {
    code: KeyCode,
    modifiers: KeyModifiers,
}

/// Keys with a name: as written in a key map, as shown.
const NAMED: &[(&str, &str, KeyCode)] = &[
    ("space", "Space", KeyCode::Char(' ')),
    ("enter", "Enter", KeyCode::Enter),
    ("esc", "Esc", KeyCode::Esc),
    ("tab", "Tab", KeyCode::Tab),
    ("backtab", "Shift-Tab", KeyCode::BackTab),
    ("backspace", "Backspace", KeyCode::Backspace),
    ("delete", "Del", KeyCode::Delete),
    ("insert", "Ins", KeyCode::Insert),
    ("left", "←", KeyCode::Left),
    ("right", "→", KeyCode::Right),
    ("up", "↑", KeyCode::Up),
    ("down", "↓", KeyCode::Down),
    ("home", "Home", KeyCode::Home),
    ("end", "End", KeyCode::End),
    ("pageup", "PgUp", KeyCode::PageUp),
    ("pagedown", "PgDn", KeyCode::PageDown),
];

const HELD: &[(&str, &str, KeyModifiers)] = &[
    ("ctrl-", "Ctrl-", KeyModifiers::CONTROL),
    ("alt-", "Alt-", KeyModifiers::ALT),
    ("shift-", "Shift-", KeyModifiers::SHIFT),
];

impl Chord {
    /// The chord of a key press. Shift is part of a character and not held beside it.
    pub fn of(key: KeyEvent) -> Self {
        let kept = KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SHIFT;
        let mut modifiers = key.modifiers & kept;
        let mut code = key.code;
        if let KeyCode::Char(c) = code {
            if modifiers.contains(KeyModifiers::CONTROL) {
                code = KeyCode::Char(c.to_ascii_lowercase());
            }
            modifiers -= KeyModifiers::SHIFT;
        }
        if code == KeyCode::BackTab {
            modifiers -= KeyModifiers::SHIFT;
        }
        Chord { code, modifiers }
    }

    /// Reads a chord as written in a key map: `q`, `G`, `ctrl-l`, `shift-left`, `f1`, `space`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut modifiers = KeyModifiers::NONE;
        let mut rest = text;
        while let Some((name, _, held)) = HELD.iter().find(|(name, ..)| starts_with(rest, name)) {
            modifiers |= *held;
            rest = &rest[name.len()..];
        }
        let code = code(rest)?;
        let code = match code {
            KeyCode::Tab if modifiers.contains(KeyModifiers::SHIFT) => KeyCode::BackTab,
            code => code,
        };
        // What a terminal never sends would be a dead key.
        if matches!(code, KeyCode::Char(c) if modifiers.contains(KeyModifiers::SHIFT) && c != ' ') {
            return None;
        }
        Some(Chord::of(KeyEvent::new(code, modifiers)))
    }
}

fn starts_with(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

fn code(text: &str) -> Option<KeyCode> {
    if let Some((.., code)) = NAMED.iter().find(|(name, ..)| name.eq_ignore_ascii_case(text)) {
        return Some(*code);
    }
    let mut chars = text.chars();
    match (chars.next()?, chars.as_str()) {
        (c, "") if !c.is_control() => Some(KeyCode::Char(c)),
        ('f' | 'F', number) => number.parse().ok().filter(|n| (1..=24).contains(n)).map(KeyCode::F),
        _ => None,
    }
}

/// As shown in the help: `q`, `Ctrl-L`, `←`, `F1`.
impl fmt::Display for Chord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (_, shown, held) in HELD {
            if self.modifiers.contains(*held) {
                f.write_str(shown)?;
            }
        }
        if let Some((_, shown, _)) = NAMED.iter().find(|(.., code)| *code == self.code) {
            return f.write_str(shown);
        }
        match self.code {
            KeyCode::Char(c) if self.modifiers.contains(KeyModifiers::CONTROL) => {
                write!(f, "{}", c.to_ascii_uppercase())
            }
            KeyCode::Char(c) => write!(f, "{c}"),
            KeyCode::F(n) => write!(f, "F{n}"),
            other => write!(f, "{other:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chords_are_read_and_shown() {
        let table = [
            ("q", "q"),
            ("G", "G"),
            ("?", "?"),
            ("-", "-"),
            ("space", "Space"),
            ("Left", "←"),
            ("shift-left", "Shift-←"),
            ("ctrl-l", "Ctrl-L"),
            ("CTRL-L", "Ctrl-L"),
            ("alt-x", "Alt-x"),
            ("ctrl--", "Ctrl--"),
            ("f1", "F1"),
            ("f", "f"),
            ("shift-tab", "Shift-Tab"),
            ("µ", "µ"),
        ];
        for (text, shown) in table {
            assert_eq!(Chord::parse(text).map(|chord| chord.to_string()).as_deref(), Some(shown), "{text}");
        }
        for wrong in ["", "qq", "f0", "f99", "ctrl-", "shift-a", "hyper-x", "\u{1b}"] {
            assert_eq!(Chord::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn what_terminals_send_is_what_maps_say() {
        let press = |code, modifiers| Chord::of(KeyEvent::new(code, modifiers));
        assert_eq!(Some(press(KeyCode::Char('?'), KeyModifiers::SHIFT)), Chord::parse("?"));
        assert_eq!(Some(press(KeyCode::Char('L'), KeyModifiers::CONTROL)), Chord::parse("ctrl-l"));
        assert_eq!(Some(press(KeyCode::BackTab, KeyModifiers::SHIFT)), Chord::parse("shift-tab"));
        assert_ne!(Some(press(KeyCode::Char('q'), KeyModifiers::CONTROL)), Chord::parse("q"));
    }
}
