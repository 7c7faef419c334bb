//! Why a text is no filter.

use super::{MAX_CHARS, MAX_DEPTH};

/// A text is no filter: where, and what would have done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at character {position}: {problem}")]
pub struct FilterError {
    /// Which character, counted from 1; one past the last where the text ends too early.
    pub position: usize,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong at one place of a filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Something else should stand here.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What would do, with an example.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// A word that is none of those that would do here.
    #[error("no {kind} is called `{word}`; the nearest is `{nearest}`")]
    Unknown {
        /// What kind of word would do.
        kind: &'static str,
        /// What was typed.
        word: String,
        /// What was most likely meant.
        nearest: String,
    },
    /// A number beyond what 64 bits hold.
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
