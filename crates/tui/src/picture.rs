//! A screen without a terminal, for documents and reports: a size, keys as words, and the cells as text.

use crate::front::{Front, Options};
use crate::shot;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use magscope_core::source::SourceError;
use magscope_scope::Scope;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::str::FromStr;
use thiserror::Error;

/// Smallest and largest number of columns or rows.
const SIZES: std::ops::RangeInclusive<u16> = 10..=500;

/// Size of a picture in cells: `100x30`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picture {
    columns: u16,
    rows: u16,
}

/// A text that is no size.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("`{0}` is no size; write columns and rows, each from 10 to 500, as in `100x30`")]
pub struct BadPicture(String);

impl FromStr for Picture {
    type Err = BadPicture;

    fn from_str(text: &str) -> Result<Self, BadPicture> {
        let size = |text: &str| text.parse().ok().filter(|size| SIZES.contains(size));
        let sizes = text.split_once(['x', '×']).and_then(|(columns, rows)| Some((size(columns)?, size(rows)?)));
        let (columns, rows) = sizes.ok_or_else(|| BadPicture(text.to_owned()))?;
        Ok(Picture { columns, rows })
    }
}

impl Picture {
    /// The screen as text after these keys. `settle` reads what the scope asks for, before the first key and after each.
    ///
    /// Blanks separate keys: `Enter`, `Esc`, `Space`, `Tab`, `Backspace`, `Up`, `Down`, `Left`, `Right`, `Home`, `End`,
    /// `PageUp`, `PageDown`. Any other word is typed: `m`. A line that `/` or `:` begins has its blanks, until the next of
    /// these keys: `/port 443 Enter`.
    pub fn text(
        self,
        scope: &mut Scope,
        options: Options,
        keys: &str,
        settle: &mut dyn FnMut(&mut Scope) -> Result<(), SourceError>,
    ) -> Result<String, SourceError> {
        let area = Rect::new(0, 0, self.columns, self.rows);
        let mut front = Front::new(options);
        settle(scope)?;
        for code in codes(keys) {
            front.event(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)), scope, area);
            settle(scope)?;
        }
        let mut buffer = Buffer::empty(area);
        front.draw(scope, &mut buffer, area);
        Ok(shot::text(&buffer))
    }
}

/// The keys of a text.
fn codes(keys: &str) -> Vec<KeyCode> {
    let mut codes = Vec::new();
    let mut in_line = false;
    for word in keys.split_ascii_whitespace() {
        if let Some(code) = named(word) {
            codes.push(code);
            in_line = false;
            continue;
        }
        codes.extend(in_line.then_some(KeyCode::Char(' ')));
        codes.extend(word.chars().map(KeyCode::Char));
        in_line |= word.starts_with(['/', ':']);
    }
    codes
}

/// The key of this name.
fn named(word: &str) -> Option<KeyCode> {
    Some(match word {
        "Enter" => KeyCode::Enter,
        "Esc" => KeyCode::Esc,
        "Space" => KeyCode::Char(' '),
        "Tab" => KeyCode::Tab,
        "Backspace" => KeyCode::Backspace,
        "Up" => KeyCode::Up,
        "Down" => KeyCode::Down,
        "Left" => KeyCode::Left,
        "Right" => KeyCode::Right,
        "Home" => KeyCode::Home,
        "End" => KeyCode::End,
        "PageUp" => KeyCode::PageUp,
        "PageDown" => KeyCode::PageDown,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::node::NodeInfo;

    #[test]
    fn a_size_has_columns_and_rows() {
        assert_eq!("100x30".parse(), Ok(Picture { columns: 100, rows: 30 }));
        for wrong in ["", "100", "100x", "x30", "9x30", "100x501", "100x30x2", "-1x30"] {
            assert_eq!(wrong.parse::<Picture>(), Err(BadPicture(wrong.to_owned())));
        }
    }

    #[test]
    fn a_line_has_its_blanks() {
        let typed = |keys: &str| -> String {
            let char = |code| match code {
                KeyCode::Char(c) => c,
                KeyCode::Enter => '⏎',
                _ => '?',
            };
            codes(keys).into_iter().map(char).collect()
        };
        assert_eq!(typed("/port 443 Enter m z"), "/port 443⏎mz");
        assert_eq!(typed("- : save x Enter"), "-: save x⏎");
    }

    #[test]
    fn keys_are_pressed_one_after_the_other() {
        let mut scope = Scope::new(NodeInfo::default(), magscope_scope::Options::default());
        let picture: Picture = "80x24".parse().expect("a size");
        let mut settled = 0;
        let text = picture
            .text(&mut scope, Options::default(), "2 /port Esc ?", &mut |_| {
                settled += 1;
                Ok(())
            })
            .expect("nothing is read");
        assert_eq!(settled, 9, "before the first key, and after each");
        assert_eq!(text.lines().count(), 24);
        assert!(text.contains("help") || text.contains("keys"), "{text}");
    }
}
