//! The lexer: splits a text into words and signs.

use super::MAX_CHARS;
use super::error::{FilterError, Problem};
use crate::words::shown;
use std::fmt;
use std::iter::Peekable;

/// A word or a sign, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its first character, counted from 1.
    pub position: usize,
    pub kind: Kind,
}

/// Kind of the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Open,
    Close,
    Comma,
    Op(Op),
    /// A name, a number with its unit, an address.
    Word(String),
    /// A text in quotes.
    Quoted(String),
    /// Between a protocol and what qualifies it, as in `tcp port 443`: both are one comparison.
    Qualifies,
    End,
}

/// An order relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Less,
    AtMost,
    More,
    AtLeast,
    Equal,
    Differs,
}

impl Op {
    /// True if `left op right`.
    pub fn holds(self, left: u64, right: u64) -> bool {
        match self {
            Self::Less => left < right,
            Self::AtMost => left <= right,
            Self::More => left > right,
            Self::AtLeast => left >= right,
            Self::Equal => left == right,
            Self::Differs => left != right,
        }
    }

    /// As text.
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::More => ">",
            Self::AtLeast => ">=",
            Self::Equal => "=",
            Self::Differs => "!=",
        }
    }
}

/// True if a word may contain this character. All characters outside signs are valid, so that addresses and
/// process names need no quotes. A word does not begin with `~`, which other languages use for patterns.
pub fn is_word(c: char) -> bool {
    !c.is_whitespace() && !c.is_control() && !"()<>=!,\"'&|\\".contains(c)
}

/// Cuts a text; the last token is [`Kind::End`].
pub fn tokens(text: &str) -> Result<Vec<Token>, FilterError> {
    if text.chars().nth(MAX_CHARS).is_some() {
        return Err(FilterError { position: MAX_CHARS + 1, problem: Problem::TooLong });
    }
    let mut chars = (1..).zip(text.chars()).peekable();
    let mut tokens = Vec::new();
    while let Some((position, c)) = chars.next() {
        let kind = match c {
            _ if c.is_whitespace() => continue,
            '(' => Kind::Open,
            ')' => Kind::Close,
            ',' => Kind::Comma,
            '<' => Kind::Op(if follows(&mut chars, '=') { Op::AtMost } else { Op::Less }),
            '>' => Kind::Op(if follows(&mut chars, '=') { Op::AtLeast } else { Op::More }),
            '=' => {
                follows(&mut chars, '='); // `==` is accepted as `=`
                Kind::Op(Op::Equal)
            }
            '!' if follows(&mut chars, '=') => Kind::Op(Op::Differs),
            '!' => Kind::Word("not".to_owned()),
            '&' if follows(&mut chars, '&') => Kind::Word("and".to_owned()),
            '|' if follows(&mut chars, '|') => Kind::Word("or".to_owned()),
            '"' | '\'' => Kind::Quoted(quoted(&mut chars, c, position)?),
            '~' => {
                let expected = "`=` or `!=`, because names are compared as a whole";
                return Err(FilterError::expected(position, expected, "`~`"));
            }
            _ if is_word(c) => {
                let mut word = String::from(c);
                while let Some((_, c)) = chars.next_if(|(_, c)| is_word(*c)) {
                    word.push(c);
                }
                Kind::Word(word)
            }
            _ => {
                let expected = match c {
                    '&' => "`and`",
                    '|' => "`or`",
                    _ => "a word, a comparison or a parenthesis",
                };
                return Err(FilterError::expected(position, expected, format!("`{}`", c.escape_debug())));
            }
        };
        tokens.push(Token { position, kind });
    }
    tokens.push(Token { position: text.chars().count() + 1, kind: Kind::End });
    Ok(tokens)
}

fn follows(chars: &mut Peekable<impl Iterator<Item = (usize, char)>>, wanted: char) -> bool {
    chars.next_if(|(_, c)| *c == wanted).is_some()
}

/// The rest of a quoted text; a backslash escapes the next character.
fn quoted(
    chars: &mut impl Iterator<Item = (usize, char)>,
    quote: char,
    position: usize,
) -> Result<String, FilterError> {
    let mut text = String::new();
    while let Some((_, c)) = chars.next() {
        match c {
            _ if c == quote => return Ok(text),
            '\\' => text.extend(chars.next().map(|(_, c)| c)),
            _ => text.push(c),
        }
    }
    Err(FilterError::expected(position, "a text that ends with the same quote", "the end"))
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("`(`"),
            Self::Close => f.write_str("`)`"),
            Self::Comma => f.write_str("`,`"),
            Self::Op(op) => write!(f, "`{}`", op.sign()),
            Self::Word(word) => write!(f, "`{}`", shown(word)),
            Self::Quoted(text) => write!(f, "`{}` in quotes", shown(text).escape_debug()),
            Self::Qualifies | Self::End => f.write_str("the end"),
        }
    }
}

/// A name as a word if it is one, otherwise in quotes.
pub fn write_name(f: &mut impl fmt::Write, name: &str) -> fmt::Result {
    if !name.is_empty() && !name.starts_with('~') && name.chars().all(is_word) {
        return f.write_str(name);
    }
    f.write_char('"')?;
    for c in name.chars() {
        if matches!(c, '"' | '\\') {
            f.write_char('\\')?;
        }
        f.write_char(c)?;
    }
    f.write_char('"')
}
