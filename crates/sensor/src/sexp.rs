//! Symbolic expressions of Supermon's samples: lists of symbols, whole numbers and texts.
//!
//! Existing libraries recurse for each quotation mark and list item, so that one line of a peer could overflow
//! the stack. This parser limits the depth to [`DEEPEST`], and its memory to a small multiple of the line.

use std::fmt::{self, Write};

/// Maximum depth of lists.
const DEEPEST: usize = 16;

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sexp {
    /// `(a b c)`.
    List(Vec<Sexp>),
    /// `user`. Unknown tokens stay symbols and are written unchanged.
    Symbol(String),
    /// `"eth0"`.
    Text(String),
    /// `42`.
    Number(i128),
}

/// Reason for a rejected line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadSexp {
    /// A list or a text has no end.
    Open,
    /// Unbalanced closing parenthesis.
    Closed,
    /// Lists are nested too deeply.
    Deep,
    /// Not exactly one expression.
    NotOne,
    /// Unexpected character.
    Character(char),
}

impl fmt::Display for BadSexp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("it does not end"),
            Self::Closed => f.write_str("a parenthesis too many"),
            Self::Deep => write!(f, "more than {DEEPEST} lists in each other"),
            Self::NotOne => f.write_str("not one expression"),
            Self::Character(c) => write!(f, "{c:?} has no place there"),
        }
    }
}

/// True if a symbol may contain the character.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-.+*/<>=!?$%&^~:@".contains(c)
}

impl Sexp {
    /// A symbol, or a text if the name is no valid symbol.
    pub fn name(name: &str) -> Self {
        let plain = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic()) && name.chars().all(is_plain);
        if plain { Self::Symbol(name.to_owned()) } else { Self::Text(name.to_owned()) }
    }

    /// A list that begins with a symbol.
    pub fn tagged(tag: &str, rest: impl IntoIterator<Item = Sexp>) -> Self {
        Self::List(std::iter::once(Self::name(tag)).chain(rest).collect())
    }

    /// The name in a symbol or text.
    pub fn as_name(&self) -> Option<&str> {
        match self {
            Self::Symbol(name) | Self::Text(name) => Some(name),
            _ => None,
        }
    }

    /// The first item of a list, its tag, and the others.
    pub fn as_tagged(&self) -> Option<(&str, &[Sexp])> {
        let Self::List(items) = self else { return None };
        let (tag, rest) = items.split_first()?;
        Some((tag.as_name()?, rest))
    }

    /// Parses an expression.
    ///
    /// # Errors
    /// [`BadSexp`].
    pub fn parse(text: &str) -> Result<Self, BadSexp> {
        // Open lists, outermost first; the first entry holds the result.
        let mut open: Vec<Vec<Sexp>> = vec![Vec::new()];
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let after = &rest[c.len_utf8()..];
            let (item, left) = match c {
                c if c.is_ascii_whitespace() => (None, after),
                '(' if open.len() > DEEPEST => return Err(BadSexp::Deep),
                '(' => {
                    open.push(Vec::new());
                    (None, after)
                }
                ')' if open.len() < 2 => return Err(BadSexp::Closed),
                ')' => (open.pop().map(Sexp::List), after),
                '"' => {
                    let (text, left) = quoted(after)?;
                    (Some(Sexp::Text(text)), left)
                }
                c if is_plain(c) => {
                    let end = rest.find(|c| !is_plain(c)).unwrap_or(rest.len());
                    let (atom, left) = rest.split_at(end);
                    // A number only if its text round-trips.
                    let number = atom.parse::<i128>().ok().filter(|number| number.to_string() == atom);
                    (Some(number.map_or_else(|| Sexp::Symbol(atom.to_owned()), Sexp::Number)), left)
                }
                c => return Err(BadSexp::Character(c)),
            };
            if let (Some(item), Some(list)) = (item, open.last_mut()) {
                list.push(item);
            }
            rest = left;
        }
        let whole = open.pop().filter(|_| open.is_empty()).ok_or(BadSexp::Open)?;
        let [one] = <[Sexp; 1]>::try_from(whole).map_err(|_| BadSexp::NotOne)?;
        Ok(one)
    }
}

/// A text up to its end, and the rest of the input.
fn quoted(text: &str) -> Result<(String, &str), BadSexp> {
    let plain = |c: char| if c.is_control() { Err(BadSexp::Character(c)) } else { Ok(c) };
    let mut out = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((out, &text[at + 1..])),
            '\\' => out.push(plain(chars.next().ok_or(BadSexp::Open)?.1)?),
            c => out.push(plain(c)?),
        }
    }
    Err(BadSexp::Open)
}

impl fmt::Display for Sexp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Symbol(symbol) => f.write_str(symbol),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => {
                f.write_char('"')?;
                for c in text.chars() {
                    match c {
                        '"' | '\\' => write!(f, "\\{c}")?,
                        // One line is one answer.
                        c if c.is_control() => f.write_char(' ')?,
                        c => f.write_char(c)?,
                    }
                }
                f.write_char('"')
            }
            Self::List(items) => {
                f.write_char('(')?;
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        f.write_char(' ')?;
                    }
                    item.fmt(f)?;
                }
                f.write_char(')')
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_none_is_refused_and_long_or_deep_lines_are_nothing_special() {
        let all = [
            ("", BadSexp::NotOne),
            ("1 2", BadSexp::NotOne),
            ("(1", BadSexp::Open),
            ("\"a\\", BadSexp::Open),
            ("(1))", BadSexp::Closed),
            ("'a", BadSexp::Character('\'')),
            ("\"a\tb\"", BadSexp::Character('\t')),
        ];
        for (text, bad) in all {
            assert_eq!(Sexp::parse(text), Err(bad), "{text}");
        }
        assert_eq!(Sexp::parse(&"(".repeat(1_000_000)), Err(BadSexp::Deep));
        assert_eq!(Sexp::parse(&"'".repeat(1_000_000)), Err(BadSexp::Character('\'')));
        let long = format!("({})", "1 ".repeat(1_000_000));
        assert!(matches!(Sexp::parse(&long), Ok(Sexp::List(items)) if items.len() == 1_000_000));
    }

    fn any_sexp() -> impl Strategy<Value = Sexp> {
        let atom = prop_oneof![
            any::<i128>().prop_map(Sexp::Number),
            "[a-z][a-z0-9._-]{0,8}".prop_map(Sexp::Symbol),
            "[^\\p{Cc}]{0,8}".prop_map(Sexp::Text),
        ];
        atom.prop_recursive(4, 64, 8, |inner| proptest::collection::vec(inner, 0..8).prop_map(Sexp::List))
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(sexp in any_sexp()) {
            let text = sexp.to_string();
            prop_assert!(!text.contains('\n'));
            prop_assert_eq!(Sexp::parse(&text), Ok(sexp));
        }

        #[test]
        fn nothing_that_is_read_panics(text in "[()\"\\\\ a1'\\PC]{0,64}") {
            if let Ok(sexp) = Sexp::parse(&text) {
                prop_assert!(Sexp::parse(&sexp.to_string()).is_ok());
            }
        }
    }
}
