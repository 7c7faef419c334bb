//! Errors in the text of a filter.

use super::{MAX_CHARS, MAX_DEPTH};

/// A text that is no filter: the position, and the expected text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at character {position}: {problem}")]
pub struct FilterError {
    /// Character of the error, counted from 1; one past the last for a text that ends too early.
    pub position: usize,
    /// The error at that position.
    pub problem: Problem,
}

/// An error at one position of a filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// An unexpected token.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// The expected kind, with an example.
        expected: String,
        /// The token found.
        found: String,
    },
    /// A word outside the valid ones at this position.
    #[error("no {kind} is called `{word}`; the nearest is `{nearest}`")]
    Unknown {
        /// The valid kind of word.
        kind: &'static str,
        /// The given word.
        word: String,
        /// The most similar valid word.
        nearest: String,
    },
    /// A word that another kind of filter takes.
    #[error("`{word}` {place}")]
    Elsewhere {
        /// The word.
        word: String,
        /// Which filter takes it, and why this one does not.
        place: &'static str,
    },
    /// `and` behind `or`: tcpdump reads both from the left, other languages `and` first.
    #[error(
        "`and` behind `or` needs parentheses, because tcpdump reads `a or b and c` as `(a or b) and c`, and others as `a or (b and c)`"
    )]
    Mixed,
    /// A number that exceeds 64 bits.
    #[error("`{0}` is too large")]
    TooLarge(String),
    /// Nested deeper than [`MAX_DEPTH`].
    #[error("more than {MAX_DEPTH} parentheses and `not`s inside each other")]
    TooDeep,
    /// Longer than [`MAX_CHARS`].
    #[error("longer than {MAX_CHARS} characters")]
    TooLong,
}

impl FilterError {
    pub(crate) fn expected(position: usize, expected: impl Into<String>, found: impl Into<String>) -> Self {
        FilterError { position, problem: Problem::Expected { expected: expected.into(), found: found.into() } }
    }
}
