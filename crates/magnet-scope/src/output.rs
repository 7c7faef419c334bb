//! Output: data on stdout, messages on stderr.

use crate::failure::Hint;
use anyhow::{Context as _, Result};
use magscope_core::foreign::clean_lines;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

/// True if stdout is a terminal, so that a screen is useful.
pub fn is_screen() -> bool {
    io::stdout().is_terminal() && io::stdin().is_terminal()
}

/// Writes text to stdout.
pub fn text(text: &str) -> Result<()> {
    to_stdout(text.as_bytes(), !text.ends_with('\n'))
}

/// Writes a value as indented JSON to stdout.
pub fn json(value: &impl Serialize) -> Result<()> {
    // serde_json wraps a broken pipe in its own error, so the text is made first.
    to_stdout(serde_json::to_string_pretty(value)?.as_bytes(), true)
}

fn to_stdout(text: &[u8], line: bool) -> Result<()> {
    let mut stdout = io::stdout().lock();
    let end: &[u8] = if line { b"\n" } else { b"" };
    let written = stdout.write_all(text).and_then(|()| stdout.write_all(end)).and_then(|()| stdout.flush());
    written.with_context(|| {
        let likely = "the file system that stdout goes to is full";
        Hint::new(
            "the answer could not be written to stdout",
            likely,
            "send it to another place, as in `> FILE`",
        )
    })
}

/// Prints a message for the user.
pub fn note(message: &str) {
    // A closed stderr is no reason to stop capturing.
    let _ = writeln!(io::stderr().lock(), "magnet-scope: {}", clean_lines(message));
}

/// The error of a file that could not be written.
pub fn could_not_write(what: &str, path: &Path, why: &str) -> anyhow::Error {
    Hint::error(
        format!("{what} could not be written to {}: {why}", path.display()),
        "the directory is missing or may not be written to",
        "give another place",
    )
}
