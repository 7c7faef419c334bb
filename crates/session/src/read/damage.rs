//! What was skipped while reading, and why.

use std::fmt;

/// Something a session lacks or that could not be read. Displays as one line for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file it concerns, relative to the session; empty where it is the session as a whole.
    pub file: String,
    /// Bytes that were skipped.
    pub bytes: u64,
    /// Rows that were in them: what the index says, else an estimate from their neighbours.
    pub rows: u64,
    /// What is wrong, as a sentence.
    pub what: String,
    /// Whether a recorder that is killed, or that still writes, leaves it like that.
    pub unfinished: bool,
}

impl Damage {
    pub(crate) fn of(file: impl Into<String>, what: String) -> Self {
        Damage { file: file.into(), bytes: 0, rows: 0, what, unfinished: false }
    }

    /// Of a recording that was not closed.
    pub(crate) fn unfinished(self, unfinished: bool) -> Self {
        Damage { unfinished, ..self }
    }

    pub(crate) fn skipped(file: &str, bytes: u64, rows: u64, what: String) -> Self {
        Damage { file: file.to_owned(), bytes, rows, what, unfinished: false }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.what)
    }
}
