//! Keyboard input as chords of the key map, the same map as in the terminal.

use egui::{Event, Key, Modifiers};
use magscope_scope::command::keys::{Chord, Code, HeldModifiers};

/// The pressed chords, in order. Characters come from text events, so that the keyboard layout applies.
pub fn chords(events: &[Event]) -> Vec<Chord> {
    // A key with Alt also makes a text event on some systems, which is no second chord.
    let with_alt =
        |event: &Event| matches!(event, Event::Key { pressed: true, modifiers, .. } if modifiers.alt);
    let no_text = events.iter().any(with_alt);
    events
        .iter()
        .filter_map(|event| match event {
            Event::Text(_) if no_text => None,
            Event::Text(text) => {
                let mut chars = text.chars();
                let first = chars.next().filter(|_| chars.next().is_none())?;
                Some(Chord::of(Code::Char(first), HeldModifiers::default()))
            }
            Event::Key { key, pressed: true, modifiers, .. } => {
                Some(Chord::of(code(*key, *modifiers)?, held(*modifiers)))
            }
            _ => None,
        })
        .collect()
}

/// True for chords of the window's controls: Tab, and keys of the focused control.
pub fn is_for_controls(chord: Chord, focused: bool) -> bool {
    let plain = |code| chord == Chord::of(code, HeldModifiers::default());
    let shift_tab = Chord::of(Code::BackTab, HeldModifiers::default());
    plain(Code::Tab)
        || chord == shift_tab
        || (focused
            && [Code::Enter, Code::Char(' '), Code::Left, Code::Right, Code::Up, Code::Down]
                .into_iter()
                .any(plain))
}

fn held(modifiers: Modifiers) -> HeldModifiers {
    HeldModifiers { ctrl: modifiers.ctrl, alt: modifiers.alt, shift: modifiers.shift }
}

fn code(key: Key, modifiers: Modifiers) -> Option<Code> {
    Some(match key {
        Key::Enter => Code::Enter,
        Key::Escape => Code::Esc,
        Key::Tab if modifiers.shift => Code::BackTab,
        Key::Tab => Code::Tab,
        Key::Backspace => Code::Backspace,
        Key::Delete => Code::Delete,
        Key::Insert => Code::Insert,
        Key::ArrowLeft => Code::Left,
        Key::ArrowRight => Code::Right,
        Key::ArrowUp => Code::Up,
        Key::ArrowDown => Code::Down,
        Key::Home => Code::Home,
        Key::End => Code::End,
        Key::PageUp => Code::PageUp,
        Key::PageDown => Code::PageDown,
        // Ctrl and Alt combinations produce no text.
        other if modifiers.ctrl || modifiers.alt => {
            let name = other.symbol_or_name();
            let mut chars = name.chars();
            let first = chars.next().filter(|_| chars.next().is_none())?;
            Code::Char(first.to_ascii_lowercase())
        }
        other => Code::F(other.name().strip_prefix('F')?.parse().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_scope::command::keys::KeyMap;

    fn press(key: Key, modifiers: Modifiers) -> Event {
        Event::Key { key, physical_key: None, pressed: true, repeat: false, modifiers }
    }

    #[test]
    fn a_key_with_alt_is_one_chord() {
        let map = KeyMap::of_window();
        let events = [press(Key::W, Modifiers::ALT), Event::Text("w".to_owned())];
        let found: Vec<_> = chords(&events).into_iter().filter_map(|chord| map.get(chord)).collect();
        assert_eq!(found.iter().map(|command| command.name).collect::<Vec<_>>(), ["next-capture"]);
    }

    #[test]
    fn windows_and_terminals_have_the_same_keys() {
        let map = KeyMap::built_in();
        let table = [
            (Event::Text("?".to_owned()), Some("help")),
            (Event::Text(" ".to_owned()), Some("pause")),
            (Event::Text("G".to_owned()), Some("follow")),
            (press(Key::F1, Modifiers::NONE), Some("help")),
            (press(Key::ArrowLeft, Modifiers::SHIFT), Some("earlier-page")),
            (press(Key::Tab, Modifiers::SHIFT), Some("next-view")),
            (press(Key::L, Modifiers::CTRL), Some("redraw")),
            (press(Key::G, Modifiers::NONE), None),
            (Event::Text("ab".to_owned()), None),
        ];
        for (event, name) in table {
            let found = chords(std::slice::from_ref(&event)).first().and_then(|chord| map.get(*chord));
            assert_eq!(found.map(|command| command.name), name, "{event:?}");
        }
    }
}
