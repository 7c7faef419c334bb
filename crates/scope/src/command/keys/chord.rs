//! A chord: a key with its modifiers, in the notation of key maps and help.

use std::fmt;

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // names say enough
pub enum Code {
    /// A key that types this character.
    Char(char),
    /// A function key, from 1.
    F(u8),
    Enter,
    Esc,
    Tab,
    /// Shift and Tab, as terminals send it.
    BackTab,
    Backspace,
    Delete,
    Insert,
    Left,
    Right,
    Up,
    Down,
    Home,
    End,
    PageUp,
    PageDown,
    /// A key that a key map cannot name.
    Other,
}

/// The modifiers of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HeldModifiers {
    /// Control.
    pub ctrl: bool,
    /// Alt.
    pub alt: bool,
    /// Shift.
    pub shift: bool,
}

/// A key with its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Chord {
    code: Code,
    held: HeldModifiers,
}

/// Keys with a name: as written in a key map, as shown.
const NAMED: &[(&str, &str, Code)] = &[
    ("space", "Space", Code::Char(' ')),
    ("enter", "Enter", Code::Enter),
    ("esc", "Esc", Code::Esc),
    ("tab", "Tab", Code::Tab),
    ("backtab", "Shift-Tab", Code::BackTab),
    ("backspace", "Backspace", Code::Backspace),
    ("delete", "Del", Code::Delete),
    ("insert", "Ins", Code::Insert),
    ("left", "←", Code::Left),
    ("right", "→", Code::Right),
    ("up", "↑", Code::Up),
    ("down", "↓", Code::Down),
    ("home", "Home", Code::Home),
    ("end", "End", Code::End),
    ("pageup", "PgUp", Code::PageUp),
    ("pagedown", "PgDn", Code::PageDown),
];

/// A modifier: name in a key map, name in the help, getter, setter.
type HeldModifier = (&'static str, &'static str, fn(&HeldModifiers) -> bool, fn(&mut HeldModifiers));

const HELD: &[HeldModifier] = &[
    ("ctrl-", "Ctrl-", |held| held.ctrl, |held| held.ctrl = true),
    ("alt-", "Alt-", |held| held.alt, |held| held.alt = true),
    ("shift-", "Shift-", |held| held.shift, |held| held.shift = true),
];

impl Chord {
    /// The chord of a key press. Shift is part of a character and no modifier of it.
    pub fn of(mut code: Code, mut held: HeldModifiers) -> Self {
        if let Code::Char(c) = code {
            if held.ctrl {
                code = Code::Char(c.to_ascii_lowercase());
            }
            held.shift = false;
        }
        if code == Code::BackTab {
            held.shift = false;
        }
        Chord { code, held }
    }

    /// Reads a chord as written in a key map: `q`, `G`, `ctrl-l`, `shift-left`, `f1`, `space`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut held = HeldModifiers::default();
        let mut rest = text;
        while let Some((name, .., hold)) = HELD.iter().find(|(name, ..)| starts_with(rest, name)) {
            hold(&mut held);
            rest = &rest[name.len()..];
        }
        let code = match code(rest)? {
            Code::Tab if held.shift => Code::BackTab,
            code => code,
        };
        // A terminal never sends this chord: the binding would have no effect.
        if matches!(code, Code::Char(c) if held.shift && c != ' ') {
            return None;
        }
        Some(Chord::of(code, held))
    }
}

fn starts_with(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

fn code(text: &str) -> Option<Code> {
    if let Some((.., code)) = NAMED.iter().find(|(name, ..)| name.eq_ignore_ascii_case(text)) {
        return Some(*code);
    }
    let mut chars = text.chars();
    match (chars.next()?, chars.as_str()) {
        (c, "") if !c.is_control() => Some(Code::Char(c)),
        ('f' | 'F', number) => number.parse().ok().filter(|n| (1..=24).contains(n)).map(Code::F),
        _ => None,
    }
}

/// Notation of the help: `q`, `Ctrl-L`, `←`, `F1`.
impl fmt::Display for Chord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (_, shown, is_held, _) in HELD {
            if is_held(&self.held) {
                f.write_str(shown)?;
            }
        }
        if let Some((_, shown, _)) = NAMED.iter().find(|(.., code)| *code == self.code) {
            return f.write_str(shown);
        }
        match self.code {
            Code::Char(c) if self.held.ctrl => {
                write!(f, "{}", c.to_ascii_uppercase())
            }
            Code::Char(c) => write!(f, "{c}"),
            Code::F(n) => write!(f, "F{n}"),
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
        let held = |ctrl, shift| HeldModifiers { ctrl, shift, alt: false };
        let press = Chord::of;
        assert_eq!(Some(press(Code::Char('?'), held(false, true))), Chord::parse("?"));
        assert_eq!(Some(press(Code::Char('L'), held(true, false))), Chord::parse("ctrl-l"));
        assert_eq!(Some(press(Code::BackTab, held(false, true))), Chord::parse("shift-tab"));
        assert_ne!(Some(press(Code::Char('q'), held(true, false))), Chord::parse("q"));
    }
}
