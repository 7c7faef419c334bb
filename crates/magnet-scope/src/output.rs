//! Data goes to stdout, everything said about it to stderr.

use crate::failure::Hint;
use anyhow::Result;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

/// Whether a person looks at stdout, so that a screen makes sense.
pub fn is_screen() -> bool {
    io::stdout().is_terminal() && io::stdin().is_terminal()
}

/// Writes text to stdout.
pub fn text(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        stdout.write_all(b"\n")?;
    }
    Ok(stdout.flush()?)
}

/// Writes a value as indented JSON to stdout.
pub fn json(value: &impl Serialize) -> Result<()> {
    let mut stdout = io::stdout().lock();
    // serde_json hides a broken pipe inside its own error, so the text is made first.
    stdout.write_all(serde_json::to_string_pretty(value)?.as_bytes())?;
    stdout.write_all(b"\n")?;
    Ok(stdout.flush()?)
}

/// Says something to the person at the terminal.
pub fn note(message: &str) {
    // A closed stderr is no reason to stop capturing.
    let _ = writeln!(io::stderr().lock(), "magnet-scope: {message}");
}

/// The error of a file that could not be written.
pub fn could_not_write(what: &str, path: &Path, why: &str) -> anyhow::Error {
    Hint::error(
        format!("{what} could not be written to {}: {why}", path.display()),
        "the directory is missing or may not be written to",
        "give another place",
    )
}
