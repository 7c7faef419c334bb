//! Which key does what: one table, read by the event loop and by the help.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use magscope_scope::Action;

/// What a key asks of the program.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Something the scope does.
    Act(Action),
    /// Ctrl-Z: hand the terminal back to the shell until the program is resumed.
    Suspend,
    /// Ctrl-L: draw everything afresh.
    Redraw,
}

/// A row of the table.
#[derive(Clone, Debug)]
pub struct Binding {
    /// The keys, any of which will do.
    pub keys: &'static [KeyCode],
    /// How they are written in the help.
    pub shown: &'static str,
    /// What they do.
    pub action: Action,
    /// In words; empty where the row above says it.
    pub words: &'static str,
}

const fn row(keys: &'static [KeyCode], shown: &'static str, action: Action, words: &'static str) -> Binding {
    Binding { keys, shown, action, words }
}

/// Every key.
pub const BINDINGS: &[Binding] = &[
    row(&[KeyCode::Char(' ')], "Space", Action::TogglePause, "stop the picture, or let it go on"),
    row(&[KeyCode::Char('+'), KeyCode::Char('=')], "+", Action::TimebaseFiner, "less time a division"),
    row(&[KeyCode::Char('-'), KeyCode::Char('_')], "-", Action::TimebaseCoarser, "more time a division"),
    row(&[KeyCode::Char('a')], "a", Action::Autoset, "let the scope choose the timebase"),
    row(&[KeyCode::Char('o')], "o", Action::ToggleAlign, "overlay: all journeys from the left edge"),
    row(&[KeyCode::Left], "←", Action::Pan(-1), "earlier (stops the picture)"),
    row(&[KeyCode::Right], "→", Action::Pan(1), "later (stops the picture)"),
    row(&[KeyCode::Up, KeyCode::Char('k')], "↑ k", Action::SelectJourney(-1), "journey above"),
    row(&[KeyCode::Down, KeyCode::Char('j')], "↓ j", Action::SelectJourney(1), "journey below"),
    row(&[KeyCode::Enter], "Enter", Action::ToggleInspector, "the journey hop by hop"),
    row(&[KeyCode::Tab], "Tab", Action::NextList, "slowest, most recent, dropped and lost"),
    row(&[KeyCode::Char('['), KeyCode::PageUp], "[", Action::SelectHop(-1), "hop above"),
    row(&[KeyCode::Char(']'), KeyCode::PageDown], "]", Action::SelectHop(1), "hop below"),
    row(&[KeyCode::Char('n')], "n", Action::NextRoute, "next route between nodes, or all"),
    row(&[KeyCode::Char('p')], "p", Action::NextProto, "tcp, udp, or all"),
    row(&[KeyCode::Char('c')], "c", Action::Clear, "forget journeys and counts"),
    row(&[KeyCode::Esc], "Esc", Action::Back, "close, or undo the selection"),
    row(&[KeyCode::Char('?'), KeyCode::F(1), KeyCode::Char('h')], "? F1", Action::ToggleHelp, "this help"),
    row(&[KeyCode::Char('q')], "q", Action::Quit, "end"),
];

/// What a key press asks for, if anything.
pub fn request(key: KeyEvent) -> Option<Request> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
        // Raw mode delivers what the terminal would otherwise turn into signals.
        return match (key.modifiers.contains(KeyModifiers::CONTROL), key.code) {
            (true, KeyCode::Char('c')) => Some(Request::Act(Action::Quit)),
            (true, KeyCode::Char('z')) => Some(Request::Suspend),
            (true, KeyCode::Char('l')) => Some(Request::Redraw),
            _ => None,
        };
    }
    let bound = BINDINGS.iter().find(|binding| binding.keys.contains(&key.code));
    bound.map(|binding| Request::Act(binding.action.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_to_requests() {
        let plain = |code| KeyEvent::new(code, KeyModifiers::NONE);
        let ctrl = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
        let table = [
            (plain(KeyCode::Char(' ')), Some(Request::Act(Action::TogglePause))),
            (plain(KeyCode::Char('+')), Some(Request::Act(Action::TimebaseFiner))),
            (plain(KeyCode::Char('-')), Some(Request::Act(Action::TimebaseCoarser))),
            (plain(KeyCode::Left), Some(Request::Act(Action::Pan(-1)))),
            (plain(KeyCode::Down), Some(Request::Act(Action::SelectJourney(1)))),
            (plain(KeyCode::F(1)), Some(Request::Act(Action::ToggleHelp))),
            (KeyEvent::new(KeyCode::Char('?'), KeyModifiers::SHIFT), Some(Request::Act(Action::ToggleHelp))),
            (plain(KeyCode::Char('q')), Some(Request::Act(Action::Quit))),
            (ctrl('c'), Some(Request::Act(Action::Quit))),
            (ctrl('z'), Some(Request::Suspend)),
            (ctrl('l'), Some(Request::Redraw)),
            (ctrl('q'), None),
            (plain(KeyCode::Char('z')), None),
            (KeyEvent::new_with_kind(KeyCode::Char('q'), KeyModifiers::NONE, KeyEventKind::Release), None),
        ];
        for (key, expected) in table {
            assert_eq!(request(key), expected, "{key:?}");
        }
    }

    #[test]
    fn no_key_does_two_things_and_each_is_explained() {
        let mut seen = HashSet::new();
        for binding in BINDINGS {
            assert!(!binding.words.is_empty() && !binding.shown.is_empty());
            for key in binding.keys {
                assert!(seen.insert(*key), "{key:?} is bound twice");
            }
        }
    }
}
