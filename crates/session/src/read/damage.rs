//! Damage that a reader skipped.

use std::fmt;

/// Missing or unreadable data. `Display` prints one line for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file, relative to the session; empty for the session as a whole.
    pub file: String,
    /// Number of skipped bytes.
    pub bytes: u64,
    /// Number of skipped rows: from the index, or estimated from neighbours.
    pub rows: u64,
    /// Description, as a sentence.
    pub what: String,
    /// True if a killed or running recorder explains the damage.
    pub unfinished: bool,
}

impl Damage {
    pub(crate) fn of(file: impl Into<String>, what: String) -> Self {
        Damage { file: file.into(), bytes: 0, rows: 0, what, unfinished: false }
    }

    /// Marks damage of a recording that was not closed.
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
