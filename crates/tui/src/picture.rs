//! A screen without a terminal, for documents and reports: a size, keys as words, and the cells as text.

use crate::front::{Front, Options};
use crate::shot;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use magscope_core::source::SourceError;
use magscope_core::words::nearest;
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

/// A word among the keys that is no key and would be typed where no text is asked for.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("`{word}` is no key; the nearest is `{nearest}`; write keys of one letter with blanks between them")]
pub struct BadKey {
    word: String,
    nearest: String,
}

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
    /// `PageUp`, `PageDown`. Any other word is typed: `m`. A line, which `/` or `:` opens, has its blanks: `/port 443 Enter`.
    ///
    /// # Errors
    /// Those of `settle`, and [`BadKey`] for a word of several letters outside of a line.
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
        for word in keys.split_ascii_whitespace() {
            for code in codes(word, front.line())? {
                front.event(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)), scope, area);
                settle(scope)?;
            }
        }
        let mut buffer = Buffer::empty(area);
        front.draw(scope, &mut buffer, area);
        Ok(shot::text(&buffer))
    }
}

/// The names of keys. Of two that are as near to a misspelt one, the first is suggested.
const KEYS: [(&str, KeyCode); 13] = [
    ("Enter", KeyCode::Enter),
    ("Esc", KeyCode::Esc),
    ("Space", KeyCode::Char(' ')),
    ("Tab", KeyCode::Tab),
    ("Backspace", KeyCode::Backspace),
    ("Up", KeyCode::Up),
    ("Down", KeyCode::Down),
    ("Left", KeyCode::Left),
    ("Right", KeyCode::Right),
    ("Home", KeyCode::Home),
    ("End", KeyCode::End),
    ("PageUp", KeyCode::PageUp),
    ("PageDown", KeyCode::PageDown),
];

/// True for a word that is no key and opens no line: several letters would be as many commands.
fn is_misspelt(word: &str) -> bool {
    let letters = word.chars().filter(|letter| letter.is_alphabetic()).count();
    let is_typed = word.chars().count() == 1 || word.starts_with(['/', ':']);
    !is_typed && (letters > 1 || word.starts_with(char::is_alphabetic))
}

/// The keys of a word, where `line` is the text of the open line, if any.
fn codes(word: &str, line: Option<&str>) -> Result<Vec<KeyCode>, BadKey> {
    if let Some((_, code)) = KEYS.iter().find(|(name, _)| *name == word) {
        return Ok(vec![*code]);
    }
    if line.is_none() && is_misspelt(word) {
        let nearest = nearest(word, KEYS.iter().map(|(name, _)| *name)).unwrap_or_default();
        return Err(BadKey { word: word.to_owned(), nearest: nearest.to_owned() });
    }
    let blank = line.is_some_and(|line| !line.is_empty()).then_some(' ');
    Ok(blank.into_iter().chain(word.chars()).map(KeyCode::Char).collect())
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

    /// The screen after these keys.
    fn after(keys: &str) -> Result<String, String> {
        let mut scope = Scope::new(NodeInfo::default(), magscope_scope::Options::default());
        let picture: Picture = "80x24".parse().expect("a size");
        let text = picture.text(&mut scope, Options::default(), keys, &mut |_| Ok(()));
        text.map_err(|error| error.to_string())
    }

    #[test]
    fn a_line_has_its_blanks() {
        for keys in ["/port 443", "/ port 443", "m / port 443"] {
            let text = after(keys).expect("keys");
            assert!(text.contains("port 443"), "{keys}: {text}");
        }
        let text = after(": save x").expect("keys");
        assert!(text.contains("save x"), "{text}");
    }

    #[test]
    fn a_misspelt_key_is_refused_and_the_words_of_a_line_are_not() {
        for (keys, nearest) in [
            ("PageDwn", "PageDown"),
            ("m Entr", "Enter"),
            ("/port 443 Enter Lft", "Left"),
            ("3Down", "Down"),
            ("-Enter", "Enter"),
            ("+PageDwn", "PageDown"),
        ] {
            let why = after(keys).expect_err(keys);
            assert!(why.contains(&format!("the nearest is `{nearest}`")), "{keys}: {why}");
        }
        for keys in ["---", "3 Down Down", "/lost Enter m", "/ lost Enter m", ": PageDwn"] {
            assert!(after(keys).is_ok(), "{keys}");
        }
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
